#ifndef CODEC_FILTER_H
#define CODEC_FILTER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/rng.h"

/* Which rows of a sparse gradient a worker holds back (Li et al., "Scaling Distributed
 * Machine Learning with the Parameter Server", OSDI 2014, section 3.6). */
struct filter {
	enum filter_kind {
		FILTER_NONE,
		FILTER_KKT,             /* rows of zeroes whose gradient is at most arg * l1: they stay zero */
		FILTER_THRESHOLD,       /* rows whose gradient is at most arg everywhere */
		FILTER_SKIP,            /* rows by chance, with the probability arg */
	} kind;
	double arg;
};

/* "none", "kkt:0.1", "threshold:0.001", "skip:0.5".  ERR_CONFIG, with the sentence
 * without the key. */
enum err_code filter_parse(const char *text, struct filter *out, struct err *e);
/* Is this row, g of cols values, to be held back?  w: the row's parameters, or NULL. */
bool filter_holds(const struct filter *f, struct rng *rng, double l1, const float *g, const float *w, size_t cols);

#endif
