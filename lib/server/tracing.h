#ifndef SERVER_TRACING_H
#define SERVER_TRACING_H

#include "server/host.h"

/* A trace of the cluster, one at a time: the view asks all processes to record their steps
 * (client/tracer.h); what they send waits here, within bounds, for who has asked.  Everything
 * under the host's lock. */
struct tracing;

#define TRACING_MAX_SECONDS 600.0

struct tracing *tracing_new(void);
void tracing_free(struct tracing *t);

/* ERR_EXISTS: another one is being taken; ERR_NOTREADY: the cluster has ended. */
enum err_code tracing_begin(struct host *h, double seconds, int64_t now, uint64_t *id, struct err *e);
/* The number for the view; 0: none is being taken. */
uint64_t tracing_id(const struct tracing *t);
/* At each tick: end it, when it is time; forget it, when nobody asks for it. */
void tracing_tick(struct host *h, int64_t now);
/* What a process has sent. */
void tracing_take(struct host *h, const struct coord_self *from, const json_t *msg, int64_t now);
/* The page with this number, and what is known of the trace; those before are dropped.  A new
 * reference.  *wait: there is none, and one may come.  NULL with ERR_NOTFOUND: no such trace. */
json_t *tracing_page(struct host *h, uint64_t id, uint64_t page, int64_t now, bool *wait, struct err *e);

#endif
