#include "work/turn.h"

#include "base/json.h"
#include "conf/live.h"
#include "work/coding.h"

/* A view has dropped what was set long ago: what it begins with now has it. */
static enum err_code rebase(struct worker *w, struct err *e)
{
	int64_t base = json_int(w->view, "settings_base", 0);
	struct conf c;
	enum err_code rc;

	if (base <= w->settings)
		return ERR_OK;
	rc = conf_from_json(json_object_get(w->view, "config"), &c, e);
	if (rc)
		return rc;
	rc = conf_take_live(&w->job.conf, &c, e);
	conf_release(&c);
	w->settings = base;
	return rc;
}

/* All steps up to there are behind us, whatever they would have been. */
static enum err_code jump(struct worker *w, uint64_t step, struct err *e)
{
	enum err_code rc;

	if (step <= w->step)
		return ERR_OK;
	rc = client_clock(w->client, step - 1, 0, e);
	if (!rc) {
		log_info(w->cfg->log, "on to step %llu: all begin another mode there", (unsigned long long)step);
		w->step = step;
	}
	return rc;
}

static enum err_code take_one(struct worker *w, const json_t *regime, struct err *e)
{
	struct sync_mode before = w->job.conf.sync;
	int64_t number = json_int(regime, "number", 0);
	enum err_code rc = conf_apply(&w->job.conf, json_object_get(regime, "set"), e);

	if (!rc && !sync_same(&before, &w->job.conf.sync))
		rc = jump(w, (uint64_t)json_int(regime, "step", 0), e);
	w->settings = number;
	return rc;
}

/* What was made of the configuration is made anew. */
static enum err_code apply(struct worker *w, struct err *e)
{
	struct client_coding coding = { 0 };
	enum err_code rc = coding_of(&w->job.conf, &coding, e);

	if (rc)
		return rc;
	client_recode(w->client, &coding);
	feed_turn(w->feed);
	rc = model_reserve(w->job.model, (size_t)w->job.conf.job.batch, e);
	if (!rc)
		rc = local_turn(w->local, e);
	pthread_mutex_lock(&w->lock);
	w->fig.settings = w->settings;
	w->fig.settings_step = w->step;
	pthread_mutex_unlock(&w->lock);
	return rc;
}

/* due: nothing that this worker could also wait with. */
static enum err_code take(struct worker *w, bool due, bool *turned, struct err *e)
{
	int64_t had = w->settings;
	enum err_code rc = rebase(w, e);
	const json_t *r;
	size_t i;

	json_array_foreach(json_object_get(w->view, "regimes"), i, r) {
		bool bsp = w->job.conf.sync.kind == SYNC_bsp;

		if (rc || ((bsp || due) && (uint64_t)json_int(r, "step", 0) > w->step))
			break;
		if (json_int(r, "number", 0) > w->settings)
			rc = take_one(w, r, e);
	}
	*turned = w->settings != had;
	return rc || !*turned ? rc : apply(w, e);
}

static void take_level(struct worker *w)
{
	const char *level = json_str(json_object_get(w->view, "now"), "log_level", "");

	/* The first is what the process was started with. */
	if (w->level[0] && strcmp(w->level, level) != 0 && log_level_parse(level) >= 0)
		atomic_store(&w->cfg->log->level, log_level_parse(level));
	snprintf(w->level, sizeof w->level, "%s", level);
}

enum err_code turn_take(struct worker *w, struct err *e)
{
	bool turned;

	take_level(w);
	return take(w, false, &turned, e);
}

enum err_code turn_settle(struct worker *w, bool *turned, struct err *e)
{
	return take(w, true, turned, e);
}
