/* SPDX-License-Identifier: ISC */
#ifndef CMD_STAT_PAST_H
#define CMD_STAT_PAST_H

#include <stdbool.h>
#include <stddef.h>

#include "cmd/stat/view.h"
#include "core/err.h"

/* The history of a run: its metrics.jsonl, read while it grows, and series of points from its
 * rows. */
struct past;

/* Open the file in a run directory. ERR_NOTFOUND when there is none yet. */
enum err_code past_open(const char *dir, struct past **out, struct err *e);
void past_close(struct past *p);
/* Call row for each complete row that was added since the last call. Returns their number. */
size_t past_read_rows(struct past *p, void (*row)(void *ctx, const json_t *row), void *ctx);

/* The points of one column. */
struct series {
	char *name;
	char *key;  /* "train_loss", "eval.accuracy"; of a rate: its counter */
	bool rate;  /* y is the growth of a counter per second */
	bool known; /* some row had this key, possibly null */
	double *x, *y;
	size_t n, cap;
	double last, last_at; /* of a rate: the counter, and when */
};

/* Make an empty series. name: a column of the view "cluster", a key of a row, or the key of a
 * counter with "/s" appended. */
void past_series_init(struct series *s, const char *name);
void past_series_release(struct series *s);
/* Add a point from a row. across: the key of x. When x decreases, as after a roll-back, there is
 * a gap. */
void past_series_add(struct series *s, const char *across, const json_t *row);
/* Add a point. */
void past_series_put(struct series *s, double x, double y);
/* Halve the number of points by averaging pairs, to bound the memory of a display that runs for
 * weeks. */
void past_series_thin(struct series *s);

#endif
