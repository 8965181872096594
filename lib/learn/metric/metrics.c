/* SPDX-License-Identifier: ISC */
#include "metric/metrics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"

struct metrics_score {
	float score;
	bool positive;
};

void metrics_init(struct metrics *m, enum model_task task, size_t outputs)
{
	*m = (struct metrics){ .task = task, .outputs = outputs };
}

void metrics_release(struct metrics *m)
{
	free(m->scores);
	m->scores = NULL;
	m->cap = 0;
}

static bool two_classes(const struct metrics *m)
{
	return m->task == MODEL_TWO || (m->task == MODEL_CLASSES && m->outputs == 2);
}

/* The number of examples decides the size, so lack of memory is an error and not an abort. */
static enum err_code reserve_scores(struct metrics *m, size_t more, struct err *e)
{
	size_t need = (size_t)m->n + more, cap = need + need / 2 + 1024;
	struct metrics_score *p;

	if (need <= m->cap)
		return ERR_OK;
	p = mem_try_array(cap, sizeof *p);
	if (p == NULL)
		return err_set(e, ERR_NOMEM,
		    "no memory for the scores of %zu examples, which the area "
		    "under the curve needs; evaluate on less data",
		    need);
	if (m->n > 0)
		memcpy(p, m->scores, (size_t)m->n * sizeof *p);
	free(m->scores);
	m->scores = p;
	m->cap = cap;
	return ERR_OK;
}

/* Counts a predicted class; for two classes also keeps the score for AUC. */
static void add_class_prediction(struct metrics *m, const struct batch *b, size_t r, const float *s)
{
	size_t best = 0, label;
	float one;

	if (m->task == MODEL_TWO) {
		label = b->y[r] > 0.5f;
		best = s[0] > 0.5f;
		one = s[0];
	} else {
		label = (size_t)b->label[r];
		for (size_t j = 1; j < m->outputs; j++)
			if (s[j] > s[best])
				best = j;
		one = s[m->outputs - 1];
	}
	m->right += best == label;
	if (two_classes(m)) {
		m->scores[m->n] = (struct metrics_score){ one, label == 1 };
		m->odd_score |= !isfinite(one);
	}
}

/* Welford 1962: the spread about the running mean, in one pass. */
static void add_real(struct metrics *m, double y, double f)
{
	double from = y - m->mean;

	m->mean += from / (double)(m->n + 1);
	m->sq_spread += from * (y - m->mean);
	m->sq_error += (y - f) * (y - f);
}

enum err_code metrics_add(struct metrics *m, const struct batch *b, const float *scores,
    double loss, struct err *e)
{
	enum err_code rc;

	if (two_classes(m) && (rc = reserve_scores(m, b->rows, e)) != ERR_OK)
		return rc;
	for (size_t r = 0; r < b->rows; r++) {
		const float *s = scores + r * m->outputs;

		if (m->task == MODEL_REAL)
			add_real(m, (double)b->y[r], (double)s[0]);
		else if (m->task != MODEL_WORDS)
			add_class_prediction(m, b, r, s);
		m->n++;
	}
	m->loss += loss;
	return ERR_OK;
}

static int by_score(const void *a, const void *b)
{
	const struct metrics_score *p = a, *q = b;

	return (p->score > q->score) - (p->score < q->score);
}

/* AUC from the ranks of the positive examples; equal scores share their mean rank. */
static bool area_under_curve(struct metrics *m, double *out)
{
	size_t n = (size_t)m->n, positives = 0;
	double ranks = 0, pos, neg;

	qsort(m->scores, n, sizeof *m->scores, by_score);
	for (size_t i = 0, j; i < n; i = j) {
		size_t here = 0;

		for (j = i; j < n && m->scores[j].score == m->scores[i].score; j++)
			here += m->scores[j].positive;
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

void metrics_finish(struct metrics *m, struct eval_result *out)
{
	double n = (double)m->n;

	*out = (struct eval_result){ .examples = m->n };
	if (m->n == 0)
		return;
	out->has_loss = true;
	out->loss = m->loss / n;
	if (m->task == MODEL_WORDS)
		return;
	if (m->task == MODEL_REAL) {
		out->has_rmse = true;
		out->rmse = sqrt(m->sq_error / n);
		out->has_r2 = m->sq_spread > 0;
		out->r2 = out->has_r2 ? 1 - m->sq_error / m->sq_spread : 0;
		return;
	}
	out->has_accuracy = true;
	out->accuracy = (double)m->right / n;
	if (two_classes(m) && !m->odd_score)
		out->has_auc = area_under_curve(m, &out->auc);
}
