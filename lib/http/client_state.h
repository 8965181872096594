#ifndef HTTP_CLIENT_STATE_H
#define HTTP_CLIENT_STATE_H

#include "auth/httpsig.h"
#include "http/client.h"

/* Private to the client: http_client.c makes it, http_call.c asks with it. */
struct http_client {
	void *curl;                     /* CURL * */
	char *where;                    /* for messages: the path or host:port */
	char *host;                     /* of the Host header and of signatures */
	char *sockpath;                 /* of the Unix socket, NULL on TCP */
	int dirfd;
	const atomic_bool *stop;
	bool sign;
	struct key_pair keys;
	uint8_t key[32];                /* shared with the server */
	uint8_t boot[REPLAY_BOOT_BYTES];        /* zero until the server has told it */

	/* Of the attempt under way. */
	struct buf reply;
	char signature[HTTPSIG_TEXT];   /* of the answer, "" for none */
	bool too_large, not_ours;
	int fd;                         /* of the last connection */
};

#endif
