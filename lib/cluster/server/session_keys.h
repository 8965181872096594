/* SPDX-License-Identifier: ISC */
#ifndef SERVER_SESSION_KEYS_H
#define SERVER_SESSION_KEYS_H

#include "server/server_state.h"

/* Sessions are cut when the key that they were made with is revoked or expires. */

/* Look up the key of every session again, and cut the sessions whose key is gone.  When all I/O
 * threads have done so, the coordinator is told how many sessions of each key name were cut, and
 * `made`, the version of the ring.  Any thread; does not wait. */
void session_keys_recheck(struct server *s, uint64_t made);
/* Cut the sessions whose key has expired.  The I/O thread calls it at each tick. */
void session_keys_expire(struct io_thread *l);
/* Count the sessions by the name of their key: a new object {name: count}.  Waits for the I/O
 * threads, so the caller is none of them and holds no lock that they take. */
json_t *session_keys_census(struct server *s);

#endif
