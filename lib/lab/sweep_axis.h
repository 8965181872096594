/* SPDX-License-Identifier: ISC */
#ifndef LAB_SWEEP_AXIS_H
#define LAB_SWEEP_AXIS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"

/* A key of a sweep with the values to try: a list (--grid), or a range from which values are drawn
 * (--range). */
struct sweep_axis {
	char *key;
	char **value; /* n values; none: a range */
	size_t n;
	double low, high; /* of the range, which includes both */
	bool whole, log;  /* whole numbers only; uniform in the logarithm of the value */
};

/* Parses "KEY=VALUE,VALUE". A comma within brackets or after a backslash belongs to the value. ERR_USAGE;
 * the axis must be released in any case. */
enum err_code sweep_axis_parse_list(const char *text, struct sweep_axis *a, struct err *e);
/* Parses "KEY=LOW..HIGH", ":log" or ":linear" may follow. Unless it says so, positive ranges of real numbers
 * are logarithmic, and others linear. Errors as sweep_axis_parse_list(). */
enum err_code sweep_axis_parse_range(const char *text, struct sweep_axis *a, struct err *e);
void sweep_axis_release(struct sweep_axis *a);

/* Draws a value, and returns "KEY=VALUE", to be freed. It depends on the seed, the number of the draw and
 * the axis alone, and not on other axes. Real numbers have three significant digits. */
char *sweep_axis_draw(const struct sweep_axis *a, uint64_t seed, uint64_t draw);

#endif
