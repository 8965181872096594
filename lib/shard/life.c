#include "shard/life.h"

#include "base/endian.h"
#include "base/mem.h"
#include "base/rng.h"
#include "shard/width.h"

/* Rows are looked through for old ones when so many parts of their time have passed. */
#define LOOKS 8
/* Of the rows that there may be, the part that is made room for at a time. */
#define ROOM 16
#define SKETCH_LEAST (UINT64_C(256) << 10)
#define SKETCH_MOST_BYTES (UINT64_C(1) << 30)

struct life *life_new(const struct table *t, bool updates)
{
	struct life *l;

	if (policy_is_none(&t->policy))
		return NULL;
	l = mem_alloc(sizeof *l);
	l->policy = &t->policy;
	l->by_updates = updates;
	l->clock = l->looked = t->since;
	l->halved = t->policy.decay ? t->since / t->policy.decay : 0;
	return l;
}

void life_free(struct life *l)
{
	if (!l)
		return;
	sketch_release(&l->sketch);
	free(l);
}

size_t life_bytes(const struct life *l)
{
	return l ? sizeof *l + sketch_bytes(&l->sketch) : 0;
}

/* ---- who gets a row ---------------------------------------------------------------------- */

/* The same for all copies, and another one each time. */
static bool is_lucky(const struct part *p, uint64_t id)
{
	uint64_t coin = rng_mix(rng_mix(id) ^ rng_mix(p->version + p->table->seed));

	return (double)(coin >> 11) * 0x1p-53 < p->life->policy->chance;
}

/* Unless it was said: 16 for each row, as there are more ids than rows. */
uint64_t life_sketch(const struct table *t)
{
	uint64_t bytes = t->rows < SKETCH_MOST_BYTES / 16 ? t->rows * 16 : SKETCH_MOST_BYTES;

	if (!t->policy.admit)
		return 0;
	if (t->policy.sketch)
		return t->policy.sketch / t->nparts;
	return (bytes < SKETCH_LEAST ? SKETCH_LEAST : bytes) / t->nparts;
}

static bool admits(struct part *p, uint64_t id)
{
	struct life *l = p->life;
	const struct row_policy *policy = l->policy;

	if (policy->chance > 0)
		return is_lucky(p, id);
	return !policy->admit || sketch_add(&l->sketch, id, life_sketch(p->table)) >= policy->admit;
}

uint32_t life_choose(struct part *p, const uint8_t *ids, uint32_t n, uint32_t *place)
{
	float *row[ROWS_BLOCK];
	uint32_t k = 0;

	p->life->count[LIFE_offered] += n;
	if (!p->life->policy->admit && p->life->policy->chance <= 0)
		return n;
	rows_find(p->rows, ids, n, row);
	for (uint32_t i = 0; i < n; i++)
		if (row[i] || admits(p, get_le64(ids + (size_t)i * 8)))
			place[k++] = i;
	p->life->count[LIFE_refused] += n - k;
	return k;
}

/* A row has the lower half of the step: none gets older than that. */
static uint32_t age_of(const struct part *p, const float *row)
{
	uint32_t seen;

	memcpy(&seen, row + p->seen_at, sizeof seen);
	return (uint32_t)p->life->clock - seen;
}

uint64_t life_seen(const struct part *p, const float *row)
{
	return p->life->clock - age_of(p, row);
}

void life_set_seen(const struct part *p, float *row, uint64_t step)
{
	uint32_t seen = (uint32_t)step;

	memcpy(row + p->seen_at, &seen, sizeof seen);
}

void life_touch(struct part *p, float *const *row, uint32_t n, uint64_t made)
{
	for (uint32_t i = 0; p->seen_at && i < n; i++)
		life_set_seen(p, row[i], p->life->clock);
	p->life->count[LIFE_admitted] += (unsigned)__builtin_popcountll(made);
}

/* ---- who loses it -------------------------------------------------------------------------- */

struct leaving {
	struct part *p;
	uint32_t age;                   /* those of at least this go */
	uint64_t rank;                  /* of those of this age, those of less than this rank stay */
	bool fits;
};

/* Among rows of one age: an order that is none of the ids'. */
static uint64_t rank_of(uint64_t id)
{
	return rng_mix(~id);
}

static bool stays(void *ctx, uint64_t id, const float *row)
{
	struct leaving *x = ctx;
	struct part *p = x->p;
	uint32_t age = age_of(p, row);
	bool made;
	float *old;

	if (age < x->age || (age == x->age && rank_of(id) < x->rank))
		return true;
	/* Who asks for the step before still has it. */
	old = p->prev_rows ? rows_put(p->prev_rows, id, &made) : NULL;
	if (old && made)
		width_row(p, id, row, old);
	x->fits &= old || !p->prev_rows;
	return false;
}

static bool drop_rows(struct part *p, uint32_t age, uint64_t rank, enum life_counter why)
{
	struct leaving x = { p, age, rank, true };
	size_t n = rows_sift(p->rows, stays, &x);

	p->life->count[why] += n;
	if (n) {
		width_sift(p);
		p->life->removed = p->life->clock + 1;
		p->life->removed_version = p->version + 1;
	}
	return x.fits;
}

static bool expire(struct part *p)
{
	struct life *l = p->life;
	uint64_t expire = l->policy->expire;

	if (!expire || l->clock < l->looked + (expire + LOOKS - 1) / LOOKS)
		return true;
	l->looked = l->clock;
	return drop_rows(p, (uint32_t)expire, 0, LIFE_expired);
}

struct order {
	uint32_t age, bytes;
	uint64_t rank;
};

static int oldest_first(const void *a, const void *b)
{
	const struct order *x = a, *y = b;

	if (x->age != y->age)
		return x->age > y->age ? -1 : 1;
	return (x->rank < y->rank) - (x->rank > y->rank);
}

/* By what one takes, its id and place in the index with it. */
static uint64_t taken(const struct part *p)
{
	uint64_t wide = p->rest ? rows_count(p->rest) : 0;

	return rows_count(p->rows) * (p->stride * sizeof(float) + ROW_OVERHEAD) + wide * (width_stride(p) * sizeof(float) + ROW_OVERHEAD);
}

/* What a partition of this limit may take once room was made: a part of its narrowest rows less. */
static uint64_t leave(const struct part *p, uint64_t limit)
{
	size_t each = p->stride * sizeof(float) + ROW_OVERHEAD;

	return limit - limit / each / ROOM * each;
}

static bool evict(struct part *p)
{
	uint64_t limit = p->life->policy->memory / p->table->nparts, bytes = taken(p), goal, id;
	size_t n = rows_count(p->rows), k = 0;
	struct order *order, last;

	if (!p->life->policy->memory || bytes <= limit || n < 2)
		return true;
	goal = leave(p, limit);
	order = mem_try_array(n, sizeof *order);
	if (!order)
		return false;
	for (size_t i = 0; i < n; i++) {
		const float *row = rows_at(p->rows, i, &id);

		order[i] = (struct order){ age_of(p, row), (uint32_t)width_row_bytes(p, row), rank_of(id) };
	}
	qsort(order, n, sizeof *order, oldest_first);
	while (bytes > goal && k < n - 1)
		bytes -= order[k++].bytes;
	last = order[k - 1];
	free(order);
	return drop_rows(p, last.age, last.rank, LIFE_evicted);
}

static void decay(struct life *l)
{
	uint64_t due = l->policy->decay ? l->clock / l->policy->decay : 0, n = due - l->halved;

	l->halved = due;
	/* Then all are forgotten. */
	for (n = n < 8 ? n : 8; n; n--)
		sketch_halve(&l->sketch);
}

bool life_turn(struct part *p)
{
	struct life *l = p->life;

	if (l->by_updates)
		l->clock++;
	decay(l);
	return expire(p) && evict(p);
}

/* ---- to be sent and saved -------------------------------------------------------------------- */

/* The counters that there were before the counts of ids; those that have come since lie behind them. */
#define COUNTS_FIRST 5
#define COUNTS_LATER (LIFE_COUNTS - COUNTS_FIRST)
#define FIXED (4 + COUNTS_FIRST)

size_t life_words(const struct life *l)
{
	return l ? FIXED + sketch_words(&l->sketch) + COUNTS_LATER : 0;
}

void life_put(const struct life *l, uint64_t *out)
{
	const uint64_t first[] = { l->clock, l->halved, l->looked, l->removed };

	memcpy(out, first, sizeof first);
	memcpy(out + 4, l->count, COUNTS_FIRST * sizeof *out);
	sketch_put(&l->sketch, out + FIXED);
	memcpy(out + FIXED + sketch_words(&l->sketch), l->count + COUNTS_FIRST, COUNTS_LATER * sizeof *out);
}

bool life_get(struct life *l, const uint64_t *in, size_t n)
{
	size_t sketch;

	if (n < FIXED)
		return false;
	l->clock = in[0];
	l->halved = in[1];
	l->looked = in[2];
	l->removed = in[3];
	memcpy(l->count, in + 4, COUNTS_FIRST * sizeof *in);
	sketch = sketch_get(&l->sketch, in + FIXED, n - FIXED);
	if (!sketch || n - FIXED - sketch > COUNTS_LATER)
		return false;
	memcpy(l->count + COUNTS_FIRST, in + FIXED + sketch, (n - FIXED - sketch) * sizeof *in);
	return true;
}
