/* SPDX-License-Identifier: ISC */
#ifndef FUZZ_COORDINATOR_H
#define FUZZ_COORDINATOR_H

/* A coordinator that is told anything by anybody, as lib/role/store/session.c passes it on: whatever a
 * text holds, the answer, the view, the status and the state are whole documents that say it. */
#include "core/clock.h"
#include "core/json.h"
#include "core/mem.h"
#include "core/utf8.h"
#include "coord/coord.h"
#include "wire/payload.h"

enum { SPEAKERS = 8 };

struct coordinator {
	struct coord *c;
	struct coord_config cfg;
	struct coord_self self[SPEAKERS];
	json_t *config;
	int64_t now;
	int64_t order[MESSAGE_KINDS]; /* the id of the last order of each kind to a server */
};

static inline void must(bool good)
{
	if (!good)
		abort();
}

/* Parses the text of a document, as another process would; takes its reference. */
static inline json_t *passed_on(json_t *v)
{
	char *text = json_text(v);
	struct err e = { 0 };
	json_t *back = json_parse(text, strlen(text), PAYLOAD_TEXT_MAX, &e);

	must(back && utf8_is_clean(text, strlen(text)));
	free(text);
	json_decref(v);
	return back;
}

static inline void hear_server(void *ctx, unsigned server, json_t *msg)
{
	struct coordinator *f = ctx;
	json_t *heard = passed_on(json_incref(msg));
	struct message m;

	must(server < f->cfg.servers && !message_decode(heard, MESSAGE_COORDINATOR, &m, NULL));
	f->order[m.kind] = json_int(heard, "id", 0);
	json_decref(heard);
}

static inline void hear_change(void *ctx)
{
	(void)ctx;
}

static inline void hear_event(void *ctx, enum event_kind kind, const char *text)
{
	json_t *event = passed_on(
	    json_pack("{s:s, s:s}", "event", event_kind_name(kind), "text", text));

	(void)ctx;
	must(kind < EVENT_KINDS && json_is_string(json_object_get(event, "text")) &&
	    utf8_whole(text, strlen(text)) == strlen(text));
	json_decref(event);
}

static inline struct coord *coordinator_make(struct coordinator *f)
{
	struct coord_io io = { .ctx = f,
		.to_server = hear_server,
		.view_changed = hear_change,
		.event = hear_event };

	return coord_new(&f->cfg, &io, f->now);
}

/* Two servers, three workers, and one session without a place, of each kind of key. */
static inline struct coordinator *coordinator_begin(bool bsp)
{
	static const char *const name[SPEAKERS] = { "server-0", "server-1", "worker-0", "worker-1",
		"worker-2", "relay-0", "admin", "monitor" };
	struct coordinator *f = mem_alloc(sizeof *f);

	f->now = 1000 * NSEC_PER_SEC;
	f->config = json_object();
	f->cfg = (struct coord_config){ .name = "fuzz",
		.cluster_id = "00",
		.servers = 2,
		.workers = 3,
		.replicas = 2,
		.has_job = true,
		.lockstep = bsp,
		.loss_wait = 10 * NSEC_PER_SEC,
		.lease = 5 * NSEC_PER_SEC,
		.server_lost = 1500 * NSEC_PER_MSEC,
		.deadline = 60 * NSEC_PER_SEC,
		.batch = 10,
		.epochs = 2,
		.config = f->config };
	for (unsigned i = 0; i < SPEAKERS; i++)
		f->self[i] = (struct coord_self){ .kind = i == 6 ? COORD_ADMIN : COORD_NOBODY,
			.incarnation = 10 + i,
			.name = name[i],
			.key = name[i] };
	f->c = coordinator_make(f);
	return f;
}

static inline void text_stands(const json_t *document, const char *key)
{
	must(json_is_string(json_object_get(document, key)));
}

/* The state as it would be written, and read again. */
static inline json_t *coordinator_state(const struct coordinator *f)
{
	struct state state;
	json_t *json;

	coord_save(f->c, &state);
	json = passed_on(state_encode(&state));
	state_release(&state);
	return json;
}

/* Makes the documents that others are sent, and the state that would be written. */
static inline void coordinator_look(struct coordinator *f)
{
	json_t *view = passed_on(coord_view(f->c)), *status = passed_on(coord_status(f->c, f->now)),
	       *state = coordinator_state(f);

	text_stands(view, "reason");
	text_stands(status, "reason");
	text_stands(state, "reason");
	must(strcmp(json_str(view, "reason", ""), json_str(state, "reason", "")) == 0);
	json_decref(view);
	json_decref(status);
	json_decref(state);
}

/* The roles of the speakers' keys. */
static inline unsigned speaker_role(unsigned who)
{
	static const unsigned role[SPEAKERS] = { ROLE_SERVER, ROLE_SERVER, ROLE_WORKER, ROLE_WORKER,
		ROLE_WORKER, ROLE_RELAY, ROLE_ADMIN, ROLE_MONITOR };

	return role[who];
}

/* One CTL record's payload.  False: it is no JSON, and the session ends. */
static inline bool coordinator_hear(struct coordinator *f, unsigned who, const uint8_t *payload,
    size_t n)
{
	struct coord_self *self = &f->self[who % SPEAKERS];
	struct err e = { 0 };
	json_t *msg = json_parse_to_depth((const char *)payload, n, RECORD_MAX, JSON_PEER_DEPTH,
	           &e),
	       *answer = NULL;
	struct message m;

	if (!msg) {
		struct buf refusal = BUF_INIT;

		must(e.code && e.msg[0]);
		payload_put_nack(&refusal, e.code, e.msg);
		must(
		    utf8_whole((const char *)refusal.data + 4, refusal.len - 4) == refusal.len - 4);
		buf_release(&refusal);
		return false;
	}
	f->now += 20 * NSEC_PER_MSEC;
	if (!message_decode(msg, speaker_role(who % SPEAKERS), &m, &e))
		answer = coord_handle(f->c, self, &m, f->now, &e);
	must(utf8_whole(e.msg, strlen(e.msg)) == strlen(e.msg));
	if (!answer && e.code)
		answer = json_pack("{s:{s:s, s:s}}", "error", "code", err_name(e.code), "message",
		    e.msg);
	if (answer) {
		answer = passed_on(answer);
		must(json_is_object(answer));
		if (e.code)
			must(*json_str(json_object_get(answer, "error"), "message", ""));
	}
	json_decref(answer);
	json_decref(msg);
	coordinator_look(f);
	return true;
}

/* The next coordinator can begin with what this one wrote down last. */
static inline void coordinator_end(struct coordinator *f)
{
	struct err e = { 0 };
	struct coord *next;
	struct state state;
	json_t *json;

	if (!f)
		return;
	json = coordinator_state(f);
	must(state_decode(json, &state, &e) == ERR_OK);
	if (coord_state_is_running(&state)) {
		next = coordinator_make(f);
		must(coord_recover(next, &state, f->now, &e) == ERR_OK);
		coord_free(next);
	}
	state_release(&state);
	json_decref(json);
	coord_free(f->c);
	json_decref(f->config);
	free(f);
}

#endif
