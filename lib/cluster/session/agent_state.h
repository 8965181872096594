/* SPDX-License-Identifier: ISC */
#ifndef SESSION_AGENT_STATE_H
#define SESSION_AGENT_STATE_H

/* The inside of an agent, shared by agent.c (its thread), agent_dial.c (how that thread reaches a
 * coordinator) and agent_call.c (calls from other threads).
 *
 * States of the agent's thread:
 *
 *   state     event                                           next state
 *   DIALLING  connected, and the handshake completes at one   JOINING, sends `join`; JOINED at once
 *             address (agent_dial.c): on_agent_live           when there is no `join`
 *   JOINING   the answer to `join` is not an error            JOINED: `up` is true
 *   JOINING   the answer is an error                          ENDED (refused)
 *   JOINING   no answer within HELLO_DEADLINE                 WAITING
 *   JOINED    heartbeats and messages are exchanged           JOINED
 *   any       the connection fails, breaks or is silent       WAITING, or ENDED (see may_retry)
 *   WAITING   the retry interval has passed                   DIALLING
 *   any       agent_stop: sends BYE                           ENDED
 *
 * ENDED sets `ended`, which ends every agent_call, and calls cfg.lost unless agent_stop was the
 * cause.
 *
 * `lock` protects the fields that its comment names; the thread releases it before each callback
 * and each wait. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "core/buf.h"
#include "core/lock.h"
#include "core/thread_owner.h"
#include "session/agent.h"

/* A message to the coordinator. A call lives on its caller's stack until the answer has arrived.
 * A message with `tell` lives on the heap and gets no answer: without a name it is freed when
 * it has been sent, and with a name it stays, to be sent in every session. */
struct ask {
	struct ask *next;
	char *text;
	char name[24];
	/* number by which an answer finds its call; unique in this agent */
	uint64_t seq;
	bool sent, done, tell;
	json_t *answer;
	struct err why;
};

struct agent {
	struct agent_config cfg;
	pthread_t thread;
	struct mutex lock; /* asks, next_seq, cfg.join, ended, over, address */
	pthread_cond_t answered;
	struct ask *asks;
	uint64_t next_seq;
	_Atomic bool stop, up; /* up: a session is there, and the join has its answer */
	_Atomic(const struct interrupt *) interrupt; /* ends calls; NULL: nothing does */
	_Atomic int64_t heartbeat, deadline;         /* as in cfg, until agent_set_pace */
	bool ended;
	bool over;              /* a view said that the cluster has ended */
	char address[NET_TEXT]; /* at which it reached the coordinator last; "": it has not */
	/* eventfd: any thread writes it to end the agent's wait */
	int wake;
	/* Only the agent's thread uses these: */
	struct thread_owner owner;
	struct conn *conn;
	bool memory_is_short; /* and the log says so (watch_memory) */
	struct err fault;     /* of the present connection */
	bool refused;         /* the coordinator refused the join: do not try again */
	struct buf text;      /* the message that is being received */
	/* a view that was received and not yet parsed: a newer one may follow */
	struct buf view;
	size_t next_address; /* number of the address to try first */
	/* When the coordinator was asked for an answer that has not arrived, 0: it owes none; and when
	 * it was asked last */
	int64_t asked_at, asked_last;
	char *listed;         /* the addresses of the coordinators in the last view; NULL: none */
	unsigned denied;      /* handshakes refused in a row */
	int64_t denied_since; /* when the first of them was (clock_now) */
	int64_t layout_epoch; /* of the last view's layout; 0: none yet */
	bool joined, was_up;  /* joined: in this session; was_up: in any session */
	/* clock_now time of the next heartbeat; 0: send one at once */
	int64_t next_beat;
	/* the description of this process in heartbeats, and when it is made again */
	json_t *about;
	int64_t next_about;
};

/* Does the list of addresses have this one? */
bool agent_lists(const char *list, const char *address);
/* Reaches one of the coordinators: a->conn is the new session, whose handshake is complete. After an error
 * it may be there, too, when the error is one of the session. On the agent's thread. */
enum err_code agent_dial(struct agent *a, struct err *e);
extern const struct conn_handler agent_handler;

/* Wake the agent's thread. Any thread. */
void agent_wake(struct agent *a);
/* On the agent's thread only. agent_send: send a text. agent_send_messages: send all messages that
 * this session has not sent. agent_deliver_answer: give an answer to the call that waits for it
 * (takes the reference, because jansson's counts may not be shared between threads). */
void agent_send(struct agent *a, const char *text, uint64_t seq);
void agent_send_messages(struct agent *a);
void agent_deliver_answer(struct agent *a, uint64_t seq, json_t *answer);
/* The session broke: messages that were sent on it are sent again on the next one. That is
 * safe because every operation may be repeated. */
void agent_requeue_messages(struct agent *a);

#endif
