/* SPDX-License-Identifier: ISC */
#ifndef LAB_REPORT_READ_H
#define LAB_REPORT_READ_H

#include <stdbool.h>
#include <stddef.h>

#include "core/err.h"
#include "core/json.h"

/* Reads run directories for ps-ctl report, compare, runs and sweep: of runs that are running, have
 * ended or have crashed. Files may be missing, incomplete or damaged; figures that cannot be read
 * are left out. The cluster's name and the list of keys that have defaults are not settings. */

/* The figures of one run that its directory has. */
struct report_run {
	char *dir;         /* path, as the user named it */
	char *name;        /* last component of the path: "lin.run.1" */
	const char *state; /* running, done, failed, stopped, or crashed (ended without a result) */
	json_t *settings;  /* flat, in the file's order: {"job.lr": 0.1, ...} */
	json_t *result;    /* result.json, or one made from the last status (result.h) */
	char *emulation;   /* of the settings, for a run without a result; NULL: none */
	char *cluster;     /* the cluster's name, "" when it has none */
	unsigned colour;   /* number of its colour (rundir/run_colour.h) */
	char began[32], ended[32]; /* RFC 3339; "" if unknown, or not ended yet */
};

/* Reads the run directory `run`, or `run`.run when only that exists. ERR_NOTFOUND: neither is a
 * run directory. */
enum err_code report_run_read(const char *run, struct report_run *r, struct err *e);
void report_run_release(struct report_run *r);

/* Lists the runs in a folder, NAME.run and NAME.run.N, the oldest first. It is not an error when there
 * is none. */
enum err_code report_run_list(const char *folder, struct report_run **list, size_t *n,
    struct err *e);
void report_run_list_free(struct report_run *list, size_t n);

/* Returns the settings that slowed down the run's workers or their links on purpose, as
 * "job.slow=20ms net=100M", or "" when there are none. */
const char *report_emulation(const struct report_run *r);
/* Returns a new array with the names of the settings whose values differ between the runs. */
json_t *report_run_differing_settings(const struct report_run *list, size_t n);
/* Returns the defaults of all keys of the cluster file, flat, as a new reference. */
json_t *report_default_settings(void);
/* Formats the value of a setting as --set takes it. The string must be freed. */
char *report_value_text(const json_t *value);

/* One sample, a line of metrics.jsonl. Numbers that the line does not have are NaN. */
struct report_sample {
	double time; /* seconds since the first sample */
	double step, eval_step;
	double seconds; /* of the training, which begin again when the run is resumed */
	double train_loss, progressive_loss, examples, pushed_bytes, pulled_bytes;
	double ring_bytes; /* between workers, with via allreduce */
	json_t *eval;      /* figures of the last evaluation (loss, accuracy, ...), or NULL */
};
/* Reads all samples in the file's order. Without a file there are none. *epoch becomes the wall
 * clock time of the first one, in seconds since 1970, or NaN. */
struct report_sample *report_samples_read(const char *dir, size_t *n, double *epoch);
void report_samples_free(struct report_sample *p, size_t n);

/* Calls fn(ctx, object) for each complete line of a file in the run directory that is a JSON
 * object. */
void report_each_line(const char *dir, const char *file, void (*fn)(void *ctx, const json_t *line),
    void *ctx);
/* Parses an RFC 3339 time stamp in UTC to seconds since 1970. Returns NaN when it is none. */
double report_parse_time(const char *stamp);

#endif
