/* SPDX-License-Identifier: ISC */
#ifndef CMD_STAT_TOP_H
#define CMD_STAT_TOP_H

#include "cmd/stat/feed.h"
#include "cmd/stat/past.h"
#include "term/screen.h"

/* ps-stat top, the full screen. top.c has the loop, the keys and the signals; top_draw.c draws
 * the screen, and top_table.c its tables. All run on one thread; the feed polls the cluster in
 * another (feed.h).
 *
 *   loading   a sample                       live
 *   live      no answer for some intervals   stale: the reason is shown, the rows are dimmed
 *   stale     a sample                       live
 *   any       space                          paused: the feed does not poll; space resumes
 *   any       q, COUNT samples, a signal     end */
#define TOP_COLUMNS 20

enum top_view { TOP_WORKERS, TOP_SERVERS, TOP_TABLES, TOP_VIEWS };

struct top {
	const struct plan *plan;
	struct screen *screen;
	struct feed *feed;
	struct sample now, before; /* the last two complete samples */
	struct err fault;          /* the error of the last attempt; code 0: none */
	int64_t interval;          /* between samples, ns */
	struct series loss, speed; /* owned; y: training loss, examples a second */
	unsigned run_colour; /* attribute of the loss: the run's colour, if its directory is here */
	enum top_view view;
	const struct column *sort[TOP_VIEWS]; /* NULL: not sorted */
	bool reverse, paused, help;
	unsigned scroll;                         /* rows of the table above the first one shown */
	unsigned width[TOP_VIEWS][TOP_COLUMNS];  /* of columns; they never shrink */
	const struct column *drawn[TOP_COLUMNS]; /* in the last picture of this view */
	size_t ndrawn;
};

/* Draw the screen. False: the terminal has been closed. */
bool top_draw(struct top *t);
/* Draw the table of a view with its header in the rows first .. first+height-1 of the screen.
 * keys: the keys scroll this table and choose its column. Returns the number of rows used. */
unsigned top_table(struct top *t, enum top_view v, unsigned first, unsigned height, bool keys);
/* The number of rows of a view. */
size_t top_count_rows(const struct top *t, enum top_view v);
/* Has the coordinator not answered for so long that the shown values are old? */
bool top_is_stale(const struct top *t);

#endif
