/* SPDX-License-Identifier: ISC */
#ifndef LAB_CURVE_H
#define LAB_CURVE_H

#include <stdbool.h>
#include <stddef.h>

#include "core/err.h"
#include "lab/report_read.h"
#include "metric/metrics.h"

/* The curve of one run: a metric over what the training took so far, from the samples of its run
 * directory. One thread. */

/* The totals across which a curve may be drawn. */
enum curve_axis { CURVE_STEPS, CURVE_SECONDS, CURVE_BYTES, CURVE_EXAMPLES, CURVE_AXES };
extern const char *const curve_axis_name[CURVE_AXES];
/* The names as choices of an option. */
#define CURVE_AXIS_CHOICES "steps|seconds|bytes|examples"
/* Returns the axis of a name from CURVE_AXIS_CHOICES. */
enum curve_axis curve_axis_find(const char *name);

/* A figure whose values make a curve: a metric of evaluations, or a loss of the training. */
struct curve_metric {
	const char *name;    /* as in results, without "eval." */
	bool evaluated;      /* else a loss of the training */
	enum metric measure; /* tells which values are better */
};
/* Finds "train_loss", "progressive_loss", or a metric by its name, with or without "eval.".
 * ERR_USAGE: there is none. */
enum err_code curve_metric_find(const char *name, struct curve_metric *out, struct err *e);
/* The name for people: the loss of evaluations is "eval.loss", so that it is not taken for that of the
 * training. */
const char *curve_metric_title(const struct curve_metric *m);
/* Is value a at least as good as b? */
bool curve_reaches(const struct curve_metric *m, double a, double b);

struct curve_point {
	double at[CURVE_AXES]; /* the totals of the run when it had the value */
	double value;          /* finite */
};
/* Steps ascend, and so do the other totals. When a run rolls back, or goes on from a checkpoint, the
 * steps that it repeats replace those before; seconds, bytes and examples go on. */
struct curve {
	struct curve_point *point;
	size_t n;
};

/* Makes the curve of samples in the order in which they were taken, which may begin again at lower
 * counters: of a run that was resumed. out must be released. */
void curve_make(const struct report_sample *p, size_t n, const struct curve_metric *m,
    struct curve *out);
/* Reads the samples of n run directories, of which each continues the one before, and makes their
 * curve. It has no points when no sample has the metric. */
void curve_read(char *const *dirs, size_t n, const struct curve_metric *m, struct curve *out);
void curve_release(struct curve *c);

/* Returns the best point, the first of equal ones, or NULL when there are no points. */
const struct curve_point *curve_best(const struct curve *c, const struct curve_metric *m);
/* Returns the first point that reaches the target, or NULL. */
const struct curve_point *curve_first_at(const struct curve *c, const struct curve_metric *m,
    double target);

#endif
