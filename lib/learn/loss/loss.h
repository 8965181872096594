/* SPDX-License-Identifier: ISC */
#ifndef LOSS_LOSS_H
#define LOSS_LOSS_H

#include <stdbool.h>
#include <stddef.h>

#include "core/err.h"
#include "data/batch/batch.h"
#include "format/onnx.h"

/* Losses: how far the outputs of a model are from the targets of an example. A model computes the
 * outputs (f: one number for each target, or one for each class), and a loss turns them into its
 * value, its derivative by f, from which the model goes on, and into the score that users see. The
 * loss of several targets is the sum of their losses.
 *
 * A loss is one file, loss_NAME.c, which defines loss_NAME, and one line in loss.def. Models name
 * in model.def what targets they can fit, and never ask which loss they have. Pure: any thread. */

/* The targets that a loss compares the outputs with. */
enum loss_target {
	LOSS_REAL,    /* batch->y, any number; an output for each target */
	LOSS_TWO,     /* batch->y, 0 or 1; one output */
	LOSS_CLASSES, /* batch->label; an output for each class */
};

struct loss_ops;

/* A loss with its argument. ops NULL: none. times: outputs and targets are this many times as large
 * as those of the data (loss_scaled); 0: they are as large. A model has one for each of its
 * targets. */
struct loss_spec {
	const struct loss_ops *ops;
	double arg, times;
};

struct loss_ops {
	const char *name;
	enum loss_target target;

	/* The argument after the colon lies between 0 and arg_most, both excluded, and is arg where
	 * there is none. arg_most 0: the loss takes no argument. */
	double arg, arg_most;
	/* The argument for outputs and targets that are c times as large, c > 0. NULL: it is the
	 * same. */
	double (*scale_arg)(double arg, double c);
	/* The quantile that f estimates. NULL: it estimates none. */
	double (*quantile)(double arg);

	/* L(c f, c y) = c^degree L(f, y), where scale_arg changes the argument. 0: there is no such
	 * degree, and targets must not be scaled. LOSS_REAL only. */
	unsigned degree;
	/* May y be a target? NULL: any finite number (LOSS_REAL), 0 and 1 (LOSS_TWO). */
	bool (*takes)(double y);
	const char
	    *wants; /* what `takes` demands, for an error message: "a number of at least 0" */

	/* Returns the value of a loss of one output, and sets *slope to d value / d f. */
	double (*at)(double arg, double f, double y, double *slope);
	/* The score to show for f: of two classes between 0 and 1, and above 1/2 for class 1.
	 * NULL: f itself. */
	double (*score)(double f);
	/* Are the scores probabilities of the classes? */
	bool probabilities;

	/* For LOSS_CLASSES, which have only these: they replace the outputs of whole batches as
	 * loss_grad and loss_scores do, and return the summed loss. */
	double (*grad_rows)(const struct batch *b, size_t outputs, float *f);
	double (*score_rows)(const struct batch *b, size_t outputs, float *f);
	/* Adds the operators that replace the outputs f, (N, outputs), by the scores, and returns these. Where
	 * scores are not f itself. */
	const char *(*graph)(struct onnx *g, const char *f);
	/* For other losses: replaces column k of the outputs by the gradient, and returns the
	 * summed loss of target k, as `at` would for each example, but faster. NULL: `at` is
	 * called. */
	double (*grad_column)(const struct batch *b, size_t outputs, size_t k, float *f);
};

#define LOSS(name, form) extern const struct loss_ops loss_##name;
#include "loss/loss.def"
#undef LOSS

/* Parses "huber:1.5", or a name alone. ERR_CONFIG: there is no such loss, or the argument is wrong;
 * the message begins with neither a key nor a file. */
enum err_code loss_parse(const char *text, struct loss_spec *out, struct err *e);

/* Outputs an example, for data of this many classes and targets. */
size_t loss_outputs(const struct loss_spec *l, size_t classes, size_t targets);

/* The loss for outputs and targets that are c times as large, c > 0. */
struct loss_spec loss_scaled(const struct loss_spec *l, double c);
/* The value of a loss, or a sum of values, for outputs and targets as large as in the
 * data. */
double loss_unscaled(const struct loss_spec *l, double value);

/* The quantile that the scores estimate; 0: they estimate none. */
double loss_quantile_of(const struct loss_spec *l);

/* Are the scores probabilities of the classes? */
bool loss_gives_probabilities(const struct loss_spec *l);

/* The two functions below take an array of losses: one for all classes, or one for each target.
 *
 * Replaces the outputs f (b->rows, outputs) by the gradient of the batch's loss by them, weight *
 * slope / rows. Returns the sum over the examples of weight * value, divided by rows, where the
 * values are those of the data (loss_unscaled). b has examples and targets. */
double loss_grad(const struct loss_spec *l, const struct batch *b, size_t outputs, float *f);

/* Replaces the outputs f (b->rows, outputs) by the scores. Returns the sum over the examples of
 * weight * value, of the data (loss_unscaled); 0 for a batch without targets. */
double loss_scores(const struct loss_spec *l, const struct batch *b, size_t outputs, float *f);

/* As ops->at, for a loss of one output. */
static inline double loss_at(const struct loss_spec *l, double f, double y, double *slope)
{
	return l->ops->at(l->arg, f, y, slope);
}

/* The score to show for f, of a loss of one output. */
static inline double loss_score(const struct loss_spec *l, double f)
{
	return l->ops->score ? l->ops->score(f) : f;
}

#endif
