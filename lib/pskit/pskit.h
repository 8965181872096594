/* SPDX-License-Identifier: ISC */
/* pskit.h - the library of pskit, a parameter server: see pskit(3).
 *
 * C99 and C++. Nothing here writes to a terminal, ends the process or keeps state that is not in
 * a handle. A handle belongs to one thread at a time; ps_cancel alone may be called from any,
 * and from signal handlers. */
#ifndef PSKIT_H
#define PSKIT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Return codes. Their numbers never change. */
enum {
	PS_OK = 0,
	PS_FAILED = 1,   /* the job failed, or anything that has no code of its own */
	PS_USAGE = 2,    /* a call in the wrong order, or an invalid argument */
	PS_NOTREADY = 3, /* the cluster does not run, or is not ready */
	PS_NOTFOUND = 4, /* no such table, directory, file */
	PS_AUTH = 5,     /* the cluster does not know this key */
	PS_UNREACH = 6,  /* the cluster does not answer */
	PS_CONFIG = 7,   /* the cluster's configuration does not fit the call */
	PS_TIMEOUT = 8,
	PS_STOPPED = 9, /* the job was stopped, this worker asked to leave, or ps_cancel called */
	PS_NOMEM = 10,
	PS_FENCED = 14,    /* this worker was declared dead, and may have been replaced */
	PS_NONFINITE = 20, /* a loss or a gradient is not finite */
	PS_UNSUPPORTED = 21,
	PS_OVER = 100, /* ps_step_begin: there is no further step */
	PS_AGAIN = 101 /* asynchronous handles: the call is under way */
};

struct ps;

/* Options of ps_open. Fill with zeroes, then set size; a field of 0 means its default. */
struct ps_options {
	size_t size; /* sizeof(struct ps_options): later versions may append fields */
	const char *
	    name; /* name of its key in a run directory (PSKIT_WORKER; else worker-RANK for ps_join, admin otherwise) */
	int rank_wanted;    /* 0: any rank (or PSKIT_RANK); N + 1: rank N */
	const char *zone;   /* use a relay of this zone */
	int64_t timeout_ms; /* how long to wait for the cluster (30,000); ps_join waits forever */
	/* Called with each line of the log; level 0 error, 1 warning, 2 information, 3 debug. May be
	 * called from any thread. NULL: nothing is logged. */
	void (*log)(void *ctx, int level, const char *text);
	void *ctx;
	int log_level; /* highest level to log; 0: errors only */
};

struct ps_table {
	char name[64];
	uint64_t rows; /* sparse tables: about how many rows are expected */
	uint32_t cols;
	int sparse;
};

/* The version, as "1.2.0"; the general meaning of a return code. */
const char *ps_version(void);
/* Returns a constant text, never NULL. */
const char *ps_strerror(int code);

/* Opens a handle. where: a run directory, a join file, or NULL for $PS_CLUSTER. *out is set even
 * on failure (except for PS_NOMEM, when it is NULL), so that ps_message can tell what was wrong; it
 * must be closed in any case. */
int ps_open(const char *where, const struct ps_options *options, struct ps **out);
/* A sentence about the last failure on the handle. Valid until the next call. */
const char *ps_message(const struct ps *p);
/* Leaves the job, if the handle is in one, and frees everything. NULL is fine. */
void ps_close(struct ps *p);
/* Makes the call that waits, and all later ones except ps_close, return PS_STOPPED. */
void ps_cancel(struct ps *p);
/* Sets a callback that the waiting thread calls, before it waits and several times a second while
 * it does: a program can check there for signals that its handlers have noted. When it returns
 * non-zero, the effect is that of ps_cancel. NULL removes it. */
int ps_on_interrupt(struct ps *p, int (*fn)(void *ctx), void *ctx);

/* With on 1, calls on this handle that would wait return PS_AGAIN at once, or an error. After
 * PS_AGAIN, until ps_result returns something else, only ps_fd, ps_result, ps_cancel and ps_close
 * may be called, and the call's arguments must stay valid. A thread of the handle executes the
 * call, and calls the callbacks. 0: calls wait. */
int ps_async(struct ps *p, int on);
/* A descriptor to poll, readable when the call has ended; -1 unless the handle is asynchronous. */
int ps_fd(const struct ps *p);
/* Returns the result of the call, once, or PS_AGAIN while it is under way. */
int ps_result(struct ps *p);

/* ---- in the job: a worker ---- */

/* Call before ps_join. Proposes a setting for the begin of the job, which counts where the cluster
 * file leaves the key at its default. pskit(3) lists the keys: update rule, synchronization mode
 * and end. Values are as for --set. The first worker that joins decides. */
int ps_set(struct ps *p, const char *key, const char *value);
/* Call before ps_join. Proposes the first parameters of a dense table; n is rows * cols, and
 * values are borrowed until ps_join returns. Other dense tables then begin with zeroes. Rank 0's
 * values are used, unless the job resumes from a checkpoint or has job.init. */
int ps_begin_with(struct ps *p, const char *table, const float *values, size_t n);
/* Joins the job as a worker. tables is as job.tables ("w:784x10,b:10"), for a cluster file that
 * has none, or NULL; examples is the number of examples in the data, for a cluster file that does
 * not tell it, or 0. The job's model must be custom. */
int ps_join(struct ps *p, const char *tables, uint64_t examples);
/* Its rank, or UINT32_MAX before ps_join. */
uint32_t ps_rank(const struct ps *p);
/* Writes the current value of a setting of the job to out, which has n bytes; numbers as in
 * JSON. */
int ps_setting(struct ps *p, const char *key, char *out, size_t n);

/* The examples of this worker in a step: begin ..  end-1 of the data, in pass `epoch` over it. If
 * begin equals end there is nothing to push, but the step must be ended all the same. */
struct ps_step {
	uint64_t step, epoch, begin, end;
};
/* Begins a step: waits until the synchronization mode permits it, and pulls the dense tables.
 * PS_OVER: there are no more steps. */
int ps_step_begin(struct ps *p, struct ps_step *out);
/* The examples that this worker will have in its next step, if the members of the job and its settings
 * stay as they are; a step of an epoch's end that has none for this worker is passed over. To be called
 * in a step. PS_NOTFOUND: they are not known, because they are leased (ssp, asp), or there is no
 * further step. */
int ps_step_next(struct ps *p, struct ps_step *out);
/* A dense table in row-major order: the parameters of this step, and where the caller must write
 * the whole gradient, the mean over the step's examples. *n becomes the number of floats (n may be
 * NULL). Valid until the step ends. NULL: there is no such table. */
const float *ps_param(struct ps *p, const char *table, size_t *n);
/* NULL also while an asynchronous call is under way. */
float *ps_grad(struct ps *p, const char *table, size_t *n);
/* Ends a step: pushes the gradients. loss is the mean over the step's examples, or -INFINITY if it
 * was not computed. */
int ps_step_end(struct ps *p, double loss);

/* Scores of the whole model: the examples that were scored, and the first n of score. A score has
 * the name of a metric ("loss"; ps-metrics(7) lists them) and its value; one that is not finite counts
 * as not computed. The library fills the struct with zeroes before it calls a callback. */
#define PS_SCORES 32
struct ps_score {
	char name[32];
	double value;
};
struct ps_scores {
	uint64_t examples;
	size_t n;
	struct ps_score score[PS_SCORES];
};
/* Sets a callback that evaluates the model (ps_param), for job.eval_every and at the end. It is
 * called in one of the workers, and returns 0 on success. A score whose name is not a metric is left
 * out, and the log has a warning. May be called before ps_join. */
int ps_on_score(struct ps *p, int (*score)(struct ps *p, void *ctx, struct ps_scores *out),
    void *ctx);
/* Call after PS_OVER, or when this worker has no more to do; a step that it has begun is abandoned.
 * Waits until the job is over. score (NULL: the callback of ps_on_score, if any) is called in one
 * of the workers, with the last parameters in ps_param. */
int ps_finish(struct ps *p, int (*score)(struct ps *p, void *ctx, struct ps_scores *out),
    void *ctx);

/* ---- in the job or beside it: tables ---- */

/* Creates tables ("w:784x10,emb:1000000x16:sparse:glorot", as job.tables) in a cluster without a
 * job; needs an admin's key. A table that exists in the same shape is fine. PS_CONFIG: one exists
 * in another shape, or there is a job. */
int ps_create(struct ps *p, const char *tables);
/* The functions from here on may be called in a job after ps_join, or beside it at any time with an
 * admin's key. In a step they use the tables of that step, outside of steps the current ones. A
 * push beside the job is applied at once, by the job's update rule.
 *
 * Describes a table. */
int ps_describe(struct ps *p, const char *table, struct ps_table *out);
/* Describes the i-th table; PS_NOTFOUND past the last. */
int ps_describe_at(struct ps *p, size_t i, struct ps_table *out);
/* Pull or push a whole dense table; n must be rows * cols. */
int ps_pull(struct ps *p, const char *table, float *dst, size_t n);
int ps_push(struct ps *p, const char *table, const float *gradient, size_t n);
/* Pull or push rows of a sparse table, in the order of ids; dst and gradient have nids * cols
 * floats. */
int ps_pull_rows(struct ps *p, const char *table, const uint64_t *ids, size_t nids, float *dst);
int ps_push_rows(struct ps *p, const char *table, const uint64_t *ids, size_t nids,
    const float *gradient);
/* Rows of one sparse table: values has nids * cols floats, in the order of ids. */
struct ps_rows {
	const char *table;
	const uint64_t *ids;
	size_t nids;
	float *values;
};
/* Pull or push rows of n tables at the same time, which costs one round trip and not n. The values of a
 * push are only read. When a list cannot be pulled, the values of the others are undefined. */
int ps_pull_many(struct ps *p, const struct ps_rows *lists, size_t n);
int ps_push_many(struct ps *p, const struct ps_rows *lists, size_t n);
/* Names, in a step, the rows that the next one needs; replaces what was named before in the same step.
 * ids are copied, each table is named once, and values are not used. ps_step_begin pulls these rows in
 * the same round trip as the dense tables, so they are as of the step that begins, whatever this step
 * and other workers change; ps_pull_rows and ps_pull_many of exactly the same ids then do not wait.
 * With the setting pull_delta the rows are also requested at once: they travel during this step, and
 * later only those that have changed. Rows stay named until a step has examples for this worker. */
int ps_prefetch_rows(struct ps *p, const struct ps_rows *lists, size_t n);
/* Calls fn with all rows of a sparse table, as they are now, in pieces: n rows in ascending order of
 * ids within a piece, and no id twice. The arrays are valid until fn returns, and fn must not use the
 * handle. A result of fn that is not 0 ends the scan, with PS_STOPPED. */
typedef int (*ps_row_fn)(void *ctx, const uint64_t *ids, const float *rows, size_t n);
int ps_scan_rows(struct ps *p, const char *table, ps_row_fn fn, void *ctx);
/* Push rows without a copy: ps_reserve_rows returns memory for nids ids and rows to fill in, and
 * ps_commit_rows pushes the first n of them. */
int ps_reserve_rows(struct ps *p, const char *table, size_t nids, uint64_t **ids, float **gradient);
int ps_commit_rows(struct ps *p, size_t n);

#ifdef __cplusplus
}
#endif

#endif
