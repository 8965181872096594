#include "base/mem.h"
#include "shard/copy.h"
#include "shard/life.h"
#include "shard/regime.h"
#include "shard/width.h"

/* A picture of all partitions of which this server is the last copy, as they
 * are between two steps.  A partition is copied before the first update after
 * that, or when somebody comes round to it; so nobody waits for the picture. */

/* A part owns ids, seen, width, life, live, last and w, behind whose values those of its slots lie, and then the rest. */
static void release(struct ckpt_part *part)
{
	free((void *)part->ids);
	free((void *)part->seen);
	free((void *)part->width);
	free((void *)part->life);
	free((void *)part->live);
	free((void *)part->last);
	free((void *)part->w);
}

void snap_drop(struct part *p)
{
	if (!p->snap)
		return;
	release(p->snap);
	free(p->snap);
	p->snap = NULL;
}

struct by_id {
	uint64_t id;
	const float *row, *rest;        /* rest: of a wide row */
};

static int ascending(const void *a, const void *b)
{
	const struct by_id *x = a, *y = b;

	return (x->id > y->id) - (x->id < y->id);
}

/* What is known of n rows by id. */
static void copy_words(const struct part *p, const struct by_id *order, size_t n, uint64_t *ids, uint64_t *seen, uint64_t *width)
{
	uint64_t wide = 0;

	for (size_t i = 0; i < n; i++) {
		ids[i] = order[i].id;
		if (seen)
			seen[i] = life_seen(p, order[i].row);
		if (width)
			width[i] = order[i].rest ? CKPT_WIDE | wide++ : width_updates(p, order[i].row);
	}
}

/* Their columns slot after slot, those of the rest, or the others. */
static void copy_rows(const struct part *p, const struct by_id *order, size_t n, const struct optim_rule *rule, bool rest, float *values)
{
	size_t cols = rest ? width_cols(p) : p->narrow;

	for (unsigned k = 0; k <= rule->nslots; k++) {
		int had = k ? regime_slot(rule, k - 1, p->by->rule) : -1;

		for (size_t i = 0; i < n; i++) {
			const float *from = rest ? order[i].rest : order[i].row;

			if (!from)
				continue;
			if (!k || had >= 0)
				memcpy(values, from + (size_t)(had + 1) * cols, cols * sizeof(float));
			values += cols;
		}
	}
}

/* Is what was taken before known, so that changes will do? */
static bool has_base(const struct shard *s, const struct part *p, const struct optim_rule *rule)
{
	uint64_t base = atomic_load(&s->snaps.base);

	return base && p->whole_mark == base && p->whole_rule == rule && p->seen_at;
}

/* The rows that are to be taken, by id, and how many; live: room for all ids, where it is wanted. */
static struct by_id *choose(const struct part *p, bool changes, uint64_t *live, size_t *n)
{
	size_t all = rows_count(p->rows), k = 0;
	struct by_id *order = mem_try_array(all + 1, sizeof *order);

	for (size_t i = 0; order && i < all; i++)
		order[i].row = rows_at(p->rows, i, &order[i].id);
	if (order)
		qsort(order, all, sizeof *order, ascending);
	for (size_t i = 0; order && i < all; i++) {
		if (live)
			live[i] = order[i].id;
		if (changes && life_seen(p, order[i].row) < p->whole_clock)
			continue;
		order[k] = order[i];
		order[k].rest = width_is_wide(p, order[k].row) ? rows_get(p->rest, order[k].id) : NULL;
		k++;
	}
	*n = k;
	return order;
}

static size_t wide_of(const struct by_id *order, size_t n)
{
	size_t wide = 0;

	for (size_t i = 0; i < n; i++)
		wide += order[i].rest != NULL;
	return wide;
}

/* What so many rows take, of which some are wide. */
static size_t bytes_of(const struct part *p, const struct optim_rule *rule, size_t n, size_t wide)
{
	size_t column = (1 + rule->nslots) * sizeof(float);

	return n * (2 * sizeof(uint64_t) + p->narrow * column) + wide * width_cols(p) * column;
}

/* Are these n rows and all ids much less than all rows? */
static bool pays(const struct part *p, const struct optim_rule *rule, const struct by_id *order, size_t n, bool gone)
{
	size_t all = rows_count(p->rows), whole = bytes_of(p, rule, all, p->rest ? rows_count(p->rest) : 0);

	return bytes_of(p, rule, n, wide_of(order, n)) + (gone ? all * sizeof(uint64_t) : 0) < whole / 4 * 3;
}

/* Room for the values of n rows, and for those slots of them that begin, their first values. */
static float *room_for(const struct part *p, const struct optim_rule *rule, size_t n, size_t wide)
{
	size_t each = n * p->narrow, rest = wide * width_cols(p);
	float *values = mem_try_array((each + rest) * (1 + rule->nslots) + 1, sizeof *values);

	if (values) {
		part_init_state(rule, each, values + each);
		part_init_state(rule, rest, values + each * (1 + rule->nslots) + rest);
	}
	return values;
}

/* Of a sparse partition: its rows, or those that have changed, and what its table's policy goes by. */
static bool copy_sparse(const struct shard *s, struct part *p, const struct optim_rule *rule, float **values)
{
	size_t n;
	struct ckpt_part *x = p->snap;
	bool changes = has_base(s, p, rule), gone = changes && p->life->removed > p->whole_clock;
	uint64_t *live = gone ? mem_try_array(rows_count(p->rows) + 1, sizeof *live) : NULL, *ids, *seen, *life, *width;
	struct by_id *order = gone && !live ? NULL : choose(p, changes, live, &n);

	if (order && changes && !pays(p, rule, order, n, gone)) {
		free(order);
		free(live);
		live = NULL;
		changes = gone = false;
		order = choose(p, false, NULL, &n);
	}
	x->changes = changes;
	x->live = live;
	x->nlive = gone ? rows_count(p->rows) : 0;
	if (!order)
		return false;
	x->n = n;
	x->narrow = p->narrow;
	x->nwide = wide_of(order, n);
	x->nlife = life_words(p->life);
	x->ids = ids = mem_try_array(n + 1, sizeof *ids);
	x->seen = seen = p->seen_at ? mem_try_array(n + 1, sizeof *seen) : NULL;
	x->life = life = x->nlife ? mem_try_array(x->nlife, sizeof *life) : NULL;
	x->width = width = p->rest ? mem_try_array(n + 1, sizeof *width) : NULL;
	x->w = *values = room_for(p, rule, n, x->nwide);
	if (ids && *values && (seen || !p->seen_at) && (life || !x->nlife) && (width || !p->rest)) {
		copy_words(p, order, n, ids, seen, width);
		copy_rows(p, order, n, rule, false, *values);
		if (p->rest)
			copy_rows(p, order, n, rule, true, *values + n * p->narrow * (1 + rule->nslots));
		if (life)
			life_put(p->life, life);
	} else {
		*values = NULL;
	}
	free(order);
	if (*values && p->seen_at && !atomic_load(&s->snaps.base)) {
		p->whole_mark = atomic_load(&s->snaps.mark);
		p->whole_clock = p->life->clock;
		p->whole_rule = rule;
	}
	return *values;
}

static bool copy_dense(struct part *p, const struct optim_rule *rule, float **values)
{
	p->snap->n = p->n;
	p->snap->w = *values = mem_try_array((size_t)p->n * (1 + rule->nslots) + 1, sizeof **values);
	if (!*values)
		return false;
	memcpy(*values, p->w, p->n * sizeof *p->w);
	regime_carry(rule, p->by->rule, p->n, p->state, *values + p->n);
	return true;
}

/* Is it of a step, or of any moment?  At the end of bsp, of the last step that has an end. */
static bool goes_by_step(const struct shard *s, uint64_t step)
{
	return regime_is_bsp(s, step) && (!step || regime_is_bsp(s, step - 1));
}

static bool by_step(const struct shard *s)
{
	return atomic_load(&s->snaps.by_step);
}

/* That which goes on from the picture: its rule may not have begun here. */
static const struct regime *next_of(const struct shard *s)
{
	return by_step(s) ? regime_at(s, atomic_load(&s->snaps.step)) : regime_last(s);
}

static void place_rest(const struct part *p, struct ckpt_part *x, const float *rest)
{
	if (!x->width)
		return;
	x->rest = rest;
	for (unsigned k = 0; k < x->nslots; k++)
		x->rest_slot[k] = rest + (k + 1) * x->nwide * width_cols(p);
}

static bool copy_part(const struct shard *sh, struct part *p)
{
	const struct optim_rule *rule = next_of(sh)->rule;
	bool sparse = p->table->sparse, goes_on = rule == p->by->rule;
	uint64_t *last = mem_array(p->nlast + 1, sizeof *last);
	float *values = NULL;
	size_t each;

	p->snap = mem_alloc(sizeof *p->snap);
	*p->snap = (struct ckpt_part){ .table = p->table->name, .sparse = sparse, .part = p->index, .cols = p->table->cols,
		.nslots = rule->nslots, .version = p->version, .born = p->born, .step = p->step, .last = last, .nlast = p->nlast };
	if (!(sparse ? copy_sparse(sh, p, rule, &values) : copy_dense(p, rule, &values))) {
		snap_drop(p);
		return false;
	}
	each = p->snap->n * (sparse ? p->narrow : 1);
	for (unsigned k = 0; k < rule->nslots; k++)
		p->snap->slot[k] = values + (k + 1) * each;
	place_rest(p, p->snap, values + each * (1 + rule->nslots));
	if (!goes_on && !regime_keeps(rule, p->by->rule))
		p->snap->born = p->version;
	/* In bsp pushes of the open step may have been taken, but are not in the values. */
	for (size_t i = 0; i < p->nlast; i++)
		last[i] = regime_is_bsp(sh, p->step) && p->last[i] > p->step ? p->step : p->last[i];
	return true;
}

void snap_before_update(struct shard *s, struct part *p, uint64_t step)
{
	struct snaps *x = &s->snaps;

	if (!atomic_load(&x->on) || p->snap || !p->here || !p->tail || (by_step(s) && step < atomic_load(&x->step)))
		return;
	if (!copy_part(s, p))
		atomic_store(&x->failed, true);
}

void shard_snap_marks(struct shard *s, uint64_t mark, uint64_t base)
{
	atomic_store(&s->snaps.mark, mark);
	atomic_store(&s->snaps.base, base);
}

static bool furthest(struct shard *s, struct part *p, void *ctx)
{
	uint64_t *at = ctx;

	(void)s;
	if (p->here && p->tail && !p->snap && p->step > *at)
		*at = p->step;
	return true;
}

bool shard_snap_begin(struct shard *s, uint64_t step, uint64_t *at)
{
	*at = 0;
	shard_snap_end(s);
	atomic_store(&s->snaps.by_step, goes_by_step(s, step));
	atomic_store(&s->snaps.step, step);
	atomic_store(&s->snaps.failed, false);
	atomic_store(&s->snaps.on, true);
	atomic_store(&s->snaps.begun, true);
	if (by_step(s))
		shard_each(s, furthest, at);
	if (*at <= step)
		return true;
	shard_snap_end(s);
	return false;
}

bool shard_snapping(struct shard *s, uint64_t step)
{
	/* Also afterwards, for who comes to that step last. */
	return by_step(s) ? atomic_load(&s->snaps.begun) && atomic_load(&s->snaps.step) == step : atomic_load(&s->snaps.on);
}

bool shard_snap_due(struct shard *s)
{
	return !by_step(s) || !atomic_load(&s->snaps.on) || shard_closed(s) >= atomic_load(&s->snaps.step);
}

static bool take(struct shard *s, struct part *p, void *ctx)
{
	bool *all = ctx;

	if (p->snap || !p->here || !p->tail)
		return true;
	/* What the next copy has not yet is not counted, and so not shown. */
	if (by_step(s) ? p->step >= atomic_load(&s->snaps.step) : atomic_load(&p->safe_version) == p->version) {
		if (!copy_part(s, p))
			atomic_store(&s->snaps.failed, true);
	} else {
		p->waited = true;
		*all = false;
	}
	return true;
}

enum shard_answer shard_snap_take(struct shard *s)
{
	bool all = true;

	if (!atomic_load(&s->snaps.on))
		return SHARD_ELSEWHERE;
	if (!shard_snap_due(s))
		return SHARD_HOLD;
	shard_each(s, take, &all);
	if (atomic_load(&s->snaps.failed))
		return SHARD_BAD;
	return all ? SHARD_OK : SHARD_HOLD;
}

struct listing {
	struct ckpt_part *out;
	size_t n, cap;
};

static bool hand_over(struct shard *s, struct part *p, void *ctx)
{
	struct listing *l = ctx;

	(void)s;
	if (!p->snap)
		return true;
	if (l->n == l->cap) {
		l->cap = l->cap ? l->cap * 2 : 64;
		l->out = mem_regrow(l->out, l->cap, sizeof *l->out);
	}
	l->out[l->n++] = *p->snap;
	free(p->snap);
	p->snap = NULL;
	return true;
}

bool shard_snap_parts(struct shard *s, struct ckpt_part **out, size_t *n)
{
	struct listing l = { 0 };

	if (atomic_load(&s->snaps.on))
		shard_each(s, hand_over, &l);
	*out = l.out;
	*n = l.n;
	/* Ended meanwhile: some are gone. */
	if (atomic_exchange(&s->snaps.on, false))
		return true;
	shard_snap_release(l.out, l.n);
	return false;
}

void shard_snap_release(struct ckpt_part *parts, size_t n)
{
	for (size_t i = 0; i < n; i++)
		release(&parts[i]);
	free(parts);
}

void shard_snap_clocks(struct shard *s, void (*fn)(void *ctx, uint32_t slot, uint64_t clock, bool active), void *ctx)
{
	pthread_mutex_lock(&s->gate.lock);
	for (uint32_t i = 0; i < s->gate.sync.nslots; i++)
		fn(ctx, i, s->gate.sync.slot[i].clock, s->gate.sync.slot[i].active);
	pthread_mutex_unlock(&s->gate.lock);
}

static bool drop(struct shard *s, struct part *p, void *ctx)
{
	(void)s;
	(void)ctx;
	snap_drop(p);
	return true;
}

void shard_snap_end(struct shard *s)
{
	atomic_store(&s->snaps.on, false);
	shard_each(s, drop, NULL);
}
