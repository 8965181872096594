#ifndef SERVER_PEER_TRACE_H
#define SERVER_PEER_TRACE_H

#include "server/state.h"

/* A server's rows of a trace; to be called only while tracer_is_on.  The peer's lane. */

/* A push, or a relay's sum, of a step was taken: it came in here at `begin`. */
void trace_push(struct peer *p, uint64_t step, int64_t begin);
/* A CLOCK of this slot was taken, of a step, and with it what it lets be closed. */
void trace_clock(struct peer *p, uint32_t slot, uint64_t step);

#endif
