/* SPDX-License-Identifier: ISC */
#ifndef COORD_FIXTURE_H
#define COORD_FIXTURE_H

/* A coordinator with a clock in the hand: peers speak JSON to it, proposals and
 * events are kept for looking at. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/json.h"
#include "coord/coord.h"
#include "coord/leases.h"
#include "tap.h"

enum { PEERS = 8 };

struct scene {
	struct coord *c;
	struct coord_config cfg;
	json_t *config;
	int64_t now;
	struct coord_self server[PEERS], worker[PEERS];
	char name[2 * PEERS][16];
	json_t *proposal[PEERS]; /* the last one to each server */
	unsigned proposals, views;
	char events[8192];
	struct logged {
		uint64_t number;
		struct lease_change change;
	} logged[64]; /* changes of leases */
	unsigned nlogged;
	struct err e; /* of the last say() */
};

static inline void scene_to_server(void *ctx, unsigned server, json_t *msg)
{
	struct scene *s = ctx;

	json_decref(s->proposal[server]);
	s->proposal[server] = json_incref(msg);
	s->proposals++;
}

static inline void scene_view_changed(void *ctx)
{
	((struct scene *)ctx)->views++;
}

static inline void scene_event(void *ctx, enum event_kind kind, const char *text)
{
	struct scene *s = ctx;
	size_t n = strlen(s->events);

	snprintf(s->events + n, sizeof s->events - n, "%s: %s\n", event_kind_name(kind), text);
}

static inline void scene_lease_changed(void *ctx, uint64_t number,
    const struct lease_change *change)
{
	struct scene *s = ctx;

	if (s->nlogged < sizeof s->logged / sizeof *s->logged)
		s->logged[s->nlogged++] = (struct logged){ number, *change };
}

/* servers, workers; bsp, 10 examples a batch, 2 epochs, lease 5 s, server lost
 * after 1.5 s, deadline 60 s. */
static inline void scene_open(struct scene *s, unsigned servers, unsigned workers)
{
	*s = (struct scene){ .now = 1000 * NSEC_PER_SEC };
	s->config = json_object();
	s->cfg = (struct coord_config){ .name = "test",
		.cluster_id = "00",
		.servers = servers,
		.workers = workers,
		.has_job = workers > 0,
		.lockstep = true,
		.loss_wait = 10 * NSEC_PER_SEC,
		.lease = 5 * NSEC_PER_SEC,
		.server_lost = 1500 * NSEC_PER_MSEC,
		.deadline = 60 * NSEC_PER_SEC,
		.batch = 10,
		.epochs = 2,
		.config = s->config };
	for (unsigned i = 0; i < PEERS; i++) {
		snprintf(s->name[i], sizeof s->name[i], "server-%u", i);
		snprintf(s->name[PEERS + i], sizeof s->name[i], "worker-%u", i);
		s->server[i] = (struct coord_self){ .incarnation = 10 + i,
			.name = s->name[i],
			.key = s->name[i] };
		s->worker[i] = (struct coord_self){ .incarnation = 20 + i,
			.name = s->name[PEERS + i],
			.key = s->name[PEERS + i] };
	}
}

/* Gives the configuration a key that it does not have yet. */
static inline void scene_set(json_t *config, const char *key, json_t *value)
{
	if (!json_object_get(config, key))
		json_object_set(config, key, value);
	json_decref(value);
}

/* The configuration says what the members of coord_config say that follow from it. */
static inline void scene_configure(struct scene *s)
{
	static const char *const
	    policy[] = { [COORD_SHRINK] = "shrink", [COORD_WAIT] = "wait", [COORD_FAIL] = "fail" };
	char loss[64];

	snprintf(loss, sizeof loss, "%s", policy[s->cfg.on_worker_loss]);
	if (s->cfg.on_worker_loss == COORD_WAIT)
		snprintf(loss, sizeof loss, "wait:%lldns", (long long)s->cfg.loss_wait);
	scene_set(s->config, "sync", json_string(s->cfg.lockstep ? "bsp" : "asp"));
	scene_set(s->config, "on_worker_loss", json_string(loss));
	scene_set(s->config, "job", json_pack("{s:I}", "batch", (json_int_t)s->cfg.batch));
}

static inline void scene_begin(struct scene *s)
{
	struct coord_io io = { s, scene_to_server, scene_view_changed, scene_event,
		scene_lease_changed };

	scene_configure(s);
	s->c = coord_new(&s->cfg, &io, s->now);
}

/* The state that would be written, as a document; and a recovery from such a document. */
static inline json_t *saved_state(const struct coord *c)
{
	struct state state;
	json_t *json;

	coord_save(c, &state);
	json = state_encode(&state);
	state_release(&state);
	return json;
}

static inline enum err_code recover_from(struct coord *c, const json_t *json, int64_t now,
    struct err *e)
{
	struct state state;
	enum err_code rc = state_decode(json, &state, e);

	if (!rc)
		rc = coord_recover(c, &state, now, e);
	state_release(&state);
	return rc;
}

/* Kill the coordinator and begin one from a state of it; from its last one. */
static inline bool scene_again_from(struct scene *s, const json_t *state)
{
	struct coord_io io = { s, scene_to_server, scene_view_changed, scene_event,
		scene_lease_changed };

	coord_free(s->c);
	s->events[0] = 0;
	s->now += 3 * NSEC_PER_SEC;
	s->c = coord_new(&s->cfg, &io, s->now);
	return recover_from(s->c, state, s->now, &s->e) == ERR_OK;
}

static inline bool scene_again(struct scene *s)
{
	json_t *state = saved_state(s->c);
	bool ok = scene_again_from(s, state);

	json_decref(state);
	return ok;
}

static inline void scene_close(struct scene *s)
{
	coord_free(s->c);
	for (unsigned i = 0; i < PEERS; i++)
		json_decref(s->proposal[i]);
	json_decref(s->config);
}

static inline void pass(struct scene *s, double seconds)
{
	/* In steps, as the owner's ticker does. */
	int64_t end = s->now + (int64_t)(seconds * 1e9);

	while (s->now < end) {
		s->now += 50 * NSEC_PER_MSEC;
		coord_tick(s->c, s->now);
	}
}

/* As a session does: decode the message by the role of its key, and hand it on. */
static inline json_t *hear_json(struct coord *c, struct coord_self *who, const json_t *json,
    int64_t now, struct err *e)
{
	const char *op = json_str(json, "op", "");
	unsigned role = who->kind == COORD_SERVER || strcmp(op, "server_join") == 0 ? ROLE_SERVER
	    : who->kind == COORD_RELAY || strcmp(op, "relay_join") == 0             ? ROLE_RELAY
	    : who->kind == COORD_ADMIN                                              ? ROLE_ADMIN
	                                                                            : ROLE_WORKER;
	struct message m;

	return message_decode(json, role, &m, e) ? NULL : coord_handle(c, who, &m, now, e);
}

/* What a peer says; the answer's text in a static buffer, "" for none. */
__attribute__((format(printf, 3, 4))) static inline const char *say(struct scene *s,
    struct coord_self *who, const char *fmt, ...)
{
	static char out[2048];
	char text[1024], *t;
	json_t *msg, *answer;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	s->e = (struct err){ 0 };
	msg = json_parse(text, strlen(text), sizeof text, &s->e);
	if (!msg)
		abort();
	answer = hear_json(s->c, who, msg, s->now, &s->e);
	out[0] = 0;
	if (answer) {
		t = json_text(answer);
		snprintf(out, sizeof out, "%s", t);
		free(t);
	}
	json_decref(answer);
	json_decref(msg);
	return out;
}

static inline const char *join_as_server(struct scene *s, unsigned i)
{
	return say(s, &s->server[i],
	    "{\"op\":\"server_join\",\"index\":%u,\"pid\":%u,\"host\":\"h%u\",\"tcp\":\"h%u:1\"}",
	    i, 100 + i, i, i);
}

static inline const char *join_as_worker(struct scene *s, unsigned i, int rank)
{
	return say(s, &s->worker[i],
	    "{\"op\":\"worker_join\",\"rank\":%d,\"pid\":%u,\"host\":\"h\",\"examples\":100,\"tables\":"
	    "[{\"name\":\"w\",\"rows\":5,\"cols\":1}]}",
	    rank, 200 + i);
}

static inline void ack_all(struct scene *s)
{
	for (unsigned i = 0; i < s->cfg.servers; i++)
		say(s, &s->server[i], "{\"op\":\"ack\",\"rev\":%llu}",
		    (unsigned long long)coord_rev(s->c));
}

/* Everybody there, the layout taken over: running. */
static inline void scene_run(struct scene *s)
{
	scene_begin(s);
	for (unsigned i = 0; i < s->cfg.servers; i++)
		join_as_server(s, i);
	for (unsigned i = 0; i < s->cfg.workers; i++)
		join_as_worker(s, i, -1);
	ack_all(s);
}

static inline void beat_servers(struct scene *s)
{
	for (unsigned i = 0; i < s->cfg.servers; i++)
		say(s, &s->server[i], "{\"op\":\"beat\"}");
}

/* Time passes with signs of life from all servers and the workers in a mask. */
static inline void live(struct scene *s, double seconds, unsigned workers)
{
	int64_t end = s->now + (int64_t)(seconds * 1e9);

	while (s->now < end) {
		beat_servers(s);
		for (unsigned i = 0; i < PEERS; i++)
			if (workers >> i & 1)
				say(s, &s->worker[i], "{\"op\":\"beat\"}");
		pass(s, 0.2);
	}
}

static inline void vote(struct scene *s, unsigned server, bool yes, unsigned first_free,
    unsigned clock)
{
	say(s, &s->server[server],
	    "{\"op\":\"vote\",\"id\":%lld,\"yes\":%s,\"first_free\":%u,\"clock\":%u}",
	    (long long)json_int(s->proposal[server], "id", 0), yes ? "true" : "false", first_free,
	    clock);
}

/* The server answers the question which pushes of a rank it has: [[table, first, count, end], ...]. */
static inline void settle(struct scene *s, unsigned server, const char *taken)
{
	say(s, &s->server[server], "{\"op\":\"settled\",\"id\":%lld,\"taken\":%s}",
	    (long long)json_int(s->proposal[server], "id", 0), taken);
}

static inline bool in_phase(const struct scene *s, enum phase p)
{
	return coord_phase(s->c) == p;
}

static inline bool happened(const struct scene *s, const char *what)
{
	return strstr(s->events, what) != NULL;
}

/* A member of one worker in the view, as text. */
static inline const char *worker_is(const struct scene *s, unsigned rank)
{
	static char state[16];
	json_t *v = coord_view(s->c);

	snprintf(state, sizeof state, "%s",
	    json_str(json_array_get(json_object_get(v, "workers"), rank), "state", "?"));
	json_decref(v);
	return state;
}

/* The last members entry: its step, and a mask of its ranks. */
static inline unsigned members_of(const struct scene *s, uint64_t *step, uint64_t *epoch,
    uint64_t *offset)
{
	json_t *v = coord_view(s->c), *list = json_object_get(v, "members"), *rank;
	const json_t *m = json_array_get(list, json_array_size(list) - 1);
	unsigned mask = 0;
	size_t i;

	*step = (uint64_t)json_int(m, "step", 0);
	*epoch = (uint64_t)json_int(m, "epoch", 0);
	*offset = (uint64_t)json_int(m, "offset", 0);
	json_array_foreach(json_object_get(m, "ranks"), i, rank)
		mask |= 1u << json_integer_value(rank);
	json_decref(v);
	return mask;
}

static inline int evaluator_of(const struct scene *s)
{
	json_t *v = coord_view(s->c);
	int n = (int)json_int(v, "evaluator", -2);

	json_decref(v);
	return n;
}

static inline int64_t status_int(const struct scene *s, const char *key)
{
	json_t *st = coord_status(s->c, s->now);
	int64_t n = json_int(st, key, -1);

	json_decref(st);
	return n;
}

static inline const char *status_str(const struct scene *s, const char *key)
{
	static char text[700];
	json_t *v = coord_status(s->c, s->now);

	snprintf(text, sizeof text, "%s", json_str(v, key, "?"));
	json_decref(v);
	return text;
}

#endif
