/* SPDX-License-Identifier: ISC */
#include "core/mem.h"
#include "data/source/data_log.h"
#include "worker/batches_state.h"

static void free_source_of_stream(struct range_source *s)
{
	free(s);
}

static const struct range_source_ops stream_ops = {
	.free = free_source_of_stream,
};

struct range_source *source_stream_new(const struct data_log *log)
{
	struct range_source *s = mem_alloc(sizeof *s);

	*s = (struct range_source){ .ops = &stream_ops,
		.units = data_log_partitions(log),
		.per_range = 1,
		.leases = &leases_of_stream };
	return s;
}
