/* SPDX-License-Identifier: ISC */
#ifndef SERVING_SERVE_METRICS_H
#define SERVING_SERVE_METRICS_H

#include "core/buf.h"
#include "core/hist.h"

/* Figures of an endpoint, as Prometheus text. Any thread may add and read. */
enum serve_stage { SERVE_PARSE, SERVE_LOOK_UP, SERVE_COMPUTE, SERVE_WRITE, SERVE_STAGES };

#define SERVE_CODES 600

struct serve_metrics {
	struct hist stage[SERVE_STAGES]; /* ns, of each batch */
	struct hist request;             /* ns, from its last byte to its answer, of each request */
	struct hist batch_requests, batch_rows;
	_Atomic uint64_t code[SERVE_CODES]; /* answers by HTTP status */
	_Atomic uint64_t cut;               /* requests and answers that took too long */
};

/* Figures that are measured when the text is written. */
struct serve_now {
	uint64_t connections, memory; /* memory: bytes of bodies and answers */
	uint64_t model_number, models_taken, models_refused;
	double age;          /* seconds; negative: not known */
	const char *version; /* of the model */
};

void serve_metrics_write(const struct serve_metrics *m, const struct serve_now *now,
    struct buf *out);

#endif
