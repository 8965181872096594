/* SPDX-License-Identifier: ISC */
#ifndef WORKER_PROBER_H
#define WORKER_PROBER_H

#include <stdint.h>

#include "core/json.h"
#include "msg/view.h"
#include "session/identity.h"

/* Measures a training worker's links to servers when the coordinator asks for it (coord_probe).
 *
 * idle -> running: a view with a new probe number starts a thread, with connections of its own.
 * running -> idle: prober_report sees that the thread is done, keeps its result for a few heartbeats,
 * and starts the next measurement if a view has asked meanwhile.
 *
 * All calls come from the agent's thread. The measuring thread owns `view` and `result` until it
 * sets `done`. */
struct prober;

/* id is borrowed. Starts no thread. */
struct prober *prober_new(const struct identity *id, uint64_t incarnation);
/* Stops a running measurement and waits for its thread. */
void prober_free(struct prober *p);
/* Starts a measurement when the view asks for a new one. A request that is already in the first
 * view was made before this worker joined and is ignored. */
void prober_view(struct prober *p, const struct view *view);
/* Adds the result to the figures of a few heartbeats. */
void prober_report(struct prober *p, json_t *stats);

#endif
