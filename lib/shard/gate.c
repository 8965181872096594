#include "shard/gate.h"

#include "base/mem.h"

/* No holder: no incarnation is this one. */
#define NOBODY UINT64_MAX

static bool fenced(const struct sync *sync, uint32_t slot, uint64_t incarnation)
{
	return slot >= sync->nslots || sync->slot[slot].incarnation != incarnation;
}

/* ---- members -------------------------------------------------------------- */

void shard_admit(struct shard *s, uint32_t slot, uint64_t incarnation, uint64_t from)
{
	struct sync_slot *p;

	pthread_mutex_lock(&s->gate.lock);
	p = sync_at(&s->gate.sync, slot);
	/* The same holder again: it may have sent DONE since the view was written. */
	if (p->incarnation != incarnation) {
		p->active = true;
		p->incarnation = incarnation;
		if (p->clock < from) {
			p->clock = from;
			p->clock_examples = 0;
		}
	}
	pthread_mutex_unlock(&s->gate.lock);
}

void shard_dismiss(struct shard *s, uint32_t slot)
{
	struct sync_slot *p;

	pthread_mutex_lock(&s->gate.lock);
	p = sync_at(&s->gate.sync, slot);
	p->active = false;
	p->incarnation = NOBODY;
	pthread_mutex_unlock(&s->gate.lock);
	gate_close(s);
	s->cfg.wake(s->cfg.ctx);
}

uint64_t shard_incarnation(struct shard *s, uint32_t slot)
{
	uint64_t inc = 0;

	pthread_mutex_lock(&s->gate.lock);
	if (slot < s->gate.sync.nslots)
		inc = s->gate.sync.slot[slot].incarnation;
	pthread_mutex_unlock(&s->gate.lock);
	return inc;
}

struct shard_vote shard_vote(struct shard *s, uint32_t slot, uint64_t incarnation, uint64_t step, bool resume)
{
	struct sync *sync = &s->gate.sync;
	struct sync_slot *p;
	struct shard_vote v;

	pthread_mutex_lock(&s->gate.lock);
	p = sync_at(sync, slot);
	/* The old holder is fenced at once, whatever comes of the vote. */
	if (p->incarnation != incarnation)
		p->incarnation = NOBODY;
	v.frontier = sync_frontier(sync);
	v.clock = p->clock;
	v.yes = resume || step >= v.frontier;
	if (!resume)
		sync->hold = v.yes ? step : SYNC_NEVER;
	pthread_mutex_unlock(&s->gate.lock);
	if (!v.yes)
		s->cfg.wake(s->cfg.ctx);
	return v;
}

void shard_decided(struct shard *s)
{
	pthread_mutex_lock(&s->gate.lock);
	s->gate.sync.hold = SYNC_NEVER;
	pthread_mutex_unlock(&s->gate.lock);
	gate_close(s);
	s->cfg.wake(s->cfg.ctx);
}

/* ---- clocks ---------------------------------------------------------------- */

enum shard_answer shard_clock(struct shard *s, uint32_t slot, uint64_t incarnation, uint64_t step, uint32_t examples)
{
	struct sync *sync = &s->gate.sync;
	enum shard_answer a = SHARD_OK;

	pthread_mutex_lock(&s->gate.lock);
	if (fenced(sync, slot, incarnation))
		a = SHARD_FENCED;
	else if (!sync_may_push(sync, step) || (sync->mode.kind == SYNC_bsp && step > sync->closed))
		a = SHARD_HOLD;
	else
		sync_clock(sync, slot, step, examples);
	pthread_mutex_unlock(&s->gate.lock);
	if (a != SHARD_OK)
		return a;
	gate_close(s);
	s->cfg.wake(s->cfg.ctx);
	return a;
}

enum shard_answer shard_done(struct shard *s, uint32_t slot, uint64_t incarnation)
{
	enum shard_answer a = SHARD_OK;

	pthread_mutex_lock(&s->gate.lock);
	if (fenced(&s->gate.sync, slot, incarnation))
		a = SHARD_FENCED;
	else
		s->gate.sync.slot[slot].active = false;
	pthread_mutex_unlock(&s->gate.lock);
	if (a == SHARD_OK) {
		gate_close(s);
		s->cfg.wake(s->cfg.ctx);
	}
	return a;
}

bool shard_may_pull(struct shard *s, uint64_t step)
{
	bool may;

	pthread_mutex_lock(&s->gate.lock);
	may = sync_may_pull(&s->gate.sync, step);
	/* Whoever has this answer deals its data by today's members. */
	if (may && step >= s->gate.sync.answered)
		s->gate.sync.answered = step + 1;
	pthread_mutex_unlock(&s->gate.lock);
	return may;
}

uint64_t shard_closed(struct shard *s)
{
	uint64_t closed = UINT64_MAX;

	if (s->cfg.mode.kind != SYNC_bsp)
		return closed;
	pthread_mutex_lock(&s->gate.lock);
	closed = s->gate.sync.closed;
	pthread_mutex_unlock(&s->gate.lock);
	return closed;
}

uint64_t shard_step(struct shard *s)
{
	uint64_t floor;

	pthread_mutex_lock(&s->gate.lock);
	floor = sync_floor(&s->gate.sync);
	if (floor == SYNC_NEVER)
		floor = sync_frontier(&s->gate.sync);
	pthread_mutex_unlock(&s->gate.lock);
	return floor;
}

/* ---- pushes ----------------------------------------------------------------- */

enum shard_answer gate_push(struct shard *s, const struct push *p)
{
	struct sync *sync = &s->gate.sync;
	enum shard_answer a = SHARD_OK;

	if (p->slot == SHARD_OUTSIDE)
		return SHARD_OK;
	pthread_mutex_lock(&s->gate.lock);
	if (fenced(sync, p->slot, p->incarnation))
		a = SHARD_FENCED;
	else if (!sync_may_push(sync, p->step))
		a = SHARD_HOLD;
	else if (sync->slot[p->slot].last <= p->step)
		sync->slot[p->slot].last = p->step + 1;
	pthread_mutex_unlock(&s->gate.lock);
	return a;
}

/* What slots that are through with the step stated, but did not push here. */
static uint64_t absent_examples(const struct sync *sync, const struct part *p)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < sync->nslots; i++)
		if (sync->slot[i].clock == p->step + 1 && part_last(p, i) <= p->step)
			sum += sync->slot[i].clock_examples;
	return sum;
}

bool gate_complete(struct shard *s, const struct part *p, uint64_t *examples)
{
	const struct sync *sync = &s->gate.sync;
	bool complete = true;

	pthread_mutex_lock(&s->gate.lock);
	for (uint32_t i = 0; complete && i < sync->nslots; i++)
		complete = !sync->slot[i].active || sync->slot[i].clock > p->step || part_last(p, i) > p->step;
	if (complete)
		*examples = p->acc_examples + absent_examples(sync, p);
	pthread_mutex_unlock(&s->gate.lock);
	return complete;
}

uint64_t gate_examples(struct shard *s, const struct part *p)
{
	uint64_t sum;

	pthread_mutex_lock(&s->gate.lock);
	sum = p->acc_examples + absent_examples(&s->gate.sync, p);
	pthread_mutex_unlock(&s->gate.lock);
	return sum;
}

bool gate_in_turn(struct shard *s, const struct part *p, uint32_t slot, uint64_t step)
{
	const struct sync *sync = &s->gate.sync;
	bool turn = true;

	pthread_mutex_lock(&s->gate.lock);
	for (uint32_t i = 0; turn && i < slot && i < sync->nslots; i++)
		turn = !sync->slot[i].active || sync->slot[i].clock > step || part_last(p, i) > step;
	pthread_mutex_unlock(&s->gate.lock);
	return turn;
}

/* ---- closing ------------------------------------------------------------------ */

static void close_parts(struct shard *s, uint64_t step)
{
	uint32_t ntables = atomic_load(&s->ntables);

	for (uint32_t t = 0; t < ntables; t++) {
		struct shard_table *table = atomic_load(&s->table[t]);

		for (uint32_t i = 0; table && i < table->shape.nparts; i++) {
			struct part *p = table->part[i];

			if (!p)
				continue;
			pthread_mutex_lock(&p->lock);
			if (p->step == step) {
				part_close(p, &s->cfg, gate_examples(s, p));
				p->waited = false;      /* the caller wakes everybody */
			}
			pthread_mutex_unlock(&p->lock);
		}
	}
}

void gate_close(struct shard *s)
{
	struct gate *g = &s->gate;

	if (s->cfg.mode.kind != SYNC_bsp)
		return;
	pthread_mutex_lock(&g->lock);
	while (!g->closing && sync_may_close(&g->sync)) {
		uint64_t step = g->sync.closed;

		g->closing = true;
		pthread_mutex_unlock(&g->lock);
		close_parts(s, step);
		pthread_mutex_lock(&g->lock);
		g->closing = false;
		g->sync.closed++;
	}
	pthread_mutex_unlock(&g->lock);
}
