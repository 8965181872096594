/* SPDX-License-Identifier: ISC */
#ifndef LOSS_LOGISTIC_H
#define LOSS_LOGISTIC_H

#include <math.h>

#include "format/onnx.h"

/* The logistic function and the negative log likelihood of two classes, for several losses and
 * models. Pure. */

/* s(f) = 1 / (1 + exp(-f)). Neither branch can overflow. */
static inline double logistic_sigmoid(double f)
{
	double t = exp(-fabs(f));

	return f >= 0 ? 1 / (1 + t) : t / (1 + t);
}

/* -y log s(f) - (1 - y) log(1 - s(f)) for any f, and its derivative s(f) - y, in which s'(f)
 * cancels. This form has no logarithm of 0, cannot overflow, and needs one exponential for both. */
static inline double logistic_at(double f, double y, double *slope)
{
	double t = exp(-fabs(f));

	*slope = (f >= 0 ? 1 / (1 + t) : t / (1 + t)) - y;
	return fmax(f, 0) - y * f + log1p(t);
}

/* The logistic function as a graph (loss_ops.graph). */
static inline const char *logistic_graph(struct onnx *g, const char *f)
{
	return onnx_op(g, "Sigmoid", f, NULL);
}

#endif
