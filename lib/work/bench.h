#ifndef WORK_BENCH_H
#define WORK_BENCH_H

#include "work/tool.h"

struct bench_config {
	const char *op;                 /* push, pull, pushpull, allreduce */
	uint64_t bytes;                 /* of a dense table */
	uint64_t rows, width;           /* a sparse table instead, when rows is not 0 */
	int64_t iters;
	struct client_coding coding;
	int64_t procs;                  /* allreduce: members */
	const char *transport;          /* allreduce: tcp, unix */
	enum suite suite;               /* allreduce */
	struct bench_sample { double seconds, p50, p99, pushed, pulled; } result;       /* pushed, pulled: bytes each */
};

/* Measure the data plane of an open cluster: makes the table (admin), then
 * repeats the operation, each awaited before the next begins. */
enum err_code bench(struct tool *t, struct bench_config *b, struct err *e);
/* Measure all-reduce among so many processes of this host, of which we are one and the
 * others are forked here, and gone before this returns.  Each sums a vector of its own;
 * the last mean is compared with what it must be.  `dir` is for their sockets. */
enum err_code bench_ring(const char *dir, struct bench_config *b, struct err *e);
/* took: seconds of each repetition, of b->iters; gets sorted. */
void bench_sum_up(struct bench_config *b, double *took);

#endif
