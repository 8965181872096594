/* SPDX-License-Identifier: ISC */
/* Processor time for reading training data in blocks, beside reading them into memory.
 *
 * usage: blocks_read PATH [MEMORY [CACHE_DIR]]
 *
 * Prints one line of JSON: bytes and examples of the data; ns a byte for reading them into memory,
 * in blocks and, with a directory for job.cache, in blocks that are stored (the first epoch) and in
 * stored ones (the second). A figure is the processor time of this process, kernel included, so
 * that other programs matter little. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "core/log.h"
#include "core/mem.h"
#include "core/num.h"
#include "data/data_blocks.h"
#include "data/batch/data_order.h"

#define BLOCK (2 << 20) /* as the default of job.data_memory makes them */

static double processor_seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void fail(const struct err *e)
{
	fprintf(stderr, "blocks_read: %s\n", e->msg);
	exit(1);
}

/* Reads one epoch in the order of a worker; returns the number of examples. A range is a group of blocks. */
static uint64_t read_epoch(const struct data_blocks *b, uint64_t epoch, uint64_t memory)
{
	uint32_t n = (uint32_t)data_blocks_count(b);
	uint32_t *order = mem_array(n, sizeof *order), group;
	double fit = (double)memory / 3 / data_blocks_memory(b) * n;
	uint64_t rows = 0;
	struct err e;

	group = fit < 1 ? 1 : fit > n ? n : (uint32_t)fit;
	data_order(1, epoch, n, 0, n, order);
	for (uint32_t at = 0; at < n; at += group) {
		struct data_walk *c = data_blocks_walk(b, order + at,
		    n - at < group ? n - at : group, memory / 5 * 2, memory / 5 * 2);
		bool last = false;

		while (!last) {
			struct dataset *d;

			if (data_walk_next(c, &d, &last, &e))
				fail(&e);
			rows += d ? d->rows : 0;
			dataset_free(d);
		}
		data_walk_free(c);
	}
	free(order);
	return rows;
}

static struct data_blocks *open_blocks(const char *path, uint64_t memory, const char *cache)
{
	const struct data_want want = { .two = true };
	struct data_blocks *b;
	static struct log log;
	struct err e;

	if (data_blocks_open(&path, 1, NULL, &want, memory, BLOCK, &b, &e))
		fail(&e);
	if (!b) {
		fprintf(stderr, "blocks_read: %s fits into %" PRIu64 " bytes\n", path, memory);
		exit(1);
	}
	log_init(&log, "blocks_read", 2, LOG_LEVEL_WARN);
	if (cache)
		data_blocks_use_cache(b, &(struct data_cache){ cache, &log }, &path, 1, NULL);
	return b;
}

int main(int argc, char **argv)
{
	uint64_t memory = 256 << 20, rows;
	const struct data_want want = { .two = true };
	const char *path = argc > 1 ? argv[1] : "";
	struct dataset *d;
	struct data_blocks *b;
	struct err e;
	double at, bytes, head, epoch;

	if (argc < 2 || argc > 4 || (argc > 2 && !num_uint(argv[2], UINT64_MAX, &memory))) {
		fputs("usage: blocks_read PATH [MEMORY [CACHE_DIR]]\n", stderr);
		return 2;
	}
	at = processor_seconds();
	b = open_blocks(path, memory, NULL);
	bytes = (double)data_blocks_bytes(b);
	head = processor_seconds() - at;
	at = processor_seconds();
	rows = read_epoch(b, 0, memory);
	epoch = processor_seconds() - at;
	data_blocks_free(b);
	printf("{\"bytes\":%.0f,\"examples\":%" PRIu64
	       ",\"head_seconds\":%.3f,\"blocks_ns_per_byte\":%.3f",
	    bytes, rows, head, epoch / bytes * 1e9);
	if (argc > 3) {
		b = open_blocks(path, memory, argv[3]);
		for (uint64_t i = 0; i < 2; i++) {
			at = processor_seconds();
			read_epoch(b, i, memory);
			printf(",\"%s_ns_per_byte\":%.3f", i ? "stored" : "storing",
			    (processor_seconds() - at) / bytes * 1e9);
		}
		data_blocks_free(b);
	}
	at = processor_seconds();
	if (data_load(&path, 1, NULL, &want, NULL, &d, &e))
		fail(&e);
	printf(",\"memory_ns_per_byte\":%.3f}\n", (processor_seconds() - at) / bytes * 1e9);
	if (d->rows != rows) {
		fprintf(stderr, "blocks_read: %zu examples in memory\n", d->rows);
		return 1;
	}
	dataset_free(d);
	return 0;
}
