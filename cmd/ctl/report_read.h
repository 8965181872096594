#ifndef CTL_REPORT_READ_H
#define CTL_REPORT_READ_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

/* A run as its directory tells of it: of one that lives, has ended, or has
 * crashed.  Nothing that lies there is trusted to be whole: what cannot be
 * read is left out. */
struct run_info {
	char *dir;                      /* as it was named */
	char *name;                     /* its last part: "lin.run.1" */
	const char *state;              /* running, done, failed, stopped, or crashed: ended without a result */
	json_t *settings;               /* flat, in the file's order: "job.lr": 0.1; without the cluster's name */
	json_t *result;                 /* result.json, or as far as it had come (result.h); has "state" and "reason" */
	char *cluster;                  /* the cluster's name, "" when it has none */
	char began[32], ended[32];      /* RFC 3339; "": not known, or not yet */
};

/* RUN, or RUN.run when only that is there.  ERR_NOTFOUND: no run directory. */
enum err_code run_info_read(const char *run, struct run_info *r, struct err *e);
void run_info_release(struct run_info *r);

/* All runs right in a folder, NAME.run and NAME.run.N, the oldest first; none is no error. */
enum err_code run_info_list(const char *folder, struct run_info **list, size_t *n, struct err *e);
void run_info_list_free(struct run_info *list, size_t n);

/* The settings whose values are not all the same; with one run none.  A new array of names. */
json_t *run_info_differing(const struct run_info *list, size_t n);
/* The defaults of all keys of the cluster file, flat; a new reference. */
json_t *run_defaults(void);
/* A setting as it is written after --set; fresh string. */
char *run_value_text(const json_t *value);

/* One line of metrics.jsonl. */
struct run_point {
	double time;                    /* seconds since the first one */
	double step, eval_step;         /* NaN: not said, here and in the rest */
	double train_loss, examples, pushed_bytes, pulled_bytes;
	json_t *eval;                   /* loss, accuracy ... as the model has them, or NULL */
};
/* In the file's order; no file is no point.  *epoch: wall clock of time 0, seconds. */
struct run_point *run_points(const char *dir, size_t *n, double *epoch);
void run_points_free(struct run_point *p, size_t n);

/* fn(ctx, object) for each whole line of a file of the run directory that is an object. */
void run_lines(const char *dir, const char *file, void (*fn)(void *ctx, const json_t *line), void *ctx);
/* Seconds since 1970 of an RFC 3339 stamp in UTC, NaN when it is none. */
double run_time(const char *stamp);

#endif
