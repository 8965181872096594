/* SPDX-License-Identifier: ISC */
#ifndef LAB_COMPARE_H
#define LAB_COMPARE_H

#include <stdbool.h>
#include <stddef.h>

#include "core/err.h"
#include "lab/curve_set.h"

#define COMPARE_RUNS_MAX CURVE_SET_MAX

struct compare_options {
	bool json;
	bool all; /* every setting, figure and curve, not one page of them; JSON always has all */
	const struct curve_options *curves; /* NULL: tables of settings, results and curves */
};

/* Prints runs side by side on stdout: the settings that differ, the results, and curves at steps that
 * all have reached, as tables or as JSON Lines; or one plot of their curves (curve_set.h). dirs: n run
 * directories, at most COMPARE_RUNS_MAX, of runs in whatever state. Errors as report_run_read() and
 * curve_set_show(). */
enum err_code compare_runs(char *const *dirs, size_t n, const struct compare_options *o,
    struct err *e);

#endif
