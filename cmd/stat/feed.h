/* SPDX-License-Identifier: ISC */
#ifndef CMD_STAT_FEED_H
#define CMD_STAT_FEED_H

#include "cmd/stat/plan.h"

/* Polls a cluster in a thread of its own, so that the thread that draws never waits for the
 * cluster.
 *
 * Threads and locks: the poll thread owns the connection and makes the samples. A mutex protects
 * the newest sample and the pause flag; neither thread does I/O while it holds the mutex. An
 * eventfd tells the drawing thread that there is a new sample. */
struct feed;

/* One snapshot of the cluster, or the error of the attempt. */
struct sample {
	json_t *all; /* owns the members below; NULL: an error */
	json_t *status, *servers, *workers, *tables, *why;
	int64_t at;       /* clock_now */
	struct err fault; /* code 0: the sample is complete */
};
void feed_sample_release(struct sample *s);

/* Connect, and start the thread, in which all signals are blocked. *out must be passed to
 * feed_stop even after a failure, which the caller reports. *dir: the run directory or NULL,
 * borrowed until feed_stop. */
enum err_code feed_start(const struct plan *p, int64_t interval, struct feed **out,
    const char **dir, struct err *e);
/* Stop the thread, within about a second, and free f. */
void feed_stop(struct feed *f);
/* A descriptor that is readable when there is a new sample. */
int feed_fd(const struct feed *f);
/* Take the newest sample, to be released. False: there is no new one. */
bool feed_take(struct feed *f, struct sample *out);
/* Stop polling, or resume it. */
void feed_pause(struct feed *f, bool pause);

#endif
