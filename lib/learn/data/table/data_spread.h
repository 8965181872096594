/* SPDX-License-Identifier: ISC */
#ifndef DATA_SPREAD_H
#define DATA_SPREAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"

/* The spread of the values of a column that is read in double, but kept as float32 and not
 * centred: large values that lie close together, as times in milliseconds, become few values or
 * one. Pure. */
struct data_spread {
	double least, most;
	double error; /* the largest difference between a value and its float32 */
	bool begun;
};

void data_spread_add(struct data_spread *s, double v);
/* Adds a value of which only the float32 is known. It counts where it is not the rounded one of
 * a value that was added exactly. */
void data_spread_widen(struct data_spread *s, float v);

/* Do the values differ by little more than float32 tells apart? Those that differ only by the
 * rounding of a double are the same value. */
bool data_spread_is_lost(const struct data_spread *s);

/* The most features that are watched, which bounds the memory. Features after these are not
 * checked, and their numbers are counted. */
#define DATA_SPREADS (UINT32_C(1) << 22)
/* The spreads of the features that have values which float32 rounds, in the order of their
 * first one. Only such values need to be added: data_spread_widen takes the others, when all
 * are read. */
struct data_spreads {
	struct data_spread_of {
		uint64_t feature;
		struct data_spread spread;
	} * of;
	size_t n, room;
	uint32_t *small; /* by small features, the place in `of`, plus 1; 0: none */
	size_t nsmall;
	uint32_t *slot; /* the same of others, in an open hash table */
	size_t slots, used;
	size_t limit;       /* the most features; 0: DATA_SPREADS */
	uint64_t unwatched; /* numbers of features after these */
};

void data_spreads_add(struct data_spreads *s, uint64_t feature, double v);
void data_spreads_release(struct data_spreads *s);

/* When the data end, refuses features and targets whose numbers float32 does not tell apart. It
 * checks training data only: other data are kept as the training data are. ERR_FORMAT,
 * ERR_NOMEM. */
struct data_build;
enum err_code data_spreads_check(const struct data_build *b, struct err *e);

#endif
