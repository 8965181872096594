/* SPDX-License-Identifier: ISC */
#ifndef CTL_TRACE_ROWS_H
#define CTL_TRACE_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "core/json.h"
#include "session/tracer.h"

/* ps-ctl trace: collects the spans that all processes record for a while, and writes them as Chrome
 * trace events. trace_rows.c collects pages and aligns the clocks, trace_spans.c writes. One
 * thread.
 *
 * The rows of each process carry times of its own monotonic clock, so each needs an offset to the
 * coordinator's clock. */
struct trace_process {
	char id[24];
	int64_t pid;
	int64_t heard; /* its clock when it heard of the trace; its rows count from there */
	/* Bounds and an estimate of the offset, ns. At least `least`: the process heard of the trace
	 * after it began. At most `most`: each page was sent before it was received. `wall` is the
	 * offset by the wall clocks of both hosts. */
	int64_t least, most, wall;
	int64_t offset; /* the offset that is used */
	bool by_wall;   /* offset is `wall` */
};

struct trace_item {
	uint32_t process;
	uint8_t kind; /* enum trace_row */
	int64_t
	    v[TRACER_NUMBERS]; /* after trace_align_clocks() times are ns since the trace began */
};

struct trace {
	int64_t began, wall; /* the coordinator's clocks when the trace began, ns */
	uint64_t dropped;
	struct trace_process *process;
	size_t nprocesses;
	struct trace_item *item;
	size_t nitems, cap, most; /* most: bound of nitems */
	bool full;
};

/* Frees what t owns, and clears it. */
void trace_release(struct trace *t);
/* Adds a page of GET /v1/trace. Rows that it does not understand are skipped; beyond `most` items
 * t becomes full. */
void trace_add_page(struct trace *t, const json_t *page);
/* Chooses the clock offsets when all pages have been added, and converts all times to ns since the
 * trace began. */
void trace_align_clocks(struct trace *t);

/* trace_spans.c: writes Chrome trace events in the order of time, about `limit` bytes at most.
 * *spans becomes their number. Returns false when not all items were kept or written. */
bool trace_write(struct trace *t, const char *cluster, FILE *out, uint64_t limit, size_t *spans);

#endif
