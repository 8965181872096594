#ifndef OBJECT_CLIENT_H
#define OBJECT_CLIENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

/* Reads, writes and lists objects (object/uri.h), over libcurl: requests to S3 are signed (SigV4).
 *
 * What may be over soon (a connection that breaks or stands still, 5xx, 429) is tried again, after
 * pauses that grow, until nothing has come for wishes.timeout; a host that was never reached four
 * times.  Errors of all calls name the object, and what to do: ERR_NOTFOUND: no such object or
 * bucket; ERR_AUTH: no key, a wrong one, not allowed, a clock that is off, a certificate that is
 * not trusted; ERR_CONFIG: a name or an endpoint that cannot be, another region; ERR_UNREACH,
 * ERR_TIMEOUT; ERR_STOPPED; ERR_PROTO: it does not answer as S3 does; ERR_IO.
 *
 * One thread at a time.  http_client_global_init (http/client.h) comes first. */
struct object_client;

struct object_wishes {
	int64_t timeout;                /* ns */
	const atomic_bool *stop;        /* may be NULL; true: calls end within 1 s */
	int reader;                     /* a descriptor: when nobody reads it any more calls end, too; or -1 */
	void (*again)(const char *why); /* told when something is tried again; may be NULL */
};

enum err_code object_client_new(const struct object_wishes *w, struct object_client **out, struct err *e);
void object_client_free(struct object_client *c);

/* Takes n bytes that come next; an error ends the call with it. */
typedef enum err_code object_sink(void *ctx, const void *p, size_t n, struct err *e);
/* All of it in order, each byte once: where a connection breaks the rest is asked for.  ERR_FORMAT
 * when the object is replaced meanwhile. */
enum err_code object_get(struct object_client *c, const char *name, object_sink *sink, void *ctx, struct err *e);
/* A small one, appended; ERR_LIMIT when it has more than max bytes. */
enum err_code object_read(struct object_client *c, const char *name, size_t max, struct buf *out, struct err *e);

/* An object of S3 from what fd still has, in parts when that is more than 16 MiB.  It appears
 * whole or not at all; an upload that fails is taken back. */
enum err_code object_put(struct object_client *c, const char *name, int fd, struct err *e);
enum err_code object_remove(struct object_client *c, const char *name, struct err *e);

/* Each object of S3 whose key begins with that of name, in order of keys: what follows it in the
 * key, and its size.  An error ends the call with it. */
typedef enum err_code object_listed(void *ctx, const char *rest, uint64_t size, struct err *e);
enum err_code object_list(struct object_client *c, const char *name, object_listed *fn, void *ctx, struct err *e);
/* The same of those whose key a pattern fits as it would a path of files, with the whole name.
 * ERR_NOTFOUND when none does. */
enum err_code object_match(struct object_client *c, const char *pattern, object_listed *fn, void *ctx, struct err *e);

#endif
