/* SPDX-License-Identifier: ISC */
#include "worker/worker_settings.h"

#include "conf/conf_live.h"
#include "core/json.h"

/* Takes over the configuration that the view has after its first n changes. */
static enum err_code follow_view(struct worker *w, const struct view *view, size_t n, struct err *e)
{
	uint64_t step = n ? (uint64_t)view->changes[n - 1].step : 0;
	struct conf c;
	enum err_code rc = conf_at(view->config, view->changes, n, step, &c, e);

	if (rc)
		return rc;
	rc = conf_follow(&w->job.conf, &c, e);
	conf_release(&c);
	return rc;
}

enum err_code worker_settings_begin(struct worker *w, struct err *e)
{
	enum err_code rc = follow_view(w, w->view, 0, e);

	w->settings = w->view->settings_base;
	return rc ? rc : job_mark_tables(&w->job, e);
}

/* Skips to the step, and sends the CLOCK of the step before it: the worker owes nothing for the steps
 * between. Without the report before it, the batches of these steps would count as trained on if the
 * worker were lost now. */
static enum err_code skip_steps_before(struct worker *w, uint64_t step, struct err *e)
{
	enum err_code rc = ERR_OK;

	if (step <= w->step)
		return ERR_OK;
	if (w->batches)
		rc = batches_skip(w->batches, step, e);
	if (!rc)
		rc = client_clock(w->client, step - 1, 0, e);
	if (!rc) {
		log_info(w->cfg->log, "skipping to step %llu, at which all workers change the mode",
		    (unsigned long long)step);
		w->step = step;
	}
	return rc;
}

/* Applies the i-th change of the view. */
static enum err_code apply_change(struct worker *w, const struct view *view, size_t i,
    struct err *e)
{
	struct sync_mode before = w->job.conf.sync;
	enum err_code rc = follow_view(w, view, i + 1, e);

	if (!rc && !sync_same(&before, &w->job.conf.sync))
		rc = skip_steps_before(w, (uint64_t)view->changes[i].step, e);
	w->settings = view->changes[i].number;
	return rc;
}

enum err_code worker_settings_coding(const struct conf *c, struct client_coding *out, struct err *e)
{
	enum err_code rc = codec_parse(c->codec, &out->codec, e);

	out->feedback = c->feedback;
	out->momentum = (float)c->job.momentum;
	out->pull_codec = codec_by_name(c->pull_codec);
	out->ids = client_ids_by_name(c->row_ids);
	out->l1 = c->job.l1;
	return rc ? rc : filter_parse(c->filter, &out->filter, e);
}

/* Makes again what depends on the configuration: codecs, marks of tables, batch sizes, the local rule's
 * state. */
static enum err_code rebuild_from_settings(struct worker *w, struct err *e)
{
	struct client_coding coding = { 0 };
	enum err_code rc = worker_settings_coding(&w->job.conf, &coding, e);

	if (rc)
		return rc;
	client_set_coding(w->client, &coding);
	rc = job_mark_tables(&w->job, e);
	batches_reconfigure(w->batches);
	if (!rc)
		rc = model_reserve(w->job.model, (size_t)w->job.conf.job.batch, e);
	if (!rc)
		rc = local_reconfigure(w->local, e);
	mutex_lock(&w->lock);
	w->fig.settings = w->settings;
	w->fig.settings_step = w->step;
	mutex_unlock(&w->lock);
	return rc;
}

/* Applies the changes of the view in order. A lockstep mode applies only those whose step the worker
 * has reached; other modes do so when `due` is set, and else apply all. */
static enum err_code apply_due(struct worker *w, bool due, bool *turned, struct err *e)
{
	int64_t had = w->settings;
	/* apply_change may wait in a CLOCK, and w->view may be replaced meanwhile. */
	const struct view *view = view_ref(w->view);
	enum err_code rc = ERR_OK;

	/* The view lists only recent changes; its configuration contains the older ones. */
	if (view->settings_base > w->settings) {
		rc = follow_view(w, view, 0, e);
		w->settings = view->settings_base;
	}
	for (size_t i = 0; !rc && i < view->nchanges; i++) {
		bool lockstep = sync_is_lockstep(&w->job.conf.sync);

		if ((lockstep || due) && (uint64_t)view->changes[i].step > w->step)
			break;
		if (view->changes[i].number > w->settings)
			rc = apply_change(w, view, i, e);
	}
	view_release(view);
	*turned = w->settings != had;
	return rc || !*turned ? rc : rebuild_from_settings(w, e);
}

enum err_code worker_settings_apply(struct worker *w, struct err *e)
{
	bool turned;

	log_follow_level(w->cfg->log, w->level, w->view->now ? w->view->now->log_level : "");
	return apply_due(w, false, &turned, e);
}

enum err_code worker_settings_apply_due(struct worker *w, bool *turned, struct err *e)
{
	return apply_due(w, true, turned, e);
}
