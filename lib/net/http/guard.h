/* SPDX-License-Identifier: ISC */
#ifndef HTTP_GUARD_H
#define HTTP_GUARD_H

#include <microhttpd.h>
#include <stdbool.h>
#include <stdint.h>

/* Reads the headers that the server uses, strictly.
 *
 * libmicrohttpd 0.9.75 is lenient: of two Content-Lengths, or of Content-Length and
 * Transfer-Encoding, it picks one, and takes the rest of the body for a second request (request
 * smuggling). A request passes here only if every header name is a token, no value has a control
 * byte, there is exactly one Host, there is no Transfer-Encoding, and no header that the server
 * uses is repeated. All other requests are refused before their body is looked at, and their
 * connection is closed. */
#define HTTP_HEADERS_MAX 32

struct http_head {
	const char *host, *authorization, *content_type, *origin, *site; /* NULL: absent */
	const char *mode, *encodings; /* Sec-Fetch-Mode and Accept-Encoding; NULL: absent */
	int64_t content_length;       /* -1: absent */
	const char *fault;            /* what is malformed; NULL: nothing */
	bool transfer_encoded;        /* the fault is a Transfer-Encoding */
};

/* Fill in h. Its strings live as long as the request. */
void http_guard_read(struct MHD_Connection *mhd, const char *version, const char *uri,
    struct http_head *h);

#endif
