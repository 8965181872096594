#ifndef SERVER_GIVEN_H
#define SERVER_GIVEN_H

#include "server/state.h"

/* Which relay speaks for which slots: the view's word, for the shard. */

/* Before the view's epoch is told to anybody; the agent's thread.  self: this relay's
 * number; -1: a server. */
void given_take(struct server *s, const json_t *view, int self);
/* Does all of this worker (a row of the view) come through this relay? */
bool given_ours(struct server *s, const json_t *worker, int self);
void given_free(struct given *g);
/* Is this the living relay of that key?  Any thread. */
bool given_knows(struct server *s, const char *key, uint64_t incarnation);

#endif
