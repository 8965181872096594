/* SPDX-License-Identifier: ISC */
#include <float.h>
#include <math.h>

#include "core/clock.h"
#include "core/json.h"
#include "math/vec.h"
#include "rundir/rundir.h"
#include "sync/push_status.h"
#include "worker/worker.h"

/* How a worker ends: with the job (worker_finish), with a bad loss, or early (worker_leave). */

/* Tells the coordinator that this worker has no more data, with its final figures. */
static enum err_code tell_done(struct worker *w, struct err *e)
{
	json_t *msg = MESSAGE(done), *figures = figures_json(w), *answer;
	enum err_code rc;

	/* Its "steps" is among them. */
	json_object_update(msg, figures);
	json_decref(figures);
	rc = agent_call(cluster_view_agent(w->cluster), msg, WORKER_TIMEOUT, &answer, e);
	if (!rc)
		json_decref(answer);
	json_decref(msg);
	return rc;
}

/* Evaluates the final model on the servers, hashes it, and reports both to the coordinator. */
static enum err_code send_final_result(struct worker *w, struct err *e)
{
	json_t *msg, *eval = NULL, *answer;
	enum err_code rc = w->exchange->verify(w, e);
	char hex[65];

	if (!rc && w->cfg->kind->can_score(w)) {
		figures_doing(w, "evaluate");
		rc = worker_score(w, false, &eval, e);
	}
	if (!rc)
		rc = model_digest(w->client, hex, e);
	if (!rc) {
		msg = MESSAGE(result, .step = (int64_t)w->step, .eval = eval, .digest = hex);
		rc = agent_call(cluster_view_agent(w->cluster), msg, WORKER_TIMEOUT, &answer, e);
		if (!rc)
			json_decref(answer);
		json_decref(msg);
	}
	json_decref(eval);
	return rc;
}

/* True when the job is over, or when the coordinator has chosen this worker as the evaluator in a
 * view newer than its last report. */
static bool has_verdict(void *ctx, const struct view *view)
{
	struct worker *w = ctx;
	struct err ignored;

	return view &&
	    (cluster_view_is_over(view, &ignored) || view_phase_is(view, PHASE_DONE) ||
	        (view_phase_is(view, PHASE_FINISHING) && view->evaluator == (int64_t)w->rank &&
	            view->rev > w->result_revision));
}

enum err_code worker_finish(struct worker *w, struct err *e)
{
	const struct view *view;
	enum err_code rc = batches_finish(w->batches, e);

	if (!rc)
		rc = client_done(w->client, e);
	if (!rc)
		rc = worker_check_refused(w, e);
	if (!rc)
		rc = tell_done(w, e);
	while (!rc) {
		rc = cluster_view_await(w->cluster, has_verdict, w, 0, &view, e);
		if (rc)
			break;
		rc = cluster_view_is_over(view, e);
		if (!rc && view_phase_is(view, PHASE_DONE)) {
			view_release(view);
			return ERR_OK;
		}
		/* The coordinator's answer may arrive before the view that reflects it. Remember
		 * the revision, so that has_verdict waits for a newer one. */
		w->result_revision = view->rev;
		view_release(view);
		if (!rc)
			rc = send_final_result(w, e);
	}
	return rc;
}

/* Saves the last good model in the run directory. said: a clause for the error message about what
 * became of it. */
static void save_good_model(struct worker *w, char *said, size_t n)
{
	const char *dir = w->cfg->id->run_dir;
	struct err why = { 0 };
	char *path;

	if (!dir) {
		snprintf(said, n, "the model is not saved: this worker has no run directory");
		return;
	}
	path = rundir_path(dir, "model.safetensors");
	if (params_save_good(&w->params, path, &why))
		snprintf(said, n, "the model is saved in its current state: %.300s", why.msg);
	else
		snprintf(said, n, "the model of step %llu is saved",
		    (unsigned long long)w->params.good_step);
	free(path);
}

/* The largest absolute values of the data: of the batch's features, of targets, and of targets as the model
 * fits them. */
struct largest {
	double feature, target, fitted;
};

static void note_targets(const struct dataset *d, const float *y, size_t n, size_t targets,
    struct largest *out)
{
	for (size_t i = 0; y && i < n * targets; i++) {
		struct target_scaling s = dataset_target_scaling(d, i % targets);

		out->target = fmax(out->target, fabs((double)y[i]));
		out->fitted = fmax(out->fitted,
		    fabs(s.factor > 0 ? ((double)y[i] - s.shift) * s.factor : (double)y[i]));
	}
}

static struct largest find_largest(const struct dataset *d, const struct batch *b)
{
	size_t count = b->sparse ? b->start[b->rows] : b->rows * b->cols;
	const float *x = b->sparse ? b->val : b->x;
	struct largest most = { 0 };

	for (size_t i = 0; x && i < count; i++)
		most.feature = fmax(most.feature, fabs((double)x[i]));
	note_targets(d, b->y, b->rows, b->targets, &most);
	/* The parameters may have grown because of an example of an earlier batch. */
	note_targets(d, d->y, d->rows, d->targets, &most);
	return most;
}

#define LOWER_RATE "lower job.lr or set job.clip_norm"
/* Such values are rarely meant. */
#define SUSPICIOUS 100.0

/* Puts advice about a loss that is not finite in `said`. No learning rate is small enough for values
 * that are much too large. As features, these are often ids, dates or counts, because the data have
 * another format. The square of a target may be beyond float32, so that the loss is infinite whatever
 * the parameters are. */
static void describe_remedy(const struct worker *w, char *said, size_t n)
{
	const struct dataset *d = w->job.train;
	const char *source = d && d->source ? d->source : "the data";
	struct largest most = { 0 };

	if (d && !d->numbered)
		most = find_largest(d, &w->batch);
	if (most.target > sqrt((double)FLT_MAX))
		snprintf(said, n,
		    "%.160s has a target as large as %.3g, whose square is not a number of float32: correct or "
		    "remove such examples, or scale the targets",
		    source, most.target);
	else if (most.feature >= SUSPICIOUS)
		snprintf(said, n,
		    "%.160s was read as %s, and has values as large as %.3g: if its format is another, "
		    "name it (?format=... after the path; ps-ctl list readers), otherwise scale the "
		    "values; " LOWER_RATE,
		    source, d->format ? d->format : "data", most.feature);
	else if (most.fitted >= SUSPICIOUS)
		snprintf(said, n,
		    "%.160s has targets as large as %.3g: if the label is another column, name it (?label=... "
		    "after the path), otherwise scale the targets; " LOWER_RATE,
		    source, most.target);
	else
		snprintf(said, n, LOWER_RATE);
}

/* Fails the whole job for the reason in *e. */
static enum err_code fail_job(struct worker *w, const struct err *e)
{
	json_t *msg = MESSAGE(fail, .message = e->msg, .cause = err_cause_name(e->cause)),
	       *figures = figures_json(w), *answer;

	json_object_update(msg, figures);
	json_decref(figures);
	if (agent_call(cluster_view_agent(w->cluster), msg, WORKER_TIMEOUT, &answer, NULL) ==
	    ERR_OK)
		json_decref(answer);
	json_decref(msg);
	return e->code;
}

enum err_code worker_loss_failed(struct worker *w, double loss, struct err *e)
{
	char kept[400], remedy[400];

	save_good_model(w, kept, sizeof kept);
	describe_remedy(w, remedy, sizeof remedy);
	err_set(e, ERR_NONFINITE, "worker-%u: the training loss is %s at step %llu: %s; %.150s",
	    w->rank, isnan(loss) ? "NaN" : "infinite", (unsigned long long)w->step, remedy, kept);
	return fail_job(w, e);
}

enum err_code worker_values_failed(struct worker *w, struct err *e)
{
	char what[300];

	snprintf(what, sizeof what, "%.280s", e->msg);
	err_set(e, ERR_NONFINITE,
	    "worker-%u: %s at step %llu, although the training loss is finite: begin with a model or a checkpoint "
	    "that is whole, or lower job.lr",
	    w->rank, what, (unsigned long long)w->step);
	return fail_job(w, e);
}

/* Says what is wrong with the gradient of the first refused push. */
static void describe_bad_gradient(const struct client_bad_pushes *bad, char *said, size_t n)
{
	if (isnan(bad->worst))
		snprintf(said, n, "a gradient is NaN");
	else if (bad->worst != 0)
		snprintf(said, n, "a gradient is %.3g, and servers sum values below %.3g",
		    (double)bad->worst, ldexp(1, VEC_BOUND_LOG2));
	else
		snprintf(said, n, "a gradient is beyond what servers sum");
}

enum err_code worker_check_refused(struct worker *w, struct err *e)
{
	struct client_stats cs;
	const struct layout *l = client_layout(w->client);
	char what[100], kept[400], remedy[400];

	client_stats(w->client, &cs);
	if (cs.receipts[PUSH_REFUSED]) {
		mutex_lock(&w->lock);
		w->fig.refused = cs.receipts[PUSH_REFUSED];
		mutex_unlock(&w->lock);
	}
	if (!cs.bad.n || conf_skips_bad_gradients(&w->job.conf))
		return ERR_OK;
	save_good_model(w, kept, sizeof kept);
	describe_remedy(w, remedy, sizeof remedy);
	describe_bad_gradient(&cs.bad, what, sizeof what);
	err_because(e, ERR_NONFINITE, CAUSE_GRADIENT,
	    "worker-%u: its push to table \"%s\" at step %llu was refused, because %s: %s; "
	    "job.bad_gradients=skip goes on without such pushes; %.120s",
	    w->rank, cs.bad.table < l->ntables ? l->table[cs.bad.table].name : "?",
	    (unsigned long long)cs.bad.step, what, remedy, kept);
	return fail_job(w, e);
}

void worker_leave(struct worker *w)
{
	json_t *msg = MESSAGE(leave), *figures = figures_json(w), *answer;

	json_object_update(msg, figures);
	json_decref(figures);
	w->leaving = true;
	agent_set_interrupt(cluster_view_agent(w->cluster), NULL);
	/* Without a coordinator, the leases simply expire. */
	if (agent_is_up(cluster_view_agent(w->cluster)) && w->batches)
		batches_finish(w->batches, NULL);
	if (agent_is_up(cluster_view_agent(w->cluster)) &&
	    agent_call(cluster_view_agent(w->cluster), msg, NSEC_PER_SEC, &answer, NULL) == ERR_OK)
		json_decref(answer);
	json_decref(msg);
	log_info(w->cfg->log, "left at step %llu", (unsigned long long)w->step);
}
