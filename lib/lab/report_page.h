/* SPDX-License-Identifier: ISC */
#ifndef LAB_REPORT_PAGE_H
#define LAB_REPORT_PAGE_H

#include "core/buf.h"
#include "lab/report_read.h"
#include "msg/words.h"

/* ps-ctl report: a page about one run. Appends a complete HTML page to out, with styles and charts
 * in it; it loads nothing and has no script. */
void report_page(struct buf *out, const struct report_run *r);

/* The head of a page with this title, up to the beginning of its body, and its end. command: of
 * which it was made. more_style: rules that follow the rules of all pages. */
void report_page_begin(struct buf *out, const char *title, const char *more_style);
void report_page_end(struct buf *out, const char *command);

/* report_curves.c: appends the charts, drawn from metrics.jsonl, with notable events as marks.
 * *epoch becomes the wall clock time (seconds since 1970) at which the charts' time is 0, or NaN
 * when there are no points. */
void report_curves(struct buf *out, const struct report_run *r, const json_t *events,
    double *epoch);
/* True for a kind of event that does not happen in every run, and for one that is not known here. */
bool report_is_notable_event(enum event_kind kind);

#endif
