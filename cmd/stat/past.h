#ifndef CMD_STAT_PAST_H
#define CMD_STAT_PAST_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "cmd/stat/view.h"

/* What a run has been like: its metrics.jsonl, read as it grows. */
struct past;

enum err_code past_open(const char *dir, struct past **out, struct err *e);
void past_close(struct past *p);
/* The rows that are new; how many. */
size_t past_read(struct past *p, void (*row)(void *ctx, const json_t *row), void *ctx);

/* One column of it, point by point. */
struct series {
	char *name;
	char *key;                      /* "train_loss", "eval.accuracy"; of a rate the counter's */
	bool rate;                      /* its growth a second */
	bool known;                     /* some row had it, be it null */
	double *x, *y;
	size_t n, cap;
	double last, last_at;           /* of a rate: the counter, and when */
};

/* By a column's name in the cluster view, by a member's name, or by one of a counter with "/s". */
void series_init(struct series *s, const char *name);
void series_release(struct series *s);
/* across: the member that is x.  Where x goes back, as after a rollback, there is a gap. */
void series_add(struct series *s, const char *across, const json_t *row);
/* A point. */
void series_put(struct series *s, double x, double y);
/* Half as many points, by the means of two: for those who may run for weeks. */
void series_thin(struct series *s);

#endif
