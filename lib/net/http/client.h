/* SPDX-License-Identifier: ISC */
#ifndef HTTP_CLIENT_H
#define HTTP_CLIENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "auth/keys.h"
#include "core/buf.h"
#include "core/err.h"
#include "core/json.h"

/* A client of the control plane. Requests by the Unix socket are not signed; the socket must belong
 * to our own user or root. Requests over TCP go through libcurl; they are signed, and answers must
 * verify. */
struct http_target {
	const char *unix_path;    /* this, or addr, or this and `finder` */
	const char *addr;         /* "host:port", or a list of them (net_list_at) */
	const uint8_t *server_pk; /* KEY_BYTES. server_pk, keys and psk are all set, or all NULL: */
	const struct key_pair *keys; /* then requests are unsigned, for open routes */
	const uint8_t *psk;
	const atomic_bool *stop; /* may be NULL; when true, calls end within 1 s with ERR_STOPPED */
	struct http_finder *finder; /* the client frees it; NULL: the server is nowhere else */
};

/* Tells where a server is when nobody listens where it was: it may have moved to another host. */
struct http_finder {
	/* Fills addr, server_pk, keys and psk of *out, which stay as they are until the next call.
	 * False: it cannot be known now. It may block for some seconds. */
	bool (*find)(struct http_finder *f, struct http_target *out);
	void (*free)(struct http_finder *f);
};

/* With several places a client uses one until nobody listens there, and then the next one; when
 * nobody listens at any of them it asks its finder, and goes to the addresses that this one tells.
 * It goes back to its Unix socket as soon as somebody listens there again.
 *
 * A client keeps one connection over TCP. One thread at a time may use it. All of the target is
 * copied except *stop. */
struct http_client;
/* Does not connect yet. A finder is taken over also by a failure. ERR_CONFIG: addr is malformed;
 * ERR_UNREACH: the socket's directory is missing; ERR_AUTH: server_pk is not a usable key;
 * ERR_FAILED. */
enum err_code http_client_new(const struct http_target *t, struct http_client **out, struct err *e);
void http_client_free(struct http_client *c);

#define HTTP_REPLY_MAX (64u << 20) /* bytes */

/* Send a request and wait for the answer, at most timeout ns from the call on (the server does
 * not learn it). target is a path with a query; body may be NULL, and its reference is not
 * taken. *status is 0 without an answer. *reply is the JSON of an answer below 400, a new
 * reference, else NULL. status and reply may be NULL.
 *
 * An error object from the server sets the code, message and hint of e. Other errors:
 * ERR_UNREACH: no server is listening; ERR_TIMEOUT; ERR_CLOSED: the connection broke, so a POST
 * may have taken effect or not; ERR_AUTH: refused, or the answer does not verify, or the socket
 * is another user's; ERR_PROTO: not an answer of a pskit server; ERR_LIMIT: the body or the
 * reply is too large; ERR_STOPPED. */
enum err_code http_call(struct http_client *c, const char *method, const char *target,
    const json_t *body, int64_t timeout, int *status, json_t **reply, struct err *e);
/* GET a document that is not JSON; its text is appended to out. */
enum err_code http_get_text(struct http_client *c, const char *target, int64_t timeout,
    struct buf *out, struct err *e);

#endif
