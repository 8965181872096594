/* SPDX-License-Identifier: ISC */
#ifndef CTL_INIT_COLUMNS_H
#define CTL_INIT_COLUMNS_H

#include "core/buf.h"
#include "data/data.h"
#include "data/table/data_schema.h"

/* A look at the cells of a table, column by column, for `ps-ctl init`: it counts what the cells of
 * a sample are, and says from the counts what a column is for. Pure; one thread.
 *
 * Life: { 0 } -> the sample is loaded with column_looks_watch as data_want.watch -> the
 * functions below -> column_looks_release. */

/* Different cells beyond this are not counted. */
#define COLUMN_DISTINCT_MOST 65536u

struct column_stats {
	size_t cells, missing;
	size_t numbers, integers; /* cells that are plain numbers, and whole ones */
	size_t zero_led;          /* digits alone, with a zero before others: 00501 */
	size_t spaced;            /* texts of several words */
	size_t words;             /* in all texts */
	size_t parted[3];         /* cells with a bar, a semicolon, a comma within */
	double low, high;         /* of the numbers */
	/* Hashes of the different cells, in an open table of a power of two. */
	uint64_t *seen;
	size_t room, distinct;
};

struct column_looks {
	struct column_stats *of; /* n columns of the schema */
	size_t n;
	struct data_watch watch;
};

void column_looks_release(struct column_looks *l);
/* To be given as data_want.watch. Valid until column_looks_release. */
const struct data_watch *column_looks_watch(struct column_looks *l);

/* Column i of the schema; one without cells where none was seen. */
const struct column_stats *column_looks_at(const struct column_looks *l, size_t i);

/* Are the cells digits of which some begin with a zero, as in post codes? Then they are no
 * numbers. */
bool column_look_is_code(const struct column_stats *c);
/* Are the cells texts of several words, most of them different? */
bool column_look_is_text(const struct column_stats *c);
/* The sign that divides the cells of a column into parts that come again, '|', ';' or ','; 0:
 * none. */
char column_look_list(const struct column_stats *c);

#endif
