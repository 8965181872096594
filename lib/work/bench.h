#ifndef WORK_BENCH_H
#define WORK_BENCH_H

#include "work/tool.h"

struct bench_config {
	const char *op;                 /* push, pull, pushpull */
	uint64_t bytes;                 /* of a dense table */
	uint64_t rows, width;           /* a sparse table instead, when rows is not 0 */
	int64_t iters;
	struct client_coding coding;
	struct bench_sample { double seconds, p50, p99, pushed, pulled; } result;       /* pushed, pulled: bytes each */
};

/* Measure the data plane of an open cluster: makes the table (admin), then
 * repeats the operation, each awaited before the next begins. */
enum err_code bench(struct tool *t, struct bench_config *b, struct err *e);

#endif
