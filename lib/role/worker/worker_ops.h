/* SPDX-License-Identifier: ISC */
#ifndef WORKER_WORKER_OPS_H
#define WORKER_WORKER_OPS_H

#include <stdbool.h>

#include "msg/view.h"
#include "core/err.h"
#include "core/json.h"
#include "metric/metrics.h"
#include "worker/job.h"

/* The two interfaces of a worker. The step loop (train.c) calls them and does not test which
 * implementation it has. All functions are called by the training thread, without locks, and may
 * block unless their comment says otherwise; none of them is NULL unless its comment allows that.
 *
 * A kind of worker (struct worker_ops): who computes gradients and scores. native: learn/model;
 * program: the user's program (worker/program.h); library: the user of pskit(3), who also takes the
 * steps (lib/pskit/worker.c).
 *
 * An exchange (struct exchange_ops): how dense gradients and parameters travel. servers: push to
 * the servers and pull from them; ring: all-reduce among the workers, which hand the mean to the
 * servers (worker/allreduce.h). Sparse tables go by the servers in both. */
struct view;
struct worker;
struct step_times;

struct worker_ops {
	/* Before the job is loaded: makes w->kind_state, the state of this kind (NULL: none), and sets
	 * from->outside where this kind computes model custom. Does not block. */
	void (*prepare)(struct worker *w, struct job_source *from);
	/* After the job is loaded: does this kind suit its model? Starts what computes. ERR_CONFIG. */
	enum err_code (*start)(struct worker *w, struct err *e);
	/* After w->batch is chosen and before its parameters are pulled: leaves the rows of sparse
	 * tables that the batch needs in w->params.rows, or in w->batch.classes, where the data do
	 * not say. */
	enum err_code (*name_rows)(struct worker *w, struct err *e);
	/* Computes the gradient of w->batch into w->params.g. *loss: as step_compute. NULL: the
	 * caller of worker_fetch and worker_commit does. */
	enum err_code (*compute)(struct worker *w, double *loss, struct err *e);
	/* Can it score the model at present? Does not block. */
	bool (*can_score)(const struct worker *w);
	/* Scores job.eval with the parameters on the servers; dense_here: with the dense tables that
	 * this worker holds. Only when can_score. w->params.rows is as before afterwards. */
	enum err_code (
	    *score)(struct worker *w, bool dense_here, struct eval_result *out, struct err *e);
	/* Advice to the user about a lost rank: the end of a message, or "". Does not block. */
	const char *(*advise_restart)(const struct worker *w);
	/* Frees w->kind_state. */
	void (*release)(struct worker *w);
	/* It may be able to score later, although can_score is false at the join. */
	bool scores_later;
	/* Request the parameters of the next step right after the CLOCK, because this thread may
	 * be away for long between two steps. */
	bool asks_ahead;
};

/* Gradients by learn/model; by the program train_config.exec. */
extern const struct worker_ops worker_native, worker_program;

struct exchange_ops {
	/* Before the join: listens for other workers, where they connect. */
	enum err_code (*open)(struct worker *w, struct err *e);
	/* The addresses to send with the request to join, a new object; NULL: none. */
	json_t *(*address)(const struct worker *w);
	/* After the join: w->client and w->params are there. */
	enum err_code (*begin)(struct worker *w, struct err *e);
	/* A new view has arrived. From open on; does not block. */
	void (*take_view)(struct worker *w, const struct view *view);
	/* Answers other workers. Called now and then while this one waits for something. Does not
	 * block. */
	void (*answer_peers)(struct worker *w);
	/* Chooses the batch of this step and brings its parameters. *over: there is no more data.
	 * Stores in *t when each part ended. */
	enum err_code (*fetch)(struct worker *w, struct step_times *t, bool *over, struct err *e);
	/* Changes the gradient in w->params.g before it is pushed, if that is necessary. */
	enum err_code (*reduce)(struct worker *w, struct err *e);
	/* After the last step: brings the parameters that all steps made to w->params.w. */
	enum err_code (*pull_last)(struct worker *w, struct err *e);
	/* Before the final result: compares this worker's parameters with the servers'. A difference
	 * is logged and does not fail the job: the result is the servers' model. */
	enum err_code (*verify)(struct worker *w, struct err *e);
	/* Bytes sent to other workers so far. Does not block. */
	uint64_t (*bytes)(const struct worker *w);
	/* Ends it; also after a failed open, or none. */
	void (*close)(struct worker *w);
	/* A worker without examples takes part in a step, too. */
	bool takes_empty_steps;
	/* The servers answer pulls of dense tables in each step, so those can be requested early. */
	bool pulls_each_step;
};

extern const struct exchange_ops exchange_servers, exchange_ring;

#endif
