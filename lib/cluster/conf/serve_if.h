/* SPDX-License-Identifier: ISC */
#ifndef CONF_SERVE_IF_H
#define CONF_SERVE_IF_H

#include <stdbool.h>

#include "core/err.h"

/* serve_if: a condition on a measure of a training, "auc >= 0.76", under which a read replica takes
 * over new values. The measure is train_loss, progressive_loss, or a metric of evaluations
 * (metric/metric.def). Pure. */
enum serve_if_kind { SERVE_IF_METRIC, SERVE_IF_TRAIN_LOSS, SERVE_IF_PROGRESSIVE_LOSS };
enum serve_if_test { SERVE_IF_AT_LEAST, SERVE_IF_ABOVE, SERVE_IF_AT_MOST, SERVE_IF_BELOW };

struct serve_if {
	enum serve_if_kind kind;
	const char *measure; /* its name, constant */
	enum serve_if_test test;
	double bound;
};

/* Parses a condition; the spaces in it may be missing. ERR_CONFIG: a sentence without the key. */
enum err_code serve_if_parse(const char *text, struct serve_if *out, struct err *e);
/* Does the condition hold for this value? NaN: no. */
bool serve_if_holds(const struct serve_if *c, double value);

#endif
