#ifndef CMD_STAT_PLAN_H
#define CMD_STAT_PLAN_H

#include <stdint.h>

#include "base/opt.h"
#include "cmd/stat/table.h"

/* The command line as it was given. */
struct stat_options {
	const char *run_dir, *join, *sort, *csv, *command, *time, *across;
	struct opt_list columns;
	bool no_header, exact, skip_first, json, tsv, prom, header_once, totals, histograms;
};

#define PLAN_COLUMNS 64

/* What it asks for. */
struct plan {
	const struct stat_options *options;
	const struct stat_view *view;
	int64_t interval;               /* ns, 0: once */
	uint64_t count;                 /* 0: no end */
	const struct column *column[PLAN_COLUMNS];
	const struct column *sort;
	struct table_style style;
	bool sentences;                 /* no table */
	char *const *operand;           /* of a view that takes some: what they name */
	size_t noperands;
};

/* 0, or the exit code after a complaint.  argv[1..nargs]: the operands. */
int plan_make(const struct stat_options *o, int nargs, char **argv, struct plan *p);
/* The same for another view, whose columns are its usual ones. */
void plan_for_view(const struct plan *p, const struct stat_view *v, struct plan *out);
/* "ps-stat: ... (see ps-stat -h)" on stderr; 2. */
int plan_usage(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

const struct column *view_column(const struct stat_view *v, const char *name, size_t n);

#endif
