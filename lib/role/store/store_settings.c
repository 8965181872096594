/* SPDX-License-Identifier: ISC */
#include "store/store_settings.h"

#include "conf/conf_live.h"
#include "conf/conf_rule.h"
#include "core/json.h"
#include "msg/layout_document.h"
#include "session/agent.h"

/* Fills the mode, the rule and its constants of a settings epoch from the configuration. */
static enum err_code fill_epoch_from_conf(const struct conf *conf, struct settings_epoch *epoch,
    struct err *e)
{
	struct conf_rule rule = { 0 };
	enum err_code rc = conf_server_rule(conf, &rule, e);

	epoch->mode = conf->sync;
	epoch->mode.backup = (unsigned)conf->backup;
	epoch->rule = rule.rule;
	epoch->hyper = rule.hyper;
	epoch->schedule = rule.schedule;
	epoch->tables = rule.tables;
	return rc;
}

/* Gives the shard the settings epoch that the i-th change of the view begins. */
static enum err_code add_epoch(struct server *server, const struct view *view, size_t i,
    struct err *e)
{
	const struct setting *change = &view->changes[i];
	struct settings_epoch epoch = { .step = (uint64_t)change->step,
		.number = (uint32_t)change->number };
	struct conf conf;
	enum err_code rc = conf_at(view->config, view->changes, i + 1, epoch.step, &conf, e);

	if (rc)
		return rc;
	rc = fill_epoch_from_conf(&conf, &epoch, e);
	conf_release(&conf);
	if (rc)
		return rc;
	shard_add_epoch(atomic_load(&server->shard), &epoch);
	store_agent(server)->number = epoch.number;
	return ERR_OK;
}

/* Keeps the configuration after all changes, on which the next change will be based. */
static enum err_code keep_config(struct server *server, const struct view *view, struct err *e)
{
	struct conf conf;
	enum err_code rc = conf_at(view->config, view->changes, view->nchanges, CONF_NEWEST, &conf,
	    e);

	if (rc)
		return rc;
	json_decref(store_agent(server)->config);
	store_agent(server)->config = conf_to_json(&conf);
	conf_release(&conf);
	return ERR_OK;
}

enum err_code store_settings_apply(struct server *server, const struct view *view, struct err *e)
{
	enum err_code rc = ERR_OK;

	log_follow_level(server->cfg.log, store_agent(server)->level,
	    view->now ? view->now->log_level : "");
	if (store_agent(server)->config && view->settings <= store_agent(server)->number)
		return ERR_OK;
	for (size_t i = 0; !rc && i < view->nchanges; i++)
		if (view->changes[i].number > store_agent(server)->number)
			rc = add_epoch(server, view, i, e);
	return rc ? rc : keep_config(server, view, e);
}

/* Is there room for the settings that are proposed? */
static enum err_code check_setting_fits(struct server *server, const json_t *set, struct err *e)
{
	struct settings_epoch epoch = { 0 };
	struct conf conf;
	enum err_code rc = conf_at(store_agent(server)->config, &(struct setting){ .set = set }, 1,
	    CONF_NEWEST, &conf, e);

	if (rc)
		return rc;
	rc = fill_epoch_from_conf(&conf, &epoch, e);
	if (!rc)
		rc = shard_fits_epoch(atomic_load(&server->shard), &epoch, e);
	conf_release(&conf);
	return rc;
}

/* Is there room for the table that is proposed? A proposal without one (null) needs no room. */
static enum err_code check_proposed_table_fits(struct server *server, const json_t *proposed,
    struct err *e)
{
	struct layout_trial trial;
	struct layout layout = { 0 };
	size_t index = (size_t)server->cfg.index;
	enum err_code rc;

	if (!json_is_object(proposed))
		return ERR_OK;
	rc = layout_trial_decode(proposed, &trial, e);
	if (!rc)
		rc = layout_from_json(trial.layout, &layout, e);
	if (!rc && layout.ntables)
		rc = shard_fits_table(atomic_load(&server->shard), &layout.table[0],
		    (uint32_t)trial.first,
		    index < trial.nsharing ? (uint64_t)trial.sharing[index] : 0, e);
	layout_release(&layout);
	layout_trial_release(&trial);
	return rc;
}

bool store_settings_refuse(struct server *server, const struct message_propose *proposal)
{
	enum err_code rc = ERR_OK;
	struct err e = { 0 };

	if (proposal->kind == CHANGE_SET)
		rc = check_setting_fits(server, proposal->set, &e);
	else if (proposal->kind == CHANGE_TABLE)
		rc = check_proposed_table_fits(server, proposal->table, &e);
	if (!rc)
		return false;
	agent_tell(server->agent,
	    MESSAGE(vote, .id = (int64_t)store_agent(server)->proposal, .refused = e.msg));
	return true;
}

void store_settings_free(struct server *server)
{
	json_decref(store_agent(server)->config);
}
