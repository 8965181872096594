#ifndef SERVER_ROW_H
#define SERVER_ROW_H

#include "server/host.h"

/* How the cluster stands, in one object, under the host's lock: what metrics.jsonl, TensorBoard's
 * files and /metrics tell, so that all tell the same.  coord_row, and what only the host knows:
 * learning rate and checkpoints. */
json_t *row_take(struct host *h, int64_t now);
/* The coordinator's own process, with the names that heartbeats have. */
json_t *row_process(const struct host *h);

#endif
