/* SPDX-License-Identifier: ISC */
#include "metric/metrics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"

static const struct metric_ops *const ops[METRICS] = {
#define METRIC(name, help) &metric_##name,
#include "metric/metric.def"
#undef METRIC
};

const char *const metric_name[METRICS] = {
#define METRIC(name, help) #name,
#include "metric/metric.def"
#undef METRIC
};

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
	return x->of.task == MODEL_TWO ? x->batch->y[example] > 0.5f
	                               : (size_t)x->batch->label[example];
}

void metrics_init(struct metrics *m, enum model_task task, size_t outputs)
{
	*m = (struct metrics){ .of = { task, outputs } };
	for (int k = 0; k < METRICS; k++)
		if (ops[k]->suits(&m->of))
			m->state[k] = mem_alloc(ops[k]->bytes);
}

void metrics_release(struct metrics *m)
{
	for (int k = 0; k < METRICS; k++) {
		if (m->state[k] && ops[k]->release)
			ops[k]->release(m->state[k]);
		free(m->state[k]);
		m->state[k] = NULL;
	}
}

enum err_code metrics_add(struct metrics *m, const struct batch *b, const float *scores,
    double loss, struct err *e)
{
	const struct metric_batch x = { m->of, b, scores, loss };
	enum err_code rc = ERR_OK;

	for (int k = 0; !rc && k < METRICS; k++)
		if (m->state[k])
			rc = ops[k]->add(m->state[k], &x, e);
	m->n += rc ? 0 : b->rows;
	for (size_t r = 0; !rc && r < b->rows; r++)
		m->weight += (double)batch_weight(b, r);
	return rc;
}

void metrics_finish(struct metrics *m, struct eval_result *out)
{
	*out = (struct eval_result){ .examples = m->n };
	for (int k = 0; m->weight > 0 && k < METRICS; k++)
		out->has[k] = m->state[k] && ops[k]->finish(m->state[k], m->weight, &out->value[k]);
}

enum metric metrics_find(const char *name)
{
	int k = 0;

	while (k < METRICS && strcmp(name, metric_name[k]) != 0)
		k++;
	return (enum metric)k;
}

void metrics_set(struct eval_result *r, enum metric k, double value)
{
	r->value[k] = value;
	r->has[k] = isfinite(value);
}
