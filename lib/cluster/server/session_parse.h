/* SPDX-License-Identifier: ISC */
#ifndef SERVER_SESSION_PARSE_H
#define SERVER_SESSION_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "core/json.h"

/* Parses long control messages on a thread of its own. A message may have 64 MiB, of which each
 * takes about 10 ms, and the I/O thread of its session may have gradients to move meanwhile. The
 * session's record is held until then.
 *
 * All functions but the last are called by the session's I/O thread. */
struct server_session;
struct server;

/* Shorter messages are parsed where they arrive. */
#define SESSION_PARSE_LONG ((size_t)64 << 10)
/* The bytes of a message. The longest ones join, with the shapes of the tables. */
#define MESSAGE_MAX (64u << 20)

/* Copies the text and has it parsed; afterwards the session's held record is tried again. The
 * session parses no other message. False: there is no thread for it. */
bool session_parse_begin(struct server_session *p, const void *text, size_t len);
/* Is a message being parsed? */
bool session_parse_is_busy(const struct server_session *p);
/* Takes the message that was parsed, if there is one: true, with *msg, or NULL and e as of
 * json_parse. */
bool session_parse_take(struct server_session *p, json_t **msg, struct err *e);
/* The session ends: drops its message. */
void session_parse_drop(struct server_session *p);

/* Ends the thread, before the loops of the I/O threads end. */
void session_parse_stop(struct server *s);

#endif
