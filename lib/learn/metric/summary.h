/* SPDX-License-Identifier: ISC */
#ifndef METRIC_SUMMARY_H
#define METRIC_SUMMARY_H

#include "metric/metric.h"

/* The summaries that several metrics share; metric.h says what a summary is. */

/* The errors of real targets y and their predictions f, and the spread of the targets about their
 * mean. */
struct error_sums {
	double n, mean, sq_spread; /* weight, mean and summed squares about it, of y */
	double sq;                 /* (y - f)^2 */
	double below, above;       /* y - f where that is positive; f - y where that is */
};
extern const struct metric_summary_ops summary_errors;

/* Probabilities of two classes, or of several: of class 1, or of the predicted class. */
#define PROBABILITY_BINS 15
struct probability_sums {
	double log_loss;
	double predicted,
	    positive; /* sums of the probabilities, and of the examples for which they hold */
	struct probability_bin {
		double n, predicted, positive; /* examples; sums as above */
	} bin[PROBABILITY_BINS];               /* by the probability, of equal width */
};
extern const struct metric_summary_ops summary_probabilities;

/* The true and the predicted classes. */
struct class_counts {
	size_t classes;
	struct class_count {
		/* sums of weights: of the examples of this class that are predicted as this class,
		 * of all examples that are predicted so, and of all examples of this class */
		double both, predicted, real;
	} * class;
};
extern const struct metric_summary_ops summary_classes;
/* F1 = 2 both / (predicted + real) of a class that is predicted or real. */
double summary_classes_f1(const struct class_count *c);

/* The scores of two classes. Calls each(ctx, score's weights by class) for the different scores,
 * from the lowest on, and returns true; false when a score was not finite. all: the weights of all
 * examples. */
extern const struct metric_summary_ops summary_scores;
bool summary_scores_ascend(void *summary, double all[static 2],
    void (*each)(void *ctx, const double here[static 2]), void *ctx);

/* The scores of examples in groups.
 *
 * summary_groups_mean computes the mean of a figure over all groups for which `figure` returns
 * true, each weighted by the *weight that it sets, which is 1 before. The examples of a group come
 * with the highest score first. k: of->top_k. False: no group has the figure. */
struct ranked {
	float score, y; /* y: the target, or 1 and 0 by class */
	float weight;
};
extern const struct metric_summary_ops summary_groups;
bool summary_groups_mean(void *summary,
    bool (*figure)(const struct ranked *x, size_t n, size_t k, double *value, double *weight),
    size_t k, double *out);
/* The number of examples of equal score from x[at] on. */
size_t summary_groups_ties(const struct ranked *x, size_t n, size_t at);
/* Returns how many relevant examples (y > 1/2) are among the first k of n; where some of equal
 * score are among the first and others are not, the mean over all orders of them. *relevant: of all
 * n. */
double summary_groups_hits(const struct ranked *x, size_t n, size_t k, size_t *relevant);

#endif
