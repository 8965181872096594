/* SPDX-License-Identifier: ISC */
#ifndef COORDINATOR_METRICS_H
#define COORDINATOR_METRICS_H

#include "core/buf.h"
#include "core/json.h"

/* The input of GET /metrics: the row that metrics.jsonl would get now (summary_row.h), the lists
 * that GET /v1/servers, /v1/workers, /v1/relays and /v1/tables return, the number of events of each
 * kind, and the coordinator's own process, which is NULL when the coordinator runs in a server's
 * process. */
struct metrics {
	const json_t *row, *servers, *workers, *relays, *tables, *events, *coordinator;
};

/* Append the text for the whole cluster, in Prometheus' format 0.0.4: ps-metrics(7). No locks. */
void metrics_text(const struct metrics *m, struct buf *out);

#endif
