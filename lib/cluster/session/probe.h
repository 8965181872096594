/* SPDX-License-Identifier: ISC */
#ifndef SESSION_PROBE_H
#define SESSION_PROBE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/err.h"
#include "wire/dial.h"

/* Measure a link to a server with a session as a peer would use it: connect, shake hands, ask
 * for an empty answer, send a few large records, and have as many sent back. It transfers at
 * most 2 MiB, and less over a slow link. The stages follow each other in the order of enum
 * probe_stage. */
enum probe_stage { PROBE_CONNECT, PROBE_HANDSHAKE, PROBE_TRANSFER, PROBE_DONE };

struct probe_result {
	enum probe_stage stage; /* the stage that failed; PROBE_DONE: none */
	/* seconds, the shortest of a few empty round trips; valid from PROBE_TRANSFER on */
	double rtt;
	/* bytes per second to and from the server; 0: not measured */
	double up, down;
	struct err why;
};

/* Measure the link to a process. Blocks the calling thread; each wait is bounded by conn_check or
 * by 5 s without progress. Setting `stop` (may be NULL) ends it within 0.1 s. Errors are in
 * out->why. */
void probe_link(const struct dial_target *to, const atomic_bool *stop, struct probe_result *out);
/* The stage's name: "connect", "handshake", "transfer" or "done". */
const char *probe_stage_name(enum probe_stage s);

#endif
