/* SPDX-License-Identifier: ISC */
#include "coordinator/http/dashboard_feed.h"

#include <stdlib.h>
#include <string.h>

#include "coordinator/history.h"
#include "coordinator/http/routes.h"
#include "coordinator/http/settings_request.h"
#include "coordinator/ownership.h"
#include "core/clock.h"
#include "core/json.h"
#include "core/lock.h"
#include "core/mem.h"
#include "core/num.h"
#include "msg/words.h"
#include "rundir/event_list.h"
#include "rundir/run_colour.h"
#include "web/curve.h"

#define PERIOD NSEC_PER_SEC
/* The most rows, runs of partitions and events in one answer. */
#define ROWS_MAX   256
#define RUNS_MAX   64
#define EVENTS_MAX 200
#define DUMP       (JSON_COMPACT | JSON_REAL_PRECISION(7))

enum part_id {
	PART_STATUS,
	PART_WHY,
	PART_SERVERS,
	PART_WORKERS,
	PART_RELAYS,
	PART_LAYOUT,
	PART_CONFIG,
	PARTS
};
static const char *const part_name[PARTS] = { "status", "why", "servers", "workers", "relays",
	"layout", "config" };

struct dashboard_feed {
	struct mutex lock; /* covers all members; the coordinator's lock is taken inside it */
	/* id of the snapshot: ms since 1970, or the previous id plus 1; 0: none yet */
	uint64_t tick;
	int64_t made;
	struct {
		char *text;
		uint64_t since; /* tick of the snapshot in which this part changed last */
	} part[PARTS];
};

struct dashboard_feed *routes_web_feed_new(void)
{
	struct dashboard_feed *b = mem_alloc(sizeof *b);

	mutex_init(&b->lock, LOCK_FEED);
	return b;
}

void routes_web_feed_free(struct dashboard_feed *b)
{
	if (!b)
		return;
	for (size_t i = 0; i < PARTS; i++)
		free(b->part[i].text);
	mutex_destroy(&b->lock);
	free(b);
}

/* ---- the snapshot ---- */

static const char *const worker_keys[] = { "id", "state", "host", "pid", "step", "epoch",
	"train_loss", "examples", "examples_per_second", "pushed_bytes", "pulled_bytes", "doing",
	"doing_seconds", "seen_seconds", "data_seconds", "compute_seconds", "encode_seconds",
	"push_seconds", "wait_seconds", "pull_seconds", "rss_bytes", NULL };
static const char *const server_keys[] = { "id", "state", "host", "pid", "listen", "zone", "step",
	"seen_seconds", "workers", "upstream", "parameter_bytes", "state_bytes", "sessions",
	"pushes_applied", "pushes_merged", "pushes_duplicate", "pushes_late", "pushes_refused",
	"pulls", "received_bytes", "sent_bytes", "rss_bytes", "cpu_seconds", "staleness_mean",
	"apply_p99_seconds", "auth_failures", NULL };

/* A list of copies of the rows with these members only. */
static json_t *pick_members(const json_t *rows, const char *const *keys)
{
	json_t *out = json_array();
	const json_t *row;
	size_t i;

	json_array_foreach(rows, i, row) {
		json_t *o = json_object();

		for (const char *const *k = keys; *k; k++)
			if (json_object_get(row, *k))
				json_object_set(o, *k, json_object_get(row, *k));
		json_array_append_new(out, o);
	}
	return out;
}

/* Rows that need attention come first: lost, then joining, then the slow ones. */
static int trouble_rank(const json_t *row)
{
	int64_t state = words_member(words_worker_state, row, "state");

	return state == WORKER_LOST   ? 0
	    : state == WORKER_JOINING ? 1
	    : state == WORKER_ACTIVE  ? 2
	                              : 3;
}

static int by_trouble(const void *a, const void *b)
{
	const json_t *x = *(json_t *const *)a, *y = *(json_t *const *)b;
	int64_t step = json_int(x, "step", 0), other = json_int(y, "step", 0);

	if (trouble_rank(x) != trouble_rank(y))
		return trouble_rank(x) - trouble_rank(y);
	return step < other ? -1 : step > other;
}

/* {"all":N,"rows":[...]} with at most ROWS_MAX rows; takes the reference of the list. */
static json_t *shorten_rows(json_t *rows)
{
	size_t n = json_array_size(rows);
	json_t **order, *few;

	if (n <= ROWS_MAX)
		return json_pack("{s:I, s:o}", "all", (json_int_t)n, "rows", rows);
	order = mem_array(n, sizeof *order);
	few = json_array();
	for (size_t i = 0; i < n; i++)
		order[i] = json_array_get(rows, i);
	qsort(order, n, sizeof *order, by_trouble);
	for (size_t i = 0; i < ROWS_MAX; i++)
		json_array_append(few, order[i]);
	free(order);
	json_decref(rows);
	return json_pack("{s:I, s:o}", "all", (json_int_t)n, "rows", few);
}

static void count_holder(json_t *servers, size_t server, const char *what, json_int_t n)
{
	json_t *row = json_array_get(servers, server);

	if (row)
		json_object_set_new(row, what, json_integer(json_int(row, what, 0) + n));
}

/* Add to each server row for how many partitions it is the primary and for how many a replica,
 * and cut long lists of runs. */
static void count_partitions(json_t *layout, json_t *servers)
{
	json_t *table, *runs, *run;
	size_t i, r;

	json_array_foreach(json_object_get(layout, "tables"), i, table) {
		runs = json_object_get(table, "runs");
		json_array_foreach(runs, r, run) {
			const json_t *chain = json_array_get(run, 2);
			json_int_t n = json_integer_value(json_array_get(run, 1));

			for (size_t k = 0; k < json_array_size(chain); k++)
				count_holder(servers,
				    (size_t)json_integer_value(json_array_get(chain, k)),
				    k ? "copies" : "firsts", n);
		}
		json_object_set_new(table, "runs_all",
		    json_integer((json_int_t)json_array_size(runs)));
		while (json_array_size(runs) > RUNS_MAX)
			json_array_remove(runs, json_array_size(runs) - 1);
	}
}

static void update_feed_part(struct dashboard_feed *b, enum part_id id, uint64_t tick,
    json_t *value)
{
	char *text = json_dumps(value, DUMP);

	json_decref(value);
	if (!text || (b->part[id].text && strcmp(b->part[id].text, text) == 0)) {
		free(text);
		return;
	}
	free(b->part[id].text);
	b->part[id].text = text;
	b->part[id].since = tick;
}

static void drop_member(json_t *o, const char *key)
{
	json_object_del(o, key);
}

/* Only quick work is done under the coordinator's lock. */
static void take_board_snapshot(struct dashboard_feed *b, struct coordinator *coordinator)
{
	int64_t now = clock_now();
	uint64_t tick = (uint64_t)(clock_wall() / NSEC_PER_MSEC);
	json_t *status, *why, *servers, *workers, *relays, *layout, *row, *all;
	size_t i;

	coordinator_lock(coordinator);
	status = coord_status(coordinator->coord, now);
	ownership_add_status(coordinator, status);
	why = coord_why(coordinator->coord, now);
	servers = coord_servers(coordinator->coord, now);
	workers = coord_workers(coordinator->coord, now);
	relays = coord_relays(coordinator->coord, now);
	layout = coord_layout(coordinator->coord);
	coordinator_unlock(coordinator);
	if (tick <= b->tick)
		tick = b->tick + 1;
	/* A new timestamp alone is not a change. */
	drop_member(status, "ts");
	drop_member(layout, "ts");
	json_array_foreach(why, i, row)
		drop_member(row, "ts");
	all = pick_members(servers, server_keys);
	count_partitions(layout, all);
	update_feed_part(b, PART_STATUS, tick, status);
	update_feed_part(b, PART_WHY, tick, why);
	update_feed_part(b, PART_SERVERS, tick, shorten_rows(all));
	update_feed_part(b, PART_WORKERS, tick, shorten_rows(pick_members(workers, worker_keys)));
	update_feed_part(b, PART_RELAYS, tick, shorten_rows(pick_members(relays, server_keys)));
	update_feed_part(b, PART_LAYOUT, tick, layout);
	update_feed_part(b, PART_CONFIG, tick, settings_describe_now(coordinator));
	json_decref(servers);
	json_decref(workers);
	json_decref(relays);
	b->tick = tick;
	b->made = now;
}

/* ---- the answer ---- */

static void put_member(struct buf *out, const char *name, json_t *value)
{
	char *text = json_dumps(value, DUMP);

	buf_printf(out, ",\"%s\":%s", name, text ? text : "null");
	free(text);
	json_decref(value);
}

/* Events from number `from` on, at most EVENTS_MAX of them, and the number to continue at. */
static void put_new_events(struct coordinator *coordinator, struct buf *out, uint64_t from)
{
	uint64_t next;
	json_t *list;

	coordinator_lock(coordinator);
	list = history_events(coordinator->history, from, &next);
	coordinator_unlock(coordinator);
	event_list_trim(list, EVENTS_MAX);
	put_member(out, "events", list);
	buf_printf(out, ",\"events_next\":%llu", (unsigned long long)next);
}

static void put_chart_points(struct coordinator *coordinator, struct buf *out)
{
	const char *run = coordinator->server->cfg.id->run_dir;
	json_t *curve;

	coordinator_lock(coordinator);
	curve = web_curve_json(coordinator->web.curve);
	coordinator_unlock(coordinator);
	json_object_set_new(curve, "colour", json_integer(run ? run_colour_of(run) : 0));
	put_member(out, "curve", curve);
}

/* With the board's lock held. */
static void answer_feed(struct dashboard_feed *b, struct coordinator *coordinator,
    const struct http_request *req, uint64_t since, uint64_t events, struct http_answer *a)
{
	char stamp[32];

	mutex_assert_held(&b->lock);
	clock_stamp(stamp);
	/* The client's tick is from another coordinator, so send everything. */
	if (since > b->tick)
		since = 0;
	buf_printf(&a->text,
	    "{\"v\":1,\"ts\":\"%s\",\"kind\":\"feed\",\"tick\":%llu,\"whole\":%s,\"role\":\"%s\"",
	    stamp, (unsigned long long)b->tick, since ? "false" : "true",
	    role_name(req->peer.role));
	for (size_t i = 0; i < PARTS; i++)
		if (b->part[i].since > since)
			buf_printf(&a->text, ",\"%s\":%s", part_name[i], b->part[i].text);
	put_new_events(coordinator, &a->text, since ? events : 0);
	if (!since)
		put_chart_points(coordinator, &a->text);
	buf_puts(&a->text, "}\n");
	a->content_type = "application/json";
}

static bool parse_number_query(const struct http_request *req, const char *key, uint64_t *out,
    struct http_answer *a)
{
	const char *text = http_query(req, key);

	*out = 0;
	if (!text || num_uint(text, UINT64_MAX, out))
		return true;
	http_fail(a, ERR_USAGE, NULL, "%s: must be a number that is not negative", key);
	return false;
}

int routes_web_feed_get(void *ctx, const struct http_request *req, struct http_answer *a)
{
	struct coordinator *coordinator = ctx;
	struct dashboard_feed *b = coordinator->web.board;
	uint64_t since, events;
	int64_t age;

	if (!parse_number_query(req, "since", &since, a) ||
	    !parse_number_query(req, "events", &events, a))
		return HTTP_DONE;
	mutex_lock(&b->lock);
	age = clock_now() - b->made;
	if (b->tick && since == b->tick && !req->late) {
		a->park_ms = age < PERIOD ? (PERIOD - age) / NSEC_PER_MSEC + 1 : 1;
	} else {
		/* A client that was woken slightly early takes the snapshot that all others get. */
		if (!b->tick || age >= PERIOD - PERIOD / 20)
			take_board_snapshot(b, coordinator);
		answer_feed(b, coordinator, req, since, events, a);
	}
	mutex_unlock(&b->lock);
	return a->park_ms ? HTTP_PARK : HTTP_DONE;
}
