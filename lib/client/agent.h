#ifndef CLIENT_AGENT_H
#define CLIENT_AGENT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "wire/conn.h"

/* A process's line to the coordinator: one thread that keeps a session up,
 * sends heartbeats, hands over views and notices, and carries questions.  All
 * callbacks run on that thread; calls may come from any other. */
struct agent;

#define AGENT_ADDRESSES 2

struct agent_config {
	const char *addr[AGENT_ADDRESSES];      /* tried in turn: "unix:PATH", "host:port"; NULL: none */
	uint8_t server_key[32];
	const struct conn_identity *id;
	struct hs_client_info info;
	json_t *join;                           /* sent at each (re)connection; NULL: none */
	int64_t heartbeat, deadline;            /* ns; deadline: for being without the coordinator */
	bool eager;                             /* who cannot be reached at first is not waited for */
	struct log *log;
	void *ctx;
	/* The answer to `join`. */
	void (*joined)(void *ctx, const json_t *answer);
	void (*view)(void *ctx, const json_t *view);
	bool latest;                            /* of views that are here already, only the last */
	void (*notice)(void *ctx, const json_t *msg);
	/* Figures for the heartbeat, a new reference; NULL: none. */
	json_t *(*stats)(void *ctx);
	/* The coordinator cannot be had: it refused, or the deadline has passed.
	 * The agent has ended. */
	void (*lost)(void *ctx, const struct err *why);
};

/* Copies cfg (not what its pointers point to, but for join, of which it takes
 * a reference). */
enum err_code agent_start(const struct agent_config *cfg, struct agent **out, struct err *e);
/* Say goodbye and end the thread. */
void agent_stop(struct agent *a);
/* For a callback on the agent's thread that takes long: a heartbeat, if one is due,
 * which says so. */
void agent_alive(struct agent *a);

/* Ask and wait.  *answer is a new reference; msg is borrowed.  ERR_STOPPED when
 * it was given up, or the cluster ends. */
enum err_code agent_call(struct agent *a, const json_t *msg, int64_t timeout_ns, json_t **answer, struct err *e);
/* Calls are given up when this comes (borrowed; NULL: none, as at first). */
void agent_set_interrupt(struct agent *a, const struct interrupt *i);
/* Is there a session at present? */
bool agent_is_up(struct agent *a);
/* What to send at the next (re)connection, instead of cfg.join. */
void agent_set_join(struct agent *a, json_t *join);
/* The pace of heartbeats, and how long to be without the coordinator, once the
 * configuration is known. */
void agent_set_pace(struct agent *a, int64_t heartbeat, int64_t deadline);
/* A heartbeat now, from a callback: what it tells of will not change any more, or not be asked
 * for again. */
void agent_beat(struct agent *a);
/* Say, and do not wait for an answer. */
void agent_tell(struct agent *a, const json_t *msg);

#endif
