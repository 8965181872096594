/* SPDX-License-Identifier: ISC */
#include "shard/reduced.h"

#include "shard/copy.h"
#include "shard/settings_epoch.h"
#include "shard/relay_part.h"

/* The gate's decisions about one push or pull: may it come in now, and has every slot given what it
 * will give? */

bool gate_is_ahead(const struct shard *s, const struct part *p, uint64_t step)
{
	return !s->cfg.relay && settings_epoch_sums_step(s, step) && step > p->step;
}

enum shard_answer gate_push(struct shard *s, const struct part *part, const struct push *p)
{
	struct sync *sync = &s->gate.sync;
	enum shard_answer a = SHARD_OK;

	if (p->slot == SHARD_OUTSIDE)
		return SHARD_OK;
	pthread_mutex_lock(&s->gate.lock);
	if (gate_fences(sync, p->slot, p->incarnation))
		a = SHARD_FENCED;
	else if (!sync_may_push(sync, p->step))
		a = SHARD_HOLD;
	else if (sync->slot[p->slot].last <= p->step && !gate_is_ahead(s, part, p->step))
		sync->slot[p->slot].last = p->step + 1;
	pthread_mutex_unlock(&s->gate.lock);
	return a;
}

void gate_count_refused(struct shard *s, uint32_t slot)
{
	if (slot == SHARD_OUTSIDE)
		return;
	pthread_mutex_lock(&s->gate.lock);
	sync_at(&s->gate.sync, slot)->refused++;
	pthread_mutex_unlock(&s->gate.lock);
}

/* The table of an announcement. NULL: the announcement is malformed, the slot is fenced, or it is a
 * reduced table, for which it is not known in advance which worker pushes. */
static struct shard_table *announced_table(struct shard *s, uint32_t slot, uint64_t incarnation,
    uint16_t table, uint32_t first, uint32_t count)
{
	struct shard_table *t = atomic_load(&s->table[table]);

	if (!t || t->shape.reduced || first >= t->shape.nparts || count > t->shape.nparts - first ||
	    !shard_holds(s, slot, incarnation))
		return NULL;
	return t;
}

void shard_expect(struct shard *s, uint32_t slot, uint64_t incarnation, uint64_t step,
    uint16_t table, uint32_t first, uint32_t count)
{
	struct shard_table *t = announced_table(s, slot, incarnation, table, first, count);

	for (uint32_t i = first; t && i < first + count; i++) {
		struct part *p = atomic_load(&t->part[i]);

		if (!p)
			continue;
		pthread_mutex_lock(&p->lock);
		/* Also for a partition that is not complete here yet: install_state merges these
		 * announcements with the sender's. */
		if (part_taken_end(p, slot) <= step)
			part_expect(p, slot, step + 1);
		pthread_mutex_unlock(&p->lock);
	}
}

bool shard_withdraw(struct shard *s, uint32_t slot, uint64_t incarnation, uint64_t step,
    uint16_t table, uint32_t first, uint32_t count)
{
	struct shard_table *t = announced_table(s, slot, incarnation, table, first, count);
	bool was = false;

	for (uint32_t i = first; t && i < first + count; i++) {
		struct part *p = atomic_load(&t->part[i]);

		if (!p)
			continue;
		pthread_mutex_lock(&p->lock);
		was |= part_withdraw(p, slot, step);
		pthread_mutex_unlock(&p->lock);
	}
	return was;
}

/* Has the slot given the partition all that it will give at this step? It has when it takes no part
 * in the step, when its push was taken, or when its CLOCK came and announced no push to this
 * partition. The gate's lock is held. */
static bool slot_is_through(const struct sync *sync, const struct part *p, uint32_t slot,
    uint64_t step)
{
	const struct sync_slot *x = &sync->slot[slot];

	if (!x->active || step < x->until || part_has_taken(p, slot, step))
		return true;
	return x->clock > step && !part_is_expected(p, slot, step);
}

/* The examples that slots stated at their CLOCKs that did not push to this partition. */
static uint64_t absent_examples(const struct sync *sync, const struct part *p)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < sync->nslots; i++)
		if (!part_has_taken(p, i, p->step))
			sum += sync_stated_examples(sync, i, p->step);
	return sum;
}

/* With backup slots: are no more slots missing than the step may close without? */
static bool enough_are_through(const struct sync *sync, const struct part *p)
{
	unsigned missing = 0, active = 0;

	for (uint32_t i = 0; i < sync->nslots; i++) {
		active += sync->slot[i].active;
		missing += !slot_is_through(sync, p, i, p->step);
	}
	return missing <= sync_spare(&sync->mode, active);
}

/* Looks first at the slot that was missing last time: for most pushes it is missing still, so all
 * pushes of a step together look at each slot once or twice. */
static bool all_are_through(const struct sync *sync, struct part *p)
{
	for (size_t n = sync->nslots; n > 0; n--) {
		if (p->pushes.missing >= sync->nslots)
			p->pushes.missing = 0;
		if (!slot_is_through(sync, p, p->pushes.missing, p->step))
			return false;
		p->pushes.missing++;
	}
	return true;
}

bool gate_step_is_complete(struct shard *s, struct part *p, uint64_t *examples)
{
	const struct sync *sync = &s->gate.sync;
	bool complete = copy_may_send(p);
	unsigned backup = settings_epoch_at(s, p->step)->mode.backup;

	pthread_mutex_lock(&s->gate.lock);
	complete = complete && (backup ? enough_are_through(sync, p) : all_are_through(sync, p));
	if (p->table->reduced) {
		complete = complete && (reduced_is_here(p) || !reduced_may_come(sync, p->step));
		*examples = p->sum.examples;
	} else if (complete) {
		*examples = p->sum.examples + absent_examples(sync, p);
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
		turn = slot_is_through(sync, p, i, step);
	pthread_mutex_unlock(&s->gate.lock);
	return turn;
}

/* Is a push pending that the slot announced for a step before `step`? Announced pushes of an
 * earlier holder that never came will never come, so the search begins at x->until. The gate's lock
 * is held. */
static bool slot_has_pending_push(const struct sync *sync, const struct part *p, uint32_t slot,
    uint64_t step)
{
	const struct sync_slot *x = &sync->slot[slot];
	uint64_t last = part_taken_end(p, slot), at = last > x->until ? last : x->until,
	         due = part_expected_end(p, slot);

	/* Announcements further back are not known. The loop must be short, because a worker may
	 * have announced any step. */
	if (due > PART_EXPECT_WINDOW && at < due - PART_EXPECT_WINDOW)
		at = due - PART_EXPECT_WINDOW;
	for (; x->active && at < due && at < step; at++)
		if (part_is_expected(p, slot, at))
			return true;
	return false;
}

bool gate_push_is_pending(struct shard *s, const struct part *p, uint64_t step)
{
	const struct sync *sync = &s->gate.sync;
	uint64_t needed;
	bool owed = false;

	if (!p->pushes.pending)
		return false;
	/* A live change of the mode takes the lock, too. */
	pthread_mutex_lock(&s->gate.lock);
	/* The pushes of a closed step have arrived. */
	needed = sync_sums_steps(&sync->mode) ? 0 : sync_needed_step(&sync->mode, step);
	for (uint32_t i = 0; needed && !owed && i < p->pushes.nlast && i < sync->nslots; i++)
		owed = slot_has_pending_push(sync, p, i, needed);
	pthread_mutex_unlock(&s->gate.lock);
	return owed;
}

bool shard_has_own_pushes(struct shard *s, uint16_t table, uint32_t part, uint32_t slot,
    uint64_t step)
{
	const struct sync *sync = &s->gate.sync;
	struct part *p = shard_part(s, table, part);
	bool owed = false;

	if (!p || s->cfg.relay)
		return true;
	pthread_mutex_lock(&p->lock);
	if (p->pushes.pending) {
		pthread_mutex_lock(&s->gate.lock);
		owed = !sync_sums_steps(&sync->mode) && slot < sync->nslots &&
		    slot_has_pending_push(sync, p, slot, step);
		pthread_mutex_unlock(&s->gate.lock);
	}
	p->waited |= owed;
	pthread_mutex_unlock(&p->lock);
	return !owed;
}

void gate_note_closed(struct shard *s, uint64_t step)
{
	pthread_mutex_lock(&s->gate.lock);
	if (step > s->gate.sync.answered)
		s->gate.sync.answered = step;
	pthread_mutex_unlock(&s->gate.lock);
}
