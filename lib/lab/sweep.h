/* SPDX-License-Identifier: ISC */
#ifndef LAB_SWEEP_H
#define LAB_SWEEP_H

#include <stdbool.h>
#include <stddef.h>

#include "conf/conf.h"
#include "core/err.h"
#include "core/json.h"
#include "core/opt.h"

/* ps-ctl sweep: runs one cluster file with all combinations of some values.  A combination is a
 * point; each has a run directory in the sweep's folder, and is run by a child process, ps-ctl run.
 *
 * A point goes from WAITING to RUNNING, and from there to DONE, FAILED or STOPPED.  It goes
 * straight to DONE when an earlier sweep finished it, and straight to FAILED when its values are
 * invalid or it cannot be started.  One thread. */
enum sweep_point_state {
	POINT_WAITING,
	POINT_RUNNING,
	POINT_DONE,
	POINT_FAILED,  /* while running, or before */
	POINT_STOPPED, /* by the signal that ended the sweep */
};

struct point {
	char **assignment; /* "lr=0.1", ...: one for each key of the grid */
	char *id;          /* "lr-0.1_sync-ssp-3": the name of its cluster and files */
	json_t *settings;  /* {"job.lr": 0.1, ...}: the point's values, typed, by full key */
	enum sweep_point_state state;
	bool kept;        /* done by an earlier sweep */
	json_t *result;   /* of its run, or NULL */
	char reason[600]; /* why it failed, when there is no result */
	size_t child;     /* number of its process while it is running (core/launch.h) */
};

struct sweep {
	char *folder; /* absolute */
	size_t nkeys;
	struct point *point;
	size_t npoints;
};

/* The options and arguments of ps-ctl sweep. */
struct sweep_options {
	struct opt_list grid, set; /* KEY=V1,V2 to try; KEY=VALUE for all runs */
	const char *folder;        /* of the runs; NULL: NAME.sweep beside the cluster file */
	int64_t jobs;              /* most runs at the same time */
	bool json;
};
/* sweep_run.c: runs the points of a cluster file and prints them.  *code becomes the exit code: 0
 * when all are done, 75 when a signal stopped the sweep, else 1.  ERR_CONFIG, ERR_EXISTS (another
 * sweep is at work in the folder), ERR_USAGE, ERR_IO: nothing has been run. */
enum err_code sweep_run(const char *cluster, const struct sweep_options *o, int *code,
    struct err *e);

/* sweep_grid.c: makes the points of all --grid "KEY=V1,V2" options; the first key changes slowest.
 * A comma within brackets or after a backslash belongs to the value.  ERR_USAGE when a grid is
 * malformed. */
enum err_code sweep_grid(struct sweep *s, const struct opt_list *grid, struct err *e);
void sweep_release(struct sweep *s);

/* sweep_point.c: reads the cluster file with the sweep's --set and the point's own values, sets the
 * point's id and settings, and writes its cluster file.  A point that was finished before with the
 * same configuration becomes POINT_DONE.  An invalid value makes it POINT_FAILED and is no error of
 * the sweep.  ERR_CONFIG when the folder has a run of that id with other settings. */
enum err_code sweep_point_prepare(struct sweep *s, struct point *p, const char *file,
    const struct opt_list *sets, struct err *e);
/* Returns FOLDER/ID + suffix, to be freed. */
char *sweep_point_path(const struct sweep *s, const struct point *p, const char *suffix);
/* True when there is an unfinished run that can be resumed. */
bool sweep_point_is_resumable(const struct sweep *s, const struct point *p);
/* Sets the state, result and reason of a point whose process has ended.  how describes its exit,
 * for a run that left no result and no message. */
void sweep_point_finish(const struct sweep *s, struct point *p, const char *how);

/* sweep_show.c: printing. */
const char *sweep_point_state_name(const struct point *p);
/* For qsort() of struct point pointers: the lower evaluation loss first, or training loss where
 * there is no evaluation; points without a loss are last. */
int sweep_point_compare(const void *a, const void *b);
/* Prints a point as a JSON line on stdout. */
void sweep_point_print_json(const struct sweep *s, const struct point *p);
/* Prints progress of a point to stderr: its values, and what happened. */
void sweep_point_report(const struct sweep *s, const struct point *p, const char *what);
/* Prints the end of a sweep: a table of all points, the best first, or the last JSON line.
 * stopped: it was ended by a signal. */
void sweep_show(const struct sweep *s, bool json, bool stopped);

#endif
