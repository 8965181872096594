/* SPDX-License-Identifier: ISC */
#ifndef CMD_STAT_PLAN_H
#define CMD_STAT_PLAN_H

#include <stdint.h>

#include "cmd/stat/table.h"
#include "core/opt.h"

/* The command line of ps-stat, and the plan that is made of it: the view, its columns and format,
 * how often. A plan does not change after plan_make(). */

/* The options as they were given. */
struct stat_options {
	const char *run_dir, *join, *sort, *csv, *command, *time, *across;
	struct opt_list columns, output;
	bool no_header, exact, skip_first, json, tsv, prom, header_once, totals, histograms;
};

#define PLAN_COLUMNS 64

/* The columns and rows to show. */
struct plan {
	const struct stat_options *options;
	const struct stat_view *view;
	int64_t interval; /* ns, 0: once */
	uint64_t count;   /* 0: no end */
	const struct column *column[PLAN_COLUMNS];
	const struct column *sort;
	struct table_style style;
	bool sentences;       /* print sentences instead of a table */
	char *const *operand; /* the columns of a plot */
	size_t noperands;
};

/* Make the plan. argv[1..nargs]: the operands. Returns 0, or the exit code after an error
 * message. */
int plan_make(const struct stat_options *o, int nargs, char **argv, struct plan *p);
/* Copy a plan for another view, with the default columns of that view. */
void plan_for_view(const struct plan *p, const struct stat_view *v, struct plan *out);
/* Print "ps-stat: ... (see ps-stat -h)" on standard error. Returns the exit code 2. */
int plan_usage(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* The column whose name is the first n characters of name, or NULL. */
const struct column *plan_column(const struct stat_view *v, const char *name, size_t n);

#endif
