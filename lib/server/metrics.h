#ifndef SERVER_METRICS_H
#define SERVER_METRICS_H

#include <jansson.h>

#include "base/buf.h"

/* Prometheus text (format 0.0.4) for the whole cluster, from the documents of
 * GET /v1/status, /v1/servers and /v1/workers. */
void metrics_text(const json_t *status, const json_t *servers, const json_t *workers, struct buf *out);

#endif
