/* SPDX-License-Identifier: ISC */
#include "metric/metric.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"

/* The area under the ROC curve of two classes: the probability that an example of class 1 scores
 * higher than one of class 0, equal scores counting half (Mann-Whitney), where examples are drawn by
 * their weights. Not defined with one class only, or with a score that is not finite.
 *
 * Memory is bounded: the scores of each class are kept in a quantile sketch (Manku, Rajagopalan and
 * Lindsay, "Approximate medians and other quantiles in one pass and with limited memory", 1998). The
 * sketch has levels; level i holds at most one sorted run of RUN scores, each of which stands for 2^i
 * examples and has their weight. When a level gets a second run, the two are merged, and every second
 * score of the result goes up to the next level, with the weight of its neighbour.
 *
 * Error: a merge at level i moves the rank of any score by at most 2^i, and there are n / (RUN * 2^(i+1))
 * of them, so a level moves it by at most n / (2 * RUN), and all levels by n * log2(n / RUN) / (2 * RUN).
 * The area is the mean of one class's ranks among the other class, so its error is at most the sum
 * of both classes' relative errors: below 1e-4 for 2^40 examples of each. With at most 2 * RUN - 1
 * examples of each class no run is merged, and the area is exact. */

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
	/* by level: the next merge keeps the scores at odd places, so that errors of two merges cancel */
	bool odd[LEVELS];
	double weight; /* of all */
};

struct auc {
	struct sketch of[2]; /* by class */
	bool odd_score;      /* one is not finite */
};

static bool suits_two_classes(const struct metric_scores *s)
{
	return s->task == MODEL_TWO || (s->task == MODEL_CLASSES && s->outputs == 2);
}

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

/* Sorts the full open run and puts it in the first level that is free, merging it with those before. */
static enum err_code close_run(struct sketch *s, struct err *e)
{
	struct scored *scratch = s->level[0] ? mem_try_array(RUN, sizeof *scratch) : NULL,
	              *open = mem_try_array(RUN, sizeof *open), *run = s->open;
	size_t i;

	if (!open || (s->level[0] && !scratch)) {
		free(open);
		free(scratch);
		return err_set(e, ERR_NOMEM, "no memory for the area under the curve");
	}
	qsort(run, RUN, sizeof *run, compare_scores);
	for (i = 0; s->level[i]; i++) {
		halve_runs(run, s->level[i], s->odd[i], scratch);
		s->odd[i] = !s->odd[i];
		free(s->level[i]);
		s->level[i] = NULL;
	}
	s->level[i] = run;
	s->open = open;
	s->cap = RUN;
	s->n = 0;
	free(scratch);
	return ERR_OK;
}

/* The number of examples decides the size, so lack of memory is an error and not an abort. */
static enum err_code grow_open(struct sketch *s, struct err *e)
{
	size_t cap = s->cap ? 2 * s->cap : 1024;
	struct scored *p = mem_try_array(cap, sizeof *p);

	if (!p)
		return err_set(e, ERR_NOMEM, "no memory for the area under the curve");
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

static enum err_code add_scores(void *state, const struct metric_batch *x, struct err *e)
{
	struct auc *a = state;
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

/* ---- the area ---- */

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

/* Takes the examples with the lowest score of all runs: their weights by class. False: none is left. */
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

/* Counts the pairs in order, from the lowest score on. The open runs are sorted, which does not matter
 * to later batches. */
static bool area_under_curve(void *state, double all, double *out)
{
	struct auc *a = state;
	struct cursor c[2 * (LEVELS + 1)];
	double here[2], below = 0, pairs = 0;
	size_t n;

	(void)all;
	if (a->odd_score || !(a->of[0].weight > 0 && a->of[1].weight > 0))
		return false;
	n = open_cursors(&a->of[0], false, c);
	n += open_cursors(&a->of[1], true, c + n);
	while (take_lowest(c, n, here)) {
		pairs += here[1] * (below + here[0] / 2);
		below += here[0];
	}
	*out = pairs / (a->of[0].weight * a->of[1].weight);
	return true;
}

static void release_sketch(struct sketch *s)
{
	free(s->open);
	for (size_t i = 0; i < LEVELS; i++)
		free(s->level[i]);
}

static void release_scores(void *state)
{
	struct auc *a = state;

	release_sketch(&a->of[0]);
	release_sketch(&a->of[1]);
}

const struct metric_ops metric_auc = { sizeof(struct auc), suits_two_classes, add_scores,
	area_under_curve, release_scores };
