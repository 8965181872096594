/* SPDX-License-Identifier: ISC */
#ifndef COORDINATOR_SUMMARY_ROW_H
#define COORDINATOR_SUMMARY_ROW_H

#include "coordinator/coordinator.h"

/* The state of the cluster in one object: coord_row, learning rate and checkpoints. metrics.jsonl
 * and /metrics both use it, so that they agree. With the coordinator's lock held; a new
 * reference. */
json_t *summary_row_make(struct coordinator *coordinator, int64_t now);
/* Figures of the coordinator's own process, named as in heartbeats. A new reference. */
json_t *summary_row_process(const struct coordinator *coordinator);

#endif
