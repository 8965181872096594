#ifndef SERVER_GIVEN_H
#define SERVER_GIVEN_H

#include "server/state.h"

/* Which relay speaks for which slots: the view's word, for the shard. */

/* Before the view's epoch is told to anybody; the agent's thread. */
void given_take(struct server *s, const json_t *view);
void given_free(struct given *g);
/* Is this the living relay of that key?  Any thread. */
bool given_knows(struct server *s, const char *key, uint64_t incarnation);

#endif
