/* SPDX-License-Identifier: ISC */
#ifndef STORE_STORE_STATE_H
#define STORE_STORE_STATE_H

/* The inside of a store, the role that holds partitions, in a server process
 * (server/server_state.h).
 *
 * Threads beside the threads of the server process:
 *
 *   replication   struct repl (replicate.h): connections to the next replicas.
 *   checkpoint    struct checkpoint_writer (checkpoint_writer.h): snapshots and their files.
 *   agent         owns by_agent.
 *
 * repl.lock is taken under a partition's lock. */
#include "ckpt/read.h"
#include "core/read_retry.h"
#include "server/server_role.h"

struct repl;
struct checkpoint_writer;

/* The checkpoint that the partitions begin from (restored.h). */
struct restored {
	struct ckpt_reader *reader; /* NULL: none, or done */
	char *path;                 /* of reader, or NULL */
	char *checked;              /* the path that was checked last, or NULL */
	struct ckpt_share share;    /* that was compared then */
};

/* State that only the agent's thread uses. */
struct store_agent_state {
	/* store_settings.c: the configuration in force, the number of its settings epoch, and the
	 * log level of the last view. */
	json_t *config;
	int64_t number;
	char level[LOG_LEVEL_TEXT];
	char *init_path; /* the file with initial values; NULL: not found yet, or there is none */
	bool finishing;  /* the last view had the phase "finishing" */
	struct restored restored;
	json_t *unvoted;   /* a proposal from before there was a shard, or NULL */
	uint64_t proposal; /* voted on and not yet decided; 0: none */
};

struct store {
	struct repl *repl;                /* replication to the next replicas */
	struct checkpoint_writer *writer; /* checkpoints */
	_Atomic uint64_t saves;           /* the id of the checkpoint that is being made; 0: none */
	struct store_agent_state by_agent;
};

static inline struct store *store_of(const struct server *s)
{
	return s->role_state;
}

/* A file with parameters cannot be read because of *e. True: reading is to be tried again, and the
 * pause before that is over; heartbeats were sent meanwhile. False: not again; *e is ERR_STOPPED if
 * this process is about to end. The agent's thread. */
bool store_may_read_again(struct server *s, struct read_retry *r, struct err *e);

/* Handles a message of the coordinator, store_on_NAME. The agent's thread; it does not wait. */
typedef void store_message_fn(struct server *s, const struct message *m);
#define TO_STORE(name)   store_message_fn store_on_##name;
#define TO_SERVERS(name) store_message_fn store_on_##name;
#include "msg/message.def"

static inline struct store_agent_state *store_agent(const struct server *s)
{
	return &store_of(s)->by_agent;
}

#endif
