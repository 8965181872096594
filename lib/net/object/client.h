/* SPDX-License-Identifier: ISC */
#ifndef OBJECT_CLIENT_H
#define OBJECT_CLIENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/buf.h"
#include "core/err.h"

/* Reads, writes and lists objects (format/uri.h) over libcurl. Requests to S3 are signed
 * (SigV4).
 *
 * Failures that may pass (a connection that breaks or stalls, 5xx, 429) are retried with growing
 * pauses, until no bytes have arrived for wishes.timeout; a host that was never reached is tried
 * four times. All errors name the object and say what to do. ERR_NOTFOUND: no such object or
 * bucket; ERR_AUTH: no key, a wrong key, no permission, a wrong clock, or an untrusted
 * certificate; ERR_CONFIG: an impossible name or endpoint, or another region; ERR_UNREACH,
 * ERR_TIMEOUT; ERR_STOPPED; ERR_PROTO: the answer is not one of S3; ERR_IO.
 *
 * One thread at a time for each client. */
struct object_client;

struct object_wishes {
	int64_t timeout;         /* ns */
	const atomic_bool *stop; /* may be NULL; when true, calls end within 1 s */
	int reader; /* a pipe's descriptor, or -1: calls also end when its reader has closed it */
	void (*again)(const char *why); /* called before each retry, with the reason; may be NULL */
};

/* Makes no connection yet. ERR_FAILED: libcurl cannot start. */
enum err_code object_client_new(const struct object_wishes *w, struct object_client **out,
    struct err *e);
void object_client_free(struct object_client *c);

/* Takes the next n bytes. An error ends the call with that error. */
typedef enum err_code object_sink(void *ctx, const void *p, size_t n, struct err *e);
/* Read a whole object in order, each byte once: after a broken connection only the rest is
 * requested. ERR_FORMAT when the object is replaced meanwhile. */
enum err_code object_get(struct object_client *c, const char *name, object_sink *sink, void *ctx,
    struct err *e);
/* Read the bytes [begin, end) of an object in the same way, or all of them (end 0). ERR_FORMAT when
 * it has fewer, or is not the one of this version (object_facts; NULL: any). A store that does not
 * send parts sends the bytes before them, too, and is slow. */
struct object_part {
	uint64_t begin, end;
	const char *version;
};
enum err_code object_get_part(struct object_client *c, const char *name,
    const struct object_part *part, object_sink *sink, void *ctx, struct err *e);
/* The size of an object, and its first bytes. ranges: the store can send parts of it. version: its
 * ETag, or else the time of its last change, as the store tells it; "": it tells neither.
 * ERR_PROTO: it does not tell the size. */
#define OBJECT_VERSION 128
struct object_facts {
	uint64_t size;
	bool ranges;
	uint8_t first[4];
	size_t nfirst;
	char version[OBJECT_VERSION];
};
enum err_code object_stat(struct object_client *c, const char *name, struct object_facts *out,
    struct err *e);
/* Append a small object to out; ERR_LIMIT when it has more than max bytes. */
enum err_code object_read(struct object_client *c, const char *name, size_t max, struct buf *out,
    struct err *e);

/* Write an S3 object from the rest of fd, in parts when that is more than 16 MiB. It appears as
 * a whole or not at all; a failed upload is cancelled. */
enum err_code object_put(struct object_client *c, const char *name, int fd, struct err *e);
/* Remove an S3 object. S3 reports success for an object that does not exist. */
enum err_code object_remove(struct object_client *c, const char *name, struct err *e);

/* Call fn for each S3 object whose key begins with that of name, in order of keys, with the rest
 * of the key and the size. An error of fn ends the call with that error. */
typedef enum err_code object_listed(void *ctx, const char *rest, uint64_t size, struct err *e);
enum err_code object_list(struct object_client *c, const char *name, object_listed *fn, void *ctx,
    struct err *e);
/* Call fn for each S3 object whose key matches a pattern like a file's path, with its whole
 * name. ERR_NOTFOUND when none matches. */
enum err_code object_match(struct object_client *c, const char *pattern, object_listed *fn,
    void *ctx, struct err *e);

#endif
