#ifndef MODEL_METRICS_H
#define MODEL_METRICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/batch.h"
#include "base/err.h"
#include "model/model.h"

/* Measures of a model over any number of batches.  Fields are private.  For two
 * classes every score is kept until the end (8 bytes an example), because AUC
 * is exact.  One thread at a time. */
struct metrics {
	enum model_task task;
	size_t outputs;
	uint64_t n, right;
	double loss, sq_error, mean, sq_spread;
	struct metrics_score *scores;   /* two classes: n of them */
	size_t cap;
	bool odd_score;                 /* one is not finite: there is no order */
};

/* What a measure is worth is undefined where has_... is false: no examples, one
 * class only (auc), targets all equal (r2), or not of this task. */
struct eval_result {
	uint64_t examples;
	double loss, accuracy, auc, rmse, r2;
	bool has_loss, has_accuracy, has_auc, has_rmse, has_r2;
};

void metrics_init(struct metrics *m, enum model_task task, size_t outputs);
void metrics_release(struct metrics *m);

/* Count a batch: scores and loss are what model_forward gave for it, and it has
 * passed model_check.  A class counts as predicted when its score is the
 * highest (of equals the first), with one output when it is above 1/2.
 * ERR_NOMEM leaves m as it was. */
enum err_code metrics_add(struct metrics *m, const struct batch *b, const float *scores,
                          double loss, struct err *e);

/* loss: mean; auc: the chance that an example of class 1 scores higher than one
 * of class 0, equal scores counting half (Mann-Whitney); rmse and r2 = 1 -
 * sum (y - f)^2 / sum (y - mean y)^2.  More may be added afterwards. */
void metrics_finish(struct metrics *m, struct eval_result *out);

#endif
