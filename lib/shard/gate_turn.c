#include "shard/mean.h"

#include "shard/copy.h"
#include "shard/hand.h"
#include "shard/regime.h"

/* The gate's side of one push or pull: is it its turn, has all come that was to come? */

enum shard_answer gate_push(struct shard *s, const struct push *p, bool *barred)
{
	struct sync *sync = &s->gate.sync;
	enum shard_answer a = SHARD_OK;

	*barred = false;
	if (p->slot == SHARD_OUTSIDE)
		return SHARD_OK;
	pthread_mutex_lock(&s->gate.lock);
	if (gate_fences(sync, p->slot, p->incarnation))
		a = SHARD_FENCED;
	else if (!sync_may_push(sync, p->step))
		a = SHARD_HOLD;
	else if (sync->slot[p->slot].last <= p->step)
		sync->slot[p->slot].last = p->step + 1;
	if (a == SHARD_OK)
		*barred = p->step >= sync->slot[p->slot].barred && p->step < sync->slot[p->slot].barred_until;
	pthread_mutex_unlock(&s->gate.lock);
	return a;
}

void gate_refused(struct shard *s, uint32_t slot)
{
	if (slot == SHARD_OUTSIDE)
		return;
	pthread_mutex_lock(&s->gate.lock);
	sync_at(&s->gate.sync, slot)->refused++;
	pthread_mutex_unlock(&s->gate.lock);
}

static struct shard_table *claimed_table(struct shard *s, uint32_t slot, uint64_t incarnation, uint16_t table, uint32_t first,
    uint32_t count)
{
	struct shard_table *t = atomic_load(&s->table[table]);

	/* Of the mean of a step nobody says beforehand who pushes it. */
	if (!t || t->shape.reduced || first >= t->shape.nparts || count > t->shape.nparts - first || !shard_holds(s, slot, incarnation))
		return NULL;
	return t;
}

void shard_owe(struct shard *s, uint32_t slot, uint64_t incarnation, uint64_t step, uint16_t table, uint32_t first,
    uint32_t count)
{
	struct shard_table *t = claimed_table(s, slot, incarnation, table, first, count);

	for (uint32_t i = first; t && i < first + count; i++) {
		struct part *p = atomic_load(&t->part[i]);

		if (!p)
			continue;
		pthread_mutex_lock(&p->lock);
		/* Of a copy that is on its way, too. */
		if (part_last(p, slot) <= step)
			part_set_due(p, slot, step + 1);
		pthread_mutex_unlock(&p->lock);
	}
}

bool shard_disown(struct shard *s, uint32_t slot, uint64_t incarnation, uint64_t step, uint16_t table, uint32_t first,
    uint32_t count)
{
	struct shard_table *t = claimed_table(s, slot, incarnation, table, first, count);
	bool was = false;

	for (uint32_t i = first; t && i < first + count; i++) {
		struct part *p = atomic_load(&t->part[i]);

		if (!p)
			continue;
		pthread_mutex_lock(&p->lock);
		was |= part_unclaim(p, slot, step);
		pthread_mutex_unlock(&p->lock);
	}
	return was;
}

/* Has the slot given the partition what it will give at this step? */
static bool through(const struct sync *sync, const struct part *p, uint32_t slot, uint64_t step)
{
	const struct sync_slot *x = &sync->slot[slot];

	if (!x->active || step < x->until || part_last(p, slot) > step)
		return true;
	return x->clock > step && !part_claimed(p, slot, step);
}

/* What slots that are through with the step stated, but did not push here. */
static uint64_t absent_examples(const struct sync *sync, const struct part *p)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < sync->nslots; i++)
		if (part_last(p, i) <= p->step)
			sum += sync_stated(sync, i, p->step);
	return sum;
}

/* With backup workers: are there no more missing than are spared? */
static bool enough_are_through(const struct sync *sync, const struct part *p)
{
	unsigned missing = 0, active = 0;

	for (uint32_t i = 0; i < sync->nslots; i++) {
		active += sync->slot[i].active;
		missing += !through(sync, p, i, p->step);
	}
	return missing <= sync_spare(sync, active);
}

/* The slot that was missing last is looked at first: most pushes find it missing still, and
 * all of a step's together go round once or twice. */
static bool all_are_through(const struct sync *sync, struct part *p)
{
	for (size_t n = sync->nslots; n > 0; n--) {
		if (p->missing >= sync->nslots)
			p->missing = 0;
		if (!through(sync, p, p->missing, p->step))
			return false;
		p->missing++;
	}
	return true;
}

bool gate_complete(struct shard *s, struct part *p, uint64_t *examples)
{
	const struct sync *sync = &s->gate.sync;
	bool complete = copy_may_send(p);
	unsigned backup = regime_at(s, p->step)->mode.backup;

	pthread_mutex_lock(&s->gate.lock);
	complete = complete && (backup ? enough_are_through(sync, p) : all_are_through(sync, p));
	if (p->table->reduced) {
		complete = complete && (mean_is_here(p) || !mean_may_come(sync, p->step));
		*examples = p->acc_examples;
	} else if (complete) {
		*examples = p->acc_examples + absent_examples(sync, p);
	}
	pthread_mutex_unlock(&s->gate.lock);
	return complete;
}

bool gate_in_turn(struct shard *s, const struct part *p, uint32_t slot, uint64_t step)
{
	const struct sync *sync = &s->gate.sync;
	bool turn = true;

	pthread_mutex_lock(&s->gate.lock);
	for (uint32_t i = 0; turn && i < slot && i < sync->nslots; i++)
		turn = through(sync, p, i, step);
	pthread_mutex_unlock(&s->gate.lock);
	return turn;
}

bool gate_owed(struct shard *s, const struct part *p, uint64_t step)
{
	const struct sync *sync = &s->gate.sync;
	uint64_t lag = sync->mode.staleness;
	bool owed = false;

	if (!p->owed || sync->mode.kind != SYNC_ssp || step <= lag)
		return false;
	pthread_mutex_lock(&s->gate.lock);
	for (uint32_t i = 0; !owed && i < p->nlast && i < sync->nslots; i++) {
		const struct sync_slot *x = &sync->slot[i];
		/* What a holder before this one has claimed, and never sent, will not come. */
		uint64_t at = p->last[i] > x->until ? p->last[i] : x->until;

		for (; !owed && x->active && at < part_due(p, i) && at < step - lag; at++)
			owed = part_claimed(p, i, at);
	}
	pthread_mutex_unlock(&s->gate.lock);
	return owed;
}

void gate_seen(struct shard *s, uint64_t step)
{
	pthread_mutex_lock(&s->gate.lock);
	if (step > s->gate.sync.answered)
		s->gate.sync.answered = step;
	pthread_mutex_unlock(&s->gate.lock);
}
