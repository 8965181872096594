/* SPDX-License-Identifier: ISC */
#ifndef TOOL_BENCH_H
#define TOOL_BENCH_H

#include "tool/tool.h"

/* The measurement that is wanted, and its result. Measurements block; one thread. */
struct bench_config {
	const char *op;       /* push, pull, pushpull, allreduce */
	uint64_t bytes;       /* size of a dense table */
	uint64_t rows, width; /* a sparse table instead, when rows is not 0 */
	int64_t iters;
	struct client_coding coding;
	int64_t procs;         /* allreduce: members */
	const char *transport; /* allreduce: tcp, unix */
	enum suite suite;      /* allreduce */
	struct bench_sample {
		double seconds, p50, p99, pushed, pulled;
	} result; /* pushed, pulled: bytes each */
};

/* Measures the data plane of an open cluster: creates the table (needs an admin's key), then
 * repeats the operation, waiting for each before the next. Fills b->result. */
enum err_code bench(struct admin_client *t, struct bench_config *b, struct err *e);
/* Measures all-reduce among b->procs processes of this host: this one and forked ones, which have
 * ended when this returns. Each sums its own vector, and the last mean is checked. `dir` is for
 * their sockets. ERR_FAILED: a wrong mean or a failed member. */
enum err_code bench_ring(const char *dir, struct bench_config *b, struct err *e);
/* Fills b->result from the seconds of each of b->iters repetitions; sorts them. */
void bench_sum_up(struct bench_config *b, double *took);

#endif
