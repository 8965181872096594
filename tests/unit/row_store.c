/* SPDX-License-Identifier: ISC */
/* Row stores: each does what row_store.h says, and a push or pull waits for rows that are not in memory. */
#include <semaphore.h>

#include "core/file.h"
#include "core/rng.h"
#include "shard/part.h"
#include "shard/spill.h"
#include "shard_fixture.h"

enum { MANY = 5000, WIDTH = 5, STATE = 3 };

static struct rng rng;
/* The rows that the store under test should have: `value` of its id; 0: none. Values are small whole
 * numbers, which every type can hold. */
static uint64_t id[MANY];
static uint32_t value[MANY];

/* Each way to keep rows, and each type of their values. */
static const struct {
	const char *name;
	struct table table;
} stores[] = {
#define ROW_STORE(name) { #name, { .row_store = ROW_STORE_##name } },
#include "layout/row_store.def"
#undef ROW_STORE
	{ "tiered", { .name = "t", .nparts = 1, .policy.ram = 128u << 10 } },
	{ "bf16", { .policy.values = ELEMENT_bf16 } },
	{ "f16", { .policy.values = ELEMENT_f16 } },
};

/* The disk of stores that have one. */
static struct spill *spill;

/* ---- what a store does ---- */

static sem_t woken;

static void wake_test(void *ctx)
{
	(void)ctx;
	sem_post(&woken);
}

/* Does what part_lock_rows does. */
static void begin_use(struct row_store *s, const uint64_t *ids, uint32_t n)
{
	const uint8_t *bytes = (const uint8_t *)ids;
	uint64_t since;

	if (!s->ops->make_present)
		return;
	do
		while (s->ops->make_present(s, bytes, n, wake_test, NULL, &since) == SHARD_WAIT)
			sem_wait(&woken);
	while (!s->ops->has_present(s, bytes, n, since));
}

/* Does what part_unlock_rows does. */
static void end_use(struct row_store *s)
{
	if (s->ops->settle)
		s->ops->settle(s);
}

static void fill_row(const struct row_layout *l, void *row, uint32_t v)
{
	for (uint32_t i = 0; i < l->floats; i++)
		((float *)row)[i] = (float)(v + i);
	for (int word = 0; word < ROW_WORDS; word++)
		row_layout_set(l, row, (enum row_word)word, v * 1000003);
}

static bool row_has(const struct row_layout *l, const void *row, uint32_t v)
{
	bool good = true;

	for (uint32_t i = 0; i < l->floats; i++)
		good &= ((const float *)row)[i] == (float)(v + i);
	for (int word = 0; word < ROW_WORDS; word++)
		good &= row_layout_get(l, row, (enum row_word)word) == v * 1000003;
	return good;
}

static bool row_is_zero(const struct row_layout *l, const void *row)
{
	bool good = true;

	for (uint32_t i = 0; i < l->bytes; i++)
		good &= ((const uint8_t *)row)[i] == 0;
	return good;
}

/* Writes some rows: ids that exist, ids that do not, and one of them twice. */
static bool write_some(struct row_store *s)
{
	uint32_t n = 1 + (uint32_t)rng_below(&rng, ROWS_BLOCK), which[ROWS_BLOCK];
	uint64_t ids[ROWS_BLOCK], made, found;
	void *row[ROWS_BLOCK];
	bool good = true;

	for (uint32_t i = 0; i < n; i++) {
		which[i] = (uint32_t)rng_below(&rng, MANY);
		ids[i] = id[which[i]];
	}
	which[n - 1] = which[0];
	ids[n - 1] = ids[0];
	begin_use(s, ids, n);
	found = s->ops->find_many(s, (const uint8_t *)ids, n);
	good &= s->ops->make_many(s, (const uint8_t *)ids, n, row, &made) && row[n - 1] == row[0];
	for (uint32_t i = 0; i < n; i++) {
		good &= (found >> i & 1) == (value[which[i]] != 0);
		good &= value[which[i]] ? row_has(&s->layout, row[i], value[which[i]])
		                        : row_is_zero(&s->layout, row[i]);
		for (uint32_t k = 0; k < i; k++)
			if (which[k] == which[i])
				good &= row[k] == row[i] && !(made >> i & 1);
		good &= !(made >> i & 1) || !value[which[i]];
	}
	for (uint32_t i = 0; i < n; i++) {
		value[which[i]] = 1 + (uint32_t)rng_below(&rng, 100);
		fill_row(&s->layout, row[i], value[which[i]]);
	}
	row_store_put(s, rng_next(&rng), (const uint8_t *)ids, n, row);
	end_use(s);
	return good;
}

static size_t rows_wanted(void)
{
	size_t n = 0;

	for (size_t i = 0; i < MANY; i++)
		n += value[i] != 0;
	return n;
}

/* The place of an id in `id`, which ascends; MANY: none. */
static size_t place_of(uint64_t x)
{
	const uint64_t *at = bsearch(&x, id, MANY, sizeof *id, rows_by_id);

	return at ? (size_t)(at - id) : MANY;
}

static bool all_there(struct row_store *s)
{
	static bool seen[MANY];
	uint64_t ids[ROWS_BLOCK], at = 0;
	void *row[ROWS_BLOCK];
	size_t listed = 0;
	bool good = s->ops->count(s) == rows_wanted() && s->ops->bytes(s) > 0;
	uint32_t n;

	for (size_t i = 0; i < MANY; i += n) {
		n = MANY - i < 50 ? (uint32_t)(MANY - i) : 50;
		s->ops->get_many(s, (const uint8_t *)(id + i), n, row);
		for (uint32_t k = 0; k < n; k++)
			good &= value[i + k] ? row[k] && row_has(&s->layout, row[k], value[i + k])
			                     : !row[k];
		end_use(s);
	}
	memset(seen, 0, sizeof seen);
	while ((n = s->ops->next(s, &at, 30, ids, row)) > 0)
		for (uint32_t k = 0; k < n; k++, listed++) {
			size_t i = place_of(ids[k]);

			good &= n <= 30 && i < MANY && !seen[i] &&
			    row_has(&s->layout, row[k], value[i]);
			seen[i < MANY ? i : 0] = true;
		}
	return good && listed == rows_wanted();
}

static bool is_even(void *ctx, uint64_t x, const void *row)
{
	(void)ctx;
	(void)row;
	return place_of(x) % 2 == 0;
}

static bool snapshot_has(struct row_snapshot *x, const struct row_layout *l, const uint32_t *want,
    bool even)
{
	uint64_t ids[ROWS_BLOCK];
	void *row[ROWS_BLOCK];
	size_t i = 0, all = 0;
	bool good = x != NULL;
	uint32_t n;

	while (good && (n = x->ops->snapshot_next(x, 41, ids, row)) > 0)
		for (uint32_t k = 0; good && k < n; k++, i++, all++) {
			while (i < MANY && (!want[i] || (even && i % 2)))
				i++;
			good = i < MANY && ids[k] == id[i] && row_has(l, row[k], want[i]);
		}
	while (i < MANY && (!want[i] || (even && i % 2)))
		i++;
	good = good && i == MANY && all == x->n;
	if (x)
		x->ops->snapshot_free(x);
	return good;
}

/* The new layout has one state float more, in front of the others. */
static void widen(void *ctx, void *from, void *to)
{
	const struct row_layout *l = ctx;
	const float *old = from;
	float *new = to;

	memcpy(new, old, WIDTH * sizeof *new);
	memcpy(new + WIDTH + 1, old + WIDTH, STATE * sizeof *new);
	new[WIDTH] = -1;
	for (int word = 0; word < ROW_WORDS; word++)
		row_layout_set(l + 1, to, (enum row_word)word,
		    row_layout_get(l, from, (enum row_word)word));
}

static bool is_widened(struct row_store *s, const struct row_layout *l)
{
	void *row[1];
	bool good = true;

	for (size_t i = 0; i < MANY; i++) {
		s->ops->get_many(s, (const uint8_t *)&id[i], 1, row);
		if (!value[i] || !row[0]) {
			good &= !value[i] && !row[0];
			continue;
		}
		good &= ((float *)row[0])[WIDTH] == -1 &&
		    ((float *)row[0])[WIDTH - 1] == (float)(value[i] + WIDTH - 1) &&
		    ((float *)row[0])[WIDTH + 1] == (float)(value[i] + WIDTH) &&
		    row_layout_get(l, row[0], ROW_CHANGED) == value[i] * 1000003;
	}
	return good;
}

static void contract(const char *name, const struct table *t)
{
	static uint32_t before[MANY];
	const struct row_store_ops *ops = row_store_of(t, spill);
	struct row_layout l[2] = { row_layout_make(WIDTH, STATE, true, true),
		row_layout_make(WIDTH, STATE + 1, true, true) };
	struct row_store *s = ops->make(t, spill);
	struct row_snapshot *all, *even;
	bool good = true;
	size_t had;

	memset(value, 0, sizeof value);
	for (size_t i = 0; i < MANY; i++)
		id[i] = i ? id[i - 1] + 1 + rng_below(&rng, 1000) : 3;
	ok(s->ops == ops && ops->count(s) == 0 && ops->bytes(s) == 0,
	    "%s: a closed store has no rows", name);
	ops->open(s, &l[0]);
	for (int i = 0; good && i < 100; i++)
		good = write_some(s);
	ok(good, "%s: rows are made and written", name);
	if (t->policy.ram)
		ok(ops->bytes(s) <= t->policy.ram,
		    "%s: they keep to their memory: %zu bytes of %zu", name, ops->bytes(s),
		    (size_t)t->policy.ram);
	ok(all_there(s), "%s: all of them are got and listed, and no others", name);
	ok(ops->row_bytes(s, &l[0]) < ops->row_bytes(s, &l[1]) &&
	        ops->row_bytes(s, &l[0]) >= WIDTH * s->element_bytes &&
	        s->element_bytes == element_bytes(t->policy.values),
	    "%s: a wider row takes more bytes", name);
	memcpy(before, value, sizeof before);
	all = ops->snapshot(s, NULL, NULL);
	even = ops->snapshot(s, is_even, NULL);
	for (int i = 0; i < 20; i++)
		write_some(s);
	had = ops->count(s);
	for (size_t i = 1; i < MANY; i += 2)
		value[i] = 0;
	ok(ops->remove(s, is_even, NULL) == had - rows_wanted() && all_there(s),
	    "%s: rows are removed", name);
	ok(ops->convert(s, &l[1], widen, l) && s->layout.bytes == l[1].bytes &&
	        is_widened(s, &l[1]),
	    "%s: rows get another layout", name);
	ops->open(s, &l[0]);
	ok(ops->count(s) == 0, "%s: a store that is opened again has no rows", name);
	ops->close(s);
	ok(ops->count(s) == 0 && ops->bytes(s) == 0, "%s: nor has one that is closed", name);
	ops->free(s);
	ok(snapshot_has(all, &l[0], before, false) && snapshot_has(even, &l[0], before, true),
	    "%s: snapshots have the rows as they were", name);
}

/* ---- narrow values ---- */

/* Puts the same values into a row that is new in each store. */
static void put_alike(struct row_store *s, uint64_t version, uint64_t row_id, float first,
    float *got)
{
	const uint8_t *ids = (const uint8_t *)&row_id;
	uint64_t made;
	void *row[1];

	if (!s->ops->make_many(s, ids, 1, row, &made))
		abort();
	for (uint32_t i = 0; i < s->layout.floats; i++)
		((float *)row[0])[i] = first + (float)i / 3;
	row_store_put(s, version, ids, 1, row);
	s->ops->get_many(s, ids, 1, row);
	memcpy(got, row[0], s->layout.floats * sizeof *got);
}

/* A row keeps as much of its values as the type has, rounded in the same way everywhere. */
static void narrow_values(void)
{
	struct table t = { .name = "t", .seed = 5, .policy.values = ELEMENT_bf16 }, other = t;
	struct row_layout l = row_layout_make(64, 3, false, false);
	struct row_store *s[3];
	float a[67], b[67], c[67], d[67], again[67];
	void *row[1];
	uint64_t seven = 7;

	other.seed = 6;
	for (unsigned k = 0; k < 3; k++) {
		s[k] = row_store_of(&t, NULL)->make(k < 2 ? &t : &other, NULL);
		s[k]->ops->open(s[k], &l);
	}
	put_alike(s[1], 3, 100, 1, b); /* the stores need not have the same rows */
	put_alike(s[0], 10, 7, 1, a);
	put_alike(s[1], 10, 7, 1, b);
	put_alike(s[2], 10, 7, 1, c);
	ok(memcmp(a, b, sizeof a) == 0 && memcmp(a, c, sizeof a) != 0,
	    "a row has the same bits in every replica, and others in a job with another seed");
	put_alike(s[1], 11, 7, 1, c);
	put_alike(s[1], 10, 8, 1, d);
	ok(memcmp(a, c, sizeof a) != 0 && memcmp(a, d, sizeof a) != 0,
	    "other bits at another version and in another row");
	s[0]->ops->get_many(s[0], (const uint8_t *)&seven, 1, row);
	row_store_put(s[0], 99, (const uint8_t *)&seven, 1, row);
	s[0]->ops->get_many(s[0], (const uint8_t *)&seven, 1, row);
	memcpy(again, row[0], sizeof again);
	ok(memcmp(a, again, sizeof a) == 0, "what was rounded once is not rounded again");
	ok(a[64] == 1 + 64 / 3.0f && a[66] == 1 + 66 / 3.0f && a[1] != 1 + 1 / 3.0f,
	    "the state of the update rule is float32");
	ok(s[0]->ops->row_bytes(s[0], &l) == 64 * 2 + 3 * 4 + ROW_OVERHEAD,
	    "a row takes two bytes for each value");
	for (unsigned k = 0; k < 3; k++)
		s[k]->ops->free(s[k]);
}

/* ---- rows that are not in memory ---- */

/* A store in memory that says that its rows are on a disk, until they have been asked for twice. */
static struct {
	struct row_store_ops ops;
	struct part *part;
	unsigned asked, settled;
	bool lost_once; /* the rows leave the memory again before the lock is taken */
	void (*wake)(void *ctx);
	void *ctx;
} slow;

static enum shard_answer slow_make_present(struct row_store *s, const uint8_t *ids, uint32_t n,
    void (*wake)(void *ctx), void *ctx, uint64_t *since)
{
	(void)s;
	(void)ids;
	*since = 1;
	/* The caller must not hold the lock. */
	mutex_lock(&slow.part->lock);
	mutex_unlock(&slow.part->lock);
	slow.wake = wake;
	slow.ctx = ctx;
	return n && slow.asked++ % 2 == 0 ? SHARD_WAIT : SHARD_OK;
}

static bool slow_has_present(struct row_store *s, const uint8_t *ids, uint32_t n, uint64_t since)
{
	bool lost = slow.lost_once;

	(void)s;
	(void)ids;
	(void)n;
	(void)since;
	mutex_assert_held(&slow.part->lock);
	slow.lost_once = false;
	return !lost;
}

static void slow_settle(struct row_store *s)
{
	(void)s;
	mutex_assert_held(&slow.part->lock);
	slow.settled++;
}

static void open_slow(struct world *x, const char *mode)
{
	world_open(x, mode, false, "sgd", 1, 2);
	memset(&slow, 0, sizeof slow);
	slow.part = shard_part(x->shard, ROWS, part_of(x, 7));
	slow.ops = *slow.part->sparse.store->ops;
	slow.ops.make_present = slow_make_present;
	slow.ops.has_present = slow_has_present;
	slow.ops.settle = slow_settle;
	slow.part->sparse.store->ops = &slow.ops;
}

static void close_slow(struct world *x)
{
	slow.part->sparse.store->ops = row_store_of(slow.part->table, NULL);
	world_close(x);
}

static void waits_to_push(void)
{
	struct receipt r;
	struct world x;
	unsigned wakes;

	open_slow(&x, "asp");
	ok(push_row(&x, 0, 0, 10, 7, 1, &r) == SHARD_WAIT && slow.part->version == 0 &&
	        slow.settled == 0,
	    "a push whose rows are not in memory waits, and changes nothing");
	wakes = x.wakes;
	slow.wake(slow.ctx);
	ok(x.wakes == wakes + 1, "the store wakes those who wait");
	ok(push_row(&x, 0, 0, 10, 7, 1, &r) == SHARD_OK && r.status == PUSH_APPLIED &&
	        slow.settled == 1,
	    "when it is tried again it is applied, and the rows may leave the memory");
	slow.asked = 1;
	slow.lost_once = true;
	ok(push_row(&x, 0, 1, 10, 7, 1, &r) == SHARD_WAIT && slow.part->version == 1,
	    "it waits again if another thread has let go the rows");
	ok(push_row(&x, 0, 1, 10, 7, 1, &r) == SHARD_OK && r.status == PUSH_APPLIED,
	    "and is applied once");
	close_slow(&x);
}

static void waits_to_pull(void)
{
	struct scan scan = { .begin = true, .n = 8 };
	uint8_t ids[8 * 8];
	float row[8 * COLS];
	const uint64_t seven = 7;
	uint64_t version;
	struct receipt r;
	struct world x;

	open_slow(&x, "asp");
	slow.asked = 1;
	push_row(&x, 0, 0, 10, 7, 1, &r);
	ok(shard_pull_rows(x.shard, ROWS, part_of(&x, 7), SYNC_NEVER, (const uint8_t *)&seven, 1,
	       row, &version) == SHARD_WAIT,
	    "a pull of rows waits");
	ok(shard_pull_rows(x.shard, ROWS, part_of(&x, 7), SYNC_NEVER, (const uint8_t *)&seven, 1,
	       row, &version) == SHARD_OK &&
	        version == 1,
	    "and is answered when they are in memory");
	scan.ids = ids;
	scan.out = row;
	slow.lost_once = true;
	ok(shard_scan(x.shard, ROWS, part_of(&x, 7), &scan) == SHARD_WAIT, "so does a scan");
	ok(shard_scan(x.shard, ROWS, part_of(&x, 7), &scan) == SHARD_OK && scan.n == 1 &&
	        !scan.more,
	    "which finds the same rows then");
	close_slow(&x);
}

/* The rows of a sum stay in memory until the step is closed. */
static void keeps_rows_of_sum(void)
{
	struct receipt r;
	struct world x;

	open_slow(&x, "bsp");
	slow.asked = 1;
	ok(push_row(&x, 0, 0, 10, 7, 1, &r) == SHARD_OK && r.status == PUSH_MERGED &&
	        slow.settled == 0,
	    "rows that a sum needs must stay in memory");
	slow.asked = 1;
	ok(push_row(&x, 1, 0, 10, 7, 1, &r) == SHARD_OK && slow.part->step == 1 &&
	        slow.settled == 1,
	    "until the step is closed");
	close_slow(&x);
}

/* ---- stores of one table ---- */

enum { PARTS = 16, RESTORED = 4096 };

/* Puts in rows with ascending ids, as a restore does. */
static void restore_rows(struct row_store *s)
{
	for (uint64_t first = 0; first < RESTORED; first += ROWS_BLOCK) {
		uint64_t ids[ROWS_BLOCK], made;
		void *row[ROWS_BLOCK];

		for (uint32_t i = 0; i < ROWS_BLOCK; i++)
			ids[i] = 7 * (first + i);
		s->ops->make_many(s, (const uint8_t *)ids, ROWS_BLOCK, row, &made);
		for (uint32_t i = 0; i < ROWS_BLOCK; i++)
			fill_row(&s->layout, row[i], (uint32_t)(first + i + 1));
		s->ops->put_many(s, 1, (const uint8_t *)ids, ROWS_BLOCK, row);
		s->ops->drain(s);
	}
}

/* Partitions that are restored one after the other take no more than the table's memory together, and
 * read nothing. */
static void restore_partitions(void)
{
	const struct table t = { .name = "parts", .nparts = PARTS, .policy.ram = 1u << 20 };
	const struct row_store_ops *ops = row_store_of(&t, spill);
	struct row_layout l = row_layout_make(WIDTH, STATE, true, true);
	struct row_store *s[PARTS];
	uint64_t wanted[2] = { 7 * 100, 7 * 200 };
	struct spill_stats before, after;
	size_t bytes = 0;
	bool all = true;

	spill_stats(spill, &before);
	for (int i = 0; i < PARTS; i++) {
		s[i] = ops->make(&t, spill);
		ops->open(s[i], &l);
		restore_rows(s[i]);
		bytes += ops->bytes(s[i]);
	}
	spill_stats(spill, &after);
	ok(bytes <= t.policy.ram, "%d restored stores have %zu bytes in memory, at most %u", PARTS,
	    bytes, (unsigned)t.policy.ram);
	ok(after.reads == before.reads, "%llu rows were looked up on the disk",
	    (unsigned long long)(after.reads - before.reads));
	/* A pull that waits for its turn has its rows read meanwhile. */
	ops->make_present(s[PARTS - 1], (const uint8_t *)wanted, 2, NULL, NULL, NULL);
	begin_use(s[PARTS - 1], wanted, 2);
	end_use(s[PARTS - 1]);
	spill_stats(spill, &before);
	ok(before.missed == after.missed + 2, "rows that are requested ahead are read once");
	for (int i = 0; i < PARTS; i++) {
		all &= ops->count(s[i]) == RESTORED;
		ops->close(s[i]);
		ops->free(s[i]);
	}
	ok(all, "all rows are there");
}

int main(void)
{
	char *dir = NULL;
	struct log log;
	struct err e;

	rng_init(&rng, 5);
	sem_init(&woken, 0, 0);
	log_init(&log, "test", 2, LOG_LEVEL_INFO);
	if (file_make_unique_dir(path_temporary("row-store"), &dir, &e) ||
	    spill_open(dir, "server-0", &log, &spill, &e)) {
		fprintf(stderr, "%s\n", e.msg);
		return 1;
	}
	for (size_t i = 0; i < sizeof stores / sizeof *stores; i++)
		contract(stores[i].name, &stores[i].table);
	narrow_values();
	waits_to_push();
	waits_to_pull();
	keeps_rows_of_sum();
	restore_partitions();
	spill_close(spill);
	file_remove_tree(dir, &e);
	free(dir);
	return tap_done();
}
