/* SPDX-License-Identifier: ISC */
#ifndef METRIC_METRIC_H
#define METRIC_METRIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "data/batch.h"
#include "model/model.h"

/* Metrics: measures of a model on examples. A metric is one file, metric_NAME.c, which defines
 * metric_NAME, and one line in metric.def; results, Prometheus, the dashboard and programs of model
 * custom have it by its name. metrics.h computes all of them together. One thread at a time. */

/* The scores of a model that one evaluation measures. */
struct metric_scores {
	enum model_task task;
	size_t outputs; /* scores an example (model_outputs) */
};

/* A batch, which has passed model_check, with the scores (rows * outputs) and the summed loss of
 * model_forward. An example counts by its weight. */
struct metric_batch {
	struct metric_scores of;
	const struct batch *batch;
	const float *scores;
	double loss;
};

struct metric_ops {
	/* Bytes of the metric's state, which begins with zeros. */
	size_t bytes;
	/* Has this metric a meaning for such scores? */
	bool (*suits)(const struct metric_scores *s);
	/* Adds a batch. ERR_NOMEM leaves the state as it was. */
	enum err_code (*add)(void *state, const struct metric_batch *x, struct err *e);
	/* Computes the metric of the examples so far, whose weights (batch_weight) add up to n > 0.
	 * False: it is not defined. More batches may be added afterwards. */
	bool (*finish)(void *state, double n, double *out);
	/* Frees what the state owns; NULL: nothing. */
	void (*release)(void *state);
};

enum metric {
#define METRIC(name, help) METRIC_##name,
#include "metric/metric.def"
#undef METRIC
	METRICS
};

#define METRIC(name, help) extern const struct metric_ops metric_##name;
#include "metric/metric.def"
#undef METRIC

/* The names, as in results. */
extern const char *const metric_name[METRICS];

/* The class that the scores s of an example predict: the one with the highest score (of equal ones
 * the first); with one output 1 when the score is above 1/2. metric_true_class: its true class. */
size_t metric_predicted_class(const struct metric_batch *x, const float *s);
size_t metric_true_class(const struct metric_batch *x, size_t example);

#endif
