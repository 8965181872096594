/* SPDX-License-Identifier: ISC */
#include "metric/metrics.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "metric/baseline.h"

static const struct metric_ops *const ops[METRICS] = {
#define METRIC(name, better, place, help) &metric_##name,
#include "metric/metric.def"
#undef METRIC
};

const char *const metric_name[METRICS] = {
#define METRIC(name, better, place, help) #name,
#include "metric/metric.def"
#undef METRIC
};

static const struct trait {
	enum { LOWER, HIGHER, NEAR_1 } better;
	enum { LINE, DETAIL } place;
} trait[METRICS] = {
#define METRIC(name, better, place, help) { better, place },
#include "metric/metric.def"
#undef METRIC
};

bool metric_suits_two(const struct metric_scores *of)
{
	return of->task == MODEL_TWO || (of->task == MODEL_CLASSES && of->outputs == 2);
}

bool metric_suits_classes(const struct metric_scores *of)
{
	return of->task == MODEL_TWO || of->task == MODEL_CLASSES;
}

bool metric_suits_probabilities_of_two(const struct metric_scores *of)
{
	return of->probabilities && metric_suits_two(of);
}

bool metric_suits_probabilities(const struct metric_scores *of)
{
	return of->probabilities && metric_suits_classes(of);
}

bool metric_suits_real(const struct metric_scores *of)
{
	return of->task == MODEL_REAL;
}

bool metric_suits_groups_of_two(const struct metric_scores *of)
{
	return of->grouped && (metric_suits_two(of) || of->task == MODEL_PAIRS);
}

size_t metric_predicted_class(const struct metric_batch *x, const float *s)
{
	size_t best = 0;

	if (x->of.task == MODEL_TWO)
		return s[0] > 0.5f;
	for (size_t j = 1; j < x->of.outputs; j++)
		if (s[j] > s[best])
			best = j;
	return best;
}

size_t metric_true_class(const struct metric_batch *x, size_t example)
{
	return x->of.task == MODEL_CLASSES ? (size_t)x->batch->label[example]
	                                   : x->batch->y[example] > 0.5f;
}

/* The summary of metric k is that of an earlier metric; returns the first one that has it, which
 * may be k itself. */
static int first_with_summary(const struct metrics *m, int k)
{
	int i = 0;

	while (m->summary[i] != m->summary[k])
		i++;
	return i;
}

/* How many targets are measured one by one. */
static size_t targets_of(const struct metric_scores *of)
{
	return of->task == MODEL_REAL ? of->outputs : 1;
}

/* The summary of metric k for a target. */
static void *summary_of(const struct metrics *m, int k, size_t target)
{
	return (char *)m->summary[k] + target * ops[k]->summary->bytes;
}

/* Is k the metric by which its summary is added to, merged and freed? */
static bool owns_summary(const struct metrics *m, int k)
{
	return m->summary[k] && first_with_summary(m, k) == k;
}

void metrics_init(struct metrics *m, const struct metric_scores *of)
{
	*m = (struct metrics){ .of = *of };
	for (int k = 0; k < METRICS; k++) {
		if (!ops[k]->suits(of))
			continue;
		for (int i = 0; !m->summary[k] && i < k; i++)
			if (m->summary[i] && ops[i]->summary == ops[k]->summary)
				m->summary[k] = m->summary[i];
		if (!m->summary[k])
			m->summary[k] = mem_array(targets_of(of), ops[k]->summary->bytes);
	}
}

void metrics_release(struct metrics *m)
{
	for (int k = METRICS - 1; k >= 0; k--)
		if (owns_summary(m, k)) {
			for (size_t t = 0; ops[k]->summary->release && t < targets_of(&m->of); t++)
				ops[k]->summary->release(summary_of(m, k, t));
			free(m->summary[k]);
		}
	memset(m->summary, 0, sizeof m->summary);
}

enum err_code metrics_add(struct metrics *m, const struct batch *b, const float *scores,
    double loss, struct err *e)
{
	struct metric_batch x = { m->of, b, scores, loss, 0 };
	enum err_code rc = ERR_OK;

	for (; !rc && x.target < targets_of(&m->of); x.target++)
		for (int k = 0; !rc && k < METRICS; k++)
			if (owns_summary(m, k))
				rc = ops[k]->summary->add(summary_of(m, k, x.target), &x, e);
	m->n += rc ? 0 : b->rows;
	for (size_t r = 0; !rc && r < b->rows; r++)
		m->weight += (double)batch_weight(b, r);
	return rc;
}

enum err_code metrics_merge(struct metrics *m, const struct metrics *other, struct err *e)
{
	enum err_code rc = ERR_OK;

	for (size_t t = 0; !rc && t < targets_of(&m->of); t++)
		for (int k = 0; !rc && k < METRICS; k++)
			if (owns_summary(m, k))
				rc = ops[k]->summary->merge(summary_of(m, k, t),
				    summary_of(other, k, t), e);
	m->n += rc ? 0 : other->n;
	m->weight += rc ? 0 : other->weight;
	return rc;
}

static void write_remarks(const struct metrics *m, struct eval_result *out)
{
	struct buf text = BUF_INIT;

	for (int k = 0; k < METRICS; k++)
		if (owns_summary(m, k) && ops[k]->summary->remark)
			ops[k]->summary->remark(m->summary[k], &text);
	if (text.len)
		snprintf(out->remark, sizeof out->remark, "%s", (char *)text.data);
	buf_release(&text);
}

/* Computes the mean of a metric over the targets. False: it is not defined for one of them. */
static bool mean_over_targets(const struct metrics *m, int k, double *out)
{
	size_t n = targets_of(&m->of);
	double sum = 0, one;

	for (size_t t = 0; t < n; t++) {
		if (!ops[k]->finish(summary_of(m, k, t), &m->of, m->weight, &one))
			return false;
		sum += one;
	}
	*out = sum / (double)n;
	return true;
}

void metrics_finish(struct metrics *m, struct eval_result *out)
{
	*out = (struct eval_result){ .examples = m->n };
	for (int k = 0; m->weight > 0 && k < METRICS; k++)
		out->has[k] = m->summary[k] && mean_over_targets(m, k, &out->value[k]) &&
		    isfinite(out->value[k]);
	baseline_measure(m, out, &out->constant);
	write_remarks(m, out);
}

enum metric metrics_find(const char *name)
{
	int k = 0;

	while (k < METRICS && strcmp(name, metric_name[k]) != 0)
		k++;
	return (enum metric)k;
}

bool metrics_may_suit(enum metric k, enum model_task task, double quantile, bool probabilities)
{
	const struct metric_scores of = { .task = task,
		.outputs = task == MODEL_CLASSES ? 2 : 1,
		.grouped = true,
		.quantile = quantile,
		.probabilities = probabilities };

	/* A user's program measures as it likes. */
	return task == MODEL_OUTSIDE || ops[k]->suits(&of);
}

double metrics_goodness(enum metric k, double value)
{
	switch (trait[k].better) {
	case HIGHER:
		return value;
	case NEAR_1:
		return -fabs(value - 1);
	default:
		return -value;
	}
}

bool metrics_is_detail(const char *name)
{
	enum metric k = metrics_find(name);

	return k < METRICS && trait[k].place == DETAIL;
}

void metrics_set(struct eval_result *r, enum metric k, double value)
{
	r->value[k] = value;
	r->has[k] = isfinite(value);
}
