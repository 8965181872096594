/* SPDX-License-Identifier: ISC */
#include "server/session_trace.h"

#include "core/clock.h"
#include "core/lock.h"
#include "core/mem.h"
#include "session/tracer.h"

/* Open steps that are kept track of; steps beyond get no row. */
#define OPEN 64u

struct trace_steps {
	struct mutex lock;
	uint64_t id;     /* the trace that this is for */
	uint64_t closed; /* the first open step */
	/* Step n is at n % OPEN: end is n + 1, first is the time of its first CLOCK. */
	struct {
		uint64_t end;
		int64_t first;
	} open[OPEN];
};

struct trace_steps *session_trace_steps_new(void)
{
	struct trace_steps *s = mem_alloc(sizeof *s);

	mutex_init(&s->lock, LOCK_STEP_TRACE);
	return s;
}

void session_trace_steps_free(struct trace_steps *s)
{
	if (!s)
		return;
	mutex_destroy(&s->lock);
	free(s);
}

/* ---- pushes ---- */

static void flush_traced_pushes(struct server_session *p)
{
	const struct traced *x = &p->data.traced;
	int64_t rank = p->who.rank == RANK_NONE ? -1 : (int64_t)p->who.rank;

	if (x->pushes)
		tracer_add(p->io_thread->server->tracer, TRACE_APPLY,
		    (const int64_t[]){ (int64_t)x->step, rank, x->begin, x->end, x->busy,
		        x->pushes },
		    6);
	p->data.traced = (struct traced){ 0 };
}

/* All pushes of a step become one row, which is added with the first push of another step, or with
 * the step's CLOCK. */
void session_trace_push(struct server_session *p, uint64_t step, int64_t begin)
{
	struct traced *x = &p->data.traced;

	if (x->id != tracer_id(p->io_thread->server->tracer))
		*x = (struct traced){ 0 };
	else if (x->step != step)
		flush_traced_pushes(p);
	if (!x->pushes)
		*x = (struct traced){ .id = tracer_id(p->io_thread->server->tracer),
			.step = step,
			.begin = begin };
	x->end = clock_now();
	x->busy += x->end - begin;
	x->pushes++;
}

/* ---- clocks ---- */

/* The first step that not all workers have completed here. */
static uint64_t first_open_step(struct server *s)
{
	uint64_t step = shard_closed(atomic_load(&s->shard));

	return step != UINT64_MAX ? step : shard_step(atomic_load(&s->shard));
}

static void add_closed_steps(struct server *s, struct trace_steps *x, uint32_t rank, uint64_t until)
{
	int64_t now = clock_now();

	if (until > x->closed + OPEN)
		x->closed = until - OPEN;
	for (; x->closed < until; x->closed++)
		if (x->open[x->closed % OPEN].end == x->closed + 1)
			tracer_add(s->tracer, TRACE_CLOSE,
			    (const int64_t[]){ (int64_t)x->closed, rank,
			        x->open[x->closed % OPEN].first, now },
			    4);
}

void session_trace_clock(struct server_session *p, uint32_t rank, uint64_t step)
{
	struct server *s = p->io_thread->server;
	struct trace_steps *x = s->steps;
	uint64_t until = first_open_step(s), id = tracer_id(s->tracer);

	if (p->data.traced.id == id && p->data.traced.step == step)
		flush_traced_pushes(p);
	mutex_lock(&x->lock);
	if (x->id != id) {
		memset(x->open, 0, sizeof x->open);
		x->id = id;
		x->closed = until;
	}
	if (x->open[step % OPEN].end != step + 1) {
		x->open[step % OPEN].end = step + 1;
		x->open[step % OPEN].first = clock_now();
	}
	if (until > x->closed)
		add_closed_steps(s, x, rank, until);
	mutex_unlock(&x->lock);
}
