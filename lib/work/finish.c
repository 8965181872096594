#include <math.h>

#include "base/clock.h"
#include "base/json.h"
#include "launch/rundir.h"
#include "work/worker.h"

/* How a worker ends: with the job, or before it. */

static enum err_code tell_done(struct worker *w, struct err *e)
{
	json_t *msg = figures_json(w), *answer;
	enum err_code rc;

	json_object_set_new(msg, "op", json_string("done"));
	rc = agent_call(cluster_agent(w->cluster), msg, WORKER_TIMEOUT, &answer, e);
	if (!rc)
		json_decref(answer);
	json_decref(msg);
	return rc;
}

static enum err_code verify(struct worker *w, struct err *e)
{
	bool compared;
	enum err_code rc = allreduce_verify(w->ring, &compared, e);

	if (rc == ERR_FAILED)
		log_error(w->cfg->log, "%s: the result is the servers' model", e->msg);
	else if (!rc && compared)
		log_info(w->cfg->log, "the servers' parameters are those of the workers, in every bit");
	return rc == ERR_FAILED ? ERR_OK : rc;
}

bool worker_evaluates(const struct worker *w)
{
	return w->job.eval || w->score || (w->program && w->job.conf.job.eval.n);
}

enum err_code worker_evaluate(struct worker *w, bool dense_here, struct eval_result *out, struct err *e)
{
	const struct params_rows *rows = w->params.rows;
	enum err_code rc = ERR_OK;

	if (!w->program && !w->score)
		return evaluate(&w->params, w->job.eval, dense_here, out, e);
	if (w->program) {
		program_step(w->program, w->step);
		rc = program_name_eval_rows(w->program, &w->params, e);
	}
	if (!rc && (!dense_here || w->params.rows))
		rc = params_pull(&w->params, &w->batch, CLIENT_NOW, !dense_here, e);
	if (!rc)
		rc = w->score ? w->score(w->score_ctx, out, e) : program_evaluate(w->program, (const float *const *)w->params.w, out, e);
	w->params.rows = rows;
	return rc;
}

static enum err_code final_result(struct worker *w, struct err *e)
{
	json_t *msg = json_pack("{s:s, s:I}", "op", "result", "step", (json_int_t)w->step), *answer;
	struct eval_result r;
	enum err_code rc = ERR_OK;
	char hex[65];

	if (w->ring)
		rc = verify(w, e);
	if (!rc && worker_evaluates(w)) {
		figures_doing(w, "evaluate");
		rc = worker_evaluate(w, false, &r, e);
		if (!rc)
			json_object_set_new(msg, "eval", job_eval_json(&r));
	}
	if (!rc)
		rc = model_digest(w->client, hex, e);
	if (!rc) {
		json_object_set_new(msg, "digest", json_string(hex));
		rc = agent_call(cluster_agent(w->cluster), msg, WORKER_TIMEOUT, &answer, e);
		if (!rc)
			json_decref(answer);
	}
	json_decref(msg);
	return rc;
}

static bool settled(void *ctx, const json_t *view)
{
	struct worker *w = ctx;
	const char *phase = json_str(view, "phase", "");
	struct err ignored;

	return view && (view_over(view, &ignored) || strcmp(phase, "done") == 0 ||
	    (strcmp(phase, "finishing") == 0 && json_int(view, "evaluator", -1) == (int64_t)w->slot && json_int(view, "rev", 0) > w->judged));
}

enum err_code worker_finish(struct worker *w, struct err *e)
{
	json_t *view;
	enum err_code rc = feed_finish(w->feed, e);

	if (!rc)
		rc = client_done(w->client, e);
	if (!rc)
		rc = tell_done(w, e);
	while (!rc) {
		rc = cluster_await(w->cluster, settled, w, 0, &view, e);
		if (rc)
			break;
		rc = view_over(view, e);
		if (!rc && strcmp(json_str(view, "phase", ""), "done") == 0) {
			json_decref(view);
			return ERR_OK;
		}
		/* The answer may come before the view that goes by it. */
		w->judged = json_int(view, "rev", 0);
		json_decref(view);
		if (!rc)
			rc = final_result(w, e);
	}
	return rc;
}

/* The last good model to the run directory; what became of it, as a clause. */
static void keep_model(struct worker *w, char *said, size_t n)
{
	const char *dir = w->cfg->id->run_dir;
	struct err why = { 0 };
	char *path;

	if (!dir) {
		snprintf(said, n, "no model is kept: this worker has no run directory");
		return;
	}
	path = rundir_path(dir, "model.safetensors");
	if (params_save_good(&w->params, path, &why))
		snprintf(said, n, "the saved model is as the servers have it now: %.300s", why.msg);
	else
		snprintf(said, n, "the model of step %llu is kept", (unsigned long long)w->params.kept_step);
	free(path);
}

enum err_code worker_loss_failed(struct worker *w, double loss, struct err *e)
{
	json_t *msg, *answer;
	char kept[400];

	keep_model(w, kept, sizeof kept);
	err_set(e, ERR_NONFINITE, "worker-%u: the loss is %s at step %llu: lower job.lr or set job.clip_norm; %s",
	    w->slot, isnan(loss) ? "NaN" : "infinite", (unsigned long long)w->step, kept);
	msg = figures_json(w);
	json_object_set_new(msg, "op", json_string("fail"));
	json_object_set_new(msg, "message", json_string(e->msg));
	if (agent_call(cluster_agent(w->cluster), msg, WORKER_TIMEOUT, &answer, NULL) == ERR_OK)
		json_decref(answer);
	json_decref(msg);
	return ERR_NONFINITE;
}

void worker_leave(struct worker *w)
{
	json_t *msg = figures_json(w), *answer;

	json_object_set_new(msg, "op", json_string("leave"));
	w->leaving = true;
	agent_set_interrupt(cluster_agent(w->cluster), NULL);
	/* Nobody to tell: the lease will do. */
	if (agent_is_up(cluster_agent(w->cluster)) && w->feed)
		feed_finish(w->feed, NULL);
	if (agent_is_up(cluster_agent(w->cluster)) &&
	    agent_call(cluster_agent(w->cluster), msg, NSEC_PER_SEC, &answer, NULL) == ERR_OK)
		json_decref(answer);
	json_decref(msg);
	log_info(w->cfg->log, "left at step %llu", (unsigned long long)w->step);
}
