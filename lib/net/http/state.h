/* SPDX-License-Identifier: ISC */
#ifndef HTTP_STATE_H
#define HTTP_STATE_H

#include <microhttpd.h>
#include <pthread.h>
#include <stdatomic.h>

#include "auth/httpsig.h"
#include "core/lock.h"
#include "core/log.h"
#include "http/args.h"
#include "http/guard.h"
#include "http/listen.h"
#include "http/server.h"

/* For the files of the server.
 *
 * A listener is one libmicrohttpd daemon with one thread, which runs all callbacks of its
 * connections. The reaper's thread serves both listeners: it closes connections that miss their
 * deadline and wakes parked requests. States of a connection:
 *
 *   ARRIVING --whole request--> BUSY --answer--> SENDING --sent--> ARRIVING (the next request)
 *   ARRIVING --refused--> SENDING
 *   BUSY --HTTP_PARK--> PARKED --kick, deadline, hang-up--> BUSY
 *   ARRIVING, SENDING --deadline, or evicted--> DOOMED
 *
 * Locks: `lock` covers the lists of connections, each connection's phase, fd, deadline and late,
 * and kicks, wake_at and stopping. An exchange belongs to its listener's thread. `lock` is taken
 * before libmicrohttpd's own locks, which are not held in callbacks. `auth_lock` covers the
 * replay cache, the shared keys and the pre-shared keys. The two are never held together, and
 * neither is held while a handler or a find_ function runs; so a caller's lock may be taken
 * before them, never after. */
enum http_phase {
	HTTP_ARRIVING, /* the request is not complete */
	HTTP_BUSY,     /* the listener's thread is working on it */
	HTTP_PARKED,   /* suspended until a kick, its deadline or a hang-up */
	HTTP_SENDING,
	HTTP_DOOMED, /* shut down; libmicrohttpd has not noticed yet */
};

/* A request and its answer. */
struct http_exchange {
	char *uri;   /* path, cut at the "?" */
	char *query; /* as sent, into uri; "" for none */
	char host[256];
	/* begun: the headers of the request have been handled */
	bool begun, is_json;
	bool claimed;  /* Authorization named a key that we know ... */
	bool verified; /* ... and its signature was right */
	char *token;   /* the bearer token or session text shown, else NULL */
	bool session;  /* token is a session text */
	bool takes_gzip;
	bool ready; /* checked and parsed: only the handler remains */
	struct httpsig_head head;
	uint8_t key[32];
	/* filled in by http_access_claim; until then, of a stranger */
	struct http_peer peer;
	struct buf body;
	json_t *json;
	struct http_args args;
	const struct http_route *route;
	int64_t park_until; /* 0: not parked yet */
	/* belongs to the handler, and stays from its first call to its last for this request */
	uint64_t memo;
};

struct http_listener;
struct http_conn {
	struct http_conn *prev, *next;
	struct http_listener *l;
	struct MHD_Connection *mhd;
	int fd;
	enum http_phase phase;
	/* the handler must answer at its next call; under the server's lock */
	bool late;
	bool stranger; /* the peer is not authenticated */
	int64_t deadline;
	/* an IPv4 address is in the first 4 bytes; zero for a Unix socket */
	uint8_t ip[16];
	bool loopback; /* from this host, over TCP */
	struct http_exchange x;
};

struct http_listener {
	struct http_server *s;
	struct MHD_Daemon *mhd;
	struct http_bound bound;
	struct http_conn *conns;
	unsigned count[HTTP_DOOMED + 1]; /* number of connections in each phase */
};

/* Cache of shared keys, by the peer's public key: X25519 costs more than the rest of a request. */
#define HTTP_KEY_CACHE 64
struct http_key {
	bool used;
	uint8_t pk[KEY_BYTES], key[32];
};

struct http_server {
	struct http_server_config cfg; /* its strings are NULL: they do not outlive start */
	/* ns for a whole request to arrive; set at the start and never 0 */
	int64_t request_timeout;
	struct http_listener listener[2];
	size_t nlisteners;

	struct mutex lock;
	pthread_cond_t wake;  /* wakes the reaper */
	pthread_cond_t quiet; /* a connection has left BUSY, PARKED or SENDING */
	pthread_t reaper;
	/* clock_now time at which the reaper looks again; under lock */
	int64_t wake_at;
	/* calls of http_server_kick so far, so that a handler which parks cannot miss one; under
	 * lock */
	uint64_t kicks;
	bool stopping, reaping;

	struct mutex auth_lock; /* replay, keys, cfg.psk, before, before_until */
	struct replay *replay;
	struct http_key keys[HTTP_KEY_CACHE];
	uint8_t before[KEY_BYTES]; /* previous pre-shared key, valid until before_until */
	int64_t before_until;

	struct log_limit limit;
	_Atomic uint64_t refused;
	char boot[2 * REPLAY_BOOT_BYTES + 1];
};

/* http_conns.c */
/* Callback of libmicrohttpd: a connection was opened or is about to be closed. */
void http_conns_notify(void *listener, struct MHD_Connection *mhd, void **context,
    enum MHD_ConnectionNotificationCode what);
/* The reaper's thread. It ends when s->stopping is set. */
void *http_conns_reaper(void *server);
/* Change the phase; the deadline is for ARRIVING and SENDING. */
void http_conns_phase(struct http_conn *c, enum http_phase phase, int64_t deadline);
/* Suspend the request until the deadline. AGAIN: run the handler again, because of a kick since
 * `seen` or because c->late has become true. FULL: too many requests are parked. */
enum http_park { HTTP_PARK_HELD, HTTP_PARK_AGAIN, HTTP_PARK_FULL };
enum http_park http_conns_park(struct http_conn *c, int64_t deadline, uint64_t seen);
/* With s->lock held: resume all parked requests. */
void http_conns_unpark_all(struct http_server *s, bool late);

/* http_request.c */
/* Callbacks of libmicrohttpd for a request, on the listener's thread: its target has arrived;
 * more of it has arrived, or it was resumed; it is over. */
void *http_request_uri(void *listener, const char *uri, struct MHD_Connection *mhd);
enum MHD_Result http_request_step(void *listener, struct MHD_Connection *mhd, const char *url,
    const char *method, const char *version, const char *upload, size_t *upload_size,
    void **exchange);
void http_request_done(void *listener, struct MHD_Connection *mhd, void **exchange,
    enum MHD_RequestTerminationCode why);

/* http_access.c */
/* Identify the peer from the headers: fills in x->peer, or x->head, x->key and x->claimed.
 * ERR_AUTH. */
enum err_code http_access_claim(struct http_conn *c, const struct http_head *head,
    const char *method, struct err *e);
/* Check the signature of a complete request. */
enum err_code http_access_verify(struct http_conn *c, const char *method, struct err *e);
/* Is the peer, which passed these checks before the request was parked, still admitted?
 * ERR_AUTH. */
enum err_code http_access_again(struct http_conn *c, struct err *e);
/* May a link on another site lead to this path? */
bool http_access_is_linked(const struct http_server *s, const char *method, const char *path);
/* Find the route and check the peer's right to it. On false, a is filled in (404, 405, 403). */
bool http_access_route(struct http_conn *c, const char *method, struct http_answer *a);

/* http_reply.c */
/* Send the answer and release it. close: close the connection afterwards. */
enum MHD_Result http_reply(struct http_conn *c, const char *method, struct http_answer *a,
    const char *allow, bool close);

/* Count a refused connection, and log it in a rate-limited line. */
void http_refused(struct http_conn *c, const char *why);

#endif
