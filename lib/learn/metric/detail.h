/* SPDX-License-Identifier: ISC */
#ifndef METRIC_DETAIL_H
#define METRIC_DETAIL_H

#include "metric/summary.h"

/* Tables that show where a model of classes errs, beside the metrics: the confusion matrix, and the
 * calibration table of the same bins as metric calibration_error. All sums are of weights. Life:
 * zeros -> metric_detail_add for each batch -> metric_detail_release. One thread at a time. */
struct metric_detail {
	struct metric_scores of;
	/* (classes, classes): the examples of a true class (row) that are predicted as a class
	 * (column); NULL: none yet, not a model of classes, or more than METRIC_DETAIL_CLASSES */
	double *confusion;
	size_t classes;
	bool has_calibration; /* the scores are probabilities */
	struct probability_sums calibration;
};

/* Larger matrices would fill the screen and the memory. */
#define METRIC_DETAIL_CLASSES 1000u

/* Adds a batch with its scores, as metrics_add. ERR_NOMEM. */
enum err_code metric_detail_add(struct metric_detail *d, const struct metric_scores *of,
    const struct batch *b, const float *scores, struct err *e);
void metric_detail_release(struct metric_detail *d);

#endif
