/* SPDX-License-Identifier: ISC */
#ifndef WIRE_EMULATED_LINK_H
#define WIRE_EMULATED_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include "core/err.h"
#include "wire/transport.h"

/* The emulated network link of a process, to study slow networks on one host (the setting net). The
 * connections that the process dials share it: a thread carries their bytes between a pair of Unix
 * sockets and the real TCP connection, and in each direction it lets `rate` bytes a second through,
 * each of them `delay` later. It takes bytes up to 100 ms before they can go, as the queue of a
 * router, so a sender feels the link as it would feel a real one.
 *
 * TCP hides the loss of packets, so loss is emulated as the delay that it causes: a segment that is
 * lost arrives one round trip later, after its retransmission, and so do all bytes after it. The
 * smaller window that follows a loss is not emulated.
 *
 * Threads: emulated_link_open and emulated_link_close belong to the owner; connections may be
 * dialled by any thread. The link's thread takes no lock. */

struct emulated_link_spec {
	double rate;   /* bytes a second, each direction; 0: no limit */
	int64_t delay; /* ns, one way */
	double loss;   /* the probability that a segment is lost */
	bool emulated; /* the text has a part for processes of this kind */
};

/* The process that has the link: a worker, for its connections to servers and relays, or a server,
 * for those to other servers. number: its rank, or its number. */
enum emulated_link_kind { EMULATED_WORKER, EMULATED_SERVER, EMULATED_KINDS };
struct emulated_link_end {
	enum emulated_link_kind kind;
	uint32_t number;
};
/* Bytes of a segment, as of TCP over Ethernet. */
#define EMULATED_SEGMENT 1448

/* Parses "none" or parts separated by commas: a rate in bits a second (100M), a round trip (10ms)
 * or a loss (0.1%) of all workers, or of all servers after "servers:". A part after "worker-RANK:"
 * or "server-N:" replaces that of all. out: the link of this process. last: the highest rank and
 * number of a server that the text names, by kind; -1: none. Pure. ERR_CONFIG: a sentence without
 * the key. */
enum err_code emulated_link_parse(const char *text, struct emulated_link_end of,
    struct emulated_link_spec *out, int64_t last[static EMULATED_KINDS], struct err *e);

struct emulated_link;
/* Opens a link and starts its thread. seed: of the losses. ERR_IO. */
enum err_code emulated_link_open(const struct emulated_link_spec *spec, uint64_t seed,
    struct emulated_link **out, struct err *e);
/* Delivers what its connections have sent, but waits for at most 5 s more than the delay, and
 * closes the link. The connections must have been closed. NULL is allowed. */
void emulated_link_close(struct emulated_link *l);
/* The transport whose connections use the link: TCP. It lives as long as the link. */
const struct transport *emulated_link_transport(const struct emulated_link *l);

#endif
