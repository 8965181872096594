/* SPDX-License-Identifier: ISC */
#include "core/buf.h"
#include "core/file.h"
#include "core/mem.h"
#include "data/batch/data_words.h"
#include "layout/values.h"
#include "math/vec.h"
#include "nearest/nearest.h"
#include "tool/tool.h"
#include "worker/job.h"

#define PIECE 4096u /* rows requested at once */

struct vectors {
	const struct data_words *words;
	size_t width;
	float *v;
};

/* Reads the input vectors of all words (the even rows); unit: scaled to length 1. */
static enum err_code read_vectors(struct param_source *s, const struct data_words *words, bool unit,
    struct vectors *out, struct err *e)
{
	const struct table *table;
	enum err_code rc = layout_find_or_fail(s->ops->layout(s), "v", &table, e);
	uint64_t *id;

	if (rc)
		return rc;
	*out = (struct vectors){ .words = words, .width = table->cols };
	id = mem_array(PIECE, sizeof *id);
	out->v = mem_try_array(words->n * out->width, sizeof *out->v);
	if (!out->v)
		rc = err_set(e, ERR_NOMEM, "no memory for the vectors of %zu words", words->n);
	for (size_t at = 0; !rc && at < words->n; at += PIECE) {
		size_t n = words->n - at < PIECE ? words->n - at : PIECE;

		for (size_t i = 0; i < n; i++)
			id[i] = 2 * (at + i);
		rc = s->ops->want_rows(s, table, id, n, false, out->v + at * out->width, e);
		if (!rc)
			rc = s->ops->wait(s, e);
		if (!rc)
			rc = values_check_rows(table->name, table->cols, id,
			    out->v + at * out->width, n, e);
	}
	free(id);
	for (size_t i = 0; !rc && unit && i < words->n; i++) {
		double length = vec_norm2(out->width, out->v + i * out->width);

		vec_scale(out->width, length > 0 ? (float)(1 / length) : 0,
		    out->v + i * out->width);
	}
	return rc;
}

/* Prints all vectors in word2vec's text format. */
static enum err_code print_all_vectors(const struct vectors *x, int fd, struct err *e)
{
	struct buf text = BUF_INIT;
	enum err_code rc = ERR_OK;

	buf_printf(&text, "%zu %zu\n", x->words->n, x->width);
	for (size_t i = 0; !rc && i < x->words->n; i++) {
		buf_puts(&text, x->words->name[i]);
		for (size_t k = 0; k < x->width; k++)
			buf_printf(&text, " %.9g", (double)x->v[i * x->width + k]);
		buf_puts(&text, "\n");
		if (text.len < 1 << 16 && i + 1 < x->words->n)
			continue;
		rc = file_write_all(fd, text.data, text.len, e);
		buf_clear(&text);
	}
	buf_release(&text);
	return rc;
}

/* Prints the `top` words with the largest cosine to a word. index: the vectors of length 1. */
static enum err_code print_neighbours(const struct vectors *x, const struct nearest *index,
    const char *word, size_t top, int fd, struct err *e)
{
	const struct data_words *w = x->words;
	struct nearest_query q = { .k = top < w->n ? top : w->n, .nwithout = 1 };
	struct buf text = BUF_INIT;
	uint64_t of = 0;
	enum err_code rc;

	while (of < w->n && strcmp(w->name[of], word) != 0)
		of++;
	if (of == w->n)
		return err_set(e, ERR_NOTFOUND,
		    "\"%s\" is not among the %zu trained words of job.data (upper case counts as "
		    "lower case; words below min_count are left out)",
		    word, w->n);
	q.v = x->v + of * x->width;
	q.without = &of;
	q.hit = mem_array(q.k, sizeof *q.hit);
	rc = nearest_search(index, &q, 1, e);
	for (size_t i = 0; !rc && i < q.nhits; i++)
		buf_printf(&text, "%s\t%s\t%.4f\n", word, w->name[q.hit[i].id], q.hit[i].score);
	if (!rc)
		rc = file_write_all(fd, text.data, text.len, e);
	buf_release(&text);
	free(q.hit);
	return rc;
}

/* Answers the words in `ask`. The product of vectors of length 1 is their cosine. */
static enum err_code print_nearest_words(const struct vectors *x, const char *const *ask,
    size_t nask, size_t top, int fd, struct err *e)
{
	struct nearest *index = nearest_new(x->width, NEAREST_DOT);
	enum err_code rc = nearest_reserve(index, x->words->n, e);

	for (size_t i = 0; !rc && i < x->words->n; i++)
		rc = nearest_put(index, i, x->v + i * x->width, e);
	for (size_t i = 0; !rc && i < nask; i++)
		rc = print_neighbours(x, index, ask[i], top, fd, e);
	nearest_free(index);
	return rc;
}

enum err_code tool_words(const struct tool_model *m, const char *const *ask, size_t nask,
    size_t top, int fd, struct err *e)
{
	struct vectors x = { 0 };
	struct job job;
	enum err_code rc = job_load(m->source->config,
	    &(struct job_source){ .models = model_kinds_all,
	        .facts = m->source->facts,
	        .no_eval = true,
	        .log = m->log },
	    &job, e);

	if (rc)
		return rc;
	if (!dataset_words(job.train))
		rc = err_set(e, ERR_UNSUPPORTED, "job.model %s has no words; only word2vec has",
		    job.conf.job.model);
	else
		rc = read_vectors(m->source, dataset_words(job.train), nask > 0, &x, e);
	if (!rc)
		rc = param_source_finish(m->source, e);
	if (!rc && !nask)
		rc = print_all_vectors(&x, fd, e);
	if (!rc && nask)
		rc = print_nearest_words(&x, ask, nask, top, fd, e);
	free(x.v);
	job_release(&job);
	return rc;
}
