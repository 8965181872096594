#ifndef PSKIT_HANDLE_H
#define PSKIT_HANDLE_H

#include "pskit/pskit.h"
#include "work/tool.h"
#include "work/worker.h"

/* Of the interface: seen from outside. */
#define PUBLIC __attribute__((visibility("default")))

/* Rows that were pushed in a step: they stay as they are until all have their receipts. */
struct held {
	struct held *next;
	uint64_t *ids;
	float *rows;
	size_t n;                       /* of those that were reserved: for how many there is room, of which table */
	char name[64];
};

/* A call that may wait; of its arguments those that it has. */
struct call {
	int (*fn)(struct ps *p, const struct call *c);
	const char *text;
	const uint64_t *ids;
	uint64_t n;
	const void *from;
	void *to;
	double number;
};

struct ps {
	char *where, *name;             /* name: NULL until it is clear */
	bool by_join;                   /* where is a join file */
	char *zone, *tables, *first;
	json_t *settings;               /* of ps_set */
	struct first *values;           /* of ps_begin_with, until ps_join */
	int slot;                       /* -1: any */
	int64_t timeout;                /* ns */
	struct log log;
	struct interrupt interrupt;     /* an eventfd, and who is asked: */
	int (*asked)(void *ctx);        /* of ps_on_interrupt; NULL: nobody */
	void *asked_ctx;
	struct err e;
	struct identity id;
	bool has_id;
	struct tool tool;               /* beside the job */
	bool attached;
	struct train_config cfg;        /* in it */
	struct worker w;
	struct step_times t;
	bool joined, stepping, over, ended;
	struct held *held, *reserved;
	struct async *async;            /* NULL: calls wait */
	int (*score)(struct ps *p, void *ctx, struct ps_scores *out);
	void *score_ctx;
};

/* async.c.  Here and now, or, of a handle that does not wait, on its thread: PS_AGAIN. */
int handle_run(struct ps *p, const struct call *c);
/* Is a call under way there?  Then p is that thread's. */
bool handle_is_busy(const struct ps *p);
/* What is under way is given up. */
void handle_end_async(struct ps *p);

/* worker.c.  Of a dense table of the job the parameters, or the gradient; NULL: there is none. */
float *handle_dense(struct ps *p, const char *table, bool gradient, size_t *n);

/* begin.c.  ps_begin_with's values as a file for the coordinator, whose path is p->first: made here, where the run
 * directory is. */
enum err_code handle_write_first(struct ps *p, const char *tables);
void handle_drop_first(struct ps *p);
/* In the log: what of ps_set the job does not go by. */
void handle_say_settings(struct ps *p);

/* What a call returns, by what became of it: p->e says more of a failure, and may have been
 * written to on the way to a success. */
int handle_return(struct ps *p, enum err_code rc);
/* The same of a failure that is the caller's. */
int handle_misuse(struct ps *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Who it is: in a run directory by the name of its key, if it has no other. */
enum err_code handle_identify(struct ps *p, const char *name);
/* Receipts have come for all that was pushed. */
void handle_drop_held(struct ps *p);

#endif
