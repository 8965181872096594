/* SPDX-License-Identifier: ISC */
#ifndef HTTP_CLIENT_STATE_H
#define HTTP_CLIENT_STATE_H

#include "auth/httpsig.h"
#include "http/client.h"

/* For the files of the client: http_client.c makes it, http_call.c sends requests. Used by one
 * thread at a time. */
struct http_client {
	void *curl;     /* CURL *; NULL for a Unix socket */
	char *list;     /* the addresses; NULL for a Unix socket */
	size_t at;      /* number of the one that is in use */
	char *where;    /* for messages: the path or host:port */
	char *host;     /* for the Host header and for signatures */
	char *sockpath; /* path of the Unix socket, NULL on TCP */
	int dirfd;
	const atomic_bool *stop;
	bool sign;
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

/* Uses the next address of the list. False: there is no other one. */
bool http_client_next(struct http_client *c);

/* Sends one request over the Unix socket and receives the answer, whose body is in c->reply then.
 * authorization is "" for an unsigned request. Errors are those of http_call. */
enum err_code http_send_local(struct http_client *c, const char *method, const char *target,
    const char *authorization, const char *body, size_t n, int64_t deadline, long *status,
    struct err *e);

#endif
