#include "shard/regime.h"

#include "base/mem.h"
#include "shard/copy.h"

/* More have been in force: who is as far back has been lost long ago. */
#define REGIMES_MAX 64u

struct regimes {
	struct regimes *before;         /* the list that this one took the place of */
	unsigned n;
	const struct regime *at[];
};

/* ---- the list ----------------------------------------------------------------------- */

static struct regimes *list_new(struct regimes *before, unsigned keep, const struct regime *r)
{
	struct regimes *list = mem_alloc(sizeof *list + (keep + 1) * sizeof *list->at);
	struct regime *copy = mem_alloc(sizeof *copy);

	*copy = *r;
	list->before = before;
	list->n = keep + 1;
	if (keep)
		memcpy(list->at, before->at + (before->n - keep), keep * sizeof *list->at);
	list->at[keep] = copy;
	return list;
}

void regimes_begin(struct shard *s)
{
	const struct shard_config *c = &s->cfg;
	struct regime first = { .number = c->settings, .mode = c->mode, .rule = c->rule, .hyper = c->hyper, .schedule = c->schedule };

	atomic_store(&s->regimes, list_new(NULL, 0, &first));
	s->gate.now = regime_last(s);
}

void regimes_end(struct shard *s)
{
	for (struct regimes *l = atomic_load(&s->regimes), *before; l; l = before) {
		before = l->before;
		free((void *)(uintptr_t)l->at[l->n - 1]);
		free(l);
	}
}

const struct regime *regime_last(const struct shard *s)
{
	const struct regimes *l = atomic_load(&s->regimes);

	return l->at[l->n - 1];
}

const struct regime *regime_at(const struct shard *s, uint64_t step)
{
	const struct regimes *l = atomic_load(&s->regimes);
	unsigned i = l->n - 1;

	while (i && l->at[i]->step > step)
		i--;
	return l->at[i];
}

const struct regime *regime_numbered(const struct shard *s, uint32_t number)
{
	const struct regimes *l = atomic_load(&s->regimes);
	unsigned i = l->n - 1;

	if (number > l->at[i]->number)
		return NULL;
	while (i && l->at[i]->number > number)
		i--;
	return l->at[i];
}

uint64_t regime_bsp_end(const struct shard *s, uint64_t step)
{
	const struct regimes *l = atomic_load(&s->regimes);

	for (unsigned i = 0; i < l->n; i++)
		if (l->at[i]->step > step && l->at[i]->mode.kind != SYNC_bsp)
			return l->at[i]->step;
	return SYNC_NEVER;
}

uint64_t regime_closed_before(const struct shard *s, uint64_t step)
{
	const struct regimes *l = atomic_load(&s->regimes);
	uint64_t closed = 0;

	for (unsigned i = 0; i < l->n && (!i || l->at[i]->step <= step); i++)
		if (l->at[i]->mode.kind == SYNC_bsp)
			closed = step;
		else if (i && l->at[i - 1]->mode.kind == SYNC_bsp)
			closed = l->at[i]->step;
	return closed;
}

/* ---- the gate: one mode after the other ----------------------------------------------- */

/* What comes after the mode in force; the gate's lock is held. */
static const struct regime *next_mode(struct shard *s)
{
	const struct regimes *l = atomic_load(&s->regimes);

	for (unsigned i = 0; i < l->n; i++)
		if (l->at[i]->number > s->gate.now->number && !sync_same(&l->at[i]->mode, &s->gate.now->mode))
			return l->at[i];
	return NULL;
}

static void plan_turn(struct shard *s)
{
	const struct regime *next = next_mode(s);

	s->gate.sync.turn = next ? next->step : SYNC_NEVER;
}

void shard_regime(struct shard *s, const struct regime *r)
{
	struct regimes *l = atomic_load(&s->regimes);

	if (r->number <= regime_last(s)->number)
		return;
	atomic_store(&s->regimes, list_new(l, l->n < REGIMES_MAX ? l->n : REGIMES_MAX - 1, r));
	pthread_mutex_lock(&s->gate.lock);
	plan_turn(s);
	pthread_mutex_unlock(&s->gate.lock);
}

/* A partition begins to count steps where the others do.  What a copy of one that did has
 * still to hear of steps before, comes. */
static bool enter(struct shard *s, struct part *p, void *ctx)
{
	const struct regime *r = ctx;

	if (!p->here || p->step >= r->step || (regime_is_bsp(s, p->step) && !p->head))
		return true;
	p->step = r->step;
	p->prev_same = true;
	copy_settle(p);
	return true;
}

void gate_enter(struct shard *s, struct part *p)
{
	const struct regime *now;

	pthread_mutex_lock(&s->gate.lock);
	/* It may have been gone over when this was not here yet. */
	now = s->gate.turning ? next_mode(s) : s->gate.now;
	pthread_mutex_unlock(&s->gate.lock);
	if (now->mode.kind == SYNC_bsp && !regime_is_bsp(s, p->step))
		enter(s, p, (void *)(uintptr_t)now);
}

/* What the head of a bsp chain needs must be there before its first push.  All servers have
 * agreed: without memory this one ends. */
static bool make_room(struct shard *s, struct part *p, void *ctx)
{
	(void)ctx;
	if (!p->here || !p->head)
		return true;
	if (part_alloc_head(p, s, NULL))
		mem_fail();
	return true;
}

void gate_turn(struct shard *s)
{
	struct gate *g = &s->gate;

	pthread_mutex_lock(&g->lock);
	while (!g->turning && sync_may_turn(&g->sync)) {
		const struct regime *next = next_mode(s);

		g->turning = true;
		pthread_mutex_unlock(&g->lock);
		shard_each(s, enter, (void *)(uintptr_t)next);
		if (next->mode.kind == SYNC_bsp)
			shard_each(s, make_room, NULL);
		pthread_mutex_lock(&g->lock);
		g->turning = false;
		g->now = next;
		g->sync.mode = next->mode;
		if (next->mode.kind == SYNC_bsp && g->sync.closed < next->step)
			g->sync.closed = next->step;
		g->slowest = 0;
		plan_turn(s);
	}
	pthread_mutex_unlock(&g->lock);
}

/* ---- a partition: one rule after the other --------------------------------------------- */

int regime_slot(const struct optim_rule *rule, unsigned k, const struct optim_rule *before)
{
	for (unsigned i = 0; i < before->nslots; i++)
		if (strcmp(rule->slot_name[k], before->slot_name[i]) == 0)
			return (int)i;
	return -1;
}

bool regime_keeps(const struct optim_rule *rule, const struct optim_rule *before)
{
	for (unsigned k = 0; k < rule->nslots; k++)
		if (regime_slot(rule, k, before) >= 0)
			return true;
	return false;
}

void regime_carry(const struct optim_rule *rule, const struct optim_rule *before, size_t n, const float *from, float *to)
{
	for (unsigned k = 0; k < rule->nslots; k++) {
		int was = regime_slot(rule, k, before);

		if (was >= 0)
			memcpy(to + k * n, from + (size_t)was * n, n * sizeof *to);
		for (size_t i = 0; was < 0 && i < n; i++)
			to[k * n + i] = rule->slot_init[k];
	}
}

static void turn_dense(struct part *p, const struct optim_rule *rule)
{
	/* All servers have agreed: without memory this one ends. */
	float *state = mem_try_array((size_t)p->n * rule->nslots + 1, sizeof *state);

	if (!state)
		mem_fail();
	regime_carry(rule, p->by->rule, p->n, p->state, state);
	free(p->state);
	p->state = state;
}

void part_turn(struct shard *s, struct part *p, const struct regime *r)
{
	const struct optim_rule *before = p->by->rule;

	if (r->number <= p->by->number)
		return;
	if (r->rule != before) {
		if (p->rows)
			part_rows_turn(p, s, r->rule);
		else
			turn_dense(p, r->rule);
		if (!regime_keeps(r->rule, before))
			p->born = p->version;
	}
	p->by = r;
	part_rebook(p, s);
}
