/* SPDX-License-Identifier: ISC */
#ifndef CODEC_FILTER_H
#define CODEC_FILTER_H

#include <stdbool.h>
#include <stddef.h>

#include "core/err.h"
#include "core/rng.h"

/* Filters decide which rows of a sparse gradient a worker does not push (Li et al., "Scaling
 * Distributed Machine Learning with the Parameter Server", OSDI 2014, section 3.6). Pure. */
struct filter {
	enum filter_kind {
		FILTER_NONE,
		/* rows of zero parameters whose gradient is at most arg * l1 everywhere: l1 keeps
		 * them zero */
		FILTER_KKT,
		FILTER_THRESHOLD, /* rows whose gradient is at most arg everywhere */
		FILTER_SKIP,      /* random rows, with probability arg */
	} kind;
	double arg;
};

/* Parses "none", "kkt:0.1", "threshold:0.001" or "skip:0.5". ERR_CONFIG; the message does not name
 * the key. */
enum err_code filter_parse(const char *text, struct filter *out, struct err *e);
/* Shall this row, g of cols values, be held back? w: the row's parameters, or NULL. l1: in the
 * units of g. */
bool filter_holds(const struct filter *f, struct rng *rng, double l1, const float *g,
    const float *w, size_t cols);

#endif
