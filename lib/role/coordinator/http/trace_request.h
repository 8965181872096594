/* SPDX-License-Identifier: ISC */
#ifndef COORDINATOR_TRACE_REQUEST_H
#define COORDINATOR_TRACE_REQUEST_H

#include "coordinator/coordinator.h"

/* A trace of the cluster, one at a time. The view asks all processes to record their steps
 * (session/tracer.h); they send pages of rows, which are held here, within bounds, until the
 * client has read them.
 *
 *   none    --trace_request_begin-->                  on (processes record)
 *   on      --time is up, or cluster ends-->    ending (last rows arrive)
 *   ending  --all have sent, or 3 s are over--> done
 *   any     --no request for 30 s-->            none
 *
 * All functions are called with the coordinator's lock held. */
struct trace_request;

#define TRACING_MAX_SECONDS 600.0

/* No trace. trace_request_free(NULL) is fine. */
struct trace_request *trace_request_new(void);
void trace_request_free(struct trace_request *t);

/* Start a trace; *id is its number. ERR_EXISTS: one is under way; ERR_NOTREADY: the cluster has
 * ended. */
enum err_code trace_request_begin(struct coordinator *coordinator, double seconds, int64_t now,
    uint64_t *id, struct err *e);
/* The number of the trace, for the view; 0: processes are not to record. */
uint64_t trace_request_id(const struct trace_request *t);
/* At each tick: end the trace when its time is up; forget it when no client asks for it. */
void trace_request_tick(struct coordinator *coordinator, int64_t now);
/* Take a page that a process has sent. Pages that are malformed or of another trace are dropped. */
void trace_request_take_page(struct coordinator *coordinator, const struct coord_self *from,
    const struct message_trace *m, int64_t now);
/* The page with this number and the state of the trace; earlier pages are dropped. A new
 * reference. *wait: there is no page yet, and one may come. NULL with ERR_NOTFOUND: no such
 * trace. */
json_t *trace_request_page(struct coordinator *coordinator, uint64_t id, uint64_t page, int64_t now,
    bool *wait, struct err *e);

#endif
