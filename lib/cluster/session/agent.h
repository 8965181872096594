/* SPDX-License-Identifier: ISC */
#ifndef SESSION_AGENT_H
#define SESSION_AGENT_H

#include <stdbool.h>
#include <stdint.h>

#include "core/err.h"
#include "core/thread.h"
#include "core/json.h"
#include "core/log.h"
#include "msg/message.h"
#include "msg/view.h"
#include "socket/net.h"
#include "wire/conn.h"

/* A process's session with the coordinator: one thread connects and reconnects, joins, sends
 * heartbeats, delivers views and notices, and carries calls. agent_state.h draws its states.
 *
 * All callbacks run on the agent's thread, without a lock; they may call agent_beat_busy,
 * agent_beat and agent_tell, and must not call agent_call or agent_stop. All other functions
 * may be called by any other thread. */
struct agent;

#define AGENT_ADDRESSES 2

struct agent_config {
	/* The coordinators: each a list of addresses (net_list_at), or a "unix:PATH" of any length;
	 * NULL: none. They all have server_key. The first one that completes a handshake is taken;
	 * the next session begins with the address after the one at which a process has refused or
	 * left this one before it had joined, else with the first one. */
	const char *addr[AGENT_ADDRESSES];
	uint8_t server_key[32];
	const struct conn_identity *id;
	struct hs_client_info info;
	json_t *join; /* sent in each new session; NULL: none */
	/* ns; deadline: how long it goes on without the coordinator */
	int64_t heartbeat, deadline;
	/* fail at once when the coordinator cannot be reached at the start */
	bool eager;
	struct log *log;
	void *ctx;
	/* The answer to `join`. */
	void (*joined)(void *ctx, const json_t *answer);
	/* Borrowed; view_ref keeps it. */
	void (*view)(void *ctx, const struct view *view);
	/* deliver only the last of several received views */
	bool latest;
	void (*notice)(void *ctx, const json_t *msg);
	/* Statistics for the heartbeat, as a new reference; NULL: none. */
	json_t *(*stats)(void *ctx);
	/* The agent has ended: the coordinator refused, or the deadline has passed. */
	void (*lost)(void *ctx, const struct err *why);
};

/* Start the thread. Copies cfg, but not the data that its pointers refer to; of `join` it
 * takes a reference. ERR_IO. */
enum err_code agent_start(const struct agent_config *cfg, struct agent **out, struct err *e);
/* Send BYE, end the thread and free the agent. NULL is fine. */
void agent_stop(struct agent *a);
/* For a callback that takes long: send a heartbeat if one is due, marked as busy. */
void agent_beat_busy(struct agent *a);

/* Call the coordinator and wait for the answer. *answer is a new reference; msg is borrowed.
 * The call is sent again when the session breaks. ERR_STOPPED: interrupted, or the cluster has
 * ended; ERR_UNREACH: the agent has ended; ERR_TIMEOUT; else the coordinator's error. */
enum err_code agent_call(struct agent *a, const json_t *msg, int64_t timeout_ns, json_t **answer,
    struct err *e);
/* Calls end with ERR_STOPPED when this interrupt comes (borrowed; NULL: none, as at first). */
void agent_set_interrupt(struct agent *a, const struct interrupt *i);
/* The address at which it has reached the coordinator last; "": it has not yet. */
void agent_address(struct agent *a, char out[static NET_TEXT]);
/* Is there a joined session at present? */
bool agent_is_up(struct agent *a);
/* Replace cfg.join for the next sessions. Copies it. */
void agent_set_join(struct agent *a, json_t *join);
/* Set the heartbeat interval and the deadline, in ns, once the configuration is known. */
void agent_set_pace(struct agent *a, int64_t heartbeat, int64_t deadline);
/* From a callback: send a heartbeat now, because its statistics are final or will not be asked
 * for again. */
void agent_beat(struct agent *a);
/* Send a message without waiting for an answer. It may be lost with the session. Takes the
 * reference, as agent_tell_lasting does. */
void agent_tell(struct agent *a, json_t *msg);
/* Send a message now and again in each later session, so that the coordinator is sure to get
 * it, until another message replaces it under the same name. name: at most 23 bytes. */
void agent_tell_lasting(struct agent *a, const char *name, json_t *msg);

#endif
