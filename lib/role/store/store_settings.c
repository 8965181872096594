/* SPDX-License-Identifier: ISC */
#include "store/store_settings.h"

#include "conf/conf_live.h"
#include "conf/conf_rule.h"
#include "core/json.h"
#include "msg/layout_document.h"
#include "session/agent.h"

static enum err_code settings_of_conf(const struct conf *c, struct settings_epoch *r, struct err *e)
{
	struct conf_rule rule = { 0 };
	enum err_code rc = conf_server_rule(c, &rule, e);

	r->mode = c->sync;
	r->mode.backup = (unsigned)c->backup;
	r->rule = rule.rule;
	r->hyper = rule.hyper;
	r->schedule = rule.schedule;
	return rc;
}

static enum err_code apply_settings_epochs(struct server *s, struct conf *c,
    const struct view *view, struct err *e)
{
	enum err_code rc = ERR_OK;

	for (size_t i = 0; i < view->nchanges; i++) {
		const struct view_change *o = &view->changes[i];
		struct settings_epoch r = { .step = (uint64_t)o->step,
			.number = (uint32_t)o->number };

		rc = conf_apply(c, o->set, e);
		if (!rc && (int64_t)r.number > store_agent(s)->number) {
			rc = settings_of_conf(c, &r, e);
			if (rc)
				break;
			shard_add_epoch(atomic_load(&s->shard), &r);
			store_agent(s)->number = r.number;
		}
		if (rc)
			break;
	}
	return rc;
}

/* Apply the log level of a view if it has changed.  The level of the first view is ignored, because
 * the process was started with a level. */
static void apply_log_level(struct server *s, const struct view *view)
{
	const char *level = view->now ? view->now->log_level : "";

	if (store_agent(s)->level[0] && strcmp(store_agent(s)->level, level) != 0 &&
	    log_level_parse(level) >= 0)
		atomic_store(&s->cfg.log->level, log_level_parse(level));
	snprintf(store_agent(s)->level, sizeof store_agent(s)->level, "%s", level);
}

enum err_code store_settings_apply(struct server *s, const struct view *view, struct err *e)
{
	struct conf c;
	enum err_code rc;

	apply_log_level(s, view);
	if (store_agent(s)->config && view->settings <= store_agent(s)->number)
		return ERR_OK;
	rc = conf_from_json(view->config, &c, e);
	if (rc)
		return rc;
	rc = apply_settings_epochs(s, &c, view, e);
	json_decref(store_agent(s)->config);
	store_agent(s)->config = rc ? NULL : conf_to_json(&c);
	conf_release(&c);
	return rc;
}

static enum err_code check_setting_fits(struct server *s, const json_t *set, struct err *e)
{
	struct settings_epoch r = { 0 };
	struct conf c;
	enum err_code rc = conf_from_json(store_agent(s)->config, &c, e);

	if (rc)
		return rc;
	rc = conf_apply(&c, set, e);
	if (!rc)
		rc = settings_of_conf(&c, &r, e);
	if (!rc)
		rc = shard_fits_epoch(atomic_load(&s->shard), &r, e);
	conf_release(&c);
	return rc;
}

/* Is there room for the table that is proposed?  A proposal without one (null) needs no room. */
static enum err_code check_table_fits(struct server *s, const json_t *o, struct err *e)
{
	struct layout_trial trial;
	struct layout one = { 0 };
	size_t at = (size_t)s->cfg.index;
	enum err_code rc;

	if (!json_is_object(o))
		return ERR_OK;
	rc = layout_trial_decode(o, &trial, e);
	if (!rc)
		rc = layout_from_json(trial.layout, &one, e);
	if (!rc && one.ntables)
		rc = shard_fits_table(atomic_load(&s->shard), &one.table[0], (uint32_t)trial.first,
		    at < trial.nsharing ? (uint64_t)trial.sharing[at] : 0, e);
	layout_release(&one);
	layout_trial_release(&trial);
	return rc;
}

bool store_settings_refuse(struct server *s, const struct message_propose *m)
{
	enum err_code rc = ERR_OK;
	struct err e = { 0 };

	if (strcmp(m->kind, "set") == 0)
		rc = check_setting_fits(s, m->set, &e);
	else if (strcmp(m->kind, "table") == 0)
		rc = check_table_fits(s, m->table, &e);
	if (!rc)
		return false;
	agent_tell(s->agent,
	    MESSAGE(vote, .id = (int64_t)store_agent(s)->proposal, .refused = e.msg));
	return true;
}

void store_settings_free(struct server *s)
{
	json_decref(store_agent(s)->config);
}
