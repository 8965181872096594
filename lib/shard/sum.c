#include "codec/codec.h"
#include "shard/copy.h"
#include "shard/hand.h"
#include "shard/regime.h"

/* Pushes that a relay has summed: taken whole or not at all.  Who is told that a sum
 * was not taken sends each push by itself, under its own identity. */

/* ---- whose sums ---------------------------------------------------------------- */

void shard_give(struct shard *s, uint32_t slot, uint64_t relay, uint64_t incarnation)
{
	struct sync_slot *x;

	pthread_mutex_lock(&s->gate.lock);
	x = sync_at(&s->gate.sync, slot);
	x->relay = relay;
	x->given = incarnation;
	pthread_mutex_unlock(&s->gate.lock);
}

static enum shard_answer speaks(const struct sync *sync, uint64_t relay, uint32_t slot, uint64_t incarnation)
{
	const struct sync_slot *x = slot < sync->nslots ? &sync->slot[slot] : NULL;

	if (!x || !relay || x->relay != relay || x->given != incarnation)
		return SHARD_FENCED;
	/* A vote is under way, or the view that lets it in has still to come. */
	return x->incarnation == incarnation ? SHARD_OK : SHARD_HOLD;
}

enum shard_answer shard_speaks(struct shard *s, uint64_t relay, uint32_t slot, uint64_t incarnation)
{
	enum shard_answer a;

	pthread_mutex_lock(&s->gate.lock);
	a = speaks(&s->gate.sync, relay, slot, incarnation);
	pthread_mutex_unlock(&s->gate.lock);
	return a;
}

/* The gate's side; SHARD_FENCED when one of them is not the relay's. */
static enum shard_answer gate_sum(struct shard *s, const struct sum *sum)
{
	struct sync *sync = &s->gate.sync;
	enum shard_answer a = SHARD_OK;

	pthread_mutex_lock(&s->gate.lock);
	for (uint32_t i = 0; i < sum->body.n && a != SHARD_FENCED; i++) {
		struct sum_who w = sum_who(&sum->body, i);
		enum shard_answer one = speaks(sync, sum->relay, w.slot, w.incarnation);

		a = one == SHARD_OK ? a : one;
	}
	if (a == SHARD_OK && !sync_may_push(sync, sum->step))
		a = SHARD_HOLD;
	for (uint32_t i = 0; a == SHARD_OK && i < sum->body.n; i++) {
		struct sync_slot *x = &sync->slot[sum_who(&sum->body, i).slot];

		if (x->last <= sum->step)
			x->last = sum->step + 1;
	}
	pthread_mutex_unlock(&s->gate.lock);
	return a;
}

/* ---- the partition's side -------------------------------------------------------- */

static enum shard_answer finish(struct shard *s, const struct part *p, const struct sum *sum, struct receipt *r,
    enum push_status status)
{
	*r = (struct receipt){ .table = sum->table, .part = sum->part, .step = sum->step, .status = (uint8_t)status,
		.version = p ? p->version : 0, .safe_steps = status == PUSH_SPLIT ? 0 : sum->step + 1 };
	atomic_fetch_add_explicit(&s->status[status], 1, memory_order_relaxed);
	return SHARD_OK;
}

/* Pushes that say how many examples they have, as one that has them summed. */
static bool accumulate(struct part *p, const struct shard_config *cfg, const struct sum *sum)
{
	struct push push = { .table = sum->table, .part = sum->part, .examples = 1, .nrows = sum->body.nrows,
		.ids = sum->body.ids, .payload = sum->body.values, .len = sum->body.len };
	uint64_t examples = 0;

	for (uint32_t i = 0; i < sum->body.n; i++)
		examples += sum_who(&sum->body, i).examples;
	if (sum->body.len && !part_accumulate(p, cfg, &push))
		return false;
	/* part_accumulate has counted the one. */
	p->acc_examples += examples - (sum->body.len ? 1 : 0);
	return true;
}

static enum shard_answer sum_here(struct shard *s, struct part *p, const struct sum *sum, bool good, struct receipt *r)
{
	uint32_t taken = 0;
	uint64_t examples, open;
	bool split;

	if (!p->here || !p->head)
		return SHARD_ELSEWHERE;
	for (uint32_t i = 0; i < sum->body.n; i++)
		taken += part_last(p, sum_who(&sum->body, i).slot) > sum->step;
	if (taken == sum->body.n)
		return finish(s, p, sum, r, PUSH_DUPLICATE);
	split = taken || !good || sum->step < p->step;
	/* What goes alone does not come through a relay: it waits for it no longer. */
	open = s->cfg.relay ? sum->step + split : split ? 0 : sum->step;
	if (s->cfg.relay)
		hand_jump(s, p, open);
	if (p->step < open) {
		p->waited = true;
		return SHARD_HOLD;
	}
	if (split)
		return finish(s, p, sum, r, PUSH_SPLIT);
	if (!accumulate(p, &s->cfg, sum))
		return SHARD_BAD;
	for (uint32_t i = 0; i < sum->body.n; i++) {
		struct sum_who w = sum_who(&sum->body, i);

		part_set_last(p, w.slot, sum->step + 1);
		if (s->cfg.relay)
			hand_share(p, w.slot, w.examples, w.incarnation);
	}
	if (gate_complete(s, p, &examples))
		gate_close_part(s, p, examples);
	return finish(s, p, sum, r, PUSH_MERGED);
}

/* Without values all pushes in it were refused, or of no rows. */
static enum codec_check check(const struct part *p, const struct sum *sum)
{
	size_t n = p->table->sparse ? (size_t)sum->body.nrows * p->table->cols : p->n;

	return sum->body.len ? codec_by_id(0)->check(sum->body.values, sum->body.len, n) : CODEC_GOOD;
}

enum shard_answer shard_push_sum(struct shard *s, const struct sum *sum, struct receipt *r)
{
	struct part *p = shard_part(s, sum->table, sum->part);
	const struct push rows = { .nrows = sum->body.nrows, .ids = sum->body.ids };
	struct sync_mode mode;
	enum codec_check values;
	enum shard_answer a;
	bool wake, settle;
	uint64_t step;

	if (!p)
		return shard_table(s, sum->table) && sum->part < shard_table(s, sum->table)->nparts ? SHARD_ELSEWHERE : SHARD_BAD;
	values = check(p, sum);
	mode = regime_at(s, sum->step)->mode;
	if (values == CODEC_MALFORMED || mode.kind != SYNC_bsp || mode.backup || s->cfg.deterministic)
		return SHARD_BAD;
	a = gate_sum(s, sum);
	if (a != SHARD_OK)
		return a == SHARD_FENCED ? finish(s, NULL, sum, r, PUSH_SPLIT) : a;
	pthread_mutex_lock(&p->lock);
	step = p->step;
	a = sum_here(s, p, sum, values == CODEC_GOOD && part_has_room(p, &s->budget, &rows), r);
	part_book_rows(p, &s->budget);
	if (a == SHARD_OK)
		p->work += sum->body.len + PUSH_WORK;
	wake = a == SHARD_OK && p->waited;
	if (wake)
		p->waited = false;
	settle = p->step != step && gate_caught_up(s, p);
	pthread_mutex_unlock(&p->lock);
	if (settle)
		shard_settle(s);
	else if (wake)
		s->cfg.wake(s->cfg.ctx);
	return a;
}
