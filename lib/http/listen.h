#ifndef HTTP_LISTEN_H
#define HTTP_LISTEN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

/* A bound, listening, non-blocking socket and the names by which it may be
 * called. */
struct http_bound {
	int fd;
	bool local;                     /* a Unix socket */
	bool any;                       /* bound to every address of the host */
	uint16_t port;
	char text[1024];                /* "127.0.0.1:4242", "[::1]:80", or the socket's path */
	char asked[256];                /* host as it stood in the configuration */
	char also[300];                 /* host:port by which clients may call too, "" for none */
	dev_t dev;                      /* of the socket's file, to remove only our own */
	ino_t ino;
};

/* ERR_CONFIG, ERR_EXISTS (the port or socket is taken), ERR_IO. */
enum err_code http_listen_tcp(const char *addr, const char *also, struct http_bound *b,
                              struct err *e);
/* The same of a non-blocking TCP socket that listens already. */
void http_listen_adopt(int fd, const char *also, struct http_bound *b);
/* The directory must be ours (or root's) and closed to the writing of others.
 * A socket file on which nobody answers is replaced. */
enum err_code http_listen_unix(const char *path, struct http_bound *b, struct err *e);
/* Remove the socket's file if it is still ours.  Does not close fd. */
void http_listen_remove(const struct http_bound *b);

/* May a request with this Host header be meant for us?  On TCP: the bound
 * address, the name that was configured, localhost, `also`; bound to every
 * address, also any IP literal and the machine's name.  A page that rebinds its
 * own name to our address (DNS rebinding) does not pass. */
bool http_host_is_ours(const struct http_bound *b, const char *host);

#endif
