#ifndef CMD_STAT_TOP_H
#define CMD_STAT_TOP_H

#include "cmd/stat/feed.h"
#include "cmd/stat/past.h"
#include "term/screen.h"

/* The full screen's state: top.c has it, top_draw.c and top_table.c show it. */
#define TOP_COLUMNS 20

enum top_view { TOP_WORKERS, TOP_SERVERS, TOP_TABLES, TOP_VIEWS };

struct top {
	const struct plan *plan;
	struct screen *screen;
	struct feed *feed;
	struct sample now, before;      /* the last two that were whole */
	struct err fault;               /* why there is none since; code 0: there is nothing wrong */
	int64_t interval;
	struct series loss, speed;
	enum top_view view;
	const struct column *sort[TOP_VIEWS];   /* NULL: as they come */
	bool reverse, paused, help;
	unsigned scroll;
	unsigned width[TOP_VIEWS][TOP_COLUMNS]; /* of columns: they grow, and stay */
	const struct column *drawn[TOP_COLUMNS];        /* of this view, in the last picture */
	size_t ndrawn;
};

/* A picture of it all.  False: the terminal is gone. */
bool top_draw(struct top *t);
/* The table of a view, in rows first .. first+height-1 of the screen, with its header; how
 * many rows it has taken.  keys: it is the one that scrolls and whose columns are chosen. */
unsigned top_table(struct top *t, enum top_view v, unsigned first, unsigned height, bool keys);
/* How many rows there are. */
size_t top_rows(const struct top *t, enum top_view v);
/* No answer since: what is shown is old. */
bool top_is_stale(const struct top *t);

#endif
