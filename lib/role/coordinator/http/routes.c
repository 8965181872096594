/* SPDX-License-Identifier: ISC */
#include <unistd.h>

#include "ckpt/dirs.h"
#include "coordinator/ownership.h"
#include "coordinator/checkpoint_schedule.h"
#include "coordinator/history.h"
#include "coordinator/http/metrics.h"
#include "coordinator/http/routes.h"
#include "coordinator/http/settings_request.h"
#include "coordinator/http/summary_row.h"
#include "coordinator/http/trace_request.h"
#include "core/clock.h"
#include "core/json.h"
#include "core/num.h"
#include "msg/why_row.h"
#include "msg/words.h"
#include "rundir/prepare.h"
#include "rundir/rundir.h"

#define WAIT_MAX_SECONDS 60.0

/* ---- authentication ---- */

static bool fill_http_peer(const struct keyring_entry *entry, struct http_peer *peer)
{
	if (!entry)
		return false;
	peer->role = entry->role;
	snprintf(peer->name, sizeof peer->name, "%s", entry->name);
	return true;
}

bool routes_find_key(void *ctx, const uint8_t pk[KEY_BYTES], struct http_peer *peer)
{
	struct coordinator *coordinator = ctx;
	bool found;

	rwlock_read(&coordinator->server->keys.lock);
	found = fill_http_peer(keyring_find(coordinator->server->keys.ring, pk,
	                           clock_wall() / NSEC_PER_SEC),
	    peer);
	rwlock_unlock(&coordinator->server->keys.lock);
	return found;
}

bool routes_find_token(void *ctx, const char *token, struct http_peer *peer)
{
	struct coordinator *coordinator = ctx;
	bool found;

	rwlock_read(&coordinator->server->keys.lock);
	found = fill_http_peer(keyring_find_token(coordinator->server->keys.ring, token,
	                           clock_wall() / NSEC_PER_SEC),
	    peer);
	rwlock_unlock(&coordinator->server->keys.lock);
	return found;
}

/* ---- GET routes ---- */

int routes_fail(struct http_answer *a, const struct err *e)
{
	http_fail_err(a, e, NULL);
	return HTTP_DONE;
}

int routes_answer(struct http_answer *a, json_t *json)
{
	a->json = json;
	return HTTP_DONE;
}

static int answer_bad_query(struct http_answer *a, const char *key)
{
	http_fail(a, ERR_USAGE, NULL, "%s: must be a number that is not negative", key);
	return HTTP_DONE;
}

/* Parse ?wait=SECONDS into milliseconds; false when it is malformed. */
static bool parse_wait(const struct http_request *req, int64_t *out)
{
	const char *text = http_query(req, "wait");
	double s;

	*out = 0;
	if (!text)
		return true;
	if (!num_double(text, &s) || s < 0)
		return false;
	*out = (int64_t)((s < WAIT_MAX_SECONDS ? s : WAIT_MAX_SECONDS) * 1000);
	return true;
}

/* Add the process that the supervisor cannot start, which it notes in the lock file: as member
 * start_failing of the status, and as a row of `why` (each may be NULL). */
static void add_failing_start(const struct coordinator *coordinator, json_t *status, json_t *why)
{
	const char *dir = coordinator->server->cfg.id->run_dir;
	struct rundir_retry f;
	json_t *row;
	double seconds;

	if (!dir || !rundir_read_retry(dir, &f))
		return;
	seconds = (double)(clock_wall() - f.since) / (double)NSEC_PER_SEC;
	if (status) {
		row = json_object();
		json_object_set_new(row, "id", json_string(f.id));
		json_object_set_new(row, "because", json_string(f.error));
		json_object_set_new(row, "since_seconds", json_of_num(seconds));
		json_object_set_new(row, "tries", json_integer(f.tries));
		json_object_set_new(status, "start_failing", row);
	}
	if (why)
		json_array_append_new(why,
		    why_row_encode(
		        &(const struct why_row){ .id = f.id,
		            .whom = "its start",
		            .since_seconds = seconds,
		            .code = why_code_name(WHY_START),
		            .because = f.error,
		            .remedy =
		                "fix the cause; the supervisor tries again until the deadline" },
		        -1));
}

/* Add the number of failed checkpoints and the reason of the last failure, if there were any.
 * With the coordinator's lock held. */
static json_t *add_failed_checkpoints(const struct coordinator *coordinator, json_t *o)
{
	uint64_t failed = coordinator->checkpoints
	    ? checkpoint_schedule_figures(coordinator->checkpoints).failed
	    : 0;
	const struct err *failure;

	mutex_assert_held(&coordinator->lock);
	if (o && failed) {
		json_object_set_new(o, "checkpoints_failed", json_integer((json_int_t)failed));
		failure = checkpoint_schedule_failure(coordinator->checkpoints);
		json_object_set_new(o, "checkpoint_error", json_string(failure->msg));
		json_object_set_new(o, "checkpoint_cause",
		    json_string(err_cause_name(failure->cause)));
	}
	return o;
}

static int get_status(void *ctx, const struct http_request *req, struct http_answer *a)
{
	struct coordinator *coordinator = ctx;
	const char *since = http_query(req, "rev");
	uint64_t rev = 0;
	bool same;

	if (since && !num_uint(since, UINT64_MAX, &rev))
		return answer_bad_query(a, "rev");
	if (!parse_wait(req, &a->park_ms))
		return answer_bad_query(a, "wait");
	coordinator_lock(coordinator);
	same = since && rev == coord_rev(coordinator->coord);
	if (!same || req->late || !a->park_ms) {
		a->json = add_failed_checkpoints(coordinator,
		    coord_status(coordinator->coord, clock_now()));
		resumed_report(coordinator, a->json);
		ownership_add_status(coordinator, a->json);
	}
	coordinator_unlock(coordinator);
	add_failing_start(coordinator, a->json, NULL);
	return a->json ? HTTP_DONE : HTTP_PARK;
}

typedef json_t *(*list_fn)(const struct coord *, int64_t now);

static json_t *locked_list(struct coordinator *coordinator, list_fn fn)
{
	json_t *list;

	coordinator_lock(coordinator);
	list = fn(coordinator->coord, clock_now());
	coordinator_unlock(coordinator);
	return list;
}

static int get_servers(void *ctx, const struct http_request *req, struct http_answer *a)
{
	(void)req;
	return routes_answer(a, json_pack("{s:o}", "servers", locked_list(ctx, coord_servers)));
}

static int get_relays(void *ctx, const struct http_request *req, struct http_answer *a)
{
	(void)req;
	return routes_answer(a, json_pack("{s:o}", "relays", locked_list(ctx, coord_relays)));
}

static int get_workers(void *ctx, const struct http_request *req, struct http_answer *a)
{
	(void)req;
	return routes_answer(a, json_pack("{s:o}", "workers", locked_list(ctx, coord_workers)));
}

static int get_why(void *ctx, const struct http_request *req, struct http_answer *a)
{
	struct coordinator *coordinator = ctx;
	json_t *why;

	(void)req;
	coordinator_lock(coordinator);
	why = coord_why(coordinator->coord, clock_now());
	ownership_add_why(coordinator, why, clock_now());
	coordinator_unlock(coordinator);
	add_failing_start(coordinator, NULL, why);
	return routes_answer(a, json_pack("{s:o}", "why", why));
}

static json_t *tables_now(const struct coord *c, int64_t now)
{
	(void)now;
	return coord_tables(c);
}

/* Several documents of one moment in one answer, so that a client that polls often sends one
 * request. */
static int get_snapshot(void *ctx, const struct http_request *req, struct http_answer *a)
{
	static const struct {
		const char *name;
		list_fn fn;
	} part[] = {
		{ "status", coord_status },
		{ "servers", coord_servers },
		{ "workers", coord_workers },
		{ "tables", tables_now },
		{ "why", coord_why },
	};
	const char *of = http_query(req, "of");
	struct coordinator *coordinator = ctx;
	int64_t now = clock_now();
	size_t left = of ? strlen(of) : 0, i;

	a->json = json_object();
	coordinator_lock(coordinator);
	for (i = 0; i < sizeof part / sizeof *part; i++) {
		const char *at = of ? strstr(of, part[i].name) : "";
		size_t n = strlen(part[i].name);

		if (!at || (of && ((at > of && at[-1] != ',') || (at[n] && at[n] != ','))))
			continue;
		json_object_set_new(a->json, part[i].name, part[i].fn(coordinator->coord, now));
		if (part[i].fn == coord_status)
			add_failed_checkpoints(coordinator, json_object_get(a->json, part[i].name));
		left -= of ? n + (left > n) : 0;
	}
	ownership_add_why(coordinator, json_object_get(a->json, "why"), now);
	coordinator_unlock(coordinator);
	add_failing_start(coordinator, json_object_get(a->json, "status"),
	    json_object_get(a->json, "why"));
	if (!left)
		return HTTP_DONE;
	json_decref(a->json);
	a->json = NULL;
	http_fail(a, ERR_USAGE, NULL,
	    "of: must be a list of status, servers, workers, tables and why, separated by commas");
	return HTTP_DONE;
}

static int get_probe(void *ctx, const struct http_request *req, struct http_answer *a)
{
	(void)req;
	return routes_answer(a, locked_list(ctx, coord_probes));
}

static json_t *locked_document(struct coordinator *coordinator, json_t *(*fn)(const struct coord *))
{
	json_t *doc;

	coordinator_lock(coordinator);
	doc = fn(coordinator->coord);
	coordinator_unlock(coordinator);
	return doc;
}

static int get_tables(void *ctx, const struct http_request *req, struct http_answer *a)
{
	(void)req;
	return routes_answer(a, json_pack("{s:o}", "tables", locked_document(ctx, coord_tables)));
}

static int get_layout(void *ctx, const struct http_request *req, struct http_answer *a)
{
	(void)req;
	return routes_answer(a, locked_document(ctx, coord_layout));
}

static int get_tasks(void *ctx, const struct http_request *req, struct http_answer *a)
{
	(void)req;
	return routes_answer(a, locked_document(ctx, coord_tasks));
}

static int get_config(void *ctx, const struct http_request *req, struct http_answer *a)
{
	return routes_answer(a,
	    http_query(req, "origin") ? settings_describe_origin(ctx) : settings_describe_now(ctx));
}

json_t *routes_make_result(struct coordinator *coordinator)
{
	json_t *result;

	coordinator_lock(coordinator);
	result = add_failed_checkpoints(coordinator, coord_result(coordinator->coord, clock_now()));
	coordinator_unlock(coordinator);
	return result;
}

static int get_result(void *ctx, const struct http_request *req, struct http_answer *a)
{
	(void)req;
	return routes_answer(a, routes_make_result(ctx));
}

static int get_checkpoints(void *ctx, const struct http_request *req, struct http_answer *a)
{
	struct coordinator *coordinator = ctx;
	struct ckpt_entry *list = NULL;
	json_t *out = json_array();
	struct err e = { 0 };
	size_t n = 0;

	(void)req;
	/* The directory's name never changes, so no lock is needed. */
	if (coordinator->checkpoints &&
	    ckpt_list(checkpoint_schedule_dir(coordinator->checkpoints), false, &list, &n, &e)) {
		json_decref(out);
		return routes_fail(a, &e);
	}
	for (size_t i = 0; i < n; i++)
		json_array_append_new(out,
		    json_pack("{s:I, s:s, s:b, s:I}", "step", (json_int_t)list[i].step, "path",
		        list[i].path, "whole", list[i].whole, "size_bytes",
		        (json_int_t)list[i].bytes));
	ckpt_list_free(list, n);
	return routes_answer(a, json_pack("{s:o}", "checkpoints", out));
}

static int get_events(void *ctx, const struct http_request *req, struct http_answer *a)
{
	struct coordinator *coordinator = ctx;
	const char *text = http_query(req, "since");
	uint64_t since = 0, next;
	json_t *list;

	if ((text && !num_uint(text, UINT64_MAX, &since)) || !parse_wait(req, &a->park_ms))
		return answer_bad_query(a, "since, wait");
	coordinator_lock(coordinator);
	list = history_events(coordinator->history, since, &next);
	coordinator_unlock(coordinator);
	if (json_array_size(list) || req->late || !a->park_ms)
		a->json = json_pack("{s:O, s:I}", "events", list, "next", (json_int_t)next);
	json_decref(list);
	return a->json ? HTTP_DONE : HTTP_PARK;
}

static int get_metrics(void *ctx, const struct http_request *req, struct http_answer *a)
{
	struct coordinator *coordinator = ctx;
	json_t *row, *servers, *workers, *relays, *tables, *events,
	    *own = coordinator->server->cfg.role ? NULL : summary_row_process(coordinator);
	int64_t now = clock_now();

	(void)req;
	coordinator_lock(coordinator);
	row = summary_row_make(coordinator, now);
	servers = coord_servers(coordinator->coord, now);
	workers = coord_workers(coordinator->coord, now);
	relays = coord_relays(coordinator->coord, now);
	tables = coord_tables(coordinator->coord);
	events = history_counts(coordinator->history);
	coordinator_unlock(coordinator);
	metrics_text(&(struct metrics){ row, servers, workers, relays, tables, events, own },
	    &a->text);
	a->content_type = "text/plain; version=0.0.4; charset=utf-8";
	json_decref(row);
	json_decref(servers);
	json_decref(workers);
	json_decref(relays);
	json_decref(tables);
	json_decref(events);
	json_decref(own);
	return HTTP_DONE;
}

static int get_trace(void *ctx, const struct http_request *req, struct http_answer *a)
{
	struct coordinator *coordinator = ctx;
	const char *id = http_query(req, "id"), *page = http_query(req, "page");
	uint64_t n = 0, k = 0;
	struct err e = { 0 };
	bool wait;

	if (!id || !num_uint(id, UINT64_MAX, &n) || (page && !num_uint(page, UINT64_MAX, &k)) ||
	    !parse_wait(req, &a->park_ms))
		return answer_bad_query(a, "id, page, wait");
	coordinator_lock(coordinator);
	a->json = trace_request_page(coordinator, n, k, clock_now(), &wait, &e);
	coordinator_unlock(coordinator);
	if (!a->json)
		return routes_fail(a, &e);
	if (!wait || req->late || !a->park_ms)
		return HTTP_DONE;
	json_decref(a->json);
	a->json = NULL;
	return HTTP_PARK;
}

/* The address of /metrics, which the coordinator serves for all processes. If it listens on
 * every address, use the host's name. False while it does not listen. */
static bool scrape_address(struct coordinator *coordinator, char *out, size_t n)
{
	char name[64] = "", bound[128];
	const char *port;

	coordinator_http_address(coordinator, bound);
	port = strrchr(bound, ':');
	if (!port)
		return false;

	if (strncmp(bound, "0.0.0.0:", 8) != 0 && strncmp(bound, "[::]:", 5) != 0) {
		snprintf(out, n, "%s", bound);
		return true;
	}
	gethostname(name, sizeof name - 1);
	snprintf(out, n, "%s%s", name, port);
	return true;
}

static int get_targets(void *ctx, const struct http_request *req, struct http_answer *a)
{
	struct coordinator *coordinator = ctx;
	char address[160];

	(void)req;
	if (!scrape_address(coordinator, address, sizeof address)) {
		http_fail(a, ERR_NOTREADY, NULL,
		    "the coordinator does not listen yet, or has stopped");
		return HTTP_DONE;
	}
	return routes_answer(a,
	    json_pack("[{s:[s], s:{s:s, s:s}}]", "targets", address, "labels", "cluster",
	        coordinator->cfg.name, "__meta_ps_role", "coordinator"));
}

static int get_livez(void *ctx, const struct http_request *req, struct http_answer *a)
{
	(void)ctx;
	(void)req;
	return routes_answer(a, json_pack("{s:s}", "status", "ok"));
}

static int get_readyz(void *ctx, const struct http_request *req, struct http_answer *a)
{
	struct coordinator *coordinator = ctx;
	json_t *s = locked_list(coordinator, coord_status);
	int64_t state = words_member(words_phase, s, "state");
	bool ready = state != PHASE_FORMING && state != PHASE_FAILED && state != PHASE_STOPPED;

	(void)req;
	a->status = ready ? 200 : 503;
	a->json = json_pack("{s:s, s:s, s:s}", "status", ready ? "ok" : "not ready", "state",
	    json_str(s, "state", ""), "waiting_for", json_str(s, "waiting_for", ""));
	json_decref(s);
	return HTTP_DONE;
}

#define N (1u << ROLE_NONE)
#define W (1u << ROLE_WORKER)
#define S (1u << ROLE_SERVER)
#define R (1u << ROLE_RELAY)
#define M (1u << ROLE_MONITOR)
#define A (1u << ROLE_ADMIN)
#define E (1u << ROLE_READER)
const struct http_route coordinator_routes[] = {
#define ROUTE(method, path, handler, roles, flags, help) \
	{ method, path, roles, flags, handler, help },
#include "coordinator/http/routes.def"
#undef ROUTE
};
const size_t coordinator_nroutes = sizeof coordinator_routes / sizeof *coordinator_routes;
