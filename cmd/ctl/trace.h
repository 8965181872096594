#ifndef CTL_TRACE_H
#define CTL_TRACE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "client/tracer.h"

/* A trace as its pages come: rows of processes, each by its own clock. */
struct trace_process {
	char id[24];
	int64_t pid;
	int64_t heard;                  /* its clock, when it heard of the trace: its rows count from there */
	/* To be added to its clock for the coordinator's: not below, as it heard of the trace after
	 * that had begun; not above, as all pages were sent before they came; and as the clocks on
	 * the wall have it. */
	int64_t least, most, wall;
	int64_t offset;                 /* which is taken */
	bool by_wall;                   /* as the clocks on the wall have it */
};

struct trace_item {
	uint32_t process;
	uint8_t kind;                   /* enum trace_row */
	int64_t v[TRACER_NUMBERS];      /* times: by trace_settle, ns since the trace began */
};

struct trace {
	int64_t began, wall;            /* the coordinator's clocks */
	uint64_t dropped;
	struct trace_process *process;
	size_t nprocesses;
	struct trace_item *item;
	size_t nitems, cap, most;       /* most: items that are kept */
	bool full;
};

void trace_release(struct trace *t);
/* A page of GET /v1/trace; what is not understood in it is left out. */
void trace_page(struct trace *t, const json_t *page);
/* All pages are here: set the clocks, and bring all times to the coordinator's. */
void trace_settle(struct trace *t);

/* trace_spans.c: as Chrome's trace events, in the order of time, at most so many bytes; false
 * when that was not all.  *spans: how many there are. */
bool trace_write(struct trace *t, const char *cluster, FILE *out, uint64_t limit, size_t *spans);

#endif
