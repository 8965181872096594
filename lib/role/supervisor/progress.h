/* SPDX-License-Identifier: ISC */
#ifndef SUPERVISOR_PROGRESS_H
#define SUPERVISOR_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/json.h"
#include "core/log.h"

/* Progress reports while a cluster runs: on a terminal one line that is rewritten in place, else a
 * plain line every 10 s, on standard error. A supervisor writes to its log instead. Not
 * thread-safe: one thread owns a struct progress. */
struct progress;
/* Examine a run directory, and say on p what may be wrong with it. */
typedef void progress_explain_fn(const char *dir, struct progress *p);

struct progress {
	bool tty;
	bool dirty;                   /* the terminal's line must be cleared first */
	struct log *log;              /* NULL: stderr */
	int64_t begun, next;          /* when the next line is due */
	bool job_told;                /* the line about the job is written */
	bool waiting;                 /* the last report said what the cluster waits for */
	char trouble[480];            /* a start that fails at present, or "" */
	const char *dir;              /* examined when a wait takes long; or NULL */
	progress_explain_fn *explain; /* examines it; NULL: nothing does */
	const char *logs; /* directory of the workers' logs; NULL: they have been read */
};

/* log: NULL for standard error. */
void progress_init(struct progress *p, struct log *log);
/* When a wait takes long, have explain examine the run directory, once. When the job begins, tell what
 * worker-0 has warned of about its data. */
void progress_explain_waits(struct progress *p, const char *dir, progress_explain_fn *explain);
/* Write a line of its own, above the one that is rewritten. */
void progress_say(struct progress *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Set p->trouble from the run directory, in a process that is not the supervisor. */
void progress_read_trouble(struct progress *p, const char *dir);
/* Write the line about the job, once, as soon as a worker has told it. */
struct cluster_status;
void progress_tell_job(struct progress *p, const struct cluster_status *status);
/* Report the status (NULL: the coordinator has not answered yet), if a report is due. */
void progress_show(struct progress *p, const struct cluster_status *status);
/* Tell what worker-0 has warned of about its data, if the job began before its status was seen; once. */
void progress_tell_data(struct progress *p);
/* Clear the terminal's line. */
void progress_clear_line(struct progress *p);

#endif
