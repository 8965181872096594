#include "server/peer_trace.h"

#include "base/clock.h"
#include "base/mem.h"
#include "client/tracer.h"

/* Steps that may be open at once, of those that are told of. */
#define OPEN 64u

struct trace_steps {
	pthread_mutex_t lock;
	uint64_t id;                    /* of the trace that this is for */
	uint64_t closed;                /* steps below this one are */
	struct { uint64_t end; int64_t first; } open[OPEN];     /* of a step, by its number: that number plus 1, and its first CLOCK */
};

struct trace_steps *trace_steps_new(void)
{
	struct trace_steps *s = mem_alloc(sizeof *s);

	pthread_mutex_init(&s->lock, NULL);
	return s;
}

void trace_steps_free(struct trace_steps *s)
{
	if (!s)
		return;
	pthread_mutex_destroy(&s->lock);
	free(s);
}

/* ---- pushes ------------------------------------------------------------------------------ */

static void flush(struct peer *p)
{
	const struct traced *x = &p->traced;
	int64_t slot = p->slot == SLOT_NONE ? -1 : (int64_t)p->slot;

	if (x->pushes)
		tracer_add(p->lane->server->tracer, TRACE_APPLY,
		    (const int64_t[]){ (int64_t)x->step, slot, x->begin, x->end, x->busy, x->pushes }, 6);
	p->traced = (struct traced){ 0 };
}

/* All of a step are one row. */
void trace_push(struct peer *p, uint64_t step, int64_t begin)
{
	struct traced *x = &p->traced;

	if (x->id != tracer_id(p->lane->server->tracer))
		*x = (struct traced){ 0 };
	else if (x->step != step)
		flush(p);
	if (!x->pushes)
		*x = (struct traced){ .id = tracer_id(p->lane->server->tracer), .step = step, .begin = begin };
	x->end = clock_now();
	x->busy += x->end - begin;
	x->pushes++;
}

/* ---- clocks ------------------------------------------------------------------------------ */

/* Steps that all slots have completed here. */
static uint64_t closed(struct server *s)
{
	uint64_t step = shard_closed(atomic_load(&s->shard));

	return step != UINT64_MAX ? step : shard_step(atomic_load(&s->shard));
}

static void close_steps(struct server *s, struct trace_steps *x, uint32_t slot, uint64_t until)
{
	int64_t now = clock_now();

	if (until > x->closed + OPEN)
		x->closed = until - OPEN;
	for (; x->closed < until; x->closed++)
		if (x->open[x->closed % OPEN].end == x->closed + 1)
			tracer_add(s->tracer, TRACE_CLOSE,
			    (const int64_t[]){ (int64_t)x->closed, slot, x->open[x->closed % OPEN].first, now }, 4);
}

void trace_clock(struct peer *p, uint32_t slot, uint64_t step)
{
	struct server *s = p->lane->server;
	struct trace_steps *x = s->steps;
	uint64_t until = closed(s), id = tracer_id(s->tracer);

	if (p->traced.id == id && p->traced.step == step)
		flush(p);
	pthread_mutex_lock(&x->lock);
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
		close_steps(s, x, slot, until);
	pthread_mutex_unlock(&x->lock);
}
