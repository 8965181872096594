/* SPDX-License-Identifier: ISC */
#ifndef METRIC_METRICS_H
#define METRIC_METRICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "data/batch.h"
#include "model/model.h"

/* Measures of a model (loss, accuracy, AUC, RMSE, R2) over any number of batches: metrics_init ->
 * metrics_add for each batch -> metrics_finish -> metrics_release. Fields are private. For two
 * classes every score is kept until the end (8 bytes an example), because AUC is exact. One thread
 * at a time. */
struct metrics {
	enum model_task task;
	size_t outputs;
	uint64_t n, right;
	double loss, sq_error, mean, sq_spread;
	struct metrics_score *scores; /* two classes: n of them */
	size_t cap;
	bool odd_score; /* a score is not finite: AUC is undefined */
};

/* A measure is valid only where its has_... is true. It is false without examples, with one class
 * only (auc), with equal targets (r2), or when the task has no such measure. */
struct eval_result {
	uint64_t examples;
	double loss, accuracy, auc, rmse, r2;
	bool has_loss, has_accuracy, has_auc, has_rmse, has_r2;
};

/* Begins with no examples; outputs: scores an example (model_outputs). */
void metrics_init(struct metrics *m, enum model_task task, size_t outputs);
void metrics_release(struct metrics *m);

/* Adds a batch, which has passed model_check, with the scores and loss of model_forward. The
 * predicted class is the one with the highest score (of equal ones the first); with one output it
 * is 1 when the score is above 1/2. ERR_NOMEM leaves m as it was. */
enum err_code metrics_add(struct metrics *m, const struct batch *b, const float *scores,
    double loss, struct err *e);

/* Computes the measures. loss: mean; auc: the probability that an example of class 1 scores higher
 * than one of class 0, equal scores counting half (Mann-Whitney); rmse, and r2 = 1 - sum (y - f)^2
 * / sum (y - mean y)^2. More batches may be added afterwards. */
void metrics_finish(struct metrics *m, struct eval_result *out);

#endif
