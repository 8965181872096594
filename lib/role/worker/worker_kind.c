/* SPDX-License-Identifier: ISC */
#include <string.h>

#include "worker/program.h"
#include "worker/worker.h"

/* The two kinds of workers that ps-work runs; struct worker_ops has the contract. */

static bool has_custom_model(const struct worker *w)
{
	return strcmp(w->job.conf.job.model, "custom") == 0;
}

/* Only for a worker that was started by hand, without a given rank, the message says to start it
 * again in the same way. */
static const char *advise_restart(const struct worker *w)
{
	return w->cfg->rank < 0 ? "; start ps-work train again to take a free rank" : "";
}

/* ---- native: learn/model computes ---- */

static void prepare_native(struct worker *w, struct job_source *from)
{
	(void)w;
	(void)from;
}

static enum err_code start_native(struct worker *w, struct err *e)
{
	return has_custom_model(w)
	    ? err_set(e, ERR_CONFIG,
	          "job.model: model custom requires a program that computes gradients: ps-work "
	          "train --exec COMMAND")
	    : ERR_OK;
}

static enum err_code sample_rows(struct worker *w, struct err *e)
{
	return row_sampler_sample(w->job.sampler, &w->batch, e);
}

static enum err_code compute_native(struct worker *w, double *loss, struct err *e)
{
	enum err_code rc = model_check(w->job.model, &w->batch, e);

	return rc ? rc : local_compute(w->local, &w->params, &w->batch, w->step, loss, e);
}

static bool can_score_native(const struct worker *w)
{
	return w->job.eval != NULL;
}

static enum err_code score_native(struct worker *w, bool dense_here, struct eval_result *out,
    struct err *e)
{
	return evaluate(&w->params, w->job.eval, dense_here, false, NULL, out, e);
}

static void release_native(struct worker *w)
{
	(void)w;
}

const struct worker_ops worker_native = {
	.prepare = prepare_native,
	.start = start_native,
	.name_rows = sample_rows,
	.compute = compute_native,
	.can_score = can_score_native,
	.score = score_native,
	.advise_restart = advise_restart,
	.release = release_native,
};

/* ---- program: w->kind_state is a struct program ---- */

/* Makes the program's state without starting the program: program_begin does that when the job
 * is known. While the program computes, it calls worker_attend with this worker. */
static void prepare_program(struct worker *w, struct job_source *from)
{
	const struct train_config *cfg = w->cfg;

	w->kind_state = program_new(&(struct program_config){ .command = cfg->exec,
	    .name = cfg->log->name,
	    .data = cfg->data,
	    .ndata = cfg->ndata,
	    .log = cfg->log,
	    .restarts = &w->program_restarts,
	    .attend = worker_attend,
	    .ctx = w });
	from->outside = program_outside(w->kind_state);
}

static enum err_code start_program(struct worker *w, struct err *e)
{
	return has_custom_model(w)
	    ? program_begin(w->kind_state, &w->job, e)
	    : err_set(e, ERR_CONFIG, "--exec: requires job.model custom, and this job has %s",
	          w->job.conf.job.model);
}

static enum err_code name_rows_by_program(struct worker *w, struct err *e)
{
	program_step(w->kind_state, w->step);
	return program_name_rows(w->kind_state, &w->batch, &w->params, e);
}

static enum err_code compute_by_program(struct worker *w, double *loss, struct err *e)
{
	enum err_code rc;

	program_step(w->kind_state, w->step);
	rc = local_compute(w->local, &w->params, &w->batch, w->step, loss, e);
	return rc ? rc : program_fault(w->kind_state, e);
}

static bool can_score_by_program(const struct worker *w)
{
	return w->job.eval || w->job.conf.job.eval.n;
}

/* Scores job.eval by the program. The rows that the program names for the evaluation replace
 * w->params.rows only during the call. Blocks on the program, and on pulls for what is not here
 * yet. */
static enum err_code score_by_program(struct worker *w, bool dense_here, struct eval_result *out,
    struct err *e)
{
	const struct params_rows *rows = w->params.rows;
	enum err_code rc;

	program_step(w->kind_state, w->step);
	rc = program_name_eval_rows(w->kind_state, &w->params, e);
	if (!rc && (!dense_here || w->params.rows))
		rc = params_pull(&w->params, &w->batch, CLIENT_NOW, !dense_here, e);
	if (!rc)
		rc = program_evaluate(w->kind_state, (const float *const *)w->params.w, out, e);
	w->params.rows = rows;
	return rc;
}

static void release_program(struct worker *w)
{
	program_free(w->kind_state);
}

const struct worker_ops worker_program = {
	.prepare = prepare_program,
	.start = start_program,
	.name_rows = name_rows_by_program,
	.compute = compute_by_program,
	.can_score = can_score_by_program,
	.score = score_by_program,
	.advise_restart = advise_restart,
	.release = release_program,
};
