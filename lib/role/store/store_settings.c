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

/* Applies the view's changes to conf in their order, and gives the shard the epochs that it does not have
 * yet. */
static enum err_code apply_settings_epochs(struct server *server, struct conf *conf,
    const struct view *view, struct err *e)
{
	enum err_code rc = ERR_OK;

	for (size_t i = 0; i < view->nchanges; i++) {
		const struct view_change *change = &view->changes[i];
		struct settings_epoch epoch = { .step = (uint64_t)change->step,
			.number = (uint32_t)change->number };

		rc = conf_apply(conf, change->set, e);
		if (!rc && (int64_t)epoch.number > store_agent(server)->number) {
			rc = fill_epoch_from_conf(conf, &epoch, e);
			if (rc)
				break;
			shard_add_epoch(atomic_load(&server->shard), &epoch);
			store_agent(server)->number = epoch.number;
		}
		if (rc)
			break;
	}
	return rc;
}

enum err_code store_settings_apply(struct server *server, const struct view *view, struct err *e)
{
	struct conf conf;
	enum err_code rc;

	log_follow_level(server->cfg.log, store_agent(server)->level,
	    view->now ? view->now->log_level : "");
	if (store_agent(server)->config && view->settings <= store_agent(server)->number)
		return ERR_OK;
	rc = conf_from_json(view->config, &conf, e);
	if (rc)
		return rc;
	rc = apply_settings_epochs(server, &conf, view, e);
	json_decref(store_agent(server)->config);
	store_agent(server)->config = rc ? NULL : conf_to_json(&conf);
	conf_release(&conf);
	return rc;
}

/* Is there room for the settings that are proposed? */
static enum err_code check_setting_fits(struct server *server, const json_t *set, struct err *e)
{
	struct settings_epoch epoch = { 0 };
	struct conf conf;
	enum err_code rc = conf_from_json(store_agent(server)->config, &conf, e);

	if (rc)
		return rc;
	rc = conf_apply(&conf, set, e);
	if (!rc)
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
