/* SPDX-License-Identifier: ISC */
#ifndef FAULT_PROXY_H
#define FAULT_PROXY_H

/* The fault proxy's parser of records (proxy_stream.c), which its event loop uses (proxy.c).  It
 * finds the records in a byte stream, and flips, drops, duplicates or swaps one of them.  One
 * thread. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/buf.h"
#include "core/rng.h"

enum side { UP, DOWN, BOTH }; /* UP: from the client to the server */
enum fault { FAULT_NONE, FAULT_FLIP, FAULT_DROP, FAULT_DUP, FAULT_SWAP };

/* The fault to inject into one record: the nth that begins on this side from now on, on any
 * connection. */
struct faults {
	enum fault what;
	enum side side;
	uint64_t left;             /* records until then */
	uint64_t done, records[2]; /* counters for stats */
	struct rng rng;
};

/* One direction of one connection.  It goes from AT_HELLO, through the handshake, to AT_HEADER, and
 * then alternates between AT_HEADER and IN_BODY.  Bytes that are not the protocol of ps-protocol(7)
 * make it OPAQUE for good: they pass unchanged, and count as no records. */
struct stream {
	struct faults *faults;
	enum side side;
	enum { AT_HELLO, AT_HEADER, IN_BODY, OPAQUE } state;
	size_t left;    /* bytes missing of the handshake or body */
	enum fault now; /* the fault for the current record */
	bool begun;     /* the handshake's first byte was seen */
	struct buf header, record,
	    swapped; /* record: collected so far; swapped: to be sent after the next */
};

void stream_init(struct stream *s, struct faults *f, enum side side);
void stream_release(struct stream *s);
/* Takes n received bytes, and appends to out what is to be sent. */
void stream_feed(struct stream *s, const uint8_t *p, size_t n, struct buf *out);

#endif
