#ifndef HTTP_CLIENT_H
#define HTTP_CLIENT_H

#include <jansson.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "auth/keys.h"
#include "base/buf.h"
#include "base/err.h"

/* Asks the control plane (over libcurl; the server's objects are not needed).
 * By the Unix socket no signature is needed, and the socket must be held by our
 * own user or root.  On TCP requests are signed and answers must verify. */
struct http_target {
	const char *unix_path;          /* this, or addr */
	const char *addr;               /* "host:port" */
	const uint8_t *server_pk;       /* KEY_BYTES; with keys and psk, or all three NULL: */
	const struct key_pair *keys;    /* unsigned requests, for routes that are open */
	const uint8_t *psk;
	const atomic_bool *stop;        /* may be NULL; when true, calls end within 1 s: ERR_STOPPED */
};

/* Once in a program, before its first thread. */
enum err_code http_client_global_init(struct err *e);

/* One client keeps one connection, and is used by one thread at a time.  All of
 * the target is copied but *stop. */
struct http_client;
enum err_code http_client_new(const struct http_target *t, struct http_client **out, struct err *e);
void http_client_free(struct http_client *c);

#define HTTP_REPLY_MAX (64u << 20)      /* bytes */

/* Ask, and wait for at most timeout ns (which counts from the call; the server
 * does not learn it).  target is a path with a query; body may be NULL, and is
 * not consumed.  *status is 0 when there was no answer; *reply is the JSON (to
 * be dropped) of an answer below 400, else NULL.  status and reply may be NULL.
 *
 * An error object of the server becomes its code, and its message and hint e.
 * ERR_UNREACH: nobody is there; ERR_TIMEOUT; ERR_CLOSED: the connection broke,
 * so a POST may have been obeyed or not; ERR_AUTH: refused, or the answer does
 * not verify, or the socket is another user's; ERR_PROTO: not an answer of a
 * pskit server; ERR_LIMIT: the body or the reply is too large; ERR_STOPPED. */
enum err_code http_call(struct http_client *c, const char *method, const char *target,
                        const json_t *body, int64_t timeout, int *status, json_t **reply,
                        struct err *e);
/* GET of something that is not JSON, appended to out. */
enum err_code http_get_text(struct http_client *c, const char *target, int64_t timeout,
                            struct buf *out, struct err *e);

#endif
