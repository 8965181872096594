#ifndef FAULT_PROXY_H
#define FAULT_PROXY_H

/* Inside of the fault proxy: what it knows of records (proxy_stream.c), for
 * its event loop (proxy.c). */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/rng.h"

enum side { UP, DOWN, BOTH };                   /* UP: from the client to the server */
enum fault { FAULT_NONE, FAULT_FLIP, FAULT_DROP, FAULT_DUP, FAULT_SWAP };

/* What is to be done to one record, of whatever connection: the nth that begins
 * on this side from now on. */
struct faults {
	enum fault what;
	enum side side;
	uint64_t left;                          /* records until it */
	uint64_t done, records[2];              /* figures */
	struct rng rng;
};

/* One direction of one connection.  Bytes that do not begin as a handshake of
 * ps-protocol(7) pass as they are, and count as no records. */
struct stream {
	struct faults *faults;
	enum side side;
	enum { AT_HELLO, AT_HEADER, IN_BODY, OPAQUE } state;
	size_t left;                            /* bytes of the handshake or the body to come */
	enum fault now;                         /* what becomes of the record under way */
	bool begun;                             /* the handshake's first byte is seen */
	struct buf header, record, swapped;     /* record: collected whole; swapped: after the next */
};

void stream_init(struct stream *s, struct faults *f, enum side side);
void stream_release(struct stream *s);
/* Bytes came in; what goes out is appended. */
void stream_feed(struct stream *s, const uint8_t *p, size_t n, struct buf *out);

#endif
