#ifndef HTTP_SERVER_H
#define HTTP_SERVER_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "auth/keyring.h"
#include "auth/keys.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "http/answer.h"

/* The control plane's HTTP/1.1 server (over libmicrohttpd): GET and POST of
 * JSON on a Unix socket, on TCP, or on both.
 *
 * On the Unix socket the kernel tells who asks: only our own user and root are
 * heard, as the local admin (or, when they sign, as the key that they hold).
 * On TCP a request is signed (auth/httpsig.h) by a key that find_key knows, and
 * its answer is signed too; a bearer token opens GET routes that allow it; a
 * session (Authorization: Session TEXT, from this host alone) what its role may;
 * and routes marked HTTP_OPEN are for everyone.  A body (64 KiB at most) is read only
 * of who names a key that we know; connections that have not sent a whole
 * request are at most 128 a listener, so what strangers can fill is bounded. */
struct http_peer {
	bool local;                     /* came by the Unix socket, so is our own user */
	enum role role;                 /* ROLE_NONE for a stranger on an open route */
	char name[64];
	uint8_t key[KEY_BYTES];         /* zero without a signature */
};

struct http_args;
struct http_request {
	const char *method, *path;
	struct http_peer peer;
	const json_t *body;             /* an object; NULL for GET, empty for a POST without body */
	uint64_t *memo;                 /* the handler's own, 0 at its first call for a request */
	const char *session;            /* that was shown, else NULL */
	bool takes_gzip;                /* a fixed body may be compressed */
	bool late;                      /* parked until its deadline, or the server stops: answer now */
	const struct http_args *args;
};
/* The decoded value of a query key, "" for a key without "=", or NULL. */
const char *http_query(const struct http_request *req, const char *key);

#define HTTP_BODY_MAX 65536             /* of a request, bytes */
#define HTTP_PARK_MAX_MS 300000

/* Fill the (zeroed) answer and return HTTP_DONE; or set park_ms and return
 * HTTP_PARK to be called again, from the start, after http_server_kick, or when
 * park_ms after the first call have passed (req->late).  Handlers must not
 * block, and are called by one thread a listener: by two at once when there
 * are a Unix socket and a TCP port. */
enum http_outcome { HTTP_DONE, HTTP_PARK };
typedef int (*http_handler)(void *ctx, const struct http_request *req, struct http_answer *answer);

enum http_route_flag {
	HTTP_LOCAL_ONLY = 1,            /* Unix socket alone: answers that hold secrets */
	HTTP_OPEN = 2,                  /* no authentication, any role: livez, readyz */
	HTTP_TOKEN_OK = 4,              /* GET with a bearer token will do */
	HTTP_LINKED = 8,                /* a page without data: links of other sites may lead to it */
};
struct http_route {
	const char *method, *path;      /* "GET" or "POST"; compared exactly */
	unsigned roles;                 /* 1u << ROLE_x of all that may call it */
	unsigned flags;
	http_handler fn;
	const char *help;
};

struct http_server_config {
	const char *unix_path;          /* NULL: none */
	const char *tcp_addr;           /* "127.0.0.1:0", "[::1]:7000"; NULL: none */
	int tcp_fd;                     /* instead of tcp_addr: a socket that listens already; 0: none */
	const char *tcp_name;           /* one more host:port by which clients may call us; NULL: none */
	const struct http_route *routes;        /* not copied */
	size_t nroutes;
	void *ctx;
	struct key_pair keys;
	uint8_t psk[KEY_BYTES];         /* as of start: http_server_secrets */
	/* Fill role and name, or say no.  Called by the listeners' threads. */
	bool (*find_key)(void *ctx, const uint8_t pk[KEY_BYTES], struct http_peer *peer);
	bool (*find_token)(void *ctx, const char *token, struct http_peer *peer);  /* may be NULL */
	bool (*find_session)(void *ctx, const char *text, struct http_peer *peer); /* may be NULL */
	int64_t request_timeout;        /* ns for a request to arrive whole; 0: 5 s */
	struct log *log;                /* may be NULL */
};

struct http_server;
/* Returns when both listeners are bound and answering.  A port or socket that
 * is taken is ERR_EXISTS; an address that is none, or a socket directory that
 * others may write to, ERR_CONFIG; else ERR_IO. */
enum err_code http_server_start(const struct http_server_config *cfg, struct http_server **out,
                                struct err *e);
/* Answers what is parked (late), lets answers under way leave for up to 1 s,
 * closes everything and removes the socket file.  NULL is fine.  Not from a handler. */
void http_server_stop(struct http_server *s);
/* Call the handlers of all parked requests again, those alone whose key or token
 * still stands: so also after a key is revoked.  Any thread, handlers too. */
void http_server_kick(struct http_server *s);

/* From now on requests may be signed with this secret, and up to `until` (wall seconds) with
 * the one before.  Any thread. */
void http_server_secrets(struct http_server *s, const uint8_t psk[static KEY_BYTES], const uint8_t before[static KEY_BYTES],
                         int64_t until);

uint16_t http_server_port(const struct http_server *s);         /* 0 without TCP */
const char *http_server_address(const struct http_server *s);   /* "127.0.0.1:4242", or the path */
/* "127.0.0.1:4242", by which it is reached on this host alone; "" when it is not. */
void http_server_loopback(const struct http_server *s, char out[static 64]);
const char *http_server_boot(const struct http_server *s);      /* 32 hex digits, as of start */
/* Requests and connections refused so far for being malformed or unauthorised. */
uint64_t http_server_refused(const struct http_server *s);

#endif
