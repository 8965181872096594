/* SPDX-License-Identifier: ISC */
#ifndef LAB_COMPARE_H
#define LAB_COMPARE_H

#include <stdbool.h>
#include <stddef.h>

#include "core/err.h"

#define COMPARE_RUNS_MAX 16

/* Prints runs side by side on stdout, as tables or as JSON Lines: the settings that differ, the
 * results, and curves at steps that all have reached.  dirs: n run directories, at most
 * COMPARE_RUNS_MAX, of runs in whatever state.  Errors as report_run_read(). */
enum err_code compare_runs(char *const *dirs, size_t n, bool json, struct err *e);

#endif
