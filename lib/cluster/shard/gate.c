/* SPDX-License-Identifier: ISC */
#include "shard/gate.h"

#include "core/fail.h"
#include "core/steps.h"
#include "shard/apply.h"
#include "shard/repl.h"
#include "shard/settings_epoch.h"
#include "shard/shard_ops.h"

static void gate_close(struct shard *s);

/* ---- members ---- */

/* Steps may have been closed before it was known that not all replicas have the CLOCKs of a lost
 * rank: tell the next replica how far the partition is. */
static bool tell_closed_step(struct shard *s, struct part *p, void *ctx)
{
	(void)ctx;
	s->ops->tell_closed(s, p);
	return true;
}

/* Work that a change of members leaves for after the gate's lock is released. ADVANCE: call
 * shard_advance, because steps may be complete without a rank. TELL_CLOSED: call tell_closed_step
 * for all partitions. */
enum { ADVANCE = 1, TELL_CLOSED = 2 };

/* The member takes part from step m->at on. The gate's lock is held in these functions. */
static unsigned admit_holder(struct sync *sync, const struct member *m)
{
	struct sync_rank *worker = sync_at(sync, m->rank);

	/* The holder has not changed: leave `active` alone, as it may have sent DONE after this
	 * view was written. */
	if (worker->incarnation == m->incarnation)
		return 0;
	sync_begin_holder(sync, m->rank, m->at);
	sync_end_holder(sync, m->rank, m->at);
	worker->active = true;
	worker->incarnation = m->incarnation;
	return worker->complete_from ? TELL_CLOSED | ADVANCE : 0;
}

/* The member is known to be done. */
static unsigned finish_member(struct sync *sync, const struct member *m)
{
	unsigned news = admit_holder(sync, m);

	if (!sync->rank[m->rank].active)
		return news;
	sync->rank[m->rank].active = false;
	return news | ADVANCE;
}

/* The member was lost: fences the rank. */
static unsigned dismiss_member(struct sync *sync, const struct member *m)
{
	struct sync_rank *worker = sync_at(sync, m->rank);
	bool news = worker->active || worker->complete_from != m->at,
	     fenced = worker->incarnation != SYNC_NOBODY;

	if (news)
		sync_end_holder(sync, m->rank, m->at);
	worker->active = false;
	worker->incarnation = SYNC_NOBODY;
	/* Every view lists all members that were ever lost, so do nothing for old news. */
	return (news ? TELL_CLOSED : 0) | (news || fenced ? ADVANCE : 0);
}

void shard_take_members(struct shard *s, const struct member *m, size_t n)
{
	struct sync *sync = &s->gate.sync;
	unsigned news = 0;

	mutex_lock(&s->gate.lock);
	for (size_t i = 0; i < n; i++) {
		news |= m[i].state == MEMBER_ACTIVE ? admit_holder(sync, &m[i])
		    : m[i].state == MEMBER_DONE     ? finish_member(sync, &m[i])
		                                    : dismiss_member(sync, &m[i]);
		if (sync_at(sync, m[i].rank)->incarnation == m[i].incarnation)
			memcpy(sync_at(sync, m[i].rank)->key, m[i].key, sizeof m[i].key);
	}
	s->gate.nslowest = 0;
	mutex_unlock(&s->gate.lock);
	if (news & TELL_CLOSED)
		shard_each(s, tell_closed_step, NULL);
	/* A change of the mode may have waited for the first worker that is known. */
	if (news & ADVANCE)
		shard_advance(s);
	else
		settings_epoch_change_mode(s);
}

bool shard_incarnation_holds(struct shard *s, uint32_t rank, uint64_t incarnation)
{
	bool holds;

	mutex_lock(&s->gate.lock);
	holds = !sync_fences(&s->gate.sync, rank, incarnation);
	mutex_unlock(&s->gate.lock);
	return holds;
}

bool shard_key_holds(struct shard *s, uint32_t rank, const uint8_t key[static 32])
{
	static const uint8_t unknown[32];
	const struct sync_rank *worker;
	bool holds;

	mutex_lock(&s->gate.lock);
	worker = rank < s->gate.sync.nranks ? &s->gate.sync.rank[rank] : NULL;
	holds = worker &&
	    (memcmp(worker->key, unknown, sizeof unknown) == 0 ||
	        memcmp(worker->key, key, sizeof worker->key) == 0);
	mutex_unlock(&s->gate.lock);
	return holds;
}

static bool find_least_step(struct shard *s, struct part *p, void *ctx)
{
	uint64_t *least = ctx;

	(void)s;
	if (p->ready && p->step < *least)
		*least = p->step;
	return true;
}

/* Returns how many steps the rank has completed, as far as this server needs to know. One that
 * joined when the rank's process was away has heard no CLOCK of it, but all ranks have completed
 * the steps that its partitions have closed. */
static uint64_t find_completed_steps(struct shard *s, const struct sync_rank *worker,
    uint64_t closed, uint64_t first_free)
{
	uint64_t clock = steps_absurd(worker->clock, first_free) ? first_free : worker->clock;

	mutex_assert_held(&s->gate.lock);
	return clock > closed ? clock : closed;
}

struct shard_vote shard_vote(struct shard *s, uint32_t rank, uint64_t incarnation, uint64_t step,
    bool resume)
{
	struct sync *sync = &s->gate.sync;
	struct sync_rank *worker;
	struct shard_vote v;
	uint64_t closed = STEPS_END;

	if (resume)
		shard_each(s, find_least_step, &closed);
	else
		closed = 0;

	mutex_lock(&s->gate.lock);
	worker = rank == SHARD_OUTSIDE ? NULL : sync_at(sync, rank);
	/* The old holder is fenced at once, whatever the result of the vote. */
	if (worker && worker->incarnation != incarnation)
		worker->incarnation = SYNC_NOBODY;
	v.first_free = sync_first_free(sync);
	v.clock = worker ? find_completed_steps(s, worker, closed, v.first_free) : 0;
	v.yes = resume || step >= v.first_free;
	if (!resume)
		sync->vote_from = v.yes ? step : SYNC_NEVER;
	mutex_unlock(&s->gate.lock);
	if (!v.yes)
		s->cfg.wake(s->cfg.ctx);
	return v;
}

struct completeness {
	uint32_t rank;
	uint64_t complete;
};

/* Returns the first step whose announced push has not arrived at the partition; `clock` if there is
 * none. Announcements that are older than their window count as missing. */
static uint64_t missing_step(const struct part *p, uint32_t rank, uint64_t clock)
{
	uint64_t step = part_taken_end(p, rank);

	if (part_expected_end(p, rank) <= step)
		return clock;
	while (!part_is_expected(p, rank, step) &&
	    part_expected_end(p, rank) - step <= PART_EXPECT_WINDOW)
		step++;
	return step < clock ? step : clock;
}

static bool find_missing_push(struct shard *s, struct part *p, void *ctx)
{
	struct completeness *r = ctx;

	(void)s;
	if (!atomic_load(&p->gone))
		r->complete = missing_step(p, r->rank, r->complete);
	return true;
}

uint64_t shard_complete_steps(struct shard *s, uint32_t rank)
{
	struct completeness r = { .rank = rank };

	mutex_lock(&s->gate.lock);
	r.complete = sync_at(&s->gate.sync, rank)->clock;
	mutex_unlock(&s->gate.lock);
	shard_each(s, find_missing_push, &r);
	return r.complete;
}

struct taken_report {
	uint32_t rank;
	uint64_t from;
	bool unsafe; /* a push may be lost with this server */
	struct taken *taken;
};

/* Could a push of the rank of a step before `from` be lost with this server, the head? */
static bool push_may_be_lost(const struct shard *s, const struct part *p,
    const struct taken_report *r)
{
	if (!p->chain.head)
		return false;
	return (settings_epoch_closes_step(s, p->step) && p->step < r->from) ||
	    repl_has_unsafe_push(p, r->rank, r->from);
}

static bool check_pushes_are_safe(struct shard *s, struct part *p, void *ctx)
{
	struct taken_report *r = ctx;

	r->unsafe = !atomic_load(&p->gone) && push_may_be_lost(s, p, r);
	return !r->unsafe;
}

static bool report_taken(struct shard *s, struct part *p, void *ctx)
{
	struct taken_report *r = ctx;
	uint64_t end = part_taken_end(p, r->rank);

	(void)s;
	if (!atomic_load(&p->gone) && end)
		taken_add(r->taken, p->table->id, p->index, end);
	return true;
}

enum shard_answer shard_list_taken(struct shard *s, uint32_t rank, uint64_t from,
    struct taken *taken)
{
	struct taken_report r = { .rank = rank, .from = from, .taken = taken };
	bool known;

	mutex_lock(&s->gate.lock);
	known = sync_at(&s->gate.sync, rank)->complete_from >= from;
	mutex_unlock(&s->gate.lock);
	if (!known)
		return SHARD_WAIT;
	shard_each(s, check_pushes_are_safe, &r);
	if (r.unsafe)
		return SHARD_WAIT;
	shard_each(s, report_taken, &r);
	return SHARD_OK;
}

void shard_end_vote(struct shard *s)
{
	mutex_lock(&s->gate.lock);
	s->gate.sync.vote_from = SYNC_NEVER;
	mutex_unlock(&s->gate.lock);
	gate_close(s);
	s->cfg.wake(s->cfg.ctx);
}

/* ---- clocks ---- */

/* CLOCKs are taken of at most this many steps beyond the oldest open one where tables are reduced,
 * because a worker that has sent its CLOCK may have to push the mean for another that has died. */
#define REDUCED_CLOCKS_AHEAD 2u

/* Is it too early for this CLOCK? In bsp it must wait until the step before is closed, because only
 * that many examples are kept. But a server that joined later has missed the steps before the first
 * CLOCK that it receives, so it takes a CLOCK of a later step than the rank is known to have
 * completed. A shard without cfg.forward is the only server, so it has not joined later. */
static bool clock_is_too_early(const struct shard *s, uint32_t rank, uint64_t step)
{
	const struct sync *sync = &s->gate.sync;

	mutex_assert_held(&s->gate.lock);
	return sync_sums_steps(&sync->mode) &&
	    step > sync->closed + (s->cfg.reduced ? REDUCED_CLOCKS_AHEAD : 0) &&
	    (step <= sync->rank[rank].clock || !s->cfg.forward);
}

/* Like sync_completed, but visits all ranks only when no rank is left at the least clock. */
static uint64_t clocked_steps(struct gate *g)
{
	const struct sync *sync = &g->sync;

	mutex_assert_held(&g->lock);
	if (sync->mode.backup)
		return sync_completed(sync);
	if (!g->nslowest) {
		g->least_clock = sync_least_clock(sync);
		for (size_t i = 0; i < sync->nranks; i++)
			g->nslowest += sync->rank[i].active &&
			    sync->rank[i].clock == g->least_clock;
	}
	return g->nslowest ? g->least_clock : sync_completed(sync);
}

/* Records a CLOCK. Returns whether a pull or push may have waited for it: with many ranks, only the
 * last CLOCK of a step makes a difference. */
static bool record_clock(struct shard *s, uint32_t rank, uint64_t step, uint32_t examples)
{
	struct gate *g = &s->gate;
	uint64_t before = clocked_steps(g), after;
	struct sync_rank *worker = &g->sync.rank[rank];
	bool slowest = g->nslowest && worker->active && worker->clock == g->least_clock;

	mutex_assert_held(&s->gate.lock);
	if (sync_clock(&g->sync, rank, step, examples) && slowest)
		g->nslowest--;
	after = clocked_steps(g);
	/* Deterministic pushes wait for their turn; the clocks may have passed a step that is not
	 * closed yet. */
	return after != before || s->cfg.deterministic ||
	    (sync_sums_steps(&g->sync.mode) && after > g->sync.closed);
}

/* Does a CLOCK show that the rank has done all steps before a change of mode? A server that did not
 * hear its CLOCKs in the old mode learns it only in this way, from a CLOCK of the new mode, which
 * itself must wait. */
static bool clock_passes_mode_change(struct gate *g, uint32_t rank, uint64_t step)
{
	struct sync_rank *worker = &g->sync.rank[rank];

	mutex_assert_held(&g->lock);
	if (step < g->sync.next_mode_from || worker->clock >= g->sync.next_mode_from)
		return false;
	worker->clock = worker->clocked_end = g->sync.next_mode_from;
	g->nslowest = 0;
	return true;
}

enum shard_answer shard_clock(struct shard *s, uint32_t rank, uint64_t incarnation, uint64_t step,
    uint32_t examples)
{
	struct sync *sync = &s->gate.sync;
	enum shard_answer a = SHARD_OK;
	bool news = false;

	mutex_lock(&s->gate.lock);
	if (sync_fences(sync, rank, incarnation))
		a = SHARD_FENCED;
	else if ((news = clock_passes_mode_change(&s->gate, rank, step)) ||
	    !sync_may_push(sync, step) || clock_is_too_early(s, rank, step))
		a = SHARD_WAIT;
	else
		news = record_clock(s, rank, step, examples);
	if (a == SHARD_OK && examples && s->gate.trained_end <= step)
		s->gate.trained_end = step + 1;
	mutex_unlock(&s->gate.lock);
	if (!news)
		return a;
	gate_close(s);
	s->cfg.wake(s->cfg.ctx);
	return a;
}

uint64_t shard_needed_step(struct shard *s, uint64_t step)
{
	uint64_t needed;

	mutex_lock(&s->gate.lock);
	needed = sync_needed_step(&settings_epoch_at(s, step)->mode, step);
	mutex_unlock(&s->gate.lock);
	return needed;
}

bool shard_has_trained(const struct shard *s, uint64_t needed)
{
	return needed && atomic_load(&s->gate.trained_end) >= needed;
}

enum shard_answer shard_done(struct shard *s, uint32_t rank, uint64_t incarnation)
{
	enum shard_answer a = SHARD_OK;

	mutex_lock(&s->gate.lock);
	if (sync_fences(&s->gate.sync, rank, incarnation))
		a = SHARD_FENCED;
	else
		s->gate.sync.rank[rank].active = false;
	s->gate.nslowest = 0;
	mutex_unlock(&s->gate.lock);
	if (a == SHARD_OK) {
		gate_close(s);
		s->cfg.wake(s->cfg.ctx);
	}
	return a;
}

/* ---- announcements ---- */

/* The table of an announcement. NULL: the announcement is malformed, the rank is fenced, or it is a
 * reduced table, for which it is not known in advance which worker pushes. */
static struct shard_table *announced_table(struct shard *s, uint32_t rank, uint64_t incarnation,
    uint16_t table, uint32_t first, uint32_t count)
{
	struct shard_table *t = atomic_load(&s->table[table]);

	if (!t || t->shape.reduced || first >= t->shape.nparts || count > t->shape.nparts - first ||
	    !shard_incarnation_holds(s, rank, incarnation))
		return NULL;
	return t;
}

void shard_expect(struct shard *s, uint32_t rank, uint64_t incarnation, uint64_t step,
    uint16_t table, uint32_t first, uint32_t count)
{
	struct shard_table *t = announced_table(s, rank, incarnation, table, first, count);

	for (uint32_t i = first; t && i < first + count; i++) {
		struct part *p = atomic_load(&t->part[i]);

		if (!p)
			continue;
		mutex_lock(&p->lock);
		/* Also for a partition that is not complete here yet: install_state merges these
		 * announcements with the sender's. */
		if (part_taken_end(p, rank) <= step)
			part_expect(p, rank, step + 1);
		mutex_unlock(&p->lock);
	}
}

bool shard_withdraw(struct shard *s, uint32_t rank, uint64_t incarnation, uint64_t step,
    uint16_t table, uint32_t first, uint32_t count)
{
	struct shard_table *t = announced_table(s, rank, incarnation, table, first, count);
	bool was = false;

	for (uint32_t i = first; t && i < first + count; i++) {
		struct part *p = atomic_load(&t->part[i]);

		if (!p)
			continue;
		mutex_lock(&p->lock);
		was |= part_withdraw(p, rank, step);
		mutex_unlock(&p->lock);
	}
	return was;
}

/* Is a push pending that the rank's present holder announced for a step before `step`? Announced
 * pushes of an earlier holder that never came will never come, so the search begins at
 * complete_from. The gate's lock is held. */
static bool rank_has_pending_push(const struct shard *s, const struct part *p, uint32_t rank,
    uint64_t step)
{
	const struct sync_rank *worker = &s->gate.sync.rank[rank];
	uint64_t last = part_taken_end(p, rank),
	         at = last > worker->complete_from ? last : worker->complete_from,
	         due = part_expected_end(p, rank);

	mutex_assert_held(&s->gate.lock);
	/* Announcements further back are not known. The loop must be short, because a worker may
	 * have announced any step. */
	if (due > PART_EXPECT_WINDOW && at < due - PART_EXPECT_WINDOW)
		at = due - PART_EXPECT_WINDOW;
	for (; worker->incarnation != SYNC_NOBODY && at < due && at < step; at++)
		if (part_is_expected(p, rank, at))
			return true;
	return false;
}

bool gate_push_is_pending(struct shard *s, const struct part *p, uint64_t step)
{
	const struct sync *sync = &s->gate.sync;
	uint64_t needed;
	bool pending = false;

	mutex_assert_held(&p->lock);
	if (!p->pushes.pending)
		return false;
	/* A live change of the mode takes the lock, too. */
	mutex_lock(&s->gate.lock);
	/* The pushes of a closed step have arrived, but not the pushes of an ssp or asp before it,
	 * which the server may hear of by replication later than of all CLOCKs. */
	needed = sync_sums_steps(&sync->mode) ? settings_epoch_sums_from(s, step)
	                                      : sync_needed_step(&sync->mode, step);
	for (uint32_t i = 0; needed && !pending && i < p->pushes.nlast && i < sync->nranks; i++)
		pending = sync->rank[i].active && rank_has_pending_push(s, p, i, needed);
	mutex_unlock(&s->gate.lock);
	return pending;
}

enum shard_answer shard_own_pushes(struct shard *s, uint16_t table, uint32_t part, uint32_t rank,
    uint64_t incarnation, uint64_t step)
{
	const struct sync *sync = &s->gate.sync;
	struct part *p = shard_part(s, table, part);
	enum shard_answer a = SHARD_OK;

	if (!p)
		return SHARD_OK;
	mutex_lock(&p->lock);
	if (p->pushes.pending) {
		mutex_lock(&s->gate.lock);
		if (!sync_sums_steps(&sync->mode) && rank < sync->nranks)
			a = sync_fences(sync, rank, incarnation)      ? SHARD_FENCED
			    : rank_has_pending_push(s, p, rank, step) ? SHARD_WAIT
			                                              : SHARD_OK;
		mutex_unlock(&s->gate.lock);
	}
	p->has_waiters |= a == SHARD_WAIT;
	mutex_unlock(&p->lock);
	return a;
}

void gate_note_closed(struct shard *s, uint64_t step)
{
	mutex_lock(&s->gate.lock);
	if (step > s->gate.sync.answered_end)
		s->gate.sync.answered_end = step;
	mutex_unlock(&s->gate.lock);
}

void gate_note_pushed(struct shard *s, uint32_t rank, uint64_t end)
{
	struct sync_rank *worker;

	mutex_lock(&s->gate.lock);
	worker = sync_at(&s->gate.sync, rank);
	if (worker->pushed_end < end)
		worker->pushed_end = end;
	mutex_unlock(&s->gate.lock);
}

/* ---- pulls ---- */

/* Asks the rule under the gate's lock and, on a yes, notes that the step was answered. One lock
 * covers both, so that no view can change the members in between. */
static bool may_answer_pull(struct shard *s, uint64_t step,
    bool (*rule)(const struct sync *, uint64_t))
{
	bool may;

	mutex_lock(&s->gate.lock);
	may = rule(&s->gate.sync, step);
	/* The puller deals its data by the present members, so they cannot change at this step any
	 * more. */
	if (may)
		sync_note_answer(&s->gate.sync, step);
	mutex_unlock(&s->gate.lock);
	return may;
}

bool shard_may_pull(struct shard *s, uint64_t step)
{
	return may_answer_pull(s, step, s->ops->may_pull);
}

bool shard_may_prefetch(struct shard *s, uint64_t step)
{
	return may_answer_pull(s, step, s->ops->may_prefetch);
}

bool shard_may_fix_members(struct shard *s, uint64_t step)
{
	return may_answer_pull(s, step, sync_members_fixed);
}

uint64_t shard_closed(struct shard *s)
{
	uint64_t closed = UINT64_MAX;

	mutex_lock(&s->gate.lock);
	if (sync_sums_steps(&s->gate.sync.mode))
		closed = s->gate.sync.closed;
	mutex_unlock(&s->gate.lock);
	return closed;
}

uint64_t shard_slowest_clock(struct shard *s)
{
	uint64_t step;

	mutex_lock(&s->gate.lock);
	step = sync_least_clock(&s->gate.sync);
	mutex_unlock(&s->gate.lock);
	return step == SYNC_NEVER ? 0 : step;
}

uint64_t shard_step(struct shard *s)
{
	uint64_t step;

	mutex_lock(&s->gate.lock);
	step = sync_least_clock(&s->gate.sync);
	if (step == SYNC_NEVER)
		step = sync_first_free(&s->gate.sync);
	mutex_unlock(&s->gate.lock);
	return step;
}

/* ---- closing ---- */

/* A replica goes over a step without a record when it has all CLOCKs and nobody announced a push
 * (gate_pass_empty_steps). After a worker was lost its CLOCK may be missing there, so the head
 * sends a record of the step even if nobody pushed. */
void gate_tell_closed(struct shard *s, struct part *p)
{
	bool may_lack;

	mutex_assert_held(&p->lock);
	if (!p->step || !settings_epoch_closes_step(s, p->step - 1) || !p->ready ||
	    !p->chain.head || p->chain.next == NO_SERVER)
		return;
	mutex_lock(&s->gate.lock);
	may_lack = sync_may_lack_pushes(&s->gate.sync, p->step - 1, false);
	mutex_unlock(&s->gate.lock);
	if (may_lack)
		repl_queue_step(s, p, p->step - 1);
}

/* bsp: is no push of the open step announced, and does no lost rank make that uncertain? The gate's
 * lock is held. */
static bool no_push_expected(const struct shard *s, const struct part *p)
{
	mutex_assert_held(&s->gate.lock);
	for (uint32_t i = 0; i < p->pushes.nlast; i++)
		if (part_is_expected(p, i, p->step) && p->pushes.last[i] <= p->step)
			return false;
	return !sync_may_lack_pushes(&s->gate.sync, p->step, true);
}

void gate_pass_empty_steps(struct shard *s, struct part *p)
{
	uint64_t completed, end = settings_epoch_sums_end(s, p->step);

	mutex_assert_held(&p->lock);
	/* With backup ranks only the head knows which ranks were late, and of a reduced table only
	 * the head knows that a step had no mean. */
	if (!settings_epoch_closes_step(s, p->step) || settings_epoch_at(s, p->step)->mode.backup ||
	    p->table->reduced || p->chain.head || !p->ready || !p->in_chain)
		return;
	mutex_lock(&s->gate.lock);
	completed = sync_completed(&s->gate.sync);
	while (p->step < completed && p->step < end && no_push_expected(s, p)) {
		p->step++;
		p->prev_same = true;
	}
	mutex_unlock(&s->gate.lock);
}

/* ---- all partitions ---- */

/* One sweep over all partitions. */
struct closing {
	/* Close steps below `end`; gets the oldest step open afterwards. */
	uint64_t end, oldest;
};

/* Sets p->lagging. Returns true when this was the last lagging partition: the step is closed in
 * all of them now. */
static bool mark_lagging(struct shard *s, struct part *p, bool lagging)
{
	bool was = p->lagging;

	p->lagging = lagging;
	if (lagging && !was)
		atomic_fetch_add(&s->gate.nlagging, 1);
	return was && !lagging && atomic_fetch_sub(&s->gate.nlagging, 1) == 1;
}

bool gate_caught_up(struct shard *s, struct part *p)
{
	mutex_assert_held(&p->lock);
	return p->lagging && mark_lagging(s, p, false);
}

/* Closes the partition's complete steps below c->end. At replicas that are not the head it goes
 * over steps without pushes: they get no pushes directly, so the announcements in CLOCKs say which
 * steps those are. */
static bool close_part_steps(struct shard *s, struct part *p, void *ctx)
{
	struct closing *c = ctx;
	uint64_t sums_end, end;
	struct step_end step;

	/* At the last change of mode, it may still have been in an earlier bsp, as a replica that
	 * was not the head; it may have become the head since. */
	if (p->ready)
		settings_epoch_enter_mode(s, p);
	sums_end = settings_epoch_sums_end(s, p->step);
	end = c->end < sums_end ? c->end : sums_end;
	if (!settings_epoch_closes_step(s, p->step))
		end = p->step;
	/* No partition lags that far, so a worker has sent an absurd step: close nothing. */
	if (p->ready && p->chain.head && end > p->step && end - p->step > STEPS_LEAP) {
		end = p->step;
		c->oldest = p->step < c->oldest ? p->step : c->oldest;
	}
	s->ops->skip_steps(p, end);
	while (p->ready && p->chain.head && p->step < end && apply_step_is_complete(s, p, &step)) {
		s->ops->close_step(s, p, &step);
		p->has_waiters = false; /* the caller wakes all waiting requests */
	}
	mark_lagging(s, p, p->ready && p->chain.head && p->step < end);
	if (p->ready && p->chain.head && p->step < c->oldest && p->step < end)
		c->oldest = p->step;
	if (p->ready && !p->chain.head) {
		gate_pass_empty_steps(s, p);
		part_update_safe(p);
		p->has_waiters = false;
	}
	return true;
}

/* Closes complete steps in all partitions. One thread sweeps at a time: it sets `closing`, releases
 * the gate's lock and takes the partitions' locks one by one. A thread that comes meanwhile with
 * force sets `again` and leaves; the sweeping thread makes one more round. The loop ends when a
 * sweep has closed no step and no clock has moved since it began. force: partitions may have become
 * complete without a clock that moved. */
static void close_complete_steps(struct shard *s, bool force)
{
	struct gate *g = &s->gate;

	mutex_lock(&g->lock);
	/* Outside of bsp there are only steps left over from an earlier bsp, where a partition got
	 * another head. */
	if (!sync_sums_steps(&g->sync.mode) && !force && !atomic_load(&g->nlagging)) {
		mutex_unlock(&g->lock);
		return;
	}
	g->again |= force || !sync_sums_steps(&g->sync.mode);
	while (!g->closing && (g->again || sync_completed(&g->sync) > g->sync.closed)) {
		uint64_t clocked = sync_completed(&g->sync);
		struct closing c = { clocked, UINT64_MAX };

		g->closing = true;
		g->again = false;
		mutex_unlock(&g->lock);
		FAIL_POINT("close_before");
		shard_each(s, close_part_steps, &c);
		FAIL_POINT("close_after");
		mutex_lock(&g->lock);
		g->closing = false;
		if (c.oldest < c.end)
			c.end = c.oldest;
		if (!sync_sums_steps(&g->sync.mode))
			break;
		if (c.end > g->sync.closed)
			g->sync.closed = c.end;
		else if (!g->again && sync_completed(&g->sync) == clocked)
			break;
	}
	mutex_unlock(&g->lock);
}

/* bsp: closes every step that is complete in all partitions, then changes the mode if it is time.
 * No locks are held. */
static void gate_close(struct shard *s)
{
	close_complete_steps(s, false);
	settings_epoch_change_mode(s);
}

void shard_advance(struct shard *s)
{
	close_complete_steps(s, true);
	settings_epoch_change_mode(s);
	s->cfg.wake(s->cfg.ctx);
}
