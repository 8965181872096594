/* SPDX-License-Identifier: ISC */
#ifndef SERVER_RELAYED_RANKS_H
#define SERVER_RELAYED_RANKS_H

#include "server/server_state.h"

/* Which relay pushes for which workers, by the view. A server or relay takes sums and clocks of a
 * worker only from the last relay on the worker's way to it. server.keys.relays has the relays,
 * guarded by keys.lock. */

/* Install the relays of a view in the shard and in s->keys.relays. The agent's thread, before
 * epochs.installed is set to the view's. self: the number of this relay; -1: a server. */
void relayed_ranks_install(struct server *s, const struct view *view, int self);
/* Does this worker (a row of the view) use this relay, directly or through other relays? */
bool relayed_ranks_comes_here(struct server *s, const struct view_worker *worker, int self);
/* Frees a table of relays that is installed nowhere. NULL is fine. */
void relayed_ranks_free(struct relayed_ranks *g);
/* Is the process of this incarnation the living relay with this key? Any thread. */
bool relayed_ranks_knows_relay(struct server *s, const char *key, uint64_t incarnation);

#endif
