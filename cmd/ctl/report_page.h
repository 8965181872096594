#ifndef CTL_REPORT_PAGE_H
#define CTL_REPORT_PAGE_H

#include "base/buf.h"
#include "report_read.h"

/* The whole page of a run: HTML with its style and its pictures in it, nothing
 * to load, no script. */
void report_page(struct buf *out, const struct run_info *r);

/* report_curves.c: its charts, of metrics.jsonl; events are marked in them.  epoch: wall
 * clock of time 0, NaN without points. */
void report_curves(struct buf *out, const struct run_info *r, const json_t *events, double *epoch);
/* Is it more than what happens in every run? */
bool report_is_news(const char *event);

#endif
