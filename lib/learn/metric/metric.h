/* SPDX-License-Identifier: ISC */
#ifndef METRIC_METRIC_H
#define METRIC_METRIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/buf.h"
#include "core/err.h"
#include "data/batch/batch.h"
#include "model/model.h"

/* Metrics: measures of a model on examples. A metric is one file, metric_NAME.c, which defines
 * metric_NAME, and one line in metric.def; results, Prometheus, the dashboard and programs of model
 * custom have it by its name. metrics.h computes all of them together. One thread at a time.
 *
 * A metric is computed from a summary of the examples, whose size is bounded however many examples
 * there are. Summaries of different examples can be merged into that of all of them (Agarwal et
 * al., "Mergeable summaries", 2012). Metrics that need the same summary share it: summary_NAME.c
 * has those that several metrics use. */

/* The scores of a model that one evaluation measures. */
struct metric_scores {
	enum model_task task;
	size_t outputs;  /* scores an example (model_outputs): of MODEL_REAL, of each target */
	bool grouped;    /* the examples are of groups (batch->group), in which they are ranked */
	size_t top_k;    /* of each group, the examples that metrics at k look at */
	double quantile; /* the quantile that the model predicts, between 0 and 1; 0: none */
	bool probabilities; /* of classes: each score is the probability of one */
};

/* A batch, which has passed model_check, with the scores (rows * outputs) and the summed loss of
 * model_forward. An example counts by its weight. Real targets are measured one by one, each with a
 * summary of its own, and the metric is the mean over the targets. */
struct metric_batch {
	struct metric_scores of;
	const struct batch *batch;
	const float *scores;
	double loss;
	size_t target; /* the one to measure */
};

/* Real targets: the place of the target to measure, of example r, in batch->y and in scores. */
static inline size_t metric_place(const struct metric_batch *x, size_t r)
{
	return r * x->of.outputs + x->target;
}

struct metric_summary_ops {
	/* Bytes of the summary, which begins with zeros. */
	size_t bytes;
	/* Adds a batch. After ERR_NOMEM only release may follow. */
	enum err_code (*add)(void *summary, const struct metric_batch *x, struct err *e);
	/* Adds the examples of another summary, of scores of the same shape. That one stays as it
	 * is. After ERR_NOMEM only release may follow. */
	enum err_code (*merge)(void *summary, const void *other, struct err *e);
	/* Frees what the summary owns; NULL: nothing. */
	void (*release)(void *summary);
	/* Appends a sentence without its full stop if the summary lacks examples that the user
	 * should know of; NULL: it never does. */
	void (*remark)(const void *summary, struct buf *out);
};

struct metric_ops {
	const struct metric_summary_ops *summary;
	/* Has this metric a meaning for such scores? */
	bool (*suits)(const struct metric_scores *of);
	/* Computes the metric of the examples so far, whose weights (batch_weight) add up to n > 0.
	 * False: it is not defined. More examples may be added afterwards. */
	bool (*finish)(void *summary, const struct metric_scores *of, double n, double *out);
};

enum metric {
#define METRIC(name, better, place, help) METRIC_##name,
#include "metric/metric.def"
#undef METRIC
	METRICS
};

#define METRIC(name, better, place, help) extern const struct metric_ops metric_##name;
#include "metric/metric.def"
#undef METRIC

/* The names, as in results. */
extern const char *const metric_name[METRICS];

/* Two classes: with one score or two. */
bool metric_suits_two(const struct metric_scores *of);
/* Two classes or more. */
bool metric_suits_classes(const struct metric_scores *of);
/* Two classes, or two and more, and the scores are their probabilities. */
bool metric_suits_probabilities_of_two(const struct metric_scores *of);
bool metric_suits_probabilities(const struct metric_scores *of);
/* Real targets. */
bool metric_suits_real(const struct metric_scores *of);
/* Groups of examples of two classes, or of items that are ranked. */
bool metric_suits_groups_of_two(const struct metric_scores *of);

/* The class that the scores s of an example predict: the one with the highest score (of equal ones
 * the first); with one output 1 when the score is above 1/2. metric_true_class: its true class. */
size_t metric_predicted_class(const struct metric_batch *x, const float *s);
size_t metric_true_class(const struct metric_batch *x, size_t example);

#endif
