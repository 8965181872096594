/* SPDX-License-Identifier: ISC */
#ifndef WORKER_WORKER_H
#define WORKER_WORKER_H

/* The state of one training worker, shared by the files of this folder.
 *
 * Life of a worker (train.c; each arrow is a call, in the order of time):
 *
 *   train -> worker_open     connect to the coordinator           cluster_view.c
 *              |             load configuration, data and model   job.c, program.c (model custom)
 *              |             listen for the other workers         allreduce.c (via: allreduce)
 *              |             join: the coordinator gives a rank   train.c
 *              v             wait until the job runs              train.c may_start
 *            step, step, ... until there is no more data          train.c, see below
 *              v
 *            worker_finish   report DONE; evaluate and hash the   finish.c, evaluate.c
 *              |             model when the coordinator asks
 *              v
 *            worker_close    leave or give up, release all        train.c
 *
 * Any error ends the steps and goes to worker_close at once. An interrupt, or the coordinator's
 * request to leave, ends them as ERR_STOPPED; worker_close then gives the rank back
 * (worker_leave). A rank that the coordinator has given to a newer incarnation ends them as
 * ERR_FENCED.
 *
 * One step (train.c take_step_once):
 *
 *   worker_fetch     newest view, pause, settings changed      train.c, worker_settings.c
 *     exchange->fetch  choose the examples                     exchange.c, batches.c
 *                      pull the parameters                     params.c, cluster/client
 *                      or meet the other workers               allreduce.c (via: allreduce)
 *   lookahead_request  rows of later batches                 lookahead.c
 *   step_compute     gradient, clipped, or local steps         train.c, worker_kind.c, local.c
 *   worker_commit    check that the loss is finite             train.c, finish.c
 *     step_push        all-reduce, encode, send                train.c, params.c, allreduce.c
 *     step_clock       announce to the servers that the step   train.c, cluster/client
 *                      is over
 *     figures_record_step     numbers for the next heartbeat          figures.c
 *
 * exchange->fetch repeats itself when the servers' answers show that other workers take part than it
 * thought, because the examples of a step depend on its members; see settle_members in exchange.c.
 *
 * Threads: one training thread runs all of this. The agent's thread (cluster/session/agent.h)
 * receives views and calls figures_json for heartbeats. Of struct worker it reads `fig`, under
 * `lock`, the counters program_restarts and latency, and fields that worker_open has set. */

#include <pthread.h>

#include "client/client_source.h"
#include "core/lock.h"
#include "core/rng.h"
#include "worker/allreduce.h"
#include "worker/batches.h"
#include "worker/cluster_view.h"
#include "worker/delay.h"
#include "worker/evaluate.h"
#include "worker/local.h"
#include "worker/lookahead.h"
#include "worker/train.h"

struct ckpt_kept;

#define LOSS_WINDOW 100u
/* Time limit of a request to the coordinator. */
#define WORKER_TIMEOUT (60 * NSEC_PER_SEC)

/* The figures of a heartbeat. The training thread writes it and the agent's thread reads it, both
 * under worker.lock. */
struct figures {
	uint64_t step, total, examples, lag, loss_examples, pushed, pulled, rows, held, ring,
	    settings_step, refused;
	struct source_reading reading;
	int64_t settings;
	/* since this worker began, and their losses before they were trained on */
	uint64_t progressive_examples;
	double progressive_sum;
	/* the loss of the first batch, whose parameters no step of this worker has changed */
	double first_loss;
	bool has_first_loss;
	double loss, epoch, rate;
	double norm; /* norm of the last gradient measured; negative: none yet */
	/* measure the next gradient, too: a heartbeat has been sent since the last */
	bool norm_wanted;
	double data, pull, compute, encode, push, wait; /* seconds */
	const char
	    *doing; /* "data", "wait", "compute", "push", "evaluate", "pause"; NULL: nothing yet */
	int64_t paused; /* number of the pause that this worker observes; 0: none */
	int64_t doing_since;
	/* known once the job is loaded: are the data a stream, and the bad lines of the data (job.bad), which
	 * have a lock of their own; NULL: none are counted */
	bool streams;
	struct data_bad_lines *bad_lines;
};

/* Times at which the parts of a step ended. waited: nanoseconds before `data` that were spent
 * waiting for other workers and not reading data. */
struct step_times {
	int64_t begin, data, answer, pulled, computed, pushed, waited;
};

/* The figures of earlier steps, for figures_record_step. The training thread's. */
struct recent_steps {
	double loss[LOSS_WINDOW]; /* of the last batches; weight: examples of each */
	uint64_t weight[LOSS_WINDOW];
	uint64_t nlosses;
	/* when the rate was measured last, and the examples since then */
	int64_t rate_at;
	uint64_t rate_examples;
	int64_t encoded; /* nanoseconds spent encoding pushes, as of the last step */
};

struct worker {
	const struct train_config *cfg;
	struct cluster_view *cluster;
	struct client *client;
	struct client_source source; /* the client's, for evaluations */
	struct job job;
	struct batches *batches;
	struct params params;
	struct local *local;
	struct lookahead *lookahead; /* NULL: nothing is requested ahead */
	void *kind_state;            /* of cfg->kind */
	_Atomic uint64_t program_restarts;
	const struct exchange_ops *exchange;
	struct allreduce *ring; /* of exchange_ring alone */
	struct batch batch;
	uint32_t rank;
	uint64_t incarnation, step;
	int64_t began;           /* Unix time in ns */
	const struct view *view; /* the view in force for this thread */
	/* checkpoint step that residual_file_save has handled last; 0: none */
	uint64_t residuals_saved;
	struct ckpt_kept *kept; /* the checkpoints that need files of residuals; NULL at first */
	int64_t settings;       /* number of the newest settings applied */
	char level[LOG_LEVEL_TEXT]; /* log level in the last view */
	struct delay delay;         /* of cfg->compute and job.slow */
	struct emulated_link *net;  /* NULL without the setting net */
	bool admitted;              /* a view has shown this incarnation in its rank */
	bool leaving;               /* worker_leave is running; waits are no longer cut short */
	bool sent_away;             /* the coordinator wants fewer workers and chose this one */
	/* revision of the view that made it send its last final result */
	int64_t result_revision;
	/* epochs done at the last step, if they are known (worker_evaluate_now) */
	uint64_t epochs_seen;
	bool epoch_is_known;
	bool idle;        /* out of data for now, and the servers have its DONE */
	uint64_t updates; /* params_updates of the last pull */
	bool pushed_rows; /* the step of that pull has examples */
	/* others have trained, as far as the last step without examples tells */
	bool others_train;

	struct recent_steps recent;
	struct hist latency; /* from push to receipt, ns; written by the client */
	/* client_config.oldest_open; written by the client */
	_Atomic uint64_t oldest_open;

	struct mutex lock;
	struct figures fig;
};

/* Scores the model with job.eval, and with the examples that are held out beside it, which *out has as
 * the member "validate". dense_here: as worker_ops.score. The caller drops *out. */
enum err_code worker_score(struct worker *w, bool dense_here, json_t **out, struct err *e);
/* Evaluates and reports the result, when job.eval_every divides the step and this worker is the
 * elected one; else does nothing. */
enum err_code worker_evaluate_now(struct worker *w, struct err *e);

/* train.c. worker_open does everything up to the job's first step. worker_close must follow it,
 * also after a failure rc (of worker_open, too): it leaves, gives up or just ends, releases
 * everything, and returns ERR_OK when rc was only a request to stop, else rc. */
enum err_code worker_open(struct worker *w, const struct train_config *cfg, struct err *e);
enum err_code worker_close(struct worker *w, enum err_code rc, struct err *e);
/* worker_fetch begins a step: it fills w->batch and the parameters, or sets *over when there is no
 * more data. worker_commit, with the gradient in w->params.g, pushes it and ends the step; loss is
 * NULL when it is not known, and the step does not count in the mean loss then. */
enum err_code worker_fetch(struct worker *w, struct step_times *t, bool *over, struct err *e);
enum err_code worker_commit(struct worker *w, struct step_times *t, const double *loss,
    struct err *e);
/* Takes over the newest view. Errors: the job is over, the rank was given away, or the coordinator
 * is lost. */
enum err_code worker_refresh(struct worker *w, struct err *e);
/* Called during all waits, with the worker as ctx, so that no wait outlives the job or a signal:
 * takes over the newest view, and says whether the wait is to end. */
bool worker_attend(void *ctx, struct err *why);

/* finish.c. worker_finish, when there is no more data, waits until the job is over and sends the
 * final result if asked to. worker_leave, after a request to stop, gives leased data and the rank
 * back; its pushes stay in the model. */
enum err_code worker_finish(struct worker *w, struct err *e);
void worker_leave(struct worker *w);
/* Fails the job because the loss is not a finite number, and saves the last good model. Returns
 * ERR_NONFINITE. */
enum err_code worker_loss_failed(struct worker *w, double loss, struct err *e);
/* Fails the job because a parameter is not a finite number, as *e says. Returns ERR_NONFINITE. */
enum err_code worker_values_failed(struct worker *w, struct err *e);
/* Counts the pushes of this worker that servers have refused so far. If one of them was refused for its
 * values and job.bad_gradients does not skip those, fails the job and returns ERR_NONFINITE. */
enum err_code worker_check_refused(struct worker *w, struct err *e);

/* Lets figures_json tell what depends on the job, which is loaded and stays until the agent has ended. */
void figures_know_job(struct worker *w);
/* Records what the worker does from now on, for heartbeats: `what` is a string constant.
 * figures_paused: it is paused, under this number. */
void figures_doing(struct worker *w, const char *what);
void figures_paused(struct worker *w, int64_t pause);
/* Records a finished step with its times; loss: as worker_commit. */
void figures_record_step(struct worker *w, const double *loss, const struct step_times *t);
/* The figures as a new JSON object, for heartbeats and final reports. Any thread may call it. */
json_t *figures_json(void *worker);

#endif
