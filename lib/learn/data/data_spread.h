/* SPDX-License-Identifier: ISC */
#ifndef DATA_SPREAD_H
#define DATA_SPREAD_H

#include <stdbool.h>

/* The spread of the values of a column that is read in double, but kept as float32 and not centred: large values
 * that lie close together, as times in milliseconds, become few values or one. Pure. */
struct data_spread {
	double least, most;
	double error; /* the largest difference between a value and its float32 */
	bool begun;
};

void data_spread_add(struct data_spread *s, double v);

/* Do the values differ by little more than float32 tells apart? Those that differ only by the rounding of a
 * double are the same value. */
bool data_spread_is_lost(const struct data_spread *s);

#endif
