/* SPDX-License-Identifier: ISC */
#ifndef SERVER_SERVER_ROLE_H
#define SERVER_SERVER_ROLE_H

/* The two kinds of server processes that hold partitions: a store (role/store/store.c) and a relay
 * (role/relay/relay.c). A process without a role only coordinates. The sessions, I/O threads and
 * keys of server_state.h are the same for both; this is what differs. */

#include "shard/sum_body.h"
#include "server/server_state.h"

/* The servers, or the relay, above a relay: they get the clocks of its workers and give it values.
 * All functions may be called by any thread. */
struct server_upstream {
	/* Passes a clock on. Its acknowledgement may be sent when acked() is at least the returned
	 * number; io_threads_wake is called when acked() has grown. */
	uint64_t (*clock)(struct server *s, const struct rank_clock *c);
	uint64_t (*acked)(struct server *s);
	/* Asks for the values of a dense table, or of n rows, at this step, unless they are here or
	 * were asked for. False: there is no room for the rows. */
	void (*want_table)(struct server *s, uint16_t table, uint64_t step, uint32_t epoch);
	bool (*want_rows)(struct server *s, uint16_t table, uint32_t part, uint64_t step,
	    uint32_t epoch, const uint8_t *ids, uint32_t n);
};

struct server_role {
	enum role key_role; /* as which its key is checked */
	/* NULL: it answers by itself. */
	const struct server_upstream *upstream;
	/* The request to join, from this host. A new reference. */
	json_t *(*join_message)(const struct server *s, const char *host);
	/* start makes s->role_state and begins to join; stop begins to end; release frees the state
	 * when the I/O threads have ended. stop and release may follow a failed start. The main
	 * thread. */
	enum err_code (*start)(struct server *s, struct err *e);
	void (*stop)(struct server *s);
	void (*release)(struct server *s);
	/* Something has changed that threads of the role may wait for; called by io_threads_wake
	 * while s->role_waits is set. Any thread, without locks of the shard. NULL: it never sets
	 * role_waits. */
	void (*wake)(struct server *s);
	/* The number of partitions of a table that are here, or about to be. */
	uint64_t (*parts_here)(const struct server *s, const struct table *t);
	/* One line about the process for the service manager; true: it is ready for work. */
	bool (*describe)(struct server *s, char *out, size_t size);
};

static inline const struct server_upstream *server_upstream(const struct server *s)
{
	return s->cfg.role ? s->cfg.role->upstream : NULL;
}

#endif
