/* SPDX-License-Identifier: ISC */
#ifndef LAB_REPORT_SORT_H
#define LAB_REPORT_SORT_H

#include "core/err.h"
#include "lab/report_read.h"

/* Sorts runs by a figure of their results, the best first, and those that lack the figure last; otherwise
 * their order stays. name: a metric as of curve_metric_find(), or "seconds", "steps", "examples",
 * "pushed_bytes" or "pulled_bytes", of which fewer are better. ERR_USAGE: there is no such figure. */
enum err_code report_run_sort(struct report_run *list, size_t n, const char *name, struct err *e);

#endif
