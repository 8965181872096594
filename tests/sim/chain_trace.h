/* SPDX-License-Identifier: ISC */
#ifndef SIM_CHAIN_TRACE_H
#define SIM_CHAIN_TRACE_H

/* Notes what happens to one partition, in order, for the model of the chain (tests/model/README): the
 * layouts, and at each server which layout it installs, which pushes it takes, what it sends, receives and
 * acknowledges. Nothing in lib knows of it: the build wraps the functions that are listed in
 * chain_calls.def, and the wrappers (chain_calls.c, chain_members.c) call the real function and note
 * an event here.
 *
 * A function returns later than its effect, which others may have seen by then. So an event is noted
 * when the lock of the partition is released for the first time within the function (chain_unlocked).
 * A change of the partition outside of all these functions is noted as an event of its own, which the
 * model does not have.
 *
 * When the world has ended, chain_trace_print looks through the events, and prints those that the model
 * can follow, in its numbers: servers by process, layout epochs from 1 on, the pushes of rank 0 that the
 * model tells apart. */

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "layout/layout.h"

enum chain_event_kind {
	CHAIN_NOTHING, /* it turned out to be none */
	CHAIN_UNKNOWN, /* the partition changed, and no function says why */
	CHAIN_FIRST,   /* a server of the first chain */
	CHAIN_LOSE,    /* coordinator: a server leaves the chain, or joins no more */
	CHAIN_JOINED,  /* coordinator: the joining server becomes the tail */
	CHAIN_JOIN,    /* coordinator: a server begins to join */
	CHAIN_SAME,    /* coordinator: a layout with the same chain */
	CHAIN_INSTALL,
	CHAIN_TOOK,
	CHAIN_FEED, /* the state transfer to the joining server begins */
	CHAIN_SENT,
	CHAIN_RECEIVED,
	CHAIN_REPLICATED,   /* an acknowledgement is sent to the server before */
	CHAIN_ACKNOWLEDGED, /* and arrives */
	CHAIN_RECEIPT,
	CHAIN_WORKER, /* the worker of rank 0 has another layout */
	CHAIN_CUT,    /* the model cannot follow from here on */
};

/* The partition at one server, as the model compares it. */
struct chain_state {
	uint64_t version, next, joining, safe; /* next, joining: processes; 0: none */
	unsigned nsent;
	bool here, live, head, tail, must, synced;
};

struct chain_event {
	enum chain_event_kind kind;
	uint64_t a, b; /* processes: the server, and the other one */
	uint32_t epoch, rank;
	uint64_t step, seq, version, session, tenure;
	bool state;    /* the record is a state transfer */
	bool applied;  /* the push, or the record, has changed the partition */
	bool same;     /* coordinator: in the same epoch as the event before */
	bool accepted; /* the worker has taken the receipt */
	int answer;    /* enum shard_answer */
	bool has_after;
	struct chain_state after;
};

/* Are events noted? */
extern bool chain_on;
/* Begin to note. */
void chain_trace_begin(void);
/* Write the trace into a file of this folder that has the seed as its name, and end it. */
void chain_trace_print(const char *dir, uint64_t seed);
/* A new event at the end; valid until the next one. Its number is chain_last(). */
struct chain_event *chain_note(enum chain_event_kind kind);
size_t chain_last(void);
struct chain_event *chain_event_at(size_t i);

/* chain_members.c: the layout as a server shows it for the first time; `process` by server. */
void chain_layout_begin(uint32_t epoch, const struct run *run, const uint64_t *process);
/* An epoch that was installed: the coordinator has made it, and all before it. */
void chain_layout_seen(uint32_t epoch);
void chain_layout_reset(void);
uint32_t chain_first_epoch(void);

/* chain_calls.c: a lock was released by the current fiber. */
void chain_unlocked(const pthread_mutex_t *m);
void chain_calls_reset(void);

/* The run of the partition that is traced, or NULL. */
const struct run *chain_run(const struct layout *l);
bool chain_is_traced(const struct table *t, uint32_t part);

#endif
