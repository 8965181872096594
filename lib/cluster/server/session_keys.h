/* SPDX-License-Identifier: ISC */
#ifndef SERVER_SESSION_KEYS_H
#define SERVER_SESSION_KEYS_H

#include "server/server_state.h"

/* Sessions are cut when the key that they were made with is revoked or expires.
 *
 * The way of a revoked key: its line leaves authorized_keys (coordinator/http/routes_key.c), and
 * the members that use it are lost (coord_revoke). server_reload_keys reads the file into a new
 * ring of the coordinator's process, whose number is `made`; coordinator_send_keys sends the keys
 * to servers and relays in a message, ahead of the next view, and these take them by
 * session_keys_take_message. Each process rechecks its sessions then, and reports to the
 * coordinator when it has cut the sessions of the key, so that POST /v1/keys/revoke can answer. */

/* Replace the ring by the keys of a view, and recheck the sessions if `made` is a new number. The
 * agent's thread. */
void session_keys_take(struct server *s, const struct view_key *keys, size_t n, uint64_t made);
/* Takes the keys of the message "keys" in the same way. */
void session_keys_take_message(struct server *s, const struct message_keys *m);
/* Look up the key of every session again, and cut the sessions whose key is gone. When all I/O
 * threads have done so, this server reports to the coordinator how many sessions of each key name
 * were cut, and `made`, the version of the ring. Any thread; does not wait. */
void session_keys_recheck(struct server *s, uint64_t made);
/* Cut the sessions whose key has expired. The I/O thread calls it at each tick. */
void session_keys_expire(struct io_thread *l);
/* Count the sessions by the name of their key: a new object {name: count}. Waits for the I/O
 * threads, so the caller is not one of them and holds no lock that they take. */
json_t *session_keys_census(struct server *s);

#endif
