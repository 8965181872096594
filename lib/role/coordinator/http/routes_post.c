/* SPDX-License-Identifier: ISC */
#include "coordinator/http/routes.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include "coordinator/checkpoint_schedule.h"
#include "coordinator/http/settings_request.h"
#include "coordinator/http/tables_request.h"
#include "coordinator/http/trace_request.h"
#include "core/clock.h"
#include "core/json.h"
#include "core/num.h"
#include "rundir/prepare.h"

/* Routes that change something. */

/* How long a request waits for the servers to agree on a change. */
#define SET_PARK_MS 60000

/* Parked until the checkpoint that this request asked for is made, or has failed. */
int routes_post_checkpoints(void *ctx, const struct http_request *req, struct http_answer *a)
{
	static const char *const keys[] = { NULL };
	struct coordinator *coordinator = ctx;
	struct err e = { 0 };
	bool done;

	if (!json_only(req->body, "", keys, &e))
		return routes_fail(a, &e);
	if (!coordinator->checkpoints) {
		http_fail(a, ERR_UNSUPPORTED, NULL,
		    "this coordinator has no run directory for checkpoints");
		return HTTP_DONE;
	}
	a->park_ms = HTTP_PARK_MAX_MS;
	coordinator_lock(coordinator);
	if (!*req->memo)
		*req->memo = checkpoint_schedule_request(coordinator->checkpoints);
	done = checkpoint_schedule_last(coordinator->checkpoints)->request >= *req->memo;
	e = checkpoint_schedule_last(coordinator->checkpoints)->why;
	if (done && !e.code)
		a->json = json_pack("{s:I, s:s}", "step",
		    (json_int_t)checkpoint_schedule_last(coordinator->checkpoints)->step, "path",
		    checkpoint_schedule_last(coordinator->checkpoints)->path);
	coordinator_commit_wait_unlock(coordinator);
	if (done && e.code)
		return routes_fail(a, &e);
	return done ? HTTP_DONE : HTTP_PARK;
}

/* The time limit of a stop that names none */
#define STOP_SECONDS     600
#define STOP_SECONDS_MAX 1e6

/* Parked until the job is saved and stopped, or cannot be saved and continues. The servers stay, so
 * that the result can be asked for. */
static int stop_saved_job(struct coordinator *coordinator, const struct http_request *req,
    struct http_answer *a)
{
	struct checkpoint_schedule *k = coordinator->checkpoints;
	double seconds = json_num(req->body, "seconds", STOP_SECONDS);
	const struct checkpoint_schedule_stop *last;
	struct err e;
	bool done;

	if (!(seconds > 0 && seconds <= STOP_SECONDS_MAX)) {
		http_fail(a, ERR_USAGE, NULL, "seconds: must be above 0, and %.0f at most",
		    STOP_SECONDS_MAX);
		return HTTP_DONE;
	}
	a->park_ms = HTTP_PARK_MAX_MS;
	coordinator_lock(coordinator);
	if (!*req->memo)
		*req->memo = checkpoint_schedule_stop_job(k,
		    json_str(req->body, "why", "asked to stop"), (int64_t)(seconds * NSEC_PER_SEC));
	last = checkpoint_schedule_last_stop(k);
	done = last->number >= *req->memo;
	e = last->why;
	if (done && !e.code)
		a->json = json_pack("{s:I, s:s, s:b}", "step", (json_int_t)last->step, "path",
		    checkpoint_schedule_last(k)->path, "rested",
		    last->rested || !coordinator->cfg.has_job);
	coordinator_commit_wait_unlock(coordinator);
	if (done)
		return e.code ? routes_fail(a, &e) : HTTP_DONE;
	return req->late ? routes_answer(a, json_pack("{s:b}", "saving", true)) : HTTP_PARK;
}

/* Calls a stop off, and is parked until it has ended, which it may have done as ordered. */
static int cancel_stop(struct coordinator *coordinator, const struct http_request *req,
    struct http_answer *a)
{
	struct checkpoint_schedule *k = coordinator->checkpoints;
	bool ended, cancelled;

	a->park_ms = HTTP_PARK_MAX_MS;
	coordinator_lock(coordinator);
	if (!*req->memo)
		*req->memo = checkpoint_schedule_call_off(k);
	ended = checkpoint_schedule_last_stop(k)->number >= *req->memo;
	cancelled = *req->memo && ended && checkpoint_schedule_last_stop(k)->why.code;
	coordinator_commit_wait_unlock(coordinator);
	return ended || req->late ? routes_answer(a, json_pack("{s:b}", "cancelled", cancelled))
	                          : HTTP_PARK;
}

/* A stop with "save" or "cancel" */
static int answer_saving_stop(struct coordinator *coordinator, const struct http_request *req,
    struct http_answer *a)
{
	if (!coordinator->checkpoints) {
		http_fail(a, ERR_UNSUPPORTED, NULL,
		    "this coordinator has no run directory for checkpoints");
		return HTTP_DONE;
	}
	return json_flag(req->body, "cancel") ? cancel_stop(coordinator, req, a)
	                                      : stop_saved_job(coordinator, req, a);
}

int routes_post_stop(void *ctx, const struct http_request *req, struct http_answer *a)
{
	static const char *const keys[] = { "why", "save", "seconds", "cancel", NULL };
	struct coordinator *coordinator = ctx;
	struct err e = { 0 };

	if (!json_only(req->body, "", keys, &e))
		return routes_fail(a, &e);
	if (json_flag(req->body, "save") || json_flag(req->body, "cancel"))
		return answer_saving_stop(coordinator, req, a);
	coordinator_lock(coordinator);
	coord_stop(coordinator->coord, json_str(req->body, "why", "asked to stop"), clock_now());
	/* If the job is already over, coord_stop changes nothing; coord_end ends the servers all
	 * the same. */
	coord_end(coordinator->coord);
	coordinator_commit_wait_unlock(coordinator);
	return routes_answer(a, json_object());
}

/* Has this host no process of that number? False for 0. */
static bool is_gone(int64_t pid)
{
	return pid > 0 && kill((pid_t)pid, 0) && errno == ESRCH;
}

/* The supervisor reports how a process ended, which the coordinator cannot see. */
int routes_post_ended(void *ctx, const struct http_request *req, struct http_answer *a)
{
	static const char *const keys[] = { "report", "id", "how", "cause", "returns", NULL };
	const char *id = json_str(req->body, "id", ""), *how = json_str(req->body, "how", ""),
	           *report = json_str(req->body, "report", "");
	enum err_cause cause = err_cause_by_name(json_str(req->body, "cause", ""));
	bool returns = json_is_true(json_object_get(req->body, "returns"));
	struct coordinator *coordinator = ctx;
	char host[64] = "";
	struct err e = { 0 };

	if (!json_only(req->body, "", keys, &e))
		return routes_fail(a, &e);
	gethostname(host, sizeof host - 1);
	if (!*id || !*how) {
		http_fail(a, ERR_USAGE, NULL, "id and how: must not be empty");
		return HTTP_DONE;
	}
	coordinator_lock(coordinator);
	/* A report without an answer is sent again. */
	if (!*report || strcmp(report, coordinator->last_end_report) != 0) {
		snprintf(coordinator->last_end_report, sizeof coordinator->last_end_report, "%s",
		    report);
		/* A rank may have another process by now, on this host or elsewhere. */
		coord_process_ended(coordinator->coord, id,
		    is_gone(coord_worker_pid(coordinator->coord, id, host)), cause, how, returns,
		    clock_now());
	}
	coordinator_commit_wait_unlock(coordinator);
	return routes_answer(a, json_object());
}

int routes_post_log(void *ctx, const struct http_request *req, struct http_answer *a)
{
	static const char *const keys[] = { "level", NULL };
	struct coordinator *coordinator = ctx;
	struct err e = { 0 };
	int level = log_level_parse(json_str(req->body, "level", ""));

	if (!json_only(req->body, "", keys, &e))
		return routes_fail(a, &e);
	if (level < 0) {
		http_fail(a, ERR_USAGE, NULL, "level: must be error, warn, info or debug");
		return HTTP_DONE;
	}
	atomic_store(&coordinator->server->cfg.log->level, level);
	return routes_answer(a, json_object());
}

int routes_post_scale(void *ctx, const struct http_request *req, struct http_answer *a)
{
	static const char *const keys[] = { "servers", "workers", NULL };
	struct coordinator *coordinator = ctx;
	int64_t servers = json_int(req->body, "servers", -1),
	        workers = json_int(req->body, "workers", -1);
	struct err e = { 0 };

	if (!json_only(req->body, "", keys, &e) ||
	    settings_request_scale(coordinator, servers, workers, &e))
		return routes_fail(a, &e);
	return routes_answer(a, json_object());
}

/* Unlocks when an order that was accepted is durable. Returns rc, or why it is not. */
static enum err_code commit_order(struct coordinator *coordinator, enum err_code rc, struct err *e)
{
	if (!rc)
		return coordinator_commit_order_unlock(coordinator, e);
	coordinator_commit_unlock(coordinator);
	return rc;
}

int routes_post_drain(void *ctx, const struct http_request *req, struct http_answer *a)
{
	static const char *const keys[] = { "server", "force", NULL };
	struct coordinator *coordinator = ctx;
	const char *id = json_str(req->body, "server", "");
	struct err e = { 0 };
	uint64_t n;
	enum err_code rc = ERR_OK;

	if (!json_only(req->body, "", keys, &e))
		return routes_fail(a, &e);
	if (strncmp(id, "server-", 7) != 0 || !num_uint(id + 7, COORD_SERVERS_MAX - 1, &n))
		rc = err_set(&e, ERR_USAGE, "server: must be server-0, server-1 ..., got \"%s\"",
		    id);
	if (!rc) {
		coordinator_lock(coordinator);
		rc = coord_drain(coordinator->coord, (unsigned)n, json_flag(req->body, "force"),
		    clock_now(), &e);
		rc = commit_order(coordinator, rc, &e);
	}
	return rc ? routes_fail(a, &e) : routes_answer(a, json_object());
}

int routes_post_rebalance(void *ctx, const struct http_request *req, struct http_answer *a)
{
	static const char *const keys[] = { NULL };
	struct coordinator *coordinator = ctx;
	struct err e = { 0 };
	enum err_code rc;

	if (!json_only(req->body, "", keys, &e))
		return routes_fail(a, &e);
	coordinator_lock(coordinator);
	rc = commit_order(coordinator, coord_rebalance(coordinator->coord, clock_now(), &e), &e);
	return rc ? routes_fail(a, &e) : routes_answer(a, json_object());
}

typedef enum err_code change_fn(struct coordinator *coordinator, const json_t *body,
    const char *who, uint64_t *ticket, json_t **answer, struct err *e);

static void note_waiting_change(struct coordinator *coordinator)
{
	coordinator_lock(coordinator);
	coordinator->change_is_awaited = true;
	coordinator_unlock(coordinator);
}

/* A change that the servers vote on: requested once (req->memo keeps its ticket), and answered
 * when it has been decided. */
static int answer_voted_change(struct coordinator *coordinator, const struct http_request *req,
    struct http_answer *a, change_fn *change)
{
	struct err e = { 0 };

	if (!*req->memo) {
		enum err_code rc = change(coordinator, req->body, req->peer.name, req->memo,
		    &a->json, &e);

		a->park_ms = SET_PARK_MS;
		/* Another change is being decided: wait for it. It may have been decided before
		 * change_is_awaited was set, so try once more. */
		if (rc == ERR_EXISTS && !req->late) {
			note_waiting_change(coordinator);
			rc = change(coordinator, req->body, req->peer.name, req->memo, &a->json,
			    &e);
		}
		if (rc == ERR_EXISTS && !req->late)
			return HTTP_PARK;
		if (rc || a->json)
			return rc ? routes_fail(a, &e) : HTTP_DONE;
	}
	switch (settings_request_answer(coordinator, *req->memo, &a->json, &e)) {
	case COORD_AGREED:
		return HTTP_DONE;
	case COORD_REFUSED:
		return routes_fail(a, &e);
	default:
		break;
	}
	if (!req->late)
		return HTTP_PARK;
	http_fail(a, ERR_TIMEOUT, "ps-ctl events shows when it is",
	    "the servers have not yet voted on it");
	return HTTP_DONE;
}

int routes_post_set(void *ctx, const struct http_request *req, struct http_answer *a)
{
	return answer_voted_change(ctx, req, a, settings_request_change);
}

/* Create tables at once, in a cluster whose tables were not made by a job. */
static int create_tables_now(struct coordinator *coordinator, const struct http_request *req,
    struct http_answer *a)
{
	struct coord_self self = { .kind = COORD_ADMIN };
	struct durable_point due;
	struct err e = { 0 };
	struct message m = { .kind = MESSAGE_table,
		.json = req->body,
		.table = { .tables = json_object_get(req->body, "tables") } };
	json_t *done = coordinator_handle(coordinator, &self, &m, &due, &e);

	coordinator_lock(coordinator);
	if (done && !commit_order(coordinator, ERR_OK, &e))
		return routes_answer(a, done);
	if (!done)
		coordinator_commit_unlock(coordinator);
	json_decref(done);
	return routes_fail(a, &e);
}

int routes_post_tables(void *ctx, const struct http_request *req, struct http_answer *a)
{
	static const char *const keys[] = { "tables", "add", "grow", "drop", NULL };
	struct err e = { 0 };
	int code;

	if (!json_only(req->body, "", keys, &e))
		return routes_fail(a, &e);
	if (json_object_size(req->body) != 1) {
		err_set(&e, ERR_USAGE, "requires one of tables, add, grow and drop");
		return routes_fail(a, &e);
	}
	if (json_object_get(req->body, "tables"))
		return create_tables_now(ctx, req, a);
	code = answer_voted_change(ctx, req, a, tables_request_change);
	if (a->json)
		json_object_del(a->json, "settings");
	if (a->json && !((struct coordinator *)ctx)->cfg.has_job)
		json_object_set_new(a->json, "step", json_null());
	return code;
}

/* Returns at once. The pause is complete when all workers rest, which the status shows. */
int routes_post_pause(void *ctx, const struct http_request *req, struct http_answer *a)
{
	static const char *const keys[] = { "paused", NULL };
	const json_t *paused = json_object_get(req->body, "paused");
	struct err e = { 0 };

	if (!json_only(req->body, "", keys, &e))
		return routes_fail(a, &e);
	if (!json_is_boolean(paused)) {
		http_fail(a, ERR_USAGE, NULL, "paused: must be true or false");
		return HTTP_DONE;
	}
	return settings_request_pause(ctx, json_is_true(paused), req->peer.name, &e)
	    ? routes_fail(a, &e)
	    : routes_answer(a, json_object());
}

int routes_post_trace(void *ctx, const struct http_request *req, struct http_answer *a)
{
	static const char *const keys[] = { "seconds", NULL };
	double seconds = json_num(req->body, "seconds", 0);
	struct coordinator *coordinator = ctx;
	struct err e = { 0 };
	enum err_code rc;
	uint64_t id;

	if (!json_only(req->body, "", keys, &e))
		return routes_fail(a, &e);
	if (!(seconds > 0 && seconds <= TRACING_MAX_SECONDS)) {
		http_fail(a, ERR_USAGE, NULL, "seconds: must be above 0, and %.0f at most",
		    TRACING_MAX_SECONDS);
		return HTTP_DONE;
	}
	coordinator_lock(coordinator);
	rc = trace_request_begin(coordinator, seconds, clock_now(), &id, &e);
	coordinator_commit_wait_unlock(coordinator);
	return rc ? routes_fail(a, &e) : routes_answer(a, json_pack("{s:I}", "id", (json_int_t)id));
}

/* Returns the number of the trial; GET /v1/probe has its results. */
int routes_post_probe(void *ctx, const struct http_request *req, struct http_answer *a)
{
	static const char *const keys[] = { NULL };
	struct coordinator *coordinator = ctx;
	struct err e = { 0 };
	int64_t number;

	if (!json_only(req->body, "", keys, &e))
		return routes_fail(a, &e);
	coordinator_lock(coordinator);
	number = coord_probe(coordinator->coord, clock_now());
	coordinator_commit_wait_unlock(coordinator);
	return routes_answer(a, json_pack("{s:I}", "number", (json_int_t)number));
}
