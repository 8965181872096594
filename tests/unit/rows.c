/* SPDX-License-Identifier: ISC */
/* Rows by id: what is there, where it is and what it takes; and that rows which are updated
 * together have the bits of rows that are updated one by one. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/rng.h"
#include "members.h"
#include "shard/rows.h"
#include "tap.h"

static struct rng rng;

/* The id of which rng_mix() makes this. */
static uint64_t id_with(uint64_t hash)
{
	uint64_t x = hash ^ hash >> 31 ^ hash >> 62;

	x *= UINT64_C(0x319642b2d24d8ec3);
	x ^= x >> 27 ^ x >> 54;
	x *= UINT64_C(0x96de1b173f119089);
	x ^= x >> 30 ^ x >> 60;
	return x - UINT64_C(0x9e3779b97f4a7c15);
}

/* ---- by id ---- */

enum { MANY = 60000 };

static uint64_t id[MANY], other[MANY];
static void *place[MANY];

/* Kinds of ids: any, small, and those of few buckets with one tag. */
static void some_ids(unsigned kind)
{
	for (size_t i = 0; i < MANY; i++) {
		id[i] = kind == 0 ? rng_next(&rng)
		    : kind == 1   ? i * 2
		                  : id_with((uint64_t)i << 32 | (i % 300) << 12);
		other[i] = kind == 0 ? rng_next(&rng)
		    : kind == 1      ? i * 2 + 1
		                     : id_with((uint64_t)(i + MANY) << 32 | (i % 300) << 12);
	}
}

/* Rows n .. n + m - 1 are made; some of those before are asked for with them, and one of the
 * new twice. */
static bool make_some(struct rows *r, uint32_t stride, size_t n, uint32_t m)
{
	uint64_t ids[ROWS_BLOCK], made;
	void *row[ROWS_BLOCK];
	uint32_t k = 0;
	bool good = true;

	for (uint32_t i = 0; i < m; i++)
		ids[k++] = id[n + i];
	if (m && k < ROWS_BLOCK)
		ids[k++] = id[n];
	while (n && k < ROWS_BLOCK && rng_unit(&rng) < 0.9)
		ids[k++] = id[rng_below(&rng, n)];
	good = rows_make(r, (const uint8_t *)ids, k, row, &made) &&
	    made == (m == 64 ? ~UINT64_C(0) : (UINT64_C(1) << m) - 1);
	for (uint32_t i = 0; i < m; i++) {
		for (uint32_t j = 0; j < stride; j++)
			good &= ((const float *)row[i])[j] == 0;
		place[n + i] = row[i];
		for (uint32_t j = 0; j < stride; j++)
			((float *)row[i])[j] = (float)(n + i);
	}
	if (m && m < ROWS_BLOCK)
		good &= row[m] == row[0];
	return good && rows_count(r) == n + m;
}

static bool all_there(struct rows *r, size_t n)
{
	void *row[ROWS_BLOCK];
	bool good = true;

	for (size_t at = 0; at < n; at += ROWS_BLOCK) {
		uint32_t m = n - at < ROWS_BLOCK ? (uint32_t)(n - at) : ROWS_BLOCK;
		uint64_t was;

		rows_find(r, (const uint8_t *)(id + at), m, row);
		for (uint32_t i = 0; i < m; i++)
			good &= row[i] == place[at + i] &&
			    *(const float *)row[i] == (float)(at + i) &&
			    rows_get(r, id[at + i]) == row[i] &&
			    rows_at(r, at + i, &was) == row[i] && was == id[at + i];
		rows_find(r, (const uint8_t *)(other + at), m, row);
		for (uint32_t i = 0; i < m; i++)
			good &= !row[i] && !rows_get(r, other[at + i]);
	}
	return good;
}

static void there_or_not(void)
{
	static const char *const kinds[] = { "any ids", "small ids", "ids of like hashes" };
	static const size_t most[] = { MANY, MANY, 3000 };

	for (unsigned kind = 0; kind < 3; kind++)
		for (uint32_t stride = 1; stride <= 3000; stride *= 50) {
			size_t n = 0, end = stride > 1 ? 2000 : most[kind];
			struct rows *r = rows_new(stride * (uint32_t)sizeof(float));
			bool good = true, made;

			some_ids(kind);
			good &= all_there(r, 0) && !rows_get(r, id[0]);
			for (size_t m; n < end && good; n += m) {
				m = (size_t)rng_below(&rng, n > 1000 ? ROWS_BLOCK + 1 : 4);
				m = m > end - n ? end - n : m;
				good = make_some(r, stride, n, (uint32_t)m) &&
				    (n > 3000 || all_there(r, n + m));
			}
			good &= all_there(r, n) && rows_put(r, id[7], &made) == place[7] && !made;
			ok(good,
			    "%s, rows of %u floats: all are there, where they were, in their order, and no others",
			    kinds[kind], stride);
			rows_clear(r);
			ok(rows_count(r) == 0 && !rows_get(r, id[7]) &&
			        make_some(r, stride, 0, 40) && all_there(r, 40),
			    "and after they are forgotten");
			rows_free(r);
		}
}

static bool keeps_odd(void *ctx, uint64_t i, const void *row)
{
	const float *value = row;

	(void)i;
	return (uint32_t)*value % *(const uint32_t *)ctx != 0;
}

/* Of MANY rows every k-th goes; then as many others come. */
static void sifted(void)
{
	for (uint32_t k = 1; k <= 8; k *= 2) {
		struct rows *r = rows_new(3 * sizeof(float));
		size_t left = 0, had = MANY / 2, went, before;
		bool good = true, made;
		uint64_t at;

		some_ids(0);
		for (size_t i = 0; i < had; i++)
			*(float *)rows_put(r, id[i], &made) = (float)i;
		before = rows_bytes(r);
		went = rows_sift(r, keeps_odd, &k);
		for (size_t i = 0; i < had; i++) {
			const float *row = rows_get(r, id[i]);

			good &= i % k == 0 ? !row
			                   : row && *row == (float)i &&
			        rows_at(r, left, &at) == row && at == id[i];
			left += i % k != 0;
		}
		ok(good && rows_count(r) == left && went == had - left &&
		        rows_bytes(r) <= before * left / had + 8192 * 3,
		    "1 of %u rows goes: the others are there in their order, in %zu bytes of %zu",
		    k, rows_bytes(r), before);
		for (size_t i = had; i < MANY; i++)
			*(float *)rows_put(r, id[i], &made) = (float)i;
		for (size_t i = 0; i < MANY; i++) {
			const float *row = rows_get(r, id[i]);

			good &= i < had && i % k == 0 ? !row : row && *row == (float)i;
		}
		ok(good, "and others may come");
		rows_free(r);
	}
}

/* ---- what they take ---- */

/* As rows.h says: 6.1 bytes a row after the index grew, and its list of arenas. */
static void bytes(void)
{
	static const uint32_t strides[] = { 1, 8, 16 };

	for (size_t s = 0; s < 3; s++) {
		uint32_t stride = strides[s];
		struct rows *r = rows_new(stride * (uint32_t)sizeof(float));
		double worst = 0, all;
		bool made;

		some_ids(0);
		for (size_t i = 0; i < MANY; i++) {
			rows_put(r, id[i], &made);
			all = (double)(rows_bytes(r) - 4096) / (double)rows_count(r);
			if (i > 2000 && all > worst)
				worst = all;
		}
		ok(worst <= 8 + stride * 4 + 6.5,
		    "of %u floats: %.2f bytes a row at the most, beside an arena", stride, worst);
		rows_free(r);
	}
}

/* ---- together and one by one ---- */

struct world {
	struct layout layout;
	struct shard *shard;
};

static void no_wake(void *ctx)
{
	(void)ctx;
}

static void world_open(struct world *x, const struct optim_rule *rule, const char *mode,
    uint32_t cols, bool deltas)
{
	struct shard_config cfg = { .rule = rule, .wake = no_wake, .row_versions = deltas };
	struct table shape = { .name = "t",
		.sparse = true,
		.rows = 100,
		.cols = cols,
		.decay = true,
		.init = TABLE_UNIFORM,
		.init_limit = 0.5f,
		.seed = 3 },
	             *t;

	memset(x, 0, sizeof *x);
	sync_parse(mode, &cfg.mode, NULL);
	schedule_parse("constant", &cfg.schedule, NULL);
	rule->defaults(&cfg.hyper);
	cfg.hyper.l2 = 0.01f;
	layout_add(&x->layout, &shape, &t, NULL);
	layout_place(&x->layout, (const uint16_t[]){ 0 }, 1, 1);
	if (shard_new(&cfg, &x->shard, NULL) || shard_install(x->shard, &x->layout, NULL, NULL))
		abort();
	admit(x->shard, 0, 1, 0);
}

static void world_close(struct world *x)
{
	shard_free(x->shard);
	layout_release(&x->layout);
}

enum { ROWS = 150, COLS = 40 };

struct sample {
	uint64_t id[ROWS];
	float g[ROWS * COLS];
	uint32_t n;
};

/* Ascending ids of partition 0, and gradients for them. */
static void draw(const struct world *x, uint32_t cols, struct sample *s)
{
	s->n = 0;
	for (uint64_t at = 0; s->n < ROWS; at++)
		if (table_part_of(&x->layout.table[0], at) == 0 && rng_unit(&rng) < 0.7)
			s->id[s->n++] = at;
	for (uint32_t i = 0; i < s->n * cols; i++)
		s->g[i] = (float)rng_normal(&rng);
}

/* The other way round no two neighbours ascend: so each goes by itself. */
static void turn(const struct sample *s, uint32_t cols, struct sample *out)
{
	out->n = s->n;
	for (uint32_t i = 0; i < s->n; i++) {
		out->id[i] = s->id[s->n - 1 - i];
		memcpy(out->g + i * cols, s->g + (s->n - 1 - i) * cols, cols * sizeof *s->g);
	}
}

static bool push(struct world *x, uint32_t cols, uint64_t step, const struct sample *s)
{
	struct push p = { .incarnation = 1,
		.step = step,
		.examples = 3,
		.payload = (const uint8_t *)s->g,
		.len = s->n * cols * sizeof *s->g,
		.nrows = s->n,
		.ids = (const uint8_t *)s->id };
	struct receipt r;

	return shard_push(x->shard, &p, &r) == SHARD_OK && r.status <= PUSH_MERGED &&
	    shard_clock(x->shard, 0, 1, step, 3) == SHARD_OK;
}

/* What all have now, and which have changed since the version before. */
static void pull(struct world *x, uint32_t cols, const struct sample *s, float *w,
    uint32_t *changed)
{
	uint64_t since[ROWS];
	uint32_t which[ROWS];
	struct row_read r = { SYNC_NEVER, (const uint8_t *)s->id, s->n, since, w, which, 0, NULL,
		0 };

	for (uint32_t i = 0; i < s->n; i++)
		since[i] = i % 3;
	memset(w, 0, sizeof(float) * ROWS * cols);
	if (shard_read_rows(x->shard, 0, 0, &r))
		abort();
	*changed = r.changed;
}

static bool same_bits(const struct optim_rule *rule, const char *mode, uint32_t cols, bool deltas)
{
	static struct sample s, back;
	static float w[2][ROWS * COLS];
	uint32_t changed[2];
	struct world a, b;
	bool good = true;

	world_open(&a, rule, mode, cols, deltas);
	world_open(&b, rule, mode, cols, deltas);
	for (uint64_t step = 0; step < 5; step++) {
		draw(&a, cols, &s);
		if (step == 3)
			memset(s.g, 0, sizeof s.g);
		turn(&s, cols, &back);
		good &= push(&a, cols, step, &s) && push(&b, cols, step, &back);
		pull(&a, cols, &s, w[0], &changed[0]);
		pull(&b, cols, &s, w[1], &changed[1]);
		good &= memcmp(w[0], w[1], sizeof(float) * s.n * cols) == 0 &&
		    changed[0] == changed[1];
	}
	world_close(&a);
	world_close(&b);
	return good;
}

static void together(void)
{
	static const uint32_t widths[] = { 1, 2, 3, 8, 16, 17, COLS };
	static const char *const modes[] = { "asp", "bsp" };
	const struct optim_rule *rule;

	for (size_t i = 0; (rule = optim_at(i)) != NULL; i++) {
		bool good = true;

		for (size_t k = 0; k < sizeof widths / sizeof *widths; k++)
			for (unsigned m = 0; m < 4; m++)
				good &= same_bits(rule, modes[m / 2], widths[k], m % 2);
		ok(good,
		    "%s: rows that are updated together have the bits of those that are updated one by one",
		    rule->name);
	}
}

/* The same row twice in a push: one update after the other. */
static void twice(void)
{
	const struct optim_rule *rule = optim_find("adagrad");
	struct sample s = { .id = { 0, 0, 0 }, .g = { 1, 2, 3 }, .n = 3 };
	struct optim_hyper h;
	float want[2], got[3], *rank = want + 1;
	uint64_t version;
	struct world x;
	uint64_t at = 0;

	world_open(&x, rule, "asp", 1, false);
	while (table_part_of(&x.layout.table[0], at) != 0)
		at++;
	s.id[0] = s.id[1] = s.id[2] = at;
	shard_pull_rows(x.shard, 0, 0, SYNC_NEVER, (const uint8_t *)s.id, 1, want, &version);
	want[1] = 0;
	rule->defaults(&h);
	h.l2 = 0.01f;
	for (int i = 0; i < 3; i++) {
		struct optim_gradient g = optim_gradient_of_one(s.g + i);

		rule->step(&h, 1, true, 1, want, &rank, &g);
	}
	ok(push(&x, 1, 0, &s), "a row three times in a push");
	shard_pull_rows(x.shard, 0, 0, SYNC_NEVER, (const uint8_t *)s.id, 3, got, &version);
	ok(got[0] == want[0] && got[2] == want[0], "is updated three times");
	world_close(&x);
}

/* ---- crafted ids ---- */

enum { CRAFTED = 200000 };

static double seconds_to_make(const uint64_t *ids)
{
	struct rows *r = rows_new(sizeof(float));
	struct timespec begin, end;
	void *row[ROWS_BLOCK];
	uint64_t made;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
	for (size_t i = 0; i < CRAFTED; i += 50)
		if (!rows_make(r, (const uint8_t *)(ids + i), 50, row, &made))
			abort();
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
	rows_free(r);
	return (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) * 1e-9;
}

/* Ids that public hashes send to one bucket take no longer than others: by processor time, of which quadratic
 * time would be several hundred times as much. */
static void crafted(void)
{
	static uint64_t ids[CRAFTED];
	double others;

	for (size_t i = 0; i < CRAFTED; i++)
		ids[i] = rng_next(&rng);
	others = seconds_to_make(ids);
	for (size_t i = 0; i < CRAFTED; i++)
		ids[i] = id_with((uint64_t)i << 32);
	ok(seconds_to_make(ids) < 30 * others, "ids of which rng_mix makes one bucket");
	for (size_t i = 0; i < CRAFTED; i++)
		ids[i] = (uint64_t)i << 32;
	ok(seconds_to_make(ids) < 30 * others, "ids that differ in their upper half");
	for (size_t i = 0; i < CRAFTED; i++)
		ids[i] = i * UINT64_C(0x9e3779b97f4a7c15);
	ok(seconds_to_make(ids) < 30 * others, "ids in a progression");
}

int main(void)
{
	rng_init(&rng, 7);
	there_or_not();
	sifted();
	bytes();
	together();
	twice();
	crafted();
	return tap_done();
}
