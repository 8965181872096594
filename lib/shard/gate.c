#include "shard/copy.h"
#include "shard/hand.h"
#include "shard/mean.h"
#include "shard/regime.h"
#include "shard/robust.h"
#include "shard/watch.h"

#include "base/fail.h"

/* No holder: no incarnation is this one. */
#define NOBODY UINT64_MAX

bool gate_fences(const struct sync *sync, uint32_t slot, uint64_t incarnation)
{
	/* Nor is 0 one: that is a slot that nobody has held. */
	return !incarnation || incarnation == NOBODY || slot >= sync->nslots || sync->slot[slot].incarnation != incarnation;
}

/* ---- members -------------------------------------------------------------- */

/* Steps were closed before it was known that not all copies have the CLOCKs to
 * go by: say how far they are. */
static bool recap(struct shard *s, struct part *p, void *ctx)
{
	(void)ctx;
	gate_recap(s, p);
	return true;
}

enum { SETTLE = 1, RECAP = 2 };

static unsigned admit(struct sync *sync, const struct member *m)
{
	struct sync_slot *p = sync_at(sync, m->slot);

	/* The same holder again: it may have sent DONE since the view was written. */
	if (p->incarnation == m->incarnation)
		return 0;
	sync_until(sync, m->slot, m->at);
	p->active = true;
	p->incarnation = m->incarnation;
	if (p->clock < m->at)
		p->clock = m->at;
	return p->until ? RECAP | SETTLE : 0;
}

static unsigned absolve(struct sync *sync, const struct member *m)
{
	unsigned news = admit(sync, m);

	if (!sync->slot[m->slot].active)
		return news;
	sync->slot[m->slot].active = false;
	return news | SETTLE;
}

static unsigned dismiss(struct sync *sync, const struct member *m)
{
	struct sync_slot *p = sync_at(sync, m->slot);
	bool news = p->active || p->until != m->at, fenced = p->incarnation != NOBODY;

	if (news)
		sync_until(sync, m->slot, m->at);
	p->active = false;
	p->incarnation = NOBODY;
	/* Each view tells of all that have ever gone. */
	return (news ? RECAP : 0) | (news || fenced ? SETTLE : 0);
}

/* Whose pushes are refused; of another holder, or of one that is let in again, nothing is known. */
static void bar(struct shard *s, const struct member *m, uint64_t holder)
{
	struct sync_slot *x = sync_at(&s->gate.sync, m->slot);

	if (s->watch && (m->barred != x->barred || m->barred_until != x->barred_until || holder != x->incarnation))
		watch_begin(s->watch, m->slot, x->incarnation);
	x->barred = m->barred;
	x->barred_until = m->barred_until;
}

void shard_take_members(struct shard *s, const struct member *m, size_t n)
{
	struct sync *sync = &s->gate.sync;
	unsigned news = 0;

	pthread_mutex_lock(&s->gate.lock);
	for (size_t i = 0; i < n; i++) {
		uint64_t holder = sync_at(sync, m[i].slot)->incarnation;

		news |= m[i].state == MEMBER_ACTIVE ? admit(sync, &m[i]) : m[i].state == MEMBER_DONE ? absolve(sync, &m[i]) :
		    dismiss(sync, &m[i]);
		bar(s, &m[i], holder);
	}
	s->gate.slowest = 0;
	pthread_mutex_unlock(&s->gate.lock);
	if (news & RECAP)
		shard_each(s, recap, NULL);
	if (news & SETTLE)
		shard_settle(s);
}

bool shard_holds(struct shard *s, uint32_t slot, uint64_t incarnation)
{
	bool holds;

	pthread_mutex_lock(&s->gate.lock);
	holds = !gate_fences(&s->gate.sync, slot, incarnation);
	pthread_mutex_unlock(&s->gate.lock);
	return holds;
}

struct shard_vote shard_vote(struct shard *s, uint32_t slot, uint64_t incarnation, uint64_t step, bool resume)
{
	struct sync *sync = &s->gate.sync;
	struct sync_slot *p;
	struct shard_vote v;

	pthread_mutex_lock(&s->gate.lock);
	p = slot == SHARD_OUTSIDE ? NULL : sync_at(sync, slot);
	/* The old holder is fenced at once, whatever comes of the vote. */
	if (p && p->incarnation != incarnation)
		p->incarnation = NOBODY;
	v.frontier = sync_frontier(sync);
	v.clock = p ? p->clock : 0;
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

/* In bsp a step's examples are kept until it is closed.  A server that has come
 * later, however, has missed the steps before the first it hears of. */
static bool too_early(const struct shard *s, uint32_t slot, uint64_t step)
{
	const struct sync *sync = &s->gate.sync;

	return sync->mode.kind == SYNC_bsp && step > sync->closed + (s->cfg.reduced ? MEAN_AHEAD : 0) &&
	    (step <= sync->slot[slot].clock || !s->cfg.forward);
}

/* As sync_clocked, but all slots are looked at only when the last of the slowest has
 * moved. */
static uint64_t clocked(struct gate *g)
{
	const struct sync *sync = &g->sync;

	if (sync->mode.backup)
		return sync_clocked(sync);
	if (!g->slowest) {
		g->floor = sync_floor(sync);
		for (size_t i = 0; i < sync->nslots; i++)
			g->slowest += sync->slot[i].active && sync->slot[i].clock == g->floor;
	}
	return g->slowest ? g->floor : sync_clocked(sync);
}

/* Has it told of something that somebody may wait for?  Of many slots most CLOCKs of a step
 * do not: it is the last one that does. */
static bool take_clock(struct shard *s, uint32_t slot, uint64_t step, uint32_t examples)
{
	struct gate *g = &s->gate;
	uint64_t before = clocked(g), after;
	struct sync_slot *x = &g->sync.slot[slot];
	bool slowest = g->slowest && x->active && x->clock == g->floor;

	if (sync_clock(&g->sync, slot, step, examples) && slowest)
		g->slowest--;
	after = clocked(g);
	/* Pushes that wait for their turn; steps that the clocks have passed. */
	return after != before || s->cfg.deterministic || (g->sync.mode.kind == SYNC_bsp && after > g->sync.closed);
}

/* Another mode begins before this step, and the slot has done all that comes before: a server
 * that was not there then hears of it only so. */
static bool has_passed(struct gate *g, uint32_t slot, uint64_t step)
{
	struct sync_slot *x = &g->sync.slot[slot];

	if (step < g->sync.turn || x->clock >= g->sync.turn)
		return false;
	x->clock = x->told = g->sync.turn;
	g->slowest = 0;
	return true;
}

enum shard_answer shard_clock(struct shard *s, uint32_t slot, uint64_t incarnation, uint64_t step, uint32_t examples)
{
	struct sync *sync = &s->gate.sync;
	enum shard_answer a = SHARD_OK;
	bool news = false;

	pthread_mutex_lock(&s->gate.lock);
	if (gate_fences(sync, slot, incarnation))
		a = SHARD_FENCED;
	else if ((news = has_passed(&s->gate, slot, step)) || !sync_may_push(sync, step) || too_early(s, slot, step))
		a = SHARD_HOLD;
	else
		news = take_clock(s, slot, step, examples);
	pthread_mutex_unlock(&s->gate.lock);
	if (!news)
		return a;
	gate_close(s);
	s->cfg.wake(s->cfg.ctx);
	return a;
}

enum shard_answer shard_done(struct shard *s, uint32_t slot, uint64_t incarnation)
{
	enum shard_answer a = SHARD_OK;

	pthread_mutex_lock(&s->gate.lock);
	if (gate_fences(&s->gate.sync, slot, incarnation))
		a = SHARD_FENCED;
	else
		s->gate.sync.slot[slot].active = false;
	s->gate.slowest = 0;
	pthread_mutex_unlock(&s->gate.lock);
	if (a == SHARD_OK) {
		gate_close(s);
		s->cfg.wake(s->cfg.ctx);
	}
	return a;
}

static bool may_answer(struct shard *s, uint64_t step, bool (*rule)(const struct sync *, uint64_t))
{
	bool may;

	pthread_mutex_lock(&s->gate.lock);
	may = rule(&s->gate.sync, step);
	/* Whoever has this answer deals its data by today's members. */
	if (may && step >= s->gate.sync.answered)
		s->gate.sync.answered = step + 1;
	pthread_mutex_unlock(&s->gate.lock);
	return may;
}

bool shard_may_pull(struct shard *s, uint64_t step)
{
	return may_answer(s, step, s->cfg.relay ? sync_may_ask : sync_may_pull);
}

bool shard_may_prefetch(struct shard *s, uint64_t step)
{
	return may_answer(s, step, s->cfg.relay ? sync_may_ask : sync_may_prefetch);
}

bool shard_may_tell(struct shard *s, uint64_t step)
{
	return may_answer(s, step, sync_may_tell);
}

uint64_t shard_closed(struct shard *s)
{
	uint64_t closed = UINT64_MAX;

	pthread_mutex_lock(&s->gate.lock);
	if (s->gate.sync.mode.kind == SYNC_bsp)
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

/* ---- closing ------------------------------------------------------------------ */

void gate_recap(struct shard *s, struct part *p)
{
	bool torn;

	if (s->cfg.relay || !p->step || !regime_is_bsp(s, p->step - 1) || !p->here || !p->head || p->to == NO_SERVER)
		return;
	pthread_mutex_lock(&s->gate.lock);
	torn = sync_torn(&s->gate.sync, p->step - 1, false);
	pthread_mutex_unlock(&s->gate.lock);
	if (torn)
		copy_step(s, p, p->step - 1);
}

void gate_close_part(struct shard *s, struct part *p, uint64_t examples)
{
	const struct regime *r = regime_at(s, p->step);
	uint64_t step = p->step;
	bool torn = false;

	if (s->cfg.relay) {
		hand_close(s, p);
		return;
	}
	if (p->to != NO_SERVER) {
		pthread_mutex_lock(&s->gate.lock);
		torn = sync_torn(&s->gate.sync, step, false);
		pthread_mutex_unlock(&s->gate.lock);
	}
	snap_before_update(s, p, step);
	part_turn(s, p, r);
	if (s->cfg.robust.kind)
		examples = robust_combine(s, p);
	part_close(p, examples);
	copy_sum(s, p, step, examples, torn || r->mode.backup || p->table->reduced);
	part_reopen(p);
}

static bool pushed_nowhere(const struct shard *s, const struct part *p)
{
	for (uint32_t i = 0; i < p->nlast; i++)
		if (part_claimed(p, i, p->step) && p->last[i] <= p->step)
			return false;
	return !sync_torn(&s->gate.sync, p->step, true);
}

void gate_pass(struct shard *s, struct part *p)
{
	uint64_t floor, end = regime_bsp_end(s, p->step);

	/* Who was late at the head, and what has no sum, only the head knows. */
	if (!regime_is_bsp(s, p->step) || regime_at(s, p->step)->mode.backup || p->table->reduced || p->head || !p->here || !p->live)
		return;
	pthread_mutex_lock(&s->gate.lock);
	floor = sync_clocked(&s->gate.sync);
	while (p->step < floor && p->step < end && pushed_nowhere(s, p)) {
		p->step++;
		p->prev_same = true;
	}
	pthread_mutex_unlock(&s->gate.lock);
}

/* ---- all partitions -------------------------------------------------------------- */

struct closing {
	uint64_t floor, oldest;         /* close steps below this; the oldest that is open then */
};

/* Is it open though the clocks have passed it?  The last one that stops being so
 * has the step closed: true. */
static bool mark_behind(struct shard *s, struct part *p, bool behind)
{
	bool was = p->behind;

	p->behind = behind;
	if (behind && !was)
		atomic_fetch_add(&s->gate.behind, 1);
	return was && !behind && atomic_fetch_sub(&s->gate.behind, 1) == 1;
}

bool gate_caught_up(struct shard *s, struct part *p)
{
	return p->behind && mark_behind(s, p, false);
}

/* Copies have no pushes of their own to go by: CLOCKs tell who pushes what. */
static bool close_part(struct shard *s, struct part *p, void *ctx)
{
	struct closing *c = ctx;
	uint64_t examples, end = regime_bsp_end(s, p->step), floor = c->floor < end ? c->floor : end;

	if (!regime_is_bsp(s, p->step))
		floor = p->step;
	if (s->cfg.relay)
		hand_skip(p, floor);
	while (p->here && p->head && p->step < floor && gate_complete(s, p, &examples)) {
		gate_close_part(s, p, examples);
		p->waited = false;              /* the caller wakes everybody */
	}
	mark_behind(s, p, p->here && p->head && p->step < floor);
	if (p->here && p->head && p->step < c->oldest && p->step < floor)
		c->oldest = p->step;
	if (p->here && !p->head) {
		gate_pass(s, p);
		copy_settle(p);
		p->waited = false;
	}
	return true;
}

/* closing keeps others out: one thread goes over the partitions at a time, and
 * once more when something has come meanwhile. */
static void close_steps(struct shard *s, bool force)
{
	struct gate *g = &s->gate;
	uint64_t closed;

	pthread_mutex_lock(&g->lock);
	/* Outside of bsp only what is left of it, where a partition has another head now. */
	if (g->sync.mode.kind != SYNC_bsp && !force && !atomic_load(&g->behind)) {
		pthread_mutex_unlock(&g->lock);
		return;
	}
	g->again |= force || g->sync.mode.kind != SYNC_bsp;
	while (!g->closing && (g->again || sync_clocked(&g->sync) > g->sync.closed)) {
		uint64_t clocked = sync_clocked(&g->sync);
		struct closing c = { clocked, UINT64_MAX };

		g->closing = true;
		g->again = false;
		pthread_mutex_unlock(&g->lock);
		FAIL_POINT("close_before");
		shard_each(s, close_part, &c);
		FAIL_POINT("close_after");
		pthread_mutex_lock(&g->lock);
		g->closing = false;
		if (c.oldest < c.floor)
			c.floor = c.oldest;
		if (g->sync.mode.kind != SYNC_bsp)
			break;
		if (c.floor > g->sync.closed)
			g->sync.closed = c.floor;
		else if (!g->again && sync_clocked(&g->sync) == clocked)
			break;
	}
	closed = g->sync.closed;
	pthread_mutex_unlock(&g->lock);
	if (s->watch)
		watch_closed(s->watch, closed);
}

void gate_close(struct shard *s)
{
	close_steps(s, false);
	gate_turn(s);
}

void shard_settle(struct shard *s)
{
	close_steps(s, true);
	gate_turn(s);
	s->cfg.wake(s->cfg.ctx);
}
