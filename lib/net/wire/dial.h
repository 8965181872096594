/* SPDX-License-Identifier: ISC */
#ifndef WIRE_DIAL_H
#define WIRE_DIAL_H

#include "socket/net.h"
#include "wire/conn.h"
#include "wire/transport.h"

/* The one way to make a session with another process: choose its address by the transport, connect,
 * and begin the handshake. No state and no locks. When to dial again: core/backoff.h. */

/* The server to dial. */
struct dial_target {
	const char *tcp; /* "host:port" (or "unix:PATH" in full); "": it has no such address */
	const char *unix_path; /* its Unix socket, if it is on this host; else "" or NULL */
	const uint8_t *key;    /* its public key, KEY_BYTES */
	const struct transport *transport;
	const struct conn_identity *id; /* borrowed for the session's life */
	/* Our part of the handshake; dial sets its cluster. */
	struct hs_client_info info;
};

/* Room for the text of a target's address, with a path of any length. */
#define DIAL_TEXT 4200
/* The address that the transport chooses: "host:port" or "unix:PATH"; returns out. */
const char *dial_address(const struct dial_target *to, char out[static DIAL_TEXT]);

/* Begin a session: *out is its conn, which calls handler->live when it is up. Does not block, but
 * to resolve a name. ERR_UNREACH; ERR_CONFIG: the address is malformed. */
enum err_code dial(const struct dial_target *to, const struct conn_handler *handler, void *ctx,
    struct conn **out, struct err *e);
/* The two parts of dial, for a caller that connects to several targets at once. dial_connect begins to
 * connect to the target's address, which is written to addr: net_connect. dial_begin_session takes over
 * the descriptor, and closes it after an error. */
enum err_code dial_connect(const struct dial_target *to, char addr[static DIAL_TEXT], int *fd,
    struct err *e);
enum err_code dial_begin_session(const struct dial_target *to, int fd,
    const struct conn_handler *handler, void *ctx, struct conn **out, struct err *e);
/* Dial and wait until the connection is made, so that an error names the address: for at most
 * `patience` ns, and while over(over_ctx) is false, which is asked every 20 ms (NULL: never).
 * ERR_STOPPED: it became true. */
enum err_code dial_and_wait(const struct dial_target *to, int64_t patience, bool (*over)(void *),
    void *over_ctx, const struct conn_handler *handler, void *ctx, struct conn **out,
    struct err *e);

#endif
