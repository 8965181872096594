/* SPDX-License-Identifier: ISC */
#ifndef LAB_SWEEP_RUNNER_H
#define LAB_SWEEP_RUNNER_H

#include <stdbool.h>
#include <stddef.h>

#include "core/err.h"
#include "lab/sweep.h"

/* How often each process of a rung is restarted, and the rung itself, as is the default with
 * checkpoints. */
#define SWEEP_RUNG_RESTARTS "3"

/* A runner decides where the runs of a sweep's points take place: in child processes of this one
 * (sweep_local.c), or in array tasks of Slurm (sweep_slurm.c). One thread; a point has at most one run
 * at a time.
 *
 *   start, for each point --> submit --> ended, until it has named each of them */
struct sweep_runner {
	const struct sweep_runner_ops *ops;
	size_t running; /* points that were started and that `ended` has not named */
	int fd;         /* readable when a run may have ended, or -1 */
	int poll_ms; /* without a descriptor: how often `ended` is to be called; -1: it has one */
};

struct sweep_runner_ops {
	/* The run of the point's rung begins with `begin`, a value of ps-ctl run --resume. It may
	 * begin only with submit. *found becomes true when an earlier sweep has begun it and it
	 * still runs. */
	enum err_code (*start)(struct sweep_runner *r, const struct point *p, const char *begin,
	    bool *found, struct err *e);
	/* A run that cannot be begun ends, and `ended` says why. */
	void (*submit)(struct sweep_runner *r);
	/* Returns true when a run has ended, with the point's number, and with how it has ended,
	 * which is valid until the next call. Does not block for long. */
	bool (*ended)(struct sweep_runner *r, size_t *point, const char **how);
	/* Tells all runs to stop: SIGTERM, with a checkpoint; SIGKILL, at once. */
	void (*stop)(struct sweep_runner *r, int sig);
	/* Ends what still runs, and frees r. */
	void (*close)(struct sweep_runner *r);
};

/* s must live as long as the runner. bin: the directory of ps-ctl. ERR_IO; Slurm: ERR_NOTFOUND, its
 * commands are not there, or its controller does not answer. */
enum err_code sweep_local_open(const struct sweep *s, const char *bin, struct sweep_runner **r,
    struct err *e);
enum err_code sweep_slurm_open(const struct sweep *s, const char *bin, struct sweep_runner **r,
    struct err *e);

#endif
