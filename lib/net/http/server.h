/* SPDX-License-Identifier: ISC */
#ifndef HTTP_SERVER_H
#define HTTP_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "auth/keyring.h"
#include "auth/keys.h"
#include "core/buf.h"
#include "core/err.h"
#include "core/json.h"
#include "core/log.h"
#include "http/answer.h"

/* The control plane's HTTP/1.1 server, over libmicrohttpd: GET and POST of JSON on a Unix
 * socket, on TCP, or on both.
 *
 * On the Unix socket the kernel identifies the peer: only our own user and root are admitted, as
 * the local administrator or, if they sign, as the holder of their key. On TCP a request is
 * signed (auth/httpsig.h) by a key that find_key knows, and its answer is signed, too. A bearer
 * token opens GET routes that allow it; a session (Authorization: Session TEXT, from this host
 * only) opens what its role may do; routes marked HTTP_OPEN are for everyone. A body (at most 64
 * KiB) is read only if the request names a known key. At most 128 connections of a listener may
 * have an incomplete request, so strangers can fill only a bounded part of it.
 *
 * Threads: one for each listener, which runs the handlers, and the reaper (state.h). Handlers
 * and the find_ functions are called with no lock of the server held, so they may take locks
 * under which http_server_kick and http_server_secrets are called. */
struct http_peer {
	bool local;     /* came by the Unix socket, so it is our own user or root */
	enum role role; /* ROLE_NONE for a stranger on an open route */
	char name[64];
	uint8_t key[KEY_BYTES]; /* zero without a signature */
};

struct http_args;
struct http_request {
	const char *method, *path;
	struct http_peer peer;
	const json_t *body;  /* an object; NULL for GET, empty for a POST without a body */
	uint64_t *memo;      /* for the handler; 0 at its first call for a request */
	const char *session; /* session text that the request showed, or NULL */
	bool takes_gzip;     /* the answer may be gzip-compressed */
	bool late;           /* parked until its deadline, or the server stops: answer now */
	const struct http_args *args;
};
/* The decoded value of a query key, "" for a key without "=", or NULL. */
const char *http_query(const struct http_request *req, const char *key);

#define HTTP_BODY_MAX    65536 /* bytes of a request's body */
#define HTTP_PARK_MAX_MS 300000

/* Either fill the (zeroed) answer and return HTTP_DONE; or set park_ms and return HTTP_PARK to
 * be called again, from the start, after http_server_kick, or when park_ms after the first call
 * have passed (req->late). Handlers must not block. Each listener calls them on its own thread,
 * so two run at once when there are a Unix socket and a TCP port. */
enum http_outcome { HTTP_DONE, HTTP_PARK };
typedef int (*http_handler)(void *ctx, const struct http_request *req, struct http_answer *answer);

enum http_route_flag {
	HTTP_LOCAL_ONLY = 1, /* only on the Unix socket: answers contain secrets */
	HTTP_OPEN = 2,       /* no authentication, any role: livez, readyz */
	HTTP_TOKEN_OK = 4,   /* GET with a bearer token is enough */
	HTTP_LINKED = 8,     /* a page without data: links on other sites may lead to it */
};
struct http_route {
	const char *method, *path; /* "GET" or "POST"; compared exactly */
	unsigned roles;            /* 1u << ROLE_x for each role that may call it */
	unsigned flags;
	http_handler fn;
	const char *help;
};

struct http_server_config {
	const char *unix_path; /* NULL: none */
	const char *tcp_addr;  /* "127.0.0.1:0", "[::1]:7000"; NULL: none */
	int tcp_fd;            /* a socket that listens already, instead of tcp_addr; 0: none */
	const char *tcp_name;  /* another host:port that clients may use; NULL: none */
	const struct http_route *routes; /* not copied */
	size_t nroutes;
	void *ctx;
	struct key_pair keys;
	uint8_t psk[KEY_BYTES]; /* at the start; http_server_secrets changes it */
	/* Fill in role and name and return true, or return false for an unknown peer. Called by
	 * the listeners' threads, without locks. */
	bool (*find_key)(void *ctx, const uint8_t pk[KEY_BYTES], struct http_peer *peer);
	bool (*find_token)(void *ctx, const char *token, struct http_peer *peer);  /* may be NULL */
	bool (*find_session)(void *ctx, const char *text, struct http_peer *peer); /* may be NULL */
	int64_t request_timeout; /* ns for a whole request to arrive; 0: 5 s */
	struct log *log;         /* may be NULL */
};

struct http_server;
/* Make a server that listens: clients can connect, and wait until http_server_run. ERR_EXISTS: a
 * port or socket is taken; ERR_CONFIG: an invalid address, or a socket directory that others may
 * write to; ERR_IO. */
enum err_code http_server_listen(const struct http_server_config *cfg, struct http_server **out,
    struct err *e);
/* Start the threads that answer requests. ERR_FAILED: some may run; call http_server_stop. */
enum err_code http_server_run(struct http_server *s, struct err *e);
/* Answer the parked requests (late), give answers under way up to 1 s, close everything and
 * remove the socket file. s may be NULL. Joins the server's threads, so neither call it from a
 * handler nor with a lock held that handlers take. */
void http_server_stop(struct http_server *s);
/* Call the handlers of all parked requests again, if their key or token is still valid: so call
 * it after a key is revoked, too. Any thread, handlers too. Takes the server's lock. */
void http_server_kick(struct http_server *s);

/* From now on requests may be signed with this pre-shared key and, until `until` (wall seconds),
 * with the previous one. Any thread. Takes auth_lock. */
void http_server_secrets(struct http_server *s, const uint8_t psk[static KEY_BYTES],
    const uint8_t before[static KEY_BYTES], int64_t until);

uint16_t http_server_port(const struct http_server *s);       /* 0 without TCP */
const char *http_server_address(const struct http_server *s); /* "127.0.0.1:4242", or the path */
/* The address by which clients on this host reach it, "127.0.0.1:4242"; "" when it does not
 * listen on a loopback address. */
void http_server_loopback(const struct http_server *s, char out[static 64]);
const char *http_server_boot(const struct http_server *s); /* boot id, 32 hexadecimal digits */
/* Requests and connections refused so far for being malformed or unauthorised. */
uint64_t http_server_refused(const struct http_server *s);

#endif
