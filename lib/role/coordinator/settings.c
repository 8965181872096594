/* SPDX-License-Identifier: ISC */
#include "coordinator/settings.h"

#include "conf/conf_live.h"
#include "conf/conf_rule.h"
#include "coordinator/adapt.h"
#include "coordinator/checkpoint_schedule.h"
#include "core/clock.h"
#include "core/json.h"

/* ---- which changes are possible ---- */

/* Do the rules of the job and of single tables fit the model's tables? None is known before a
 * worker has joined. */
static enum err_code check_rules_of_tables(const struct coordinator *coordinator,
    const struct conf *c, struct err *e)
{
	struct conf_rule rule;
	enum err_code rc = conf_job_rule(c, &rule, e);
	const struct table *t;
	size_t begin = 0;
	bool any = coord_model_table(coordinator->coord, &begin) != NULL;

	if (!rc)
		rc = coord_fits_rules(coordinator->coord, c, e);
	for (unsigned i = 0; !rc && any && i < rule.tables.n; i++) {
		size_t at = 0;

		while ((t = coord_model_table(coordinator->coord, &at)) != NULL &&
		    !table_rules_match(rule.tables.of[i].pattern, t->name))
			;
		if (!t)
			rc = err_set(e, ERR_CONFIG, "job.rules: there is no table \"%s\"",
			    rule.tables.of[i].pattern);
	}
	return rc;
}

/* Refuses a learning rate for a rule that finds its own step sizes: it would only multiply them. */
static enum err_code check_rate(const struct conf *c, const json_t *set, struct err *e)
{
	const struct optim_rule *rule = optim_find(c->job.optimizer);
	bool rate = json_object_get(set, "job.lr") || json_object_get(set, "lr"),
	     chosen = json_object_get(set, "job.optimizer") || json_object_get(set, "optimizer");

	if (!rate || chosen || !rule || !rule->finds_rate)
		return ERR_OK;
	return err_set(e, ERR_CONFIG,
	    "job.lr: update rule %s finds its own step sizes and needs no learning rate; set a rule that has "
	    "one, too: ps-ctl set optimizer=adam lr=%g",
	    rule->name, c->job.lr);
}

enum err_code settings_check_job(const struct coordinator *coordinator, const struct conf *c,
    const json_t *set, struct err *e)
{
	static const char *const of_mode[] = { "sync", "backup" };
	static const char *const of_bsp[] = { "local_steps", "outer" };
	char unknown[64];
	const char *name;
	enum err_code rc;
	json_t *v;

	mutex_assert_held(&coordinator->lock);
	if (strcmp(c->via, "allreduce") == 0 && !conf_holds_at_once(set))
		return err_set(e, ERR_CONFIG,
		    "via: with allreduce only keys that take effect at once can change: "
		    "checkpoint_every, log_level, on_worker_loss and quotas");
	rc = check_rules_of_tables(coordinator, c, e);
	if (!rc)
		rc = check_rate(c, set, e);
	if (rc)
		return rc;
	if (!coord_has_tables(coordinator->coord, c->job.frozen, unknown))
		return err_set(e, ERR_CONFIG, "job.frozen: there is no table \"%s\"", unknown);
	json_object_foreach((json_t *)(uintptr_t)set, name, v) {
		const char *leaf = strncmp(name, "job.", 4) == 0 ? name + 4 : name;

		for (size_t i = 0; i < sizeof of_mode / sizeof *of_mode; i++)
			if (strcmp(leaf, of_mode[i]) == 0 && coord_has_relays(coordinator->coord))
				return err_set(e, ERR_CONFIG,
				    "%s: cannot change while the cluster has relays, which "
				    "require bsp",
				    leaf);
		/* These keys change the meaning of a push, so all workers must change at the
		 * same step. */
		for (size_t i = 0; i < sizeof of_bsp / sizeof *of_bsp; i++)
			if (strcmp(leaf, of_bsp[i]) == 0 &&
			    (!sync_is_lockstep(&c->sync) || !coord_is_lockstep(coordinator->coord)))
				return err_set(e, ERR_CONFIG,
				    "%s: can change in bsp only; ps-ctl set sync=bsp first", leaf);
	}
	return ERR_OK;
}

enum err_code settings_check_change(const struct coordinator *coordinator, const json_t *set,
    struct conf *out, struct err *e)
{
	enum err_code rc = conf_may_change(set, e);

	if (!rc)
		rc = conf_at(coord_present_config(coordinator->coord),
		    &(struct setting){ .set = set }, 1, CONF_NEWEST, out, e);
	if (rc || !json_object_size(set))
		return rc;
	rc = conf_validate_keys(out, e);
	if (!rc)
		rc = settings_check_job(coordinator, out, set, e);
	if (rc)
		conf_release(out);
	return rc;
}

/* ---- changes that no request makes ---- */

/* A planned change is proposed when the fastest worker is AHEAD_SECONDS and AHEAD_STEPS before
 * its step. */
#define AHEAD_SECONDS 1.0
#define AHEAD_STEPS   2u
#define PLANNED_MAX   64u

/* Validates a change against the present configuration and proposes it: for changes that do not
 * come in a request. */
static enum err_code validate_and_propose(struct coordinator *coordinator, const struct setting *s,
    struct err *e)
{
	uint64_t ticket;
	struct conf c;
	enum err_code rc = settings_check_change(coordinator, s->set, &c, e);

	mutex_assert_held(&coordinator->lock);
	if (rc)
		return rc;
	conf_release(&c);
	return coord_request_settings(coordinator->coord, s, clock_now(), &ticket, e);
}

enum err_code settings_plan_add(struct coordinator *coordinator, const struct setting *change,
    struct err *e)
{
	const json_t *had = coord_planned(coordinator->coord), *p;
	json_t *list = json_array(),
	       *one = json_pack("{s:I, s:O, s:s}", "at", (json_int_t)change->step, "set",
	           change->set, "who", change->who);
	bool in = false;
	size_t i;

	mutex_assert_held(&coordinator->lock);
	if (json_array_size(had) >= PLANNED_MAX || conf_holds_at_once(change->set)) {
		json_decref(list);
		json_decref(one);
		return conf_holds_at_once(change->set)
		    ? err_set(e, ERR_USAGE,
		          "at: not allowed for these keys, which take effect at once")
		    : err_set(e, ERR_LIMIT, "at: %u changes are already planned", PLANNED_MAX);
	}
	json_array_foreach((json_t *)(uintptr_t)had, i, p) {
		if (!in && json_int(p, "at", 0) > (json_int_t)change->step) {
			json_array_append(list, one);
			in = true;
		}
		json_array_append(list, (json_t *)(uintptr_t)p);
	}
	if (!in)
		json_array_append(list, one);
	coord_store_planned(coordinator->coord, list);
	json_decref(list);
	json_decref(one);
	return ERR_OK;
}

/* The step by which a change must be proposed now: the fastest worker's step plus its steps
 * within AHEAD_SECONDS. A change that is proposed too late takes effect at a later step. */
static uint64_t estimate_near_step(struct coordinator *coordinator, int64_t now)
{
	uint64_t step = coord_newest_step(coordinator->coord);

	if (now - coordinator->pace.at > NSEC_PER_SEC / 2) {
		coordinator->pace.rate = coordinator->pace.at && step > coordinator->pace.step
		    ? (double)(step - coordinator->pace.step) * NSEC_PER_SEC /
		        (double)(now - coordinator->pace.at)
		    : 0;
		coordinator->pace.at = now;
		coordinator->pace.step = step;
	}
	return step + AHEAD_STEPS + (uint64_t)(coordinator->pace.rate * AHEAD_SECONDS);
}

static void request_due_plan(struct coordinator *coordinator, int64_t now)
{
	json_t *list = coord_planned(coordinator->coord), *first = json_array_get(list, 0), *rest;
	uint64_t soon = estimate_near_step(coordinator, now);
	struct setting s;
	struct err e = { 0 };

	if (!first || coord_phase(coordinator->coord) != PHASE_RUNNING ||
	    !coord_settings_have_room(coordinator->coord) ||
	    (uint64_t)json_int(first, "at", 0) > soon)
		return;
	json_incref(first);
	rest = json_copy(list);
	json_array_remove(rest, 0);
	coord_store_planned(coordinator->coord, rest);
	json_decref(rest);
	s = (struct setting){ .step = json_int(first, "at", 0),
		.set = json_object_get(first, "set"),
		.who = json_str(first, "who", "") };
	if (validate_and_propose(coordinator, &s, &e))
		coordinator_event(coordinator, EVENT_set_refused,
		    "cannot apply the change planned for step %lld: %s", (long long)s.step, e.msg);
	json_decref(first);
}

void settings_plan_follow(struct coordinator *coordinator)
{
	json_t *present = coord_present_config(coordinator->coord);
	const struct conf *c = coord_present_conf(coordinator->coord);

	mutex_assert_held(&coordinator->lock);
	if (present == coordinator->followed)
		return;
	log_follow_level(coordinator->server->cfg.log, coordinator->log_level, c->log_level);
	checkpoint_schedule_set_every(coordinator->checkpoints, &c->checkpoint_every);
	json_decref(coordinator->followed);
	coordinator->followed = json_incref(present);
}

static bool request_adapted_setting(struct coordinator *coordinator, const char *key,
    const char *value)
{
	json_t *set = json_pack("{s:s}", key, value);
	struct err e = { 0 };
	enum err_code rc = validate_and_propose(coordinator,
	    &(struct setting){ .set = set, .who = "adapt" }, &e);

	if (rc)
		coordinator_event(coordinator, EVENT_set_refused, "%s=%s, by adapt: %s", key, value,
		    e.msg);
	json_decref(set);
	return !rc;
}

void settings_plan_tick(struct coordinator *coordinator, int64_t now)
{
	mutex_assert_held(&coordinator->lock);
	settings_plan_follow(coordinator);
	request_due_plan(coordinator, now);
	adapt_tick(coordinator->adapt, coordinator, now, request_adapted_setting);
}
