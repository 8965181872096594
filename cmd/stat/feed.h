#ifndef CMD_STAT_FEED_H
#define CMD_STAT_FEED_H

#include "cmd/stat/plan.h"

/* A cluster asked again and again by a thread of its own, so that who shows it never waits
 * for it. */
struct feed;

/* All of a moment; or why there is nothing. */
struct sample {
	json_t *all;                    /* has the others, which are borrowed from it; NULL: there is nothing */
	json_t *status, *servers, *workers, *tables, *why;
	int64_t at;                     /* clock_now */
	struct err fault;               /* code 0: it is whole */
};
void sample_release(struct sample *s);

/* Connects first; what that says is the caller's to tell.  Signals stay with the other threads.
 * *dir: the run directory, or NULL, until feed_stop. */
enum err_code feed_start(const struct plan *p, int64_t interval, struct feed **out, const char **dir, struct err *e);
/* Within a second. */
void feed_stop(struct feed *f);
/* Readable when there is a new sample. */
int feed_fd(const struct feed *f);
/* The newest sample, to be released; false: there is no new one. */
bool feed_take(struct feed *f, struct sample *out);
/* Ask no more, until it is told to go on. */
void feed_pause(struct feed *f, bool pause);

#endif
