/* SPDX-License-Identifier: ISC */
#include "coordinator/http/settings_request.h"

#include <stdlib.h>

#include "conf/conf_key.h"
#include "conf/conf_live.h"
#include "conf/conf_rule.h"
#include "coordinator/adapt.h"
#include "coordinator/checkpoint_schedule.h"
#include "core/clock.h"
#include "core/json.h"
#include "core/mem.h"
#include "core/num.h"
#include "msg/manifest.h"
#include "rundir/prepare.h"

/* A planned change is proposed when the fastest worker is AHEAD_SECONDS and AHEAD_STEPS before
 * its step. */
#define AHEAD_SECONDS 1.0
#define AHEAD_STEPS   2u
#define PLANNED_MAX   64u

/* ---- validation ---- */

/* Do the rules of the job and of single tables fit the model's tables? None is known before a worker
 * has joined. */
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

/* The one validation of a change: the present configuration with `set` applied. On success the
 * caller releases *out. */
static enum err_code config_with_changes(const struct coordinator *coordinator, const json_t *set,
    struct conf *out, struct err *e)
{
	enum err_code rc = conf_may_change(set, e);

	if (!rc)
		rc = conf_from_json(coord_present_config(coordinator->coord), out, e);
	if (rc || !json_object_size(set))
		return rc;
	rc = conf_apply(out, set, e);
	if (!rc)
		rc = conf_validate_keys(out, e);
	if (!rc)
		rc = settings_check_job(coordinator, out, set, e);
	if (rc)
		conf_release(out);
	return rc;
}

char *settings_request_sentence(const json_t *set)
{
	struct buf b = BUF_INIT;
	const char *name;
	json_t *v;

	json_object_foreach((json_t *)(uintptr_t)set, name, v)
		buf_printf(&b, "%s%s=%.80s", b.len ? " " : "", name, json_string_value(v));
	return b.data ? (char *)b.data : mem_strdup("");
}

enum coord_policy settings_request_policy(const struct conf *c)
{
	return c->on_worker_loss.policy == CONF_WAIT ? COORD_WAIT
	    : c->on_worker_loss.policy == CONF_FAIL  ? COORD_FAIL
	                                             : COORD_SHRINK;
}

void settings_request_describe(const struct conf *c, struct coord_setting *out)
{
	out->batch = conf_step_examples(c);
	out->lockstep = sync_is_lockstep(&c->sync);
	out->on_worker_loss = settings_request_policy(c);
	out->loss_wait = c->on_worker_loss.wait;
}

/* Proposes `set`, which makes the validated configuration c, from step `at` on. */
static enum err_code propose_setting(struct coordinator *coordinator, const struct conf *c,
    const json_t *set, uint64_t at, const char *who, uint64_t *ticket, struct err *e)
{
	json_t *config = conf_to_json(c);
	char *what = settings_request_sentence(set);
	struct coord_setting s = { .set = set,
		.config = config,
		.what = what,
		.who = who,
		.at = at,
		.at_once = conf_holds_at_once(set) };
	enum err_code rc;

	settings_request_describe(c, &s);
	rc = coord_request_settings(coordinator->coord, &s, clock_now(), ticket, e);
	free(what);
	json_decref(config);
	return rc;
}

/* Validates `set` against the present configuration and proposes it: for changes that do not come
 * in a request. */
static enum err_code validate_and_propose(struct coordinator *coordinator, const json_t *set,
    uint64_t at, const char *who, uint64_t *ticket, struct err *e)
{
	struct conf c;
	enum err_code rc = config_with_changes(coordinator, set, &c, e);

	if (rc)
		return rc;
	rc = propose_setting(coordinator, &c, set, at, who, ticket, e);
	conf_release(&c);
	return rc;
}

/* ---- changes planned for a step ---- */

static enum err_code plan_setting(struct coordinator *coordinator, const json_t *set, uint64_t at,
    const char *who, json_t **answer, struct err *e)
{
	const json_t *had = coord_planned(coordinator->coord), *p;
	json_t *list = json_array(),
	       *one = json_pack("{s:I, s:O, s:s}", "at", (json_int_t)at, "set", set, "who", who);
	bool in = false;
	size_t i;

	if (json_array_size(had) >= PLANNED_MAX || conf_holds_at_once(set)) {
		json_decref(list);
		json_decref(one);
		return conf_holds_at_once(set)
		    ? err_set(e, ERR_USAGE,
		          "at: not allowed for these keys, which take effect at once")
		    : err_set(e, ERR_LIMIT, "at: %u changes are already planned", PLANNED_MAX);
	}
	json_array_foreach((json_t *)(uintptr_t)had, i, p) {
		if (!in && json_int(p, "at", 0) > (json_int_t)at) {
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
	*answer = json_pack("{s:n, s:I}", "settings", "planned", (json_int_t)at);
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
	uint64_t ticket, soon = estimate_near_step(coordinator, now);
	struct err e = { 0 };
	enum err_code rc;

	if (!first || coord_phase(coordinator->coord) != PHASE_RUNNING ||
	    !coord_settings_have_room(coordinator->coord) ||
	    (uint64_t)json_int(first, "at", 0) > soon)
		return;
	json_incref(first);
	rest = json_copy(list);
	json_array_remove(rest, 0);
	coord_store_planned(coordinator->coord, rest);
	json_decref(rest);
	rc = validate_and_propose(coordinator, json_object_get(first, "set"),
	    (uint64_t)json_int(first, "at", 0), json_str(first, "who", ""), &ticket, &e);
	if (rc)
		coordinator_event(coordinator, "set_refused",
		    "cannot apply the change planned for step %lld: %s",
		    (long long)json_int(first, "at", 0), e.msg);
	json_decref(first);
}

/* ---- settings of this process ---- */

static void apply_local_settings(struct coordinator *coordinator)
{
	json_t *now = coord_present_config(coordinator->coord);
	struct conf c;
	struct err e;

	if (now == coordinator->followed || conf_from_json(now, &c, &e))
		return;
	log_follow_level(coordinator->server->cfg.log, coordinator->log_level, c.log_level);
	checkpoint_schedule_set_every(coordinator->checkpoints, &c.checkpoint_every);
	json_decref(coordinator->followed);
	coordinator->followed = json_incref(now);
	conf_release(&c);
}

static bool request_adapted_setting(struct coordinator *coordinator, const char *key,
    const char *value)
{
	json_t *set = json_pack("{s:s}", key, value);
	uint64_t ticket;
	struct err e = { 0 };

	enum err_code rc = validate_and_propose(coordinator, set, 0, "adapt", &ticket, &e);

	if (rc)
		coordinator_event(coordinator, "set_refused", "%s=%s, by adapt: %s", key, value,
		    e.msg);
	json_decref(set);
	return !rc;
}

void settings_request_tick(struct coordinator *coordinator, int64_t now)
{
	mutex_assert_held(&coordinator->lock);
	apply_local_settings(coordinator);
	request_due_plan(coordinator, now);
	adapt_tick(coordinator->adapt, coordinator, now, request_adapted_setting);
}

/* ---- numbers of servers and workers ---- */

enum err_code settings_request_scale(struct coordinator *coordinator, int64_t servers,
    int64_t workers, struct err *e)
{
	const char *dir = coordinator->server->cfg.id->run_dir;
	enum err_code rc;

	coordinator_lock(coordinator);
	rc = coord_may_scale(coordinator->coord, servers, workers, e);
	coordinator_commit_wait_unlock(coordinator);
	/* Make keys for processes beyond those planned, without the lock: files take a while. */
	if (!rc && dir && servers > 0)
		rc = rundir_add_keys(dir, "server", (size_t)servers, ROLE_SERVER, e);
	if (!rc && dir && workers > 0)
		rc = rundir_add_keys(dir, "worker", (size_t)workers, ROLE_WORKER, e);
	if (!rc && dir)
		rc = server_reload(coordinator->server, e);
	if (rc)
		return rc;
	coordinator_lock(coordinator);
	rc = coord_scale(coordinator->coord, servers, workers, clock_now(), e);
	coordinator_commit_wait_unlock(coordinator);
	return rc;
}

/* ---- requests ---- */

/* {"lr":{"from":0.1,"to":0.01}} */
static json_t *list_differences(const struct coordinator *coordinator, const struct conf *c)
{
	json_t *out = json_object();
	struct conf now;
	struct err e;
	size_t n;
	const struct conf_key *k = conf_keys(&n);

	if (conf_from_json(coord_present_config(coordinator->coord), &now, &e))
		return out;
	for (size_t i = 0; i < n; i++) {
		json_t *a = conf_value_json(&k[i], &now), *b = conf_value_json(&k[i], c);

		if (a && b && !json_equal(a, b))
			json_object_set_new(out, k[i].path,
			    json_pack("{s:O, s:O}", "from", a, "to", b));
		json_decref(a);
		json_decref(b);
	}
	conf_release(&now);
	return out;
}

/* A parsed request. The numbers of servers and workers are not settings of a step, so they are
 * kept apart. */
struct settings_request {
	json_t *set;              /* the other keys */
	int64_t servers, workers; /* -1: not in the request */
	int64_t at;
	bool dry;
};

static enum err_code take_member_count(struct settings_request *request, const char *name,
    int64_t *out, struct err *e)
{
	const json_t *v = json_object_get(request->set, name);
	enum err_code rc = ERR_OK;

	*out = -1;
	if (v && (!json_is_string(v) || !num_int(json_string_value(v), 1, 65535, out)))
		rc = err_set(e, ERR_CONFIG, "%s: must be a number, as \"4\"", name);
	else if (v && request->at >= 0)
		rc = err_set(e, ERR_USAGE,
		    "at: not allowed, because the number of %s changes at once", name);
	json_object_del(request->set, name);
	return rc;
}

static enum err_code parse_settings_request(const json_t *body, struct settings_request *request,
    struct err *e)
{
	static const char *const keys[] = { "set", "at", "dry_run", NULL };
	const json_t *at = json_object_get(body, "at");
	enum err_code rc;

	*request = (struct settings_request){ .at = json_int(body, "at", -1),
		.dry = json_flag(body, "dry_run"),
		.servers = -1,
		.workers = -1 };
	if (!json_only(body, "", keys, e))
		return e->code;
	if (at && (!json_is_integer(at) || json_integer_value(at) < 0))
		return err_set(e, ERR_USAGE, "at: must be a step, from 0 on");
	if (!json_object_size(json_object_get(body, "set")))
		return err_set(e, ERR_USAGE, "set: must name at least one key");
	request->set = json_copy(json_object_get(body, "set"));
	rc = take_member_count(request, "servers", &request->servers, e);
	return rc ? rc : take_member_count(request, "workers", &request->workers, e);
}

/* Checks whether a change for step request->at can be planned. */
static enum err_code check_planned_step(const struct coordinator *coordinator,
    const struct settings_request *request, struct err *e)
{
	if (request->at < 0)
		return ERR_OK;
	if (coord_phase(coordinator->coord) > PHASE_RUNNING || !coordinator->cfg.has_job)
		return err_set(e, ERR_NOTREADY, "at: requires a running job");
	if ((uint64_t)request->at < coord_newest_step(coordinator->coord))
		return err_set(e, ERR_USAGE,
		    "at: step %lld has passed: the fastest worker is at step %llu; name a later "
		    "step, or omit it to change at the next one",
		    (long long)request->at,
		    (unsigned long long)coord_newest_step(coordinator->coord));
	return ERR_OK;
}

/* The answer to a dry run: what the request would change. c: the validated configuration. */
static json_t *describe_dry_run(const struct coordinator *coordinator,
    const struct settings_request *request, const struct conf *c)
{
	json_t *changes = list_differences(coordinator, c);

	if (request->servers >= 0)
		json_object_set_new(changes, "servers",
		    json_pack("{s:n, s:I}", "from", "to", (json_int_t)request->servers));
	if (request->workers >= 0)
		json_object_set_new(changes, "workers",
		    json_pack("{s:n, s:I}", "from", "to", (json_int_t)request->workers));
	return json_pack("{s:b, s:o}", "dry_run", true, "changes", changes);
}

/* Scales while the coordinator's lock is not held, because that writes keys. The validated configuration
 * stays valid only if no other change came in between. */
static enum err_code scale_unlocked(struct coordinator *coordinator,
    const struct settings_request *request, struct err *e)
{
	json_t *before = json_incref(coord_present_config(coordinator->coord));
	enum err_code rc;

	coordinator_commit_wait_unlock(coordinator);
	rc = settings_request_scale(coordinator, request->servers, request->workers, e);
	coordinator_lock(coordinator);
	if (!rc && coord_present_config(coordinator->coord) != before)
		rc = err_set(e, ERR_EXISTS, "other changes are being decided");
	json_decref(before);
	return rc;
}

/* Puts the validated configuration c to the vote, plans it for its step, or lets it take effect at once. */
static enum err_code propose_request(struct coordinator *coordinator,
    const struct settings_request *request, const struct conf *c, const char *who, uint64_t *ticket,
    json_t **answer, struct err *e)
{
	enum err_code rc = ERR_OK;

	if (request->at >= 0)
		return plan_setting(coordinator, request->set, (uint64_t)request->at, who, answer,
		    e);
	if (json_object_size(request->set))
		rc = propose_setting(coordinator, c, request->set, 0, who, ticket, e);
	if (!rc && conf_holds_at_once(request->set)) {
		*answer = json_pack("{s:I, s:n}", "settings",
		    (json_int_t)coord_settings_made(coordinator->coord), "step");
		apply_local_settings(coordinator);
	}
	return rc;
}

/* Validates the request as a whole before anything is changed, and then carries it out. The coordinator's
 * lock is held, and released for a while when the request scales. */
static enum err_code change_settings(struct coordinator *coordinator,
    const struct settings_request *request, const char *who, uint64_t *ticket, json_t **answer,
    struct err *e)
{
	struct conf c;
	enum err_code rc = config_with_changes(coordinator, request->set, &c, e);

	mutex_assert_held(&coordinator->lock);
	if (rc)
		return rc;
	rc = check_planned_step(coordinator, request, e);
	if (!rc && request->dry) {
		*answer = describe_dry_run(coordinator, request, &c);
		conf_release(&c);
		return ERR_OK;
	}
	if (!rc && json_object_size(request->set) && request->at < 0 &&
	    !conf_holds_at_once(request->set) && !coord_settings_have_room(coordinator->coord))
		rc = err_set(e, ERR_EXISTS, "other changes are being decided");
	if (!rc && (request->servers >= 0 || request->workers >= 0))
		rc = scale_unlocked(coordinator, request, e);
	if (!rc)
		rc = propose_request(coordinator, request, &c, who, ticket, answer, e);
	conf_release(&c);
	return rc;
}

enum err_code settings_request_change(struct coordinator *coordinator, const json_t *body,
    const char *who, uint64_t *ticket, json_t **answer, struct err *e)
{
	struct settings_request request;
	enum err_code rc = parse_settings_request(body, &request, e);

	*answer = NULL;
	*ticket = 0;
	if (!rc) {
		coordinator_lock(coordinator);
		rc = change_settings(coordinator, &request, who, ticket, answer, e);
		coordinator_commit_wait_unlock(coordinator);
	}
	json_decref(request.set);
	return rc;
}

enum coord_answer settings_request_answer(struct coordinator *coordinator, uint64_t ticket,
    json_t **answer, struct err *e)
{
	enum coord_answer a;
	uint64_t step;
	int64_t number;

	coordinator_lock(coordinator);
	a = coord_find_answer(coordinator->coord, ticket, &step, &number, e);
	if (a == COORD_AGREED)
		*answer = json_pack("{s:I, s:I}", "settings", (json_int_t)number, "step",
		    (json_int_t)step);
	coordinator_commit_wait_unlock(coordinator);
	return a;
}

json_t *settings_request_now(struct coordinator *coordinator)
{
	json_t *copy;

	coordinator_lock(coordinator);
	copy = json_deep_copy(coord_present_config(coordinator->coord));
	coordinator_unlock(coordinator);
	return copy;
}

static json_t *describe_origin(const struct conf *c, const struct conf_key *k, json_t *value,
    const json_t *deflt, json_t *settings, json_t *past)
{
	static const char *const names[] = { [CONF_FROM_USER] = "file",
		[CONF_FROM_MODEL] = "model",
		[CONF_FROM_RULE] = "rule",
		[CONF_FROM_NOBODY] = "default" };
	const char *origin = conf_key_derives(k)                     ? names[conf_origin_of(c, k)]
	    : deflt && json_equal(value, (json_t *)(uintptr_t)deflt) ? "default"
	                                                             : "file";
	json_t *o = json_pack("{s:o, s:s}", "value", value, "origin", origin);
	const json_t *s, *set, *text;
	const char *name;
	json_t *at;
	size_t i;

	json_object_foreach(past, name, at)
		if (conf_key_find(name, NULL) == k) {
			json_object_set_new(o, "origin", json_string("set"));
			json_object_update(o, at);
		}
	json_array_foreach(settings, i, s) {
		set = json_object_get(s, "set");
		json_object_foreach((json_t *)(uintptr_t)set, name, text)
			if (conf_key_find(name, NULL) == k) {
				json_object_set_new(o, "origin", json_string("set"));
				json_object_set(o, "step", json_object_get(s, "step"));
				json_object_set(o, "who", json_object_get(s, "who"));
			}
	}
	return o;
}

json_t *settings_request_origin(struct coordinator *coordinator)
{
	json_t *out = json_object(), *settings, *past;
	struct conf c, deflt;
	struct err e;
	size_t n;
	const struct conf_key *k = conf_keys(&n);

	coordinator_lock(coordinator);
	settings = coord_settings(coordinator->coord);
	past = coord_settings_past(coordinator->coord);
	if (conf_from_json(coord_present_config(coordinator->coord), &c, &e))
		conf_init(&c);
	coordinator_unlock(coordinator);
	conf_init(&deflt);
	for (size_t i = 0; i < n; i++) {
		json_t *v = c.has_job || strncmp(k[i].path, "job.", 4) != 0
		    ? conf_value_json(&k[i], &c)
		    : NULL;
		json_t *d = conf_value_json(&k[i], &deflt);

		if (v)
			json_object_set_new(out, k[i].path,
			    describe_origin(&c, &k[i], v, d, settings, past));
		json_decref(d);
	}
	json_decref(settings);
	json_decref(past);
	conf_release(&c);
	conf_release(&deflt);
	return out;
}

enum err_code settings_request_pause(struct coordinator *coordinator, bool pause, const char *who,
    struct err *e)
{
	enum err_code rc;

	coordinator_lock(coordinator);
	rc = coord_pause(coordinator->coord, pause, who, clock_now(), e);
	coordinator_commit_wait_unlock(coordinator);
	return rc;
}

json_t *settings_initial(const struct conf *c, const struct manifest *manifest)
{
	json_t *plain = conf_to_json(c), *changed = NULL;
	struct conf from, to;
	struct err e;

	if (!manifest || conf_from_json(manifest->config, &from, &e))
		return plain;
	if (conf_from_json(plain, &to, &e) == ERR_OK) {
		if (conf_copy_live(&to, &from, &e) == ERR_OK)
			changed = conf_to_json(&to);
		conf_release(&to);
	}
	conf_release(&from);
	if (!changed)
		return plain;
	json_decref(plain);
	return changed;
}
