/* SPDX-License-Identifier: ISC */
#include "coordinator/http/settings_request.h"

#include "conf/conf_key.h"
#include "conf/conf_live.h"
#include "coordinator/settings.h"
#include "core/clock.h"
#include "core/json.h"
#include "core/num.h"
#include "rundir/prepare.h"

/* ---- parse ---- */

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

/* ---- a dry run ---- */

/* {"lr":{"from":0.1,"to":0.01}} */
static json_t *list_differences(const struct coordinator *coordinator, const struct conf *c)
{
	json_t *out = json_object();
	const struct conf *now = coord_present_conf(coordinator->coord);
	size_t n;
	const struct conf_key *k = conf_keys(&n);

	for (size_t i = 0; i < n; i++) {
		json_t *a = conf_value_json(&k[i], now), *b = conf_value_json(&k[i], c);

		if (a && b && !json_equal(a, b))
			json_object_set_new(out, k[i].path,
			    json_pack("{s:O, s:O}", "from", a, "to", b));
		json_decref(a);
		json_decref(b);
	}
	return out;
}

/* The answer to a dry run: what the request would change. c: the validated configuration. */
static json_t *describe_dry_run(const struct coordinator *coordinator, const struct conf *c,
    const struct settings_request *request)
{
	json_t *changes = list_differences(coordinator, c);

	mutex_assert_held(&coordinator->lock);
	if (request->servers >= 0)
		json_object_set_new(changes, "servers",
		    json_pack("{s:n, s:I}", "from", "to", (json_int_t)request->servers));
	if (request->workers >= 0)
		json_object_set_new(changes, "workers",
		    json_pack("{s:n, s:I}", "from", "to", (json_int_t)request->workers));
	return json_pack("{s:b, s:o}", "dry_run", true, "changes", changes);
}

/* ---- carry out ---- */

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
	if (!rc)
		return coordinator_commit_order_unlock(coordinator, e);
	coordinator_commit_unlock(coordinator);
	return rc;
}

/* Scales while the coordinator's lock is not held, because that writes keys. The validated
 * configuration stays valid only if no other change came in between. */
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

/* Puts a validated change to the vote, plans it for its step, or lets it take effect at once. */
static enum err_code propose_request(struct coordinator *coordinator,
    const struct settings_request *request, const char *who, uint64_t *ticket, json_t **answer,
    struct err *e)
{
	const struct setting change = { .step = request->at > 0 ? request->at : 0,
		.set = request->set,
		.who = who };
	enum err_code rc = ERR_OK;

	if (request->at >= 0) {
		rc = settings_plan_add(coordinator, &change, e);
		if (!rc)
			*answer = json_pack("{s:n, s:I}", "settings", "planned",
			    (json_int_t)change.step);
		return rc;
	}
	if (json_object_size(request->set))
		rc = coord_request_settings(coordinator->coord, &change, clock_now(), ticket, e);
	if (!rc && conf_holds_at_once(request->set)) {
		*answer = json_pack("{s:I, s:n}", "settings",
		    (json_int_t)coord_settings_made(coordinator->coord), "step");
		settings_plan_follow(coordinator);
	}
	return rc;
}

/* Validates the request as a whole before anything is changed, and then carries it out. The
 * coordinator's lock is held, and released for a while when the request scales. */
static enum err_code change_settings(struct coordinator *coordinator,
    const struct settings_request *request, const char *who, uint64_t *ticket, json_t **answer,
    struct err *e)
{
	struct conf c;
	enum err_code rc = settings_check_change(coordinator, request->set, &c, e);

	mutex_assert_held(&coordinator->lock);
	if (rc)
		return rc;
	rc = check_planned_step(coordinator, request, e);
	if (!rc && request->dry) {
		*answer = describe_dry_run(coordinator, &c, request);
		conf_release(&c);
		return ERR_OK;
	}
	if (!rc && json_object_size(request->set) && request->at < 0 &&
	    !conf_holds_at_once(request->set) && !coord_settings_have_room(coordinator->coord))
		rc = err_set(e, ERR_EXISTS, "other changes are being decided");
	if (!rc && (request->servers >= 0 || request->workers >= 0))
		rc = scale_unlocked(coordinator, request, e);
	if (!rc)
		rc = propose_request(coordinator, request, who, ticket, answer, e);
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
		/* A change that is voted on is answered later. */
		if (*answer && !request.dry)
			rc = coordinator_commit_order_unlock(coordinator, e);
		else
			coordinator_commit_unlock(coordinator);
	}
	if (rc) {
		json_decref(*answer);
		*answer = NULL;
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
	if (a != COORD_AGREED) {
		coordinator_commit_unlock(coordinator);
		return a;
	}
	if (coordinator_commit_order_unlock(coordinator, e))
		return COORD_REFUSED;
	*answer = json_pack("{s:I, s:I}", "settings", (json_int_t)number, "step", (json_int_t)step);
	return COORD_AGREED;
}

enum err_code settings_request_pause(struct coordinator *coordinator, bool pause, const char *who,
    struct err *e)
{
	enum err_code rc;

	coordinator_lock(coordinator);
	rc = coord_pause(coordinator->coord, pause, who, clock_now(), e);
	if (!rc)
		return coordinator_commit_order_unlock(coordinator, e);
	coordinator_commit_unlock(coordinator);
	return rc;
}

/* ---- the settings as people and programs ask for them ---- */

json_t *settings_describe_now(struct coordinator *coordinator)
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

json_t *settings_describe_origin(struct coordinator *coordinator)
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
