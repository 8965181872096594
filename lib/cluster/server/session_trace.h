/* SPDX-License-Identifier: ISC */
#ifndef SERVER_SESSION_TRACE_H
#define SERVER_SESSION_TRACE_H

#include "server/server_state.h"

/* A server's rows of a trace (session/tracer.h). The session's I/O thread calls these functions,
 * and only while tracer_is_on. */

/* A push of a worker, or a sum of a relay, was taken for this step. Its handling began at `begin`
 * (clock_now). All pushes of one session and step become one row. */
void session_trace_push(struct server_session *p, uint64_t step, int64_t begin);
/* A CLOCK of this rank was taken for this step. Adds a row for each step that it closed. */
void session_trace_clock(struct server_session *p, uint32_t rank, uint64_t step);

#endif
