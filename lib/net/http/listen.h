/* SPDX-License-Identifier: ISC */
#ifndef HTTP_LISTEN_H
#define HTTP_LISTEN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/err.h"

/* A bound, listening, non-blocking socket, and the host names by which clients may address it.
 * No locks. */
struct http_bound {
	int fd;
	bool local; /* a Unix socket */
	bool any;   /* bound to every address of the host */
	uint16_t port;
	char text[1024]; /* "127.0.0.1:4242", "[::1]:80", or the socket's path */
	char asked[256]; /* host as written in the configuration */
	char also[300];  /* another host:port that clients may use, "" for none */
	dev_t dev;       /* of the socket's file, so that only our own is removed */
	ino_t ino;
};

/* Bind and listen on TCP. ERR_CONFIG, ERR_EXISTS (the port is taken), ERR_IO. */
enum err_code http_listen_tcp(const char *addr, const char *also, struct http_bound *b,
    struct err *e);
/* Use a non-blocking TCP socket that listens already. */
void http_listen_adopt(int fd, const char *also, struct http_bound *b);
/* Bind and listen on a Unix socket. Its directory must belong to us or root and must not be
 * writable by others. A socket file on which no process answers is replaced. ERR_CONFIG,
 * ERR_EXISTS, ERR_IO. */
enum err_code http_listen_unix(const char *path, struct http_bound *b, struct err *e);
/* Remove the socket's file if it is still ours. Does not close fd. */
void http_listen_remove(const struct http_bound *b);

/* Is a request with this Host header meant for us? On TCP: the bound address, the configured
 * name, localhost and `also` are ours; when bound to every address, also any IP literal and the
 * machine's name. This keeps out a web page that rebinds its own name to our address (DNS
 * rebinding). */
bool http_host_is_ours(const struct http_bound *b, const char *host);

#endif
