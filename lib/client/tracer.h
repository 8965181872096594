#ifndef CLIENT_TRACER_H
#define CLIENT_TRACER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

struct agent;

/* What this process does, step by step, while the coordinator has a trace taken (ps-ctl trace).
 * The view says when that is; rows go into a buffer of TRACER_ROWS, and to the coordinator with
 * each heartbeat.  What finds no room is counted, and left out.  While no trace is taken nothing
 * is allocated, and all that the hot path does is to ask tracer_is_on. */
struct tracer;

#define TRACER_ROWS 8192u
#define TRACER_NUMBERS 9        /* of a row, at most */

/* What a row tells of, its first number; the others: times are of CLOCK_MONOTONIC, in ns. */
enum trace_row {
	TRACE_STEP,     /* a worker: step, begin, waited, data, answer, pulled, computed, pushed, examples; see struct step_times */
	TRACE_APPLY,    /* a server: step, slot (-1: a relay's sums), first push came, last was taken, ns at work on them, pushes */
	TRACE_CLOSE,    /* a server: step, slot of the last CLOCK, when the first one came, when it had all */
};

struct tracer *tracer_new(void);
void tracer_free(struct tracer *t);     /* NULL is fine; no thread uses it any more */

/* Any thread; a relaxed load.  The number of the trace that is taken, 0: none. */
uint64_t tracer_id(const struct tracer *t);
static inline bool tracer_is_on(const struct tracer *t)
{
	return atomic_load_explicit((const _Atomic uint64_t *)(const void *)t, memory_order_relaxed) != 0;
}
/* Any thread: n numbers, none when the trace has ended meanwhile. */
void tracer_add(struct tracer *t, enum trace_row kind, const int64_t *v, unsigned n);

/* On the agent's thread.  A view has come: begin, or send the last rows and end. */
void tracer_view(struct tracer *t, struct agent *a, const json_t *view);
/* Send what is here: with each heartbeat. */
void tracer_send(struct tracer *t, struct agent *a);

#endif
