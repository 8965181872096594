#ifndef WORK_WORKER_H
#define WORK_WORKER_H

/* Inside of a training worker: shared by train.c, step.c, finish.c and figures.c. */
#include <math.h>
#include <pthread.h>

#include "base/rng.h"
#include "work/allreduce.h"
#include "work/cluster.h"
#include "work/evaluate.h"
#include "work/feed.h"
#include "work/local.h"
#include "work/program.h"
#include "work/train.h"

#define LOSS_WINDOW 100u
/* For what is asked of the coordinator. */
#define WORKER_TIMEOUT (60 * NSEC_PER_SEC)

/* What the heartbeat tells; written by the training thread, read by the
 * agent's, under its lock. */
struct figures {
	uint64_t step, total, examples, loss_examples, pushed, pulled, rows, held, ring, settings_step;
	int64_t settings;
	double loss, epoch, rate;
	double norm;                    /* of the last gradient that was looked at; negative: none yet */
	bool norm_wanted;               /* of the next one, too: since the last heartbeat none was */
	double data, pull, compute, encode, push, wait; /* seconds */
	const char *doing;              /* "data", "wait", "compute", "push", "evaluate", "pause"; NULL: nothing yet */
	int64_t paused;                 /* the number of the pause that it rests for; 0: it does not */
	int64_t doing_since;
};

/* Of a step whose caller does not say what it was. */
#define WORKER_NO_LOSS (-HUGE_VAL)

/* When the parts of a step were over; waited: of the time before `data`, what
 * was spent on others, not on data. */
struct step_times {
	int64_t begin, data, answer, pulled, computed, pushed, waited;
};

struct worker {
	const struct train_config *cfg;
	struct cluster *cluster;
	struct client *client;
	struct job job;
	struct feed *feed;
	struct params params;
	struct local *local;
	struct program *program;        /* that has the gradients of model custom; NULL: we have */
	_Atomic uint64_t program_restarts;
	/* Of a caller that takes the steps: scores the parameters; NULL: it cannot. */
	enum err_code (*score)(void *ctx, struct eval_result *out, struct err *e);
	void *score_ctx;
	struct allreduce *ring;         /* NULL: the servers sum everything */
	struct batch batch;
	uint32_t slot;
	uint64_t incarnation, step;
	int64_t began;                  /* Unix time in ns */
	json_t *view;                   /* the one acted by */
	uint64_t saved;                 /* the step of which kept_save knows; 0: none */
	int64_t settings;               /* the number of those gone by */
	char level[16];                 /* the log level that views tell of */
	struct rng chance;              /* of cfg->compute */
	bool admitted;                  /* a view has shown us in our slot */
	bool leaving;                   /* asked to, by the interrupt descriptor */
	bool sent_away;                 /* there are to be fewer workers */
	int64_t judged;                 /* the view by which it has scored the model at the end */
	bool idle;                      /* out of data for now, and the servers know */

	double loss[LOSS_WINDOW];       /* of the last batches, with their examples */
	uint64_t weight[LOSS_WINDOW];
	uint64_t nlosses;
	int64_t rate_at;
	uint64_t rate_examples;

	int64_t encoded;                /* of this life's pushes so far, ns */
	struct hist latency;            /* of pushes, ns; the client's */

	pthread_mutex_t lock;
	struct figures fig;
};

/* Can it score job.eval?  Do so, with the servers' parameters, or (dense_here) with those that it has. */
bool worker_evaluates(const struct worker *w);
enum err_code worker_evaluate(struct worker *w, bool dense_here, struct eval_result *out, struct err *e);

/* Is job.eval_every over, and is it our turn?  Then do so, and tell. */
enum err_code worker_evaluate_now(struct worker *w, struct err *e);

/* train.c.  From nothing to the job's first step; at its end, or at any failure rc (of worker_open,
 * too): leaves, gives up, or just ends, releases all, and returns what is left of rc. */
enum err_code worker_open(struct worker *w, const struct train_config *cfg, struct err *e);
enum err_code worker_close(struct worker *w, enum err_code rc, struct err *e);
/* A step: w->batch and the parameters are there, or it is *over; then, with the gradient in
 * w->params.g, it is pushed and ended. */
enum err_code worker_fetch(struct worker *w, struct step_times *t, bool *over, struct err *e);
enum err_code worker_commit(struct worker *w, struct step_times *t, double loss, struct err *e);
/* The newest view, taken over; the job over, the slot lost, the session gone. */
enum err_code worker_refresh(struct worker *w, struct err *e);

/* finish.c: there is no more data; until the job is over, and its last word said.  Asked to
 * go: what is pushed stays, the step is told, the slot is given back. */
enum err_code worker_finish(struct worker *w, struct err *e);
void worker_leave(struct worker *w);
/* This loss is no finite number: the job fails, and the last good model is kept.  ERR_NONFINITE. */
enum err_code worker_loss_failed(struct worker *w, double loss, struct err *e);

/* What this worker does from now on; `what` is a constant.  Or that it rests, for this pause. */
void figures_doing(struct worker *w, const char *what);
void figures_rest(struct worker *w, int64_t pause);
/* A step has been taken, at these times. */
void figures_note(struct worker *w, double loss, const struct step_times *t);
/* For the heartbeat and the report at the end; on any thread. */
json_t *figures_json(void *worker);

#endif
