/* SPDX-License-Identifier: ISC */
#include "worker/worker_settings.h"

#include "conf/conf_live.h"
#include "core/json.h"

/* A view lists only recent settings epochs; its configuration contains the older ones. Takes that
 * when this worker has missed some. */
static enum err_code adopt_base(struct worker *w, struct err *e)
{
	int64_t base = w->view->settings_base;
	struct conf c;
	enum err_code rc;

	if (base <= w->settings)
		return ERR_OK;
	rc = conf_from_json(w->view->config, &c, e);
	if (rc)
		return rc;
	rc = conf_copy_live(&w->job.conf, &c, e);
	conf_release(&c);
	w->settings = base;
	return rc;
}

/* Skips to the step, and sends the CLOCK of the step before it: the worker owes nothing for the
 * steps between. Without the report before it, the batches of these steps would count as trained on if the worker
 * were lost now. */
static enum err_code skip_steps_before(struct worker *w, uint64_t step, struct err *e)
{
	enum err_code rc = ERR_OK;

	if (step <= w->step)
		return ERR_OK;
	if (w->feed)
		rc = batches_skip(w->feed, step, e);
	if (!rc)
		rc = client_clock(w->client, step - 1, 0, e);
	if (!rc) {
		log_info(w->cfg->log, "skipping to step %llu, at which all workers change the mode",
		    (unsigned long long)step);
		w->step = step;
	}
	return rc;
}

/* Applies one settings epoch. */
static enum err_code apply_epoch(struct worker *w, const struct view_change *change, struct err *e)
{
	struct sync_mode before = w->job.conf.sync;
	enum err_code rc = conf_apply(&w->job.conf, change->set, e);

	if (!rc && !sync_same(&before, &w->job.conf.sync))
		rc = skip_steps_before(w, (uint64_t)change->step, e);
	w->settings = change->number;
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
	batches_reconfigure(w->feed);
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

/* Applies the settings epochs of the view in order. A lockstep mode applies only those whose step has
 * come; other modes do so when `due` is set, and else apply all. */
static enum err_code apply_due(struct worker *w, bool due, bool *turned, struct err *e)
{
	int64_t had = w->settings;
	enum err_code rc = adopt_base(w, e);
	/* apply_epoch may wait in a CLOCK, and w->view may be replaced meanwhile. */
	const struct view *view = view_ref(w->view);

	for (size_t i = 0; i < view->nchanges; i++) {
		const struct view_change *r = &view->changes[i];
		bool lockstep = sync_is_lockstep(&w->job.conf.sync);

		if (rc || ((lockstep || due) && (uint64_t)r->step > w->step))
			break;
		if (r->number > w->settings)
			rc = apply_epoch(w, r, e);
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
