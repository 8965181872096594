#ifndef HTTP_STATE_H
#define HTTP_STATE_H

#include <microhttpd.h>
#include <pthread.h>
#include <stdatomic.h>

#include "auth/httpsig.h"
#include "base/log.h"
#include "http/args.h"
#include "http/guard.h"
#include "http/listen.h"
#include "http/server.h"

/* Private to the server.  A listener is one libmicrohttpd daemon with one
 * thread, which runs all callbacks of its connections.  The reaper's thread
 * serves both listeners: it ends connections that miss their deadline and wakes
 * parked requests.  The server's mutex guards the list of connections and their
 * phase, fd and deadline; the exchange belongs to the listener's thread.  The
 * mutex is taken before libmicrohttpd's own, which is not held in callbacks. */
enum http_phase {
	HTTP_ARRIVING,          /* nothing, or not all of a request, is here */
	HTTP_BUSY,              /* its thread is at work on it */
	HTTP_PARKED,            /* suspended, until kick, deadline or hang-up */
	HTTP_SENDING,
	HTTP_DOOMED,            /* shut down; libmicrohttpd will notice */
};

/* One request and its answer. */
struct http_exchange {
	char *uri;                      /* path, cut at the "?" */
	char *query;                    /* as sent, into uri; "" for none */
	char host[256];
	bool begun, is_json;
	bool claimed;                   /* Authorization named a key that we know ... */
	bool verified;                  /* ... and its signature was right */
	char *token;                    /* the bearer token or session that was shown, else NULL */
	bool session;                   /* it is a session, or was to be one */
	bool takes_gzip;
	bool ready;                     /* checked and parsed: only the handler is left */
	struct httpsig_head head;
	uint8_t key[32];
	struct http_peer peer;
	struct buf body;
	json_t *json;
	struct http_args args;
	const struct http_route *route;
	int64_t park_until;             /* 0: not parked yet */
	uint64_t memo;
};

struct http_listener;
struct http_conn {
	struct http_conn *prev, *next;
	struct http_listener *l;
	struct MHD_Connection *mhd;
	int fd;
	enum http_phase phase;
	bool late;
	int64_t deadline;
	uint8_t ip[16];
	bool loopback;                  /* comes from this host, over TCP */
	struct http_exchange x;
};

struct http_listener {
	struct http_server *s;
	struct MHD_Daemon *mhd;
	struct http_bound bound;
	struct http_conn *conns;
	unsigned count[HTTP_DOOMED + 1];        /* connections in each phase */
};

/* Shared keys by the peer's public key: X25519 costs more than all the rest. */
#define HTTP_KEY_CACHE 64
struct http_key {
	bool used;
	uint8_t pk[KEY_BYTES], key[32];
};

struct http_server {
	struct http_server_config cfg;          /* without its strings, which do not outlive start */
	int64_t request_timeout;
	struct http_listener listener[2];
	size_t nlisteners;

	pthread_mutex_t lock;
	pthread_cond_t wake;                    /* of the reaper */
	pthread_cond_t quiet;                   /* a connection has left BUSY, PARKED or SENDING */
	pthread_t reaper;
	int64_t wake_at;
	uint64_t kicks;
	bool stopping, reaping;

	pthread_mutex_t auth_lock;              /* to boot, and cfg.psk */
	struct replay *replay;
	struct http_key keys[HTTP_KEY_CACHE];
	uint8_t before[KEY_BYTES];              /* the secret before cfg.psk, up to then */
	int64_t before_until;

	struct log_limit limit;
	_Atomic uint64_t refused;
	char boot[2 * REPLAY_BOOT_BYTES + 1];
};

/* http_conns.c */
void http_conns_notify(void *listener, struct MHD_Connection *mhd, void **context,
                       enum MHD_ConnectionNotificationCode what);
void *http_conns_reaper(void *server);
/* Change the phase; deadline counts for ARRIVING and SENDING. */
void http_conns_phase(struct http_conn *c, enum http_phase phase, int64_t deadline);
/* Suspend the request until the deadline; AGAIN when a kick came since `seen`
 * or c->late has become true, FULL when too many are parked. */
enum http_park { HTTP_PARK_HELD, HTTP_PARK_AGAIN, HTTP_PARK_FULL };
enum http_park http_conns_park(struct http_conn *c, int64_t deadline, uint64_t seen);
/* With s->lock held: resume all parked requests. */
void http_conns_unpark_all(struct http_server *s, bool late);

/* http_request.c */
void *http_request_uri(void *listener, const char *uri, struct MHD_Connection *mhd);
enum MHD_Result http_request_step(void *listener, struct MHD_Connection *mhd, const char *url,
                                  const char *method, const char *version, const char *upload,
                                  size_t *upload_size, void **exchange);
void http_request_done(void *listener, struct MHD_Connection *mhd, void **exchange,
                       enum MHD_RequestTerminationCode why);

/* http_access.c */
/* Who asks, as far as the headers tell: fills x->peer, or x->head, x->key and
 * x->claimed.  ERR_AUTH. */
enum err_code http_access_claim(struct http_conn *c, const struct http_head *head,
                                const char *method, struct err *e);
/* Check the signature of a request that is here whole. */
enum err_code http_access_verify(struct http_conn *c, const char *method, struct err *e);
/* Does who passed these checks before it was parked still stand?  ERR_AUTH. */
enum err_code http_access_again(struct http_conn *c, struct err *e);
/* May a link of another site lead there? */
bool http_access_is_linked(const struct http_server *s, const char *method, const char *path);
/* Find the route and hold the peer to it.  Fills a (404, 405, 403) on false. */
bool http_access_route(struct http_conn *c, const char *method, struct http_answer *a);

/* http_reply.c */
/* Send the answer (and drop it).  close: the connection ends after it. */
enum MHD_Result http_reply(struct http_conn *c, const char *method, struct http_answer *a,
                           const char *allow, bool close);

/* Count, and say in a rate-limited line, that this connection was refused. */
void http_refused(struct http_conn *c, const char *why);

#endif
