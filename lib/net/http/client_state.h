/* SPDX-License-Identifier: ISC */
#ifndef HTTP_CLIENT_STATE_H
#define HTTP_CLIENT_STATE_H

#include "auth/httpsig.h"
#include "http/client.h"

/* For the files of the client: http_client.c makes it, http_call.c sends requests. Used by one
 * thread at a time. */
struct http_client {
	void *curl;     /* CURL *; NULL: TCP has not been used yet */
	char *list;     /* the addresses; NULL: there is only a Unix socket */
	size_t at;      /* number of the address that is in use */
	bool local;     /* the Unix socket is in use */
	char *where;    /* for messages: the path or host:port */
	char *host;     /* for the Host header and for signatures */
	char *path;     /* of the Unix socket, for messages; NULL: there is none */
	char *sockpath; /* the same, as the kernel takes it */
	int dirfd;
	struct http_finder *finder; /* may be NULL */
	int64_t found_at;           /* when it was asked last */
	const atomic_bool *stop;
	bool sign;       /* requests over TCP */
	bool sign_local; /* requests over the Unix socket, which need no signature */
	struct key_pair keys;
	uint8_t key[32];                 /* shared with the server */
	uint8_t boot[REPLAY_BOOT_BYTES]; /* the server's boot id; zero until it is known */

	/* The attempt under way. */
	struct buf reply;
	char signature[HTTPSIG_TEXT]; /* the answer's signature, "" for none */
	bool too_large;
	bool connected; /* an earlier request has had an answer */
	/* The connection of an earlier request was lost, and curl sent this one on another: perhaps
	 * the server has it twice. */
	bool resent;
};

/* Are requests signed at the present place? */
bool http_client_signs(const struct http_client *c);
/* The number of places that are known. */
size_t http_client_places(const struct http_client *c);
/* Uses the next one of them. False: there is no other one, or libcurl cannot start. */
bool http_client_next(struct http_client *c);
/* Asks the finder, and uses the first address that it tells. False: it knows none, or was asked a
 * moment ago. */
bool http_client_find(struct http_client *c);
/* Uses the Unix socket again, if the client has one and somebody listens there again. */
void http_client_return(struct http_client *c);
/* Does somebody listen at the Unix socket? Does not wait. */
bool http_local_listens(const struct http_client *c);

/* Sends one request over the Unix socket and receives the answer, whose body is in c->reply then.
 * authorization is "" for an unsigned request. Errors are as of http_call. */
enum err_code http_send_local(struct http_client *c, const char *method, const char *target,
    const char *authorization, const char *body, size_t n, int64_t deadline, long *status,
    struct err *e);

#endif
