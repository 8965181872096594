/* SPDX-License-Identifier: ISC */
#ifndef SESSION_TRACER_H
#define SESSION_TRACER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/json.h"
#include "msg/view.h"

struct agent;

/* A trace of what this process does, step by step, taken while the coordinator asks for one
 * (ps-ctl trace). The cluster view switches it on and off. Rows are added by any thread to a
 * buffer of TRACER_ROWS under a lock, and the agent's thread sends them to the coordinator
 * with each heartbeat. Rows that find no room are counted and dropped. While no trace is taken
 * nothing is allocated, and the hot path only calls tracer_is_on.
 *
 * States: OFF (id 0) -> ON: tracer_view with a trace number; ON -> OFF: tracer_view without one,
 * which sends the last rows first; ON -> ON: another trace number, as OFF and ON again. */
struct tracer;

#define TRACER_ROWS    8192u
#define TRACER_NUMBERS 9 /* the most that a row has */

/* The kind of a row and the meaning of its numbers. Times are of CLOCK_MONOTONIC, in ns. */
enum trace_row {
	/* a worker: step, begin, waited, data, answer, pulled, computed, pushed, examples; see
	 * struct step_times */
	TRACE_STEP,
	/* a server: step, rank (-1: a relay's aggregate), arrival of the first push,
	 * application of the last one, ns spent on them, pushes */
	TRACE_APPLY,
	/* a server: step, rank of the last CLOCK, arrival of the first CLOCK, time when the
	 * step was complete */
	TRACE_CLOSE,
};

struct tracer *tracer_new(void);
void tracer_free(struct tracer *t); /* NULL is fine; no thread may use it any more */

/* The number of the trace that is taken; 0: none. Any thread; a relaxed load. */
uint64_t tracer_id(const struct tracer *t);
static inline bool tracer_is_on(const struct tracer *t)
{
	return atomic_load_explicit((const _Atomic uint64_t *)(const void *)t,
	           memory_order_relaxed) != 0;
}
/* Add a row of n numbers; dropped when the trace has ended meanwhile. Any thread. */
void tracer_add(struct tracer *t, enum trace_row kind, const int64_t *v, unsigned n);

/* A view has arrived: begin a trace, or send the last rows and end it. On the agent's thread. */
void tracer_view(struct tracer *t, struct agent *a, const struct view *view);
/* Send the rows in the buffer; called with each heartbeat, on the agent's thread. */
void tracer_send(struct tracer *t, struct agent *a);

#endif
