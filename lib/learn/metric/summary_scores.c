/* SPDX-License-Identifier: ISC */
#include "metric/summary.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"

/* Memory is bounded: the scores of each class are kept in a quantile sketch (Manku, Rajagopalan and
 * Lindsay, "Approximate medians and other quantiles in one pass and with limited memory", 1998).
 * The sketch has levels; level i holds at most one sorted run of RUN scores, each of which stands
 * for 2^i examples and has their weight. When a level gets a second run, the two are merged, and
 * every second score of the result goes up to the next level, with the weight of its neighbour.
 *
 * Error: a merge at level i moves the rank of any score by at most 2^i, and there are n / (RUN *
 * 2^(i+1)) of them, so a level moves it by at most n / (2 * RUN), and all levels by n * log2(n /
 * RUN) / (2 * RUN). The area is the mean of one class's ranks among the other class, so its error
 * is at most the sum of both classes' relative errors: below 1e-4 for 2^40 examples of each. With
 * at most 2 * RUN - 1 examples of each class no run is merged, and the area is exact. */

#define RUN    ((size_t)1 << 18)
#define LEVELS 46 /* enough for 2^64 examples */

struct scored {
	float score, weight;
};

/* The scores of one class. `open` are the last n of them, in order of arrival. */
struct sketch {
	struct scored *open;
	size_t n, cap;
	struct scored *level[LEVELS]; /* sorted runs; NULL: none */
	/* by level: the next merge keeps the scores at odd places, so that errors of two merges
	 * cancel */
	bool odd[LEVELS];
	double weight; /* of all */
};

struct scores {
	struct sketch of[2]; /* by class */
	bool odd_score;      /* one is not finite */
};

static int compare_scores(const void *a, const void *b)
{
	const struct scored *p = a, *q = b;

	return (p->score > q->score) - (p->score < q->score);
}

/* Merges two sorted runs and keeps every second score, in a. */
static void halve_runs(struct scored *a, struct scored *b, bool odd, struct scored *scratch)
{
	size_t i = 0, k = 0;

	for (size_t at = 0; at < RUN; at++) {
		struct scored pair[2];

		for (size_t j = 0; j < 2; j++)
			pair[j] = k == RUN || (i < RUN && a[i].score <= b[k].score) ? a[i++]
			                                                            : b[k++];
		scratch[at] = (struct scored){ pair[odd].score, pair[0].weight + pair[1].weight };
	}
	memcpy(a, scratch, RUN * sizeof *a);
}

/* Takes a sorted run, whose scores stand for 2^i examples each, to level i, or merged with those
 * that are there to the first higher level that is free. ERR_NOMEM: the run still is the
 * caller's. */
static enum err_code place_run(struct sketch *s, struct scored *run, size_t i, struct err *e)
{
	struct scored *scratch = s->level[i] ? mem_try_array(RUN, sizeof *scratch) : NULL;

	if (s->level[i] && !scratch)
		return err_set(e, ERR_NOMEM, "no memory for the scores of the evaluation");
	for (; s->level[i]; i++) {
		halve_runs(run, s->level[i], s->odd[i], scratch);
		s->odd[i] = !s->odd[i];
		free(s->level[i]);
		s->level[i] = NULL;
	}
	s->level[i] = run;
	free(scratch);
	return ERR_OK;
}

/* Sorts the full open run, puts it into a level and begins another one. */
static enum err_code close_run(struct sketch *s, struct err *e)
{
	struct scored *open = mem_try_array(RUN, sizeof *open);
	enum err_code rc;

	if (!open)
		return err_set(e, ERR_NOMEM, "no memory for the scores of the evaluation");
	qsort(s->open, RUN, sizeof *s->open, compare_scores);
	rc = place_run(s, s->open, 0, e);
	if (rc) {
		free(open);
		return rc;
	}
	s->open = open;
	s->cap = RUN;
	s->n = 0;
	return ERR_OK;
}

/* The number of examples decides the size, so lack of memory is an error and not an abort. */
static enum err_code grow_open(struct sketch *s, struct err *e)
{
	size_t cap = s->cap ? 2 * s->cap : 1024;
	struct scored *p = mem_try_array(cap, sizeof *p);

	if (!p)
		return err_set(e, ERR_NOMEM, "no memory for the scores of the evaluation");
	if (s->n)
		memcpy(p, s->open, s->n * sizeof *p);
	free(s->open);
	s->open = p;
	s->cap = cap;
	return ERR_OK;
}

static enum err_code add_score(struct sketch *s, float score, float weight, struct err *e)
{
	enum err_code rc = ERR_OK;

	if (s->n == RUN)
		rc = close_run(s, e);
	else if (s->n == s->cap)
		rc = grow_open(s, e);
	if (rc)
		return rc;
	s->open[s->n++] = (struct scored){ score, weight };
	s->weight += (double)weight;
	return ERR_OK;
}

static enum err_code add_scores(void *summary, const struct metric_batch *x, struct err *e)
{
	struct scores *a = summary;
	enum err_code rc = ERR_OK;

	for (size_t r = 0; !rc && r < x->batch->rows; r++) {
		float one = x->scores[(r + 1) * x->of.outputs - 1];

		a->odd_score |= !isfinite(one);
		if (!a->odd_score)
			rc = add_score(&a->of[metric_true_class(x, r) == 1], one,
			    batch_weight(x->batch, r), e);
	}
	return rc;
}

static enum err_code merge_sketch(struct sketch *s, const struct sketch *o, struct err *e)
{
	enum err_code rc = ERR_OK;

	for (size_t i = 0; !rc && i < LEVELS; i++) {
		struct scored *run;

		if (!o->level[i])
			continue;
		run = mem_try_array(RUN, sizeof *run);
		if (!run)
			return err_set(e, ERR_NOMEM, "no memory for the scores of the evaluation");
		memcpy(run, o->level[i], RUN * sizeof *run);
		for (size_t k = 0; k < RUN; k++)
			s->weight += (double)run[k].weight;
		rc = place_run(s, run, i, e);
		if (rc)
			free(run);
	}
	for (size_t i = 0; !rc && i < o->n; i++)
		rc = add_score(s, o->open[i].score, o->open[i].weight, e);
	return rc;
}

static enum err_code merge_scores(void *summary, const void *other, struct err *e)
{
	struct scores *a = summary;
	const struct scores *b = other;
	enum err_code rc = ERR_OK;

	a->odd_score |= b->odd_score;
	for (int k = 0; !rc && k < 2; k++)
		rc = merge_sketch(&a->of[k], &b->of[k], e);
	return rc;
}

/* ---- in order ---- */

/* The rest of a sorted run. */
struct cursor {
	const struct scored *at, *end;
	bool positive;
};

static size_t open_cursors(struct sketch *s, bool positive, struct cursor *c)
{
	size_t n = 0;

	if (s->n) {
		qsort(s->open, s->n, sizeof *s->open, compare_scores);
		c[n++] = (struct cursor){ s->open, s->open + s->n, positive };
	}
	for (size_t i = 0; i < LEVELS; i++)
		if (s->level[i])
			c[n++] = (struct cursor){ s->level[i], s->level[i] + RUN, positive };
	return n;
}

/* Takes the examples with the lowest score of all runs: their weights by class. False: none is
 * left. */
static bool take_lowest(struct cursor *c, size_t n, double here[static 2])
{
	float low = INFINITY;

	for (size_t i = 0; i < n; i++)
		if (c[i].at < c[i].end && c[i].at->score < low)
			low = c[i].at->score;
	here[0] = here[1] = 0;
	for (size_t i = 0; i < n; i++)
		for (; c[i].at < c[i].end && c[i].at->score == low; c[i].at++)
			here[c[i].positive] += (double)c[i].at->weight;
	return low < INFINITY;
}

/* The open runs are sorted, which does not matter to later batches. */
bool summary_scores_ascend(void *summary, double all[static 2],
    void (*each)(void *ctx, const double here[static 2]), void *ctx)
{
	struct scores *a = summary;
	struct cursor c[2 * (LEVELS + 1)];
	double here[2];
	size_t n;

	if (a->odd_score)
		return false;
	all[0] = a->of[0].weight;
	all[1] = a->of[1].weight;
	n = open_cursors(&a->of[0], false, c);
	n += open_cursors(&a->of[1], true, c + n);
	while (take_lowest(c, n, here))
		each(ctx, here);
	return true;
}

static void release_sketch(struct sketch *s)
{
	free(s->open);
	for (size_t i = 0; i < LEVELS; i++)
		free(s->level[i]);
}

static void release_scores(void *summary)
{
	struct scores *a = summary;

	release_sketch(&a->of[0]);
	release_sketch(&a->of[1]);
}

const struct metric_summary_ops summary_scores = { sizeof(struct scores), add_scores, merge_scores,
	release_scores, NULL };
