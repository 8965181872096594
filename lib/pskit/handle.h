/* SPDX-License-Identifier: ISC */
#ifndef PSKIT_HANDLE_H
#define PSKIT_HANDLE_H

#include "pskit/pskit.h"
#include "tool/tool.h"
#include "worker/worker.h"

/* Inside of the library: a handle (struct ps), and what its files share. pskit.c opens and closes
 * handles, async.c runs calls on a thread, begin.c collects what the job shall begin with, worker.c
 * takes part in the job, table.c reads and writes tables, prefetch.c keeps the rows of the next step.
 *
 * A handle is joined (a worker of the job, after ps_join), attached (a tool beside the job, after
 * its first access to a table), or neither. A joined handle is stepping between ps_step_begin and
 * ps_step_end, over after its last step, and ended after ps_finish. Only one thread uses a handle
 * at a time: the caller's, or the one of async.c while a call is busy. */

/* A function of the public interface. */
#define PUBLIC __attribute__((visibility("default")))

/* Rows pushed in a step. The client sends from this memory, so it must stay unchanged until all
 * pushes are acknowledged. */
struct held {
	struct held *next;
	uint64_t *ids;
	float *rows;
	size_t n; /* reserved rows: how many fit, and the name of their table */
	char name[64];
};

/* A call that may wait, with its arguments; those that fn does not have are 0. */
struct call {
	int (*fn)(struct ps *p, const struct call *c);
	const char *text;
	const uint64_t *ids;
	uint64_t n;
	const void *from;
	void *to;
	double number;
	ps_row_fn row_fn;
};

struct ps {
	char *where, *name; /* name: of the key, NULL if not given */
	bool by_join;       /* `where` is a join file, not a run directory */
	char *zone, *tables, *first;
	json_t *settings;     /* from ps_set */
	struct first *values; /* from ps_begin_with, until ps_join */
	int rank;             /* wanted rank; -1: any */
	int64_t timeout;      /* ns */
	bool has_sink;        /* the program gave a log callback */
	struct log log;
	struct interrupt interrupt; /* an eventfd, and the callback below */
	int (*asked)(void *ctx);    /* from ps_on_interrupt, or NULL */
	void *asked_ctx;
	struct err e;
	struct identity id;
	bool has_id;
	struct admin_client tool; /* valid when attached */
	bool attached;
	struct train_config cfg; /* from here on: valid when joined */
	struct worker w;
	struct step_times t;
	bool joined, stepping, over, ended;
	struct held *held, *reserved;
	struct prefetch *prefetch; /* NULL until the first ps_prefetch_rows */
	struct async *async;       /* NULL unless ps_async is on */
	int (*score)(struct ps *p, void *ctx, struct ps_scores *out);
	void *score_ctx;
};

/* async.c: executes a call, or on an asynchronous handle gives it to the thread and returns
 * PS_AGAIN. */
int pskit_run_call(struct ps *p, const struct call *c);
/* True while another thread executes a call: the caller must not touch p. */
bool pskit_is_busy(const struct ps *p);
/* Cancels the call under way, if any, and ends the thread. */
void pskit_end_async(struct ps *p);

/* worker.c: returns the parameters or the gradient of a dense table of the job, and their number in
 * *n (may be NULL). Returns NULL and sets p->e when there is no such table. */
float *pskit_dense(struct ps *p, const char *table, bool gradient, size_t *n);

/* begin.c: writes the values of ps_begin_with to a file in the run directory, for the coordinator,
 * and sets p->first to its path. A worker without a run directory only sets the path. */
enum err_code pskit_write_first(struct ps *p, const char *tables);
/* Frees the list of ps_begin_with. */
void pskit_free_first(struct ps *p);
/* Warns in the log about settings of ps_set for which the job uses another value. */
void pskit_warn_settings(struct ps *p);

/* prefetch.c: sets the rows that the next fetch brings with the dense tables: the rows of
 * ps_prefetch_rows, if any. */
void pskit_name_prefetched(struct ps *p);
/* Ends what pskit_name_prefetched began, after the fetch. With `stepping`, the fetch has brought
 * the named rows, as of the step that begins. */
void pskit_take_prefetched(struct ps *p, bool stepping);
/* Copies the rows of the list, if the present step has brought exactly these rows of the table. */
bool pskit_copy_prefetched(const struct ps *p, const struct table *t, const struct ps_rows *list);
/* Waits for the rows that ps_prefetch_rows has requested in this step, if any: the first push of a
 * step must not be counted as later than they are. */
enum err_code pskit_await_early_rows(struct ps *p);
/* Frees p->prefetch. The client must not have open pulls. */
void pskit_free_prefetch(struct ps *p);

/* Converts rc to what a public function returns. On a failure p->e keeps its message; on success
 * p->e is cleared, because it may have been written to on the way. */
int pskit_return(struct ps *p, enum err_code rc);
/* Reports a wrong use of the interface: sets p->e, and returns PS_USAGE. */
int pskit_misuse(struct ps *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Loads the identity, once: from the join file, or from the run directory by the name of a key,
 * which is `name` unless the program gave another. */
enum err_code pskit_identify(struct ps *p, const char *name);
/* Frees the rows pushed in the last step. The caller knows that they are all acknowledged. */
void pskit_free_pushed_rows(struct ps *p);

#endif
