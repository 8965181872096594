#ifndef SERVER_METRICS_H
#define SERVER_METRICS_H

#include <jansson.h>

#include "base/buf.h"

/* What GET /metrics tells of: the last line of metrics.jsonl as it would be now (row.h), the
 * lists of GET /v1/servers, /v1/workers, /v1/relays and /v1/tables, how many events of each kind there were,
 * and the coordinator's own process, NULL when it is that of a server. */
struct metrics {
	const json_t *row, *servers, *workers, *relays, *tables, *events, *coordinator;
};

/* Prometheus text, format 0.0.4, of the whole cluster: ps-metrics(7). */
void metrics_text(const struct metrics *m, struct buf *out);

#endif
