/* SPDX-License-Identifier: ISC */
#ifndef LAB_SWEEP_H
#define LAB_SWEEP_H

#include <stdbool.h>
#include <stddef.h>

#include "conf/conf.h"
#include "core/err.h"
#include "core/json.h"
#include "core/opt.h"
#include "lab/curve_set.h"
#include "lab/sweep_ladder.h"
#include "rundir/best_point.h"

/* ps-ctl sweep: runs one cluster file with all combinations of some values, or with some that are drawn
 * at random. A combination is a point; each has a run directory in the sweep's folder, and is run by
 * ps-ctl run, which is a child process or a task of Slurm (sweep_runner.h). With --asha a point has a
 * run directory for each rung (sweep_ladder.h), whose run goes on from the last checkpoint of the rung
 * before.
 *
 * A point goes from WAITING to RUNNING, and from there to DONE, FAILED or STOPPED; with rungs it may go
 * from DONE at one rung to RUNNING at the next, and is PRUNED in the end when it was not promoted. It
 * goes straight to DONE when an earlier sweep finished it, and straight to FAILED when its values are
 * invalid or it cannot be started. One thread. */
enum sweep_point_state {
	POINT_WAITING,
	POINT_RUNNING,
	POINT_DONE,
	POINT_PRUNED,  /* it was not among the best of its last rung */
	POINT_FAILED,  /* while running, or before */
	POINT_STOPPED, /* by the signal that ended the sweep */
};

struct point {
	char **assignment; /* "lr=0.1", ...: one for each key of the grid */
	char *id;          /* "lr-0.1_sync-ssp-3": the name of its cluster and files */
	json_t *settings;  /* {"job.lr": 0.1, ...}: the point's values, typed, by full key */
	enum sweep_point_state state;
	bool kept;        /* done by an earlier sweep */
	size_t rung;      /* of its last run */
	json_t *result;   /* of its last rung that is done, or of its run; or NULL */
	char reason[600]; /* why it failed, when there is no result */
};

struct sweep {
	char *folder;     /* absolute */
	char *name;       /* of the cluster file's cluster */
	size_t processes; /* that its job needs */
	size_t nkeys;
	struct point *point;
	size_t npoints;
	struct sweep_ladder ladder;
	const char *metric;          /* by which points are compared; NULL: the loss */
	const char *file;            /* the cluster file, borrowed */
	const struct opt_list *sets; /* assignments for all runs, borrowed */
	json_t *unused; /* {SENTENCE: points}: keys that change nothing (conf_unused.h) */
};

/* The options and arguments of ps-ctl sweep. */
struct sweep_options {
	struct opt_list grid, range,
	    set;              /* KEY=V1,V2 and KEY=LOW..HIGH to try; KEY=VALUE for all runs */
	int64_t random, seed; /* points to draw; 0: all combinations */
	const char *asha;     /* rungs (sweep_ladder.h), or NULL: none */
	const char *metric;   /* of evaluations, by which points are compared, or NULL: the loss */
	const char *across, *plot; /* the plot's axis and file; both NULL: no plot */
	const char *folder;        /* of the runs; NULL: NAME.sweep beside the cluster file */
	int64_t jobs;              /* most runs at the same time; 0: 1, and with Slurm all */
	bool json, slurm;
};
/* sweep_run.c: runs the points of a cluster file and prints them. *code becomes the exit code: 0
 * when all are done, 75 when a signal stopped the sweep, else 1. ERR_CONFIG, ERR_EXISTS (another
 * sweep is at work in the folder), ERR_USAGE: nothing has been run. ERR_IO, ERR_NOTFOUND: or the plot
 * failed. */
enum err_code sweep_run(const char *cluster, const struct sweep_options *o, int *code,
    struct err *e);

/* sweep_grid.c: makes the points: all combinations of the grids, of which the first one changes slowest; or
 * o->random different ones, drawn from grids and ranges. ERR_USAGE when one is malformed. */
enum err_code sweep_make_points(struct sweep *s, const struct sweep_options *o, struct err *e);
void sweep_release(struct sweep *s);

/* sweep_point.c: reads the cluster file with the sweep's --set and the point's own values, sets the
 * point's id and settings, and writes the cluster file of its rung (p->rung). A run that was finished before
 * with the same configuration makes it POINT_DONE. An invalid value makes it POINT_FAILED, which is not an
 * error of the sweep. ERR_CONFIG when the folder has a run of that id with other settings. */
enum err_code sweep_point_prepare(struct sweep *s, struct point *p, const char *file,
    const struct opt_list *sets, struct err *e);
/* Returns FOLDER/ID + suffix for a rung, to be freed; of p->rung. */
char *sweep_point_rung_path(const struct sweep *s, const struct point *p, size_t rung,
    const char *suffix);
char *sweep_point_path(const struct sweep *s, const struct point *p, const char *suffix);
/* True when there is a run of the rung, finished or not. */
bool sweep_point_has_run(const struct sweep *s, const struct point *p, size_t rung);
/* True when the run of p->rung has left a result. */
bool sweep_point_has_result(const struct sweep *s, const struct point *p);
/* Returns what the run of p->rung begins with, for ps-ctl run --resume, to be freed: "auto", a checkpoint of
 * the rung before, or "none". */
char *sweep_point_begin(const struct sweep *s, const struct point *p);
/* Sets the state, result and reason of a point whose process has ended. how describes its exit,
 * for a run that left no result and no message. */
void sweep_point_finish(const struct sweep *s, struct point *p, const char *how);
/* Returns how good the result is, the lower the better; INFINITY: it has no such figure. */
double sweep_point_score(const struct sweep *s, const json_t *result);

/* sweep_show.c: printing. */
const char *sweep_point_state_name(const struct point *p);
/* Prints a point as a JSON line on stdout. */
void sweep_point_print_json(const struct sweep *s, const struct point *p);
/* Prints progress of a point to stderr: its values, and what happened. */
void sweep_point_report(const struct sweep *s, const struct point *p, const char *what);
/* Prints the end of a sweep: a table of all points, the best first, one of the rungs if there are several,
 * and the plot (curves, or NULL); with json the last JSON line. Then the command that runs the best point, on
 * standard error, which is written to the folder, too. stopped: it was ended by a signal. An error is that of
 * the plot or the file; the rest has been printed. */
enum err_code sweep_show(const struct sweep *s, const struct curve_options *curves, bool json,
    bool stopped, struct err *e);
/* sweep_best.c: makes the assignments that run a point by itself, with the steps of the last rung; out must
 * be released. */
void sweep_best_make(const struct sweep *s, const struct point *p, struct best_point *out);
/* Returns the command that runs the point, for a POSIX shell, to be freed. file: the cluster file as the
 * user named it. */
char *sweep_best_command(const struct best_point *b, const char *file);
/* sweep_plot.c: draws the curves of the points, of the best CURVE_SET_MAX if there are more. order:
 * all points, the best first. Errors as curve_set_show(). */
enum err_code sweep_plot(const struct sweep *s, struct point *const *order,
    const struct curve_options *o, struct err *e);

#endif
