#ifndef WORK_PROBER_H
#define WORK_PROBER_H

#include <jansson.h>
#include <stdint.h>

#include "client/identity.h"

/* A worker tries its lines to servers when the coordinator asks (coord_probe): on a thread of its
 * own, which is there only meanwhile, with connections of its own.  Calls are the agent's thread's. */
struct prober;

/* id is borrowed. */
struct prober *prober_new(const struct identity *id, uint64_t incarnation);
/* Ends what is under way. */
void prober_free(struct prober *p);
/* Begin, when this view asks for a trial that was not made; the first view's is not for us. */
void prober_view(struct prober *p, const json_t *view);
/* Add what was found to the figures of a few heartbeats. */
void prober_tell(struct prober *p, json_t *stats);

#endif
