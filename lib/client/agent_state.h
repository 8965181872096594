#ifndef CLIENT_AGENT_STATE_H
#define CLIENT_AGENT_STATE_H

/* Inside of an agent: shared by agent.c, its thread, and agent_call.c, what is
 * asked from others. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/buf.h"
#include "client/agent.h"

/* A question under way.  It lives on the asker's stack while it waits; tells
 * are on the heap and have no waiter. */
struct ask {
	struct ask *next;
	char *text;
	uint64_t seq;
	bool sent, done, tell;
	json_t *answer;
	struct err why;
};

struct agent {
	struct agent_config cfg;
	pthread_t thread;
	pthread_mutex_t lock;           /* asks, next_seq, cfg.join, ended, over */
	pthread_cond_t answered;
	struct ask *asks;
	uint64_t next_seq;
	_Atomic bool stop, up;          /* up: a session stands, and the join is answered */
	_Atomic(const struct interrupt *) interrupt;    /* calls are given up; NULL: they are not */
	_Atomic int64_t heartbeat, deadline;    /* of cfg, until agent_set_pace */
	bool ended;
	bool over;                      /* the cluster has said that it ends */
	int wake;
	/* the agent's thread only */
	struct conn *conn;
	struct err fault;               /* of the present connection */
	bool refused;                   /* the coordinator said no: do not try again */
	struct buf text;                /* of the present message, which may come in pieces */
	struct buf view;                /* not yet read: a newer one may follow */
	unsigned denied;                /* handshakes refused one after the other */
	int64_t epoch;                  /* of the last view's layout; 0: none yet */
	bool joined, was_up;            /* was_up: at some time */
	int64_t next_beat;
};

/* Make the thread look. */
void agent_ring(struct agent *a);
/* On the agent's thread only: send a text; send what is asked; hand over an
 * answer (takes it: jansson's counts may not be shared between threads). */
void agent_send(struct agent *a, const char *text, uint64_t seq);
void agent_send_asks(struct agent *a);
void agent_answer(struct agent *a, uint64_t seq, json_t *answer);
/* Those that were sent on a broken session are sent again on the next: every
 * operation may be repeated. */
void agent_unsend(struct agent *a);

#endif
