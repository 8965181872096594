/* pskit.h - the library of pskit, a parameter server: see pskit(3).
 *
 * C99 and C++.  Nothing here writes to a terminal, ends the process or keeps state that is not in
 * a handle.  A handle belongs to one thread at a time; ps_cancel alone may be called from any,
 * and from signal handlers. */
#ifndef PSKIT_H
#define PSKIT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What calls return.  Numbers stay as they are. */
enum {
	PS_OK = 0,
	PS_FAILED = 1,          /* the job failed, or anything that has no code of its own */
	PS_USAGE = 2,           /* a call in a wrong order, an argument that cannot be */
	PS_NOTREADY = 3,        /* the cluster does not run, or is not ready */
	PS_NOTFOUND = 4,        /* no such table, directory, file */
	PS_AUTH = 5,            /* the cluster does not know this key */
	PS_UNREACH = 6,         /* nobody answers there */
	PS_CONFIG = 7,          /* the cluster's configuration does not fit what was called */
	PS_TIMEOUT = 8,
	PS_STOPPED = 9,         /* the job was stopped, this worker asked to leave, or ps_cancel called */
	PS_NOMEM = 10,
	PS_FENCED = 14,         /* this worker was taken for dead, and another has its place */
	PS_NONFINITE = 20,      /* a loss or a gradient that is no finite number */
	PS_UNSUPPORTED = 21,
	PS_OVER = 100,          /* ps_step_begin: there is no further step */
	PS_AGAIN = 101          /* of a handle that does not wait: the call is under way */
};

struct ps;

/* Fill with zeroes, and put its size in; what is zero is as it is by default. */
struct ps_options {
	size_t size;                    /* sizeof(struct ps_options): fields may come to be added behind the last */
	const char *name;               /* who it is, in a run directory: a key's name (PSKIT_WORKER; else worker-SLOT in ps_join, else admin) */
	int slot_wanted;                /* 0: any (or PSKIT_SLOT); N + 1: slot N */
	const char *zone;               /* where it is: through a relay of this zone */
	int64_t timeout_ms;             /* for the cluster to be there and ready (30,000); of ps_join: none */
	/* What it does, line by line; level 0 error, 1 warning, 2 information, 3 more.  From any
	 * thread.  NULL: nothing is told. */
	void (*log)(void *ctx, int level, const char *text);
	void *ctx;
	int log_level;                  /* up to this one; 0: errors alone */
};

struct ps_table {
	char name[64];
	uint64_t rows;                  /* of a sparse one: about how many there may come to be */
	uint32_t cols;
	int sparse;
};

/* "1.2.0"; and what a code means, in general. */
const char *ps_version(void);
const char *ps_strerror(int code);

/* where: a run directory, a join file, or NULL for PS_CLUSTER.  *out is set whatever is returned
 * (NULL only with PS_NOMEM): ps_message says of it what was wrong. */
int ps_open(const char *where, const struct ps_options *options, struct ps **out);
/* The last failure of a call on the handle: a sentence, until the next call. */
const char *ps_message(const struct ps *p);
/* Leaves the job, if it is in one, and lets go of everything.  NULL is nothing. */
void ps_close(struct ps *p);
/* Whatever call waits, and all from now on but ps_close, return PS_STOPPED. */
void ps_cancel(struct ps *p);
/* fn is called by the thread that waits, before and several times a second while it does: so a program hears of signals
 * that its handlers have noted.  Non-zero is as ps_cancel: the call returns PS_STOPPED.  NULL: nobody is asked. */
int ps_on_interrupt(struct ps *p, int (*fn)(void *ctx), void *ctx);

/* With on 1: calls on this handle that would wait return PS_AGAIN at once, or what is wrong with them.  Then only
 * ps_fd, ps_result, ps_cancel and ps_close may be called, and what was given stays where it is, until ps_result returns
 * something else.  A thread of the handle makes the call; callbacks are called there.  0: calls wait. */
int ps_async(struct ps *p, int on);
/* To be polled: readable when the call has ended.  -1: calls wait. */
int ps_fd(const struct ps *p);
/* What the call has returned, once; PS_AGAIN: it is still under way. */
int ps_result(struct ps *p);

/* ---- in the job: a worker ----------------------------------------------------------------- */

/* Before ps_join.  What the job is to begin with where the cluster file leaves a key at its default: keys of the update
 * rule, the mode and the end (pskit(3) lists them), texts as of --set.  The first worker that says so decides. */
int ps_set(struct ps *p, const char *key, const char *value);
/* The first parameters of a dense table, n = rows * cols, borrowed until ps_join returns; other dense tables are then
 * zeroes.  Slot 0 has the say; a checkpoint that is gone on from, or job.init, goes before. */
int ps_begin_with(struct ps *p, const char *table, const float *values, size_t n);
/* Take a slot, and be there when the job begins.  tables: as job.tables ("w:784x10,b:10"), for a
 * cluster file that names none, or NULL; examples: how many the data has, for one that says
 * nothing of that, or 0.  The job's model is custom. */
int ps_join(struct ps *p, const char *tables, uint64_t examples);
/* Which slot it has. */
uint32_t ps_slot(const struct ps *p);
/* By what the job goes now, of a key: its text in out, of n bytes.  Numbers as in JSON. */
int ps_setting(struct ps *p, const char *key, char *out, size_t n);

/* What is this worker's at a step: examples begin .. end-1 of the data, in pass number `epoch`
 * over it.  May be none: then it is pushed nothing, but the step is ended all the same. */
struct ps_step {
	uint64_t step, epoch, begin, end;
};
/* Until all others let it begin.  Dense tables have been pulled.  PS_OVER: that was all. */
int ps_step_begin(struct ps *p, struct ps_step *out);
/* Of a dense table, row by row: the parameters of this step, and where the gradient is to be
 * put, whole: the mean over the step's examples.  *n: floats (may be NULL).  Until the end of the
 * step; NULL: there is no such table. */
const float *ps_param(struct ps *p, const char *table, size_t *n);
float *ps_grad(struct ps *p, const char *table, size_t *n);
/* Push the gradients; loss: the mean over the step's examples, or -INFINITY where nobody has looked. */
int ps_step_end(struct ps *p, double loss);

/* Scores of the whole model, by whoever is asked: NAN where there is none. */
struct ps_scores {
	double loss, accuracy, auc, rmse, r2;
	uint64_t examples;
};
/* Who scores the model (ps_param) for job.eval_every and at the end, in one of the workers; 0: it could.  May be called
 * before ps_join. */
int ps_on_score(struct ps *p, int (*score)(struct ps *p, void *ctx, struct ps_scores *out), void *ctx);
/* After PS_OVER, or when this worker has no more to do (a step that it has begun is left out): until the job is over.  score (NULL: that of ps_on_score, if any) is called in one of the workers, with
 * the last parameters in ps_param. */
int ps_finish(struct ps *p, int (*score)(struct ps *p, void *ctx, struct ps_scores *out), void *ctx);

/* ---- in the job or beside it: tables ------------------------------------------------------ */

/* Beside no job: make tables ("w:784x10,emb:1000000x16:sparse:glorot", as job.tables) in a cluster that has none of its own
 * to train, with an admin's key.  One that is there in the same shape is fine; PS_CONFIG: in another, or a job runs. */
int ps_create(struct ps *p, const char *tables);
/* Outside of steps, of the tables as they are now; in a step, as of it.  In a job after ps_join, beside it
 * (an admin's key) at any time: then a push counts at once, by the job's update rule. */
int ps_describe(struct ps *p, const char *table, struct ps_table *out);
/* The i-th; PS_NOTFOUND: there are no more. */
int ps_describe_at(struct ps *p, size_t i, struct ps_table *out);
/* A whole dense table: n is rows * cols, or PS_USAGE. */
int ps_pull(struct ps *p, const char *table, float *dst, size_t n);
int ps_push(struct ps *p, const char *table, const float *gradient, size_t n);
/* Rows of a sparse one, in the order of ids; dst, gradient: nids * cols. */
int ps_pull_rows(struct ps *p, const char *table, const uint64_t *ids, size_t nids, float *dst);
int ps_push_rows(struct ps *p, const char *table, const uint64_t *ids, size_t nids, const float *gradient);
/* The same without a copy: memory for as many, to be filled in; then the first n of them are pushed. */
int ps_reserve_rows(struct ps *p, const char *table, size_t nids, uint64_t **ids, float **gradient);
int ps_commit_rows(struct ps *p, size_t n);

#ifdef __cplusplus
}
#endif

#endif
