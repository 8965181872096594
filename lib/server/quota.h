#ifndef SERVER_QUOTA_H
#define SERVER_QUOTA_H

#include "server/state.h"

/* What a worker may push to this server in a second (quota_bytes, quota_pushes): a bucket for
 * each slot, whatever sessions it has, which holds what a second brings.  A push that finds it empty is held, and nothing more is
 * read of the session: the worker is slowed down by that, and nothing is lost.  Costs a look at two
 * numbers a push where there is no quota. */

void quota_begin(struct server *s);
void quota_end(struct server *s);
/* On the lane's thread: may the push of this record be taken now?  If so it is counted. */
bool quota_takes(struct peer *p, const struct record *r);
/* The push was held for another reason after all: it is counted when it is taken. */
void quota_returns(struct peer *p, const struct record *r);
/* On the lane's thread, every now and then: those who have waited long enough. */
void quota_tick(struct lane *l);
/* Of a view's configuration. */
void quota_know(struct server *s, const json_t *config);
/* How long pushes of each worker were held, into a heartbeat's figures. */
void quota_stats(struct server *s, json_t *o);

#endif
