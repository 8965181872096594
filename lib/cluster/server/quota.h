/* SPDX-License-Identifier: ISC */
#ifndef SERVER_QUOTA_H
#define SERVER_QUOTA_H

#include "server/server_state.h"

/* Quotas: what one worker may push to this server in a second (quota_bytes, quota_pushes). A token
 * bucket for each rank, which all sessions of the worker share, holds at most one second's worth. A
 * push that finds the bucket empty is delayed, and nothing more is read from the session; this
 * slows the worker down, and loses nothing. Without quotas a push costs two atomic loads. The I/O
 * threads share the buckets; quotas.lock guards them, and no lock is taken under it. */

/* Allocate and free s->quotas. */
void quota_init(struct server *s);
/* Frees the buckets, when no I/O thread runs any more. */
void quota_release(struct server *s);
/* May the push of this record be taken now? If so, its cost is taken from the bucket. Called where
 * there is a quota, or one has delayed this push. The session's I/O thread. */
bool quota_admit(struct server_session *p, const struct record *r);
/* Give the cost back: the push waits for another reason, and will be charged when it is tried
 * again. */
void quota_refund(struct server_session *p, const struct record *r);
/* Try the pushes again that quotas delay. The I/O thread calls it at each tick. */
void quota_tick(struct io_thread *l);
/* Take the quotas from the settings of a view. The agent's thread. */
void quota_configure(struct server *s, const struct view_now *now);
/* Add "quota_held", [[rank, seconds], ...], to the statistics of a heartbeat. */
void quota_stats(struct server *s, json_t *o);

#endif
