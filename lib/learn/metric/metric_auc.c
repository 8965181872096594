/* SPDX-License-Identifier: ISC */
#include "metric/metric.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"

/* The area under the ROC curve of two classes: the probability that an example of class 1 scores
 * higher than one of class 0, equal scores counting half (Mann-Whitney). It is exact, so every score
 * is kept until the end, 8 bytes an example. Not defined with one class only, or with a score that is
 * not finite. */

struct kept_score {
	float score;
	bool positive;
};

struct auc {
	struct kept_score *scores;
	size_t n, cap;
	bool odd_score; /* one is not finite */
};

static bool suits_two_classes(const struct metric_scores *s)
{
	return s->task == MODEL_TWO || (s->task == MODEL_CLASSES && s->outputs == 2);
}

/* The number of examples decides the size, so lack of memory is an error and not an abort. */
static enum err_code reserve_scores(struct auc *a, size_t more, struct err *e)
{
	size_t need = a->n + more, cap = need + need / 2 + 1024;
	struct kept_score *p;

	if (need <= a->cap)
		return ERR_OK;
	p = mem_try_array(cap, sizeof *p);
	if (p == NULL)
		return err_set(e, ERR_NOMEM,
		    "no memory for the scores of %zu examples, which the area "
		    "under the curve needs; evaluate on less data",
		    need);
	if (a->n > 0)
		memcpy(p, a->scores, a->n * sizeof *p);
	free(a->scores);
	a->scores = p;
	a->cap = cap;
	return ERR_OK;
}

static enum err_code keep_scores(void *state, const struct metric_batch *x, struct err *e)
{
	struct auc *a = state;
	enum err_code rc = reserve_scores(a, x->batch->rows, e);

	for (size_t r = 0; !rc && r < x->batch->rows; r++) {
		float one = x->scores[(r + 1) * x->of.outputs - 1];

		a->scores[a->n++] = (struct kept_score){ one, metric_true_class(x, r) == 1 };
		a->odd_score |= !isfinite(one);
	}
	return rc;
}

static int compare_scores(const void *a, const void *b)
{
	const struct kept_score *p = a, *q = b;

	return (p->score > q->score) - (p->score < q->score);
}

/* Computes it from the ranks of the positive examples; equal scores share their mean rank. */
static bool area_under_curve(void *state, uint64_t all, double *out)
{
	struct auc *a = state;
	size_t n = a->n, positives = 0;
	double ranks = 0, pos, neg;

	(void)all;
	if (a->odd_score)
		return false;
	qsort(a->scores, n, sizeof *a->scores, compare_scores);
	for (size_t i = 0, j; i < n; i = j) {
		size_t here = 0;

		for (j = i; j < n && a->scores[j].score == a->scores[i].score; j++)
			here += a->scores[j].positive;
		ranks += (double)here * ((double)(i + 1) + (double)j) / 2;
		positives += here;
	}
	pos = (double)positives;
	neg = (double)(n - positives);
	if (positives == 0 || positives == n)
		return false;
	*out = (ranks - pos * (pos + 1) / 2) / (pos * neg);
	return true;
}

static void release_scores(void *state)
{
	free(((struct auc *)state)->scores);
}

const struct metric_ops metric_auc = { sizeof(struct auc), suits_two_classes, keep_scores,
	area_under_curve, release_scores };
