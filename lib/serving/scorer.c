/* SPDX-License-Identifier: ISC */
#include "serving/scorer.h"

#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/mem.h"

struct scorer {
	/* The datasets of the present run, which have the names of its examples. */
	struct dataset **data;
	size_t ndata, data_room;
	/* The scores of the present run are in blocks, because they must not move. */
	float **block;
	size_t nblocks, block_room;
	/* of the group that is being scored */
	float *scores;
	size_t at, outputs;
	struct score_task **order;
	size_t order_room;
	struct buf joined;
};

struct scorer *scorer_new(void)
{
	return mem_alloc(sizeof(struct scorer));
}

void scorer_forget(struct scorer *s)
{
	for (size_t i = 0; i < s->ndata; i++)
		dataset_free(s->data[i]);
	for (size_t i = 0; i < s->nblocks; i++)
		free(s->block[i]);
	s->ndata = s->nblocks = 0;
}

void scorer_free(struct scorer *s)
{
	if (!s)
		return;
	scorer_forget(s);
	free(s->data);
	free(s->block);
	free(s->order);
	buf_release(&s->joined);
	free(s);
}

static int compare_keys(const void *a, const void *b)
{
	const struct score_task *x = *(struct score_task *const *)a,
	                        *y = *(struct score_task *const *)b;
	size_t n = x->nkey < y->nkey ? x->nkey : y->nkey;
	int c = n ? memcmp(x->key, y->key, n) : 0;

	if (x->kind != y->kind)
		return (uintptr_t)x->kind < (uintptr_t)y->kind ? -1 : 1;
	return c ? c : (x->nkey > y->nkey) - (x->nkey < y->nkey);
}

static bool is_same_key(const struct score_task *a, const struct score_task *b)
{
	return a->kind == b->kind && a->nkey == b->nkey &&
	    (!a->nkey || memcmp(a->key, b->key, a->nkey) == 0);
}

static void fail_all(struct score_task **t, size_t n, const struct err *why)
{
	for (size_t i = 0; i < n; i++) {
		t[i]->e = *why;
		t[i]->rc = why->code;
	}
}

/* A predict_fn. Keeps the scores of a batch. */
static enum err_code keep_scores(void *ctx, const struct batch *b, const float *scores,
    struct err *e)
{
	struct scorer *s = ctx;
	size_t n = b->rows * s->outputs;

	(void)e;
	memcpy(s->scores + s->at, scores, n * sizeof *scores);
	s->at += n;
	return ERR_OK;
}

static struct data_build *begin_build(const struct served_model *m)
{
	const struct job *job = &m->scoring.job;
	const struct data_want want = { .any = true,
		.unseen = job->unseen,
		.names = true,
		.tables = job_want(&job->conf.job).tables };
	struct data_build *b = data_build_new(&want, job->train, NULL);

	b->transient = true;
	return b;
}

/* Appends the lines of n bytes that are not blank, each with a newline. Returns their number. */
static size_t append_lines(struct buf *out, const char *p, size_t n)
{
	const char *end = p + n, *nl;
	size_t lines = 0;

	for (; p < end; p = nl + 1) {
		size_t len;

		nl = memchr(p, '\n', (size_t)(end - p));
		nl = nl ? nl : end;
		len = (size_t)(nl - p);
		for (size_t i = 0; i < len; i++)
			if (!strchr(" \t\r", p[i]) || !p[i]) {
				buf_append(out, p, len);
				buf_append(out, "\n", 1);
				lines++;
				break;
			}
	}
	return lines;
}

/* Joins the texts of the tasks, with one heading, and notes how many rows each should have. Returns
 * the number of all. */
static size_t join_texts(struct scorer *s, struct score_task **t, size_t n)
{
	size_t rows = 0;

	buf_clear(&s->joined);
	for (size_t i = 0; i < n; i++) {
		const char *p = t[i]->text;
		size_t left = t[i]->ntext, head = 0;

		if (t[i]->headed && (head = t[i]->nkey) < left)
			head++; /* the newline */
		if (i == 0)
			append_lines(&s->joined, p, head);
		t[i]->first = rows;
		t[i]->rows = append_lines(&s->joined, p + head, left - head);
		rows += t[i]->rows;
	}
	buf_reserve(&s->joined, STREAM_PAD + 1);
	return rows;
}

/* Reads the texts at once. Only if each line has become an example, and the heading has been taken
 * for one, are the examples those of each text alone: no line can become two, so that a record of
 * several lines shows in the number of all. *out is NULL otherwise. */
static void read_joined(struct scorer *s, struct served_model *m, struct score_task **t, size_t n,
    struct dataset **out)
{
	size_t rows = join_texts(s, t, n);
	struct data_build *b = begin_build(m);
	struct err e;

	*out = NULL;
	if (rows && t[0]->read_text(t[0], (char *)s->joined.data, s->joined.len, b, &e) == ERR_OK &&
	    data_build_count(b) == rows && b->d->reading.heading == t[0]->headed)
		(void)data_build_finish(b, out, &e);
	data_build_free(b);
}

/* Reads the tasks into one dataset; *out is NULL where they have no examples. */
static enum err_code read_group(struct scorer *s, struct served_model *m, struct score_task **t,
    size_t n, struct dataset **out, struct err *e)
{
	struct data_build *b;
	enum err_code rc = ERR_OK;

	*out = NULL;
	if (n > 1 && t[0]->read_text)
		read_joined(s, m, t, n, out);
	if (*out)
		return ERR_OK;
	b = begin_build(m);
	for (size_t i = 0; !rc && i < n; i++) {
		t[i]->first = data_build_count(b);
		rc = t[i]->read(t[i], b, e);
		t[i]->rows = data_build_count(b) - t[i]->first;
	}
	if (!rc && data_build_count(b))
		rc = data_build_finish(b, out, e);
	data_build_free(b);
	return rc;
}

/* Scores the examples and gives each task its part. */
static enum err_code score_group(struct scorer *s, struct served_model *m, struct score_task **t,
    size_t n, struct dataset *d, struct err *e)
{
	size_t outputs = model_outputs(m->scoring.job.model);
	float *scores = mem_try_array(d->rows, outputs * sizeof *scores);

	if (!scores)
		return err_set(e, ERR_NOMEM, "no memory for the scores of %zu examples", d->rows);
	s->block = mem_grow(s->block, &s->block_room, s->nblocks + 1, sizeof *s->block);
	s->block[s->nblocks++] = s->scores = scores;
	s->at = 0;
	for (size_t i = 0; i < n; i++) {
		t[i]->outputs = outputs;
		t[i]->scores = scores + t[i]->first * outputs;
		t[i]->name = d->name ? d->name + t[i]->first : NULL;
	}
	s->outputs = outputs;
	return served_predict(m, d, keep_scores, s, e);
}

/* Returns the first error, which may be that of any task of the group. */
static enum err_code run_group(struct scorer *s, struct served_model *m, struct score_task **t,
    size_t n, struct score_times *times, struct err *e)
{
	int64_t begin = clock_now(), read;
	int64_t reading = m->scoring.params.reading;
	struct dataset *d;
	enum err_code rc = read_group(s, m, t, n, &d, e);

	read = clock_now();
	times->parse += read - begin;
	if (rc || !d)
		return rc;
	s->data = mem_grow(s->data, &s->data_room, s->ndata + 1, sizeof *s->data);
	s->data[s->ndata++] = d;
	rc = score_group(s, m, t, n, d, e);
	reading = m->scoring.params.reading - reading;
	times->look_up += reading;
	times->compute += clock_now() - read - reading;
	return rc;
}

static void run_alone(struct scorer *s, struct served_model *m, struct score_task **t, size_t n,
    struct score_times *times)
{
	for (size_t i = 0; i < n; i++)
		t[i]->rc = run_group(s, m, t + i, 1, times, &t[i]->e);
}

void scorer_run(struct scorer *s, struct served_model *m, struct score_task **t, size_t n,
    struct score_times *times)
{
	struct err e;

	*times = (struct score_times){ 0 };
	scorer_forget(s);
	for (size_t i = 0; i < n; i++) {
		t[i]->rc = ERR_OK;
		t[i]->rows = 0;
		t[i]->scores = NULL;
		t[i]->name = NULL;
	}
	if (!m->scores) {
		fail_all(t, n, &m->why_not);
		return;
	}
	s->order = mem_grow(s->order, &s->order_room, n, sizeof *s->order);
	memcpy(s->order, t, n * sizeof *t);
	qsort(s->order, n, sizeof *s->order, compare_keys);
	for (size_t at = 0, k; at < n; at += k) {
		for (k = 1; at + k < n && is_same_key(s->order[at], s->order[at + k]); k++)
			;
		e = (struct err){ 0 };
		if (run_group(s, m, s->order + at, k, times, &e) == ERR_OK)
			continue;
		if (k == 1)
			fail_all(s->order + at, 1, &e);
		else
			run_alone(s, m, s->order + at, k, times);
	}
}
