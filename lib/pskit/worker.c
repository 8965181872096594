/* SPDX-License-Identifier: ISC */
#include <math.h>

#include "core/mem.h"
#include "math/vec.h"
#include "pskit/handle.h"

/* ---- the kind of worker: w->kind_state is the struct ps ---- */

/* Sets the metric of this name. An unknown one is not worth the job, so it only warns. */
static void take_score(struct ps *p, const struct ps_score *s, struct eval_result *out)
{
	char name[sizeof s->name + 1] = "";
	enum metric k;

	memcpy(name, s->name, sizeof s->name);
	k = metrics_find(name);
	if (k < METRICS)
		metrics_set(out, k, s->value);
	else
		log_warn(&p->log, "the score \"%s\" is ignored: there is no such metric", name);
}

static enum err_code call_score(struct ps *p, struct eval_result *out, struct err *e)
{
	struct ps_scores s = { .n = 0 };

	/* An interrupt that arrived before must not reach the callback. */
	if (interrupt_came(&p->interrupt))
		return err_set(e, ERR_STOPPED, "interrupted");
	if (p->score(p, p->score_ctx, &s))
		return err_set(e, ERR_FAILED, "the program cannot score the model");
	if (s.n > PS_SCORES)
		return err_set(e, ERR_USAGE, "the program has %zu scores, the limit is %d", s.n,
		    PS_SCORES);
	*out = (struct eval_result){ .examples = s.examples };
	for (size_t i = 0; i < s.n; i++)
		take_score(p, &s.score[i], out);
	return ERR_OK;
}

static void prepare_library(struct worker *w, struct job_source *from)
{
	(void)from;
	w->kind_state = w->cfg->kind_ctx;
}

static enum err_code start_library(struct worker *w, struct err *e)
{
	(void)w;
	(void)e;
	return ERR_OK;
}

/* Rows that the program has named for this step come with the dense tables. */
static enum err_code name_library_rows(struct worker *w, struct err *e)
{
	(void)e;
	pskit_name_prefetched(w->kind_state);
	return ERR_OK;
}

static bool can_score_library(const struct worker *w)
{
	const struct ps *p = w->kind_state;

	return w->job.eval || p->score;
}

static enum err_code score_library(struct worker *w, bool dense_here, struct eval_result *out,
    struct err *e)
{
	struct ps *p = w->kind_state;
	const struct params_rows *rows = w->params.rows;
	enum err_code rc = ERR_OK;

	if (!p->score)
		return evaluate(&w->params, w->job.eval, dense_here, false, NULL, out, e);
	if (!dense_here || w->params.rows)
		rc = params_pull(&w->params, &w->batch, CLIENT_NOW, !dense_here, e);
	if (!rc)
		rc = call_score(p, out, e);
	w->params.rows = rows;
	return rc;
}

static const char *advise_library_restart(const struct worker *w)
{
	(void)w;
	return "; start this program again to take a free rank";
}

static void release_library(struct worker *w)
{
	(void)w;
}

/* The caller computes between ps_step_begin and ps_step_end, and names rows by ps_pull_rows or, one step
 * ahead, by ps_prefetch_rows. */
static const struct worker_ops worker_library = {
	.prepare = prepare_library,
	.start = start_library,
	.name_rows = name_library_rows,
	.can_score = can_score_library,
	.score = score_library,
	.advise_restart = advise_library_restart,
	.release = release_library,
	.scores_later = true,
	.asks_ahead = true,
};

/* ---- into the job ---- */

/* Refuses a job with several steps a push: here the caller takes the steps, and each of them is
 * pushed. */
static enum err_code check_job_suits(const struct conf *c, struct err *e)
{
	const char *key = c->local_steps > 1 ? "local_steps"
	    : c->accumulate > 1              ? "accumulate"
	                                     : NULL;

	return key
	    ? err_set(e, ERR_UNSUPPORTED,
	          "%s: must be 1 in a program that makes the steps itself; ps-work train --exec "
	          "supports other values",
	          key)
	    : ERR_OK;
}

/* Warns about a job without a last step, which is allowed for custom gradients. */
static void warn_endless_steps(struct ps *p)
{
	static const char text[] =
	    "the job has neither steps nor epochs, so a loop over its steps does not end: limit "
	    "it by ps_set(\"steps\", N) before ps_join, or by steps or epochs in the cluster file";
	const struct conf_job *job = &p->w.job.conf.job;

	if (job->steps || job->epochs)
		return;
	log_warn(&p->log, "%s", text);
	if (!p->has_sink)
		fprintf(stderr, "pskit: warning: %s\n", text);
}

/* ps_join. On failure the worker is closed again, but its identity stays in the handle. */
static int join_job(struct ps *p, const struct call *c)
{
	char name[24];
	enum err_code rc;

	if (p->joined || p->attached)
		return pskit_misuse(p, "ps_join: this handle is already in use");
	snprintf(name, sizeof name, "worker-%d", p->rank > 0 ? p->rank : 0);
	rc = pskit_identify(p, name);
	if (rc)
		return pskit_return(p, rc);
	p->tables = c->text ? mem_strdup(c->text) : NULL;
	rc = pskit_write_first(p, p->tables);
	pskit_free_first(p);
	if (rc)
		return pskit_return(p, rc);
	p->cfg = (struct train_config){ .models = model_kinds_custom,
		.id = &p->id,
		.rank = p->rank,
		.zone = p->zone,
		.interrupt = p->interrupt,
		.log = &p->log,
		.kind = &worker_library,
		.kind_ctx = p,
		.tables = p->tables,
		.examples = c->n,
		.settings = p->settings,
		.first = p->first };
	rc = worker_open(&p->w, &p->cfg, &p->e);
	if (!rc)
		rc = check_job_suits(&p->w.job.conf, &p->e);
	p->joined = !rc;
	if (!rc)
		pskit_warn_settings(p);
	if (!rc)
		warn_endless_steps(p);
	if (rc)
		worker_close(&p->w, rc, &p->e);
	return pskit_return(p, rc);
}

PUBLIC int ps_join(struct ps *p, const char *tables, uint64_t examples)
{
	return pskit_run_call(p, &(const struct call){ join_job, .text = tables, .n = examples });
}

PUBLIC uint32_t ps_rank(const struct ps *p)
{
	return !pskit_is_busy(p) && p->joined ? p->w.rank : UINT32_MAX;
}

/* ---- a step ---- */

/* Pulls the parameters after the last step (in bsp: of all workers), for a program that reads them
 * after PS_OVER. */
static int pull_last_parameters(struct ps *p)
{
	struct worker *w = &p->w;
	enum err_code rc = w->exchange->pull_last(w, &p->e);

	return rc ? pskit_return(p, rc) : PS_OVER;
}

/* ps_step_begin. worker_fetch() waits until the step may begin; then all pushes of earlier steps
 * are acknowledged, and their rows can be freed. */
static int begin_worker_step(struct ps *p, const struct call *c)
{
	struct worker *w = &p->w;
	enum err_code rc = ERR_OK;

	if (!p->joined || p->stepping || p->over)
		return pskit_misuse(p, "ps_step_begin: %s",
		    !p->joined    ? "must be called after ps_join"
		        : p->over ? "all steps are done"
		                  : "the previous step has no ps_step_end");
	/* At the end of an epoch a step may have no examples for this worker: commit it empty and go
	 * on. */
	for (bool any = false; !any;) {
		rc = worker_fetch(w, &p->t, &p->over, &p->e);
		pskit_take_prefetched(p, !rc && !p->over && w->batch.rows > 0);
		if (!rc)
			pskit_free_pushed_rows(p);
		if (!rc && p->over)
			return pull_last_parameters(p);
		if (!rc)
			rc = worker_evaluate_now(w, &p->e);
		any = w->batch.rows > 0;
		if (!rc && !any)
			rc = worker_commit(w, &p->t, &(double){ 0 }, &p->e);
		if (rc)
			return pskit_return(p, rc);
	}
	p->stepping = true;
	figures_doing(w, "compute");
	*(struct ps_step *)c->to = (struct ps_step){ w->step, w->batch.epoch, w->batch.first,
		w->batch.first + w->batch.rows };
	return PS_OK;
}

/* ps_step_next */
static int expect_next_step(struct ps *p, const struct call *c)
{
	struct worker *w = &p->w;
	struct ps_step *out = c->to;
	struct source_range r;
	uint64_t step = w->step + 1;

	if (!p->joined || !p->stepping)
		return pskit_misuse(p,
		    "ps_step_next: must be called between ps_step_begin and ps_step_end");
	if (!batches_expect(w->batches, &step, &r))
		return pskit_return(p,
		    err_set(&p->e, ERR_NOTFOUND,
		        "the examples of the next step are not known yet, or there are none"));
	*out = (struct ps_step){ step, r.epoch, r.begin, r.end };
	return PS_OK;
}

PUBLIC int ps_step_next(struct ps *p, struct ps_step *out)
{
	return pskit_run_call(p, &(const struct call){ expect_next_step, .to = out });
}

PUBLIC int ps_step_begin(struct ps *p, struct ps_step *out)
{
	return pskit_run_call(p, &(const struct call){ begin_worker_step, .to = out });
}

float *pskit_dense(struct ps *p, const char *table, bool gradient, size_t *n)
{
	for (size_t i = 0; p->joined && i < p->w.job.ntables; i++) {
		const struct model_table *t = &p->w.job.table[i];

		if (t->sparse || strcmp(t->name, table) != 0)
			continue;
		if (n)
			*n = t->rows * t->cols;
		return gradient ? p->w.params.g[i] : p->w.params.w[i];
	}
	err_set(&p->e, ERR_NOTFOUND, "the job has no dense table \"%s\"", table);
	return NULL;
}

PUBLIC const float *ps_param(struct ps *p, const char *table, size_t *n)
{
	return pskit_is_busy(p) ? NULL : pskit_dense(p, table, false, n);
}

PUBLIC float *ps_grad(struct ps *p, const char *table, size_t *n)
{
	return pskit_is_busy(p) ? NULL : pskit_dense(p, table, true, n);
}

/* Without a loss, only the gradient shows that training diverged. */
static bool gradient_is_finite(const struct params *q)
{
	for (size_t i = 0; i < q->job->ntables; i++)
		if (!q->job->table[i].sparse &&
		    !vec_all_finite(q->job->table[i].rows * q->job->table[i].cols, q->g[i]))
			return false;
	return true;
}

static int end_worker_step(struct ps *p, const struct call *c)
{
	struct worker *w = &p->w;
	double loss = c->number;
	enum err_code rc;
	bool known = loss !=
	    -HUGE_VAL; /* pskit.h: how a caller says that it does not know the loss */

	if (!p->stepping)
		return pskit_misuse(p, "ps_step_end: must be called after ps_step_begin");
	rc = pskit_await_early_rows(p);
	p->stepping = false;
	if (rc)
		return pskit_return(p, rc);
	if (!known && !gradient_is_finite(&w->params)) {
		loss = NAN;
		known = true;
	}
	if (!known || isfinite((float)loss))
		params_mark_good(&w->params, w->step);
	local_finish(w->local, &w->params, &w->batch);
	return pskit_return(p, worker_commit(w, &p->t, known ? &loss : NULL, &p->e));
}

PUBLIC int ps_step_end(struct ps *p, double loss)
{
	return pskit_run_call(p, &(const struct call){ end_worker_step, .number = loss });
}

/* ---- the end ---- */

PUBLIC int ps_on_score(struct ps *p, int (*fn)(struct ps *p, void *ctx, struct ps_scores *out),
    void *ctx)
{
	if (pskit_is_busy(p))
		return PS_USAGE;
	p->score = fn;
	p->score_ctx = ctx;
	return PS_OK;
}

static int finish_job(struct ps *p, const struct call *c)
{
	enum err_code rc;

	(void)c;
	if (!p->joined || p->ended)
		return pskit_misuse(p, "ps_finish: %s",
		    p->ended ? "the job has ended" : "must be called after ps_join");
	p->over = true;
	p->stepping = false;
	rc = worker_finish(&p->w, &p->e);
	p->ended = !rc;
	return pskit_return(p, rc);
}

PUBLIC int ps_finish(struct ps *p, int (*fn)(struct ps *p, void *ctx, struct ps_scores *out),
    void *ctx)
{
	if (fn && ps_on_score(p, fn, ctx))
		return PS_USAGE;
	return pskit_run_call(p, &(const struct call){ .fn = finish_job });
}
