/* SPDX-License-Identifier: ISC */
#ifndef METRIC_METRICS_H
#define METRIC_METRICS_H

#include "metric/metric.h"

/* All metrics of a model over any number of batches: metrics_init -> metrics_add for each batch ->
 * metrics_finish -> metrics_release. Fields are private. One thread at a time. */
struct metrics {
	struct metric_scores of;
	uint64_t n;
	double weight; /* of all examples */
	/* by metric, a summary for each target; metrics that need the same summary have the same
	 * pointer; NULL: the metric does not suit the scores */
	void *summary[METRICS];
};

/* The best constant prediction for the examples: the mean of real targets, or the share of each
 * class. A model that is no better has learned nothing. baseline.h measures it. */
struct baseline {
	bool known;     /* false: the task has none, or there are examples of one class alone */
	bool no_better; /* no metric of the model is better than that of the constant */
	/* of the constant prediction: accuracy and log_loss, or r2 and rmse */
	double value[METRICS];
	bool has[METRICS];
};

/* value[k] is valid only where has[k] is true, for k of enum metric. It is false without examples,
 * or when the metric does not suit the model or is not defined for these examples. */
struct eval_result {
	uint64_t examples;
	double value[METRICS];
	bool has[METRICS];
	struct baseline constant;
	char remark[160]; /* what the metrics lack, for the log; "": nothing */
};

/* Begins with no examples. */
void metrics_init(struct metrics *m, const struct metric_scores *of);
void metrics_release(struct metrics *m);

/* Adds a batch, which has passed model_check, with the scores and the summed loss of model_forward.
 * After ERR_NOMEM only metrics_release may follow. */
enum err_code metrics_add(struct metrics *m, const struct batch *b, const float *scores,
    double loss, struct err *e);
/* Adds the examples of `other`, which measures scores of the same shape and stays as it is.
 * After ERR_NOMEM only metrics_release may follow. */
enum err_code metrics_merge(struct metrics *m, const struct metrics *other, struct err *e);

/* Computes the metrics. More examples may be added afterwards. */
void metrics_finish(struct metrics *m, struct eval_result *out);

/* Returns the metric of this name; METRICS: there is none. */
enum metric metrics_find(const char *name);
/* Can models of this task and quantile, with scores that are probabilities or not (as in struct
 * metric_scores), have the metric with some data? */
bool metrics_may_suit(enum metric k, enum model_task task, double quantile, bool probabilities);
/* How good a value of the metric is: the greater, the better. */
double metrics_goodness(enum metric k, double value);
/* Does a line or a table for people leave out the figure of this name, for lack of room? Figures
 * that are no metrics are not left out. */
bool metrics_is_detail(const char *name);
/* Sets one metric of a result that was computed elsewhere; a value that is not finite: it has
 * none. */
void metrics_set(struct eval_result *r, enum metric k, double value);

#endif
