/* SPDX-License-Identifier: ISC */
/* Robust sums in a shard: what a step comes to, whose word counts for what, and what is refused. */
#include <math.h>

#include "shard/outliers.h"
#include "shard_fixture.h"

enum { SLOTS = 5 };

static void open_robust(struct world *x, const char *robust, uint64_t mem_limit)
{
	struct shard_config cfg = { .rule = optim_find("sgd"),
		.wake = count_wake,
		.slots = SLOTS,
		.mem_limit = mem_limit,
		.watched = true,
		.ctx = x };

	memset(x, 0, sizeof *x);
	sync_parse("bsp", &cfg.mode, NULL);
	if (aggregate_parse(robust, &cfg.aggregate, NULL))
		abort();
	cfg.rule->defaults(&cfg.hyper);
	cfg.hyper.lr = 1;
	schedule_parse("constant", &cfg.schedule, NULL);
	add_table(x, "w", false, N, 1);
	layout_place(&x->layout, (const uint16_t[]){ 0 }, 1, 1);
	if (shard_new(&cfg, &x->shard, NULL) || shard_install(x->shard, &x->layout, NULL, NULL))
		abort();
	for (uint32_t i = 0; i < SLOTS; i++)
		admit(x->shard, i, inc_of(i), 0);
}

/* One step of these gradients, pushed in this order; what w is then less than before. */
static float step(struct world *x, uint64_t at, const uint32_t *order, const float *value,
    const uint32_t *examples)
{
	float before = pull_w(x, SYNC_NEVER);
	struct receipt r;
	bool good = true;

	for (int i = 0; i < SLOTS; i++)
		good &= push_w(x, order[i], at, examples[order[i]], value[order[i]], &r) ==
		    SHARD_OK;
	for (uint32_t i = 0; i < SLOTS; i++)
		good &= clock_of(x, i, at, examples[i]) == SHARD_OK;
	return good ? before - pull_w(x, at + 1) : -12345;
}

static const uint32_t up[SLOTS] = { 0, 1, 2, 3, 4 }, down[SLOTS] = { 4, 2, 0, 3, 1 };
static const uint32_t ten[SLOTS] = { 10, 10, 10, 10, 10 },
                      liar[SLOTS] = { 10, 10, 10, 10, 4000000000 };
static const float bad[SLOTS] = { 1, 2, 3, 4, 100000 };

static void test_sums(void)
{
	struct world x;

	open_robust(&x, "median", 0);
	ok(step(&x, 0, up, bad, ten) == 3 && step(&x, 1, down, bad, liar) == 3,
	    "the median, whatever the order and what is said of examples");
	world_close(&x);
	open_robust(&x, "trimmed:1", 0);
	ok(step(&x, 0, up, bad, ten) == 3 && step(&x, 1, down, bad, liar) == 3,
	    "the mean without the least and the greatest");
	world_close(&x);
	open_robust(&x, "clip:1", 0);
	ok(fabsf(step(&x, 0, up, bad, ten) - 2.4f) < 1e-5f,
	    "clipped to the middle length, then the mean");
	ok(fabsf(step(&x, 1, down, bad, liar) - 2.4f) < 1e-5f,
	    "nobody weighs more than the middle one");
	world_close(&x);
}

static void test_fewer(void)
{
	struct world x;
	struct receipt r;
	float before;

	open_robust(&x, "trimmed:2", 0);
	before = pull_w(&x, SYNC_NEVER);
	for (uint32_t i = 2; i < SLOTS; i++)
		dismiss(x.shard, i, 0);
	push_w(&x, 0, 0, 10, 4, &r);
	push_w(&x, 1, 0, 10, 8, &r);
	clock_of(&x, 0, 0, 10);
	clock_of(&x, 1, 0, 10);
	ok(before - pull_w(&x, 1) == 6, "of fewer than 2K+1 the middle is left");
	world_close(&x);
}

static void test_barred(void)
{
	static const float value[SLOTS] = { 1, 1, 3, 3, 9 };
	struct world x;
	struct member m = { .slot = 4,
		.state = MEMBER_ACTIVE,
		.incarnation = inc_of(4),
		.barred = 1,
		.barred_until = 2 };
	struct receipt r;

	open_robust(&x, "median", 0);
	shard_take_members(x.shard, &m, 1);
	ok(step(&x, 0, up, value, ten) == 3,
	    "before the step that it is barred from, a worker counts");
	push_w(&x, 4, 1, 10, 9, &r);
	ok(r.status == PUSH_REFUSED, "then its push is refused");
	for (uint32_t i = 0; i < 4; i++)
		push_w(&x, i, 1, 10, value[i], &r);
	for (uint32_t i = 0; i < SLOTS; i++)
		clock_of(&x, i, 1, 10);
	ok(pull_w(&x, 2) == -3 - 2, "and is as nothing: the step closes without it");
	ok(step(&x, 2, up, value, ten) == 3, "until the step where that ends");
	world_close(&x);
}

static void count_suspect(void *ctx, const struct outliers_suspect *s)
{
	*(struct outliers_suspect *)ctx = *s;
}

static void test_watch(void)
{
	static const float flat[SLOTS] = { 1, 1.5f, 1, 1.2f, 6 }, round[SLOTS] = { 1, 1, 1, 1, -1 };
	struct outliers_suspect found = { .slot = 99 };
	struct world x;
	uint64_t at = 0;

	open_robust(&x, "median", 0);
	for (; at < OUTLIERS_LONG_STEPS - 1; at++)
		step(&x, at, up, flat, ten);
	shard_suspects(x.shard, count_suspect, &found);
	ok(found.slot == 99, "nobody is suspected for %u steps", OUTLIERS_LONG_STEPS - 1);
	step(&x, at++, up, flat, ten);
	ok(shard_suspects(x.shard, count_suspect, &found) == N && found.slot == 4 &&
	        !found.against && found.figure > 4.9 && found.figure < 5.1 &&
	        found.steps == OUTLIERS_LONG_STEPS && found.incarnation == inc_of(4),
	    "but for one more: 5 times too long");
	found.slot = 99;
	for (unsigned i = 0; i < OUTLIERS_AGAINST_STEPS; i++) {
		ok(found.slot == 99, "%u steps the other way say nothing yet", i);
		step(&x, at++, up, round, ten);
		if (i + 1 < OUTLIERS_AGAINST_STEPS)
			shard_suspects(x.shard, count_suspect, &found);
	}
	shard_suspects(x.shard, count_suspect, &found);
	ok(found.slot == 4 && found.against && found.figure == -1,
	    "and who goes against all others is suspected for it");
	world_close(&x);
}

static void test_room(void)
{
	struct world x;
	uint64_t plain, robust;

	open_robust(&x, "none", 1 << 20);
	plain = shard_booked(x.shard);
	world_close(&x);
	open_robust(&x, "median", 1 << 20);
	robust = shard_booked(x.shard);
	ok(robust >= plain + SLOTS * N * sizeof(float),
	    "a gradient of every worker is booked: %llu more bytes",
	    (unsigned long long)(robust - plain));
	world_close(&x);
}

static void test_words(void)
{
	static const char *const wrong[] = { "", "mean", "trimmed", "trimmed:0", "trimmed:x",
		"clip:", "clip:0", "clip:-1", "clip:nan", "median:2" };
	struct aggregate r;
	bool good = !aggregate_parse("clip:2.5", &r, NULL) && r.ops == &aggregate_clip &&
	    r.argument == 2.5;

	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
		good &= aggregate_parse(wrong[i], &r, NULL) == ERR_CONFIG;
	ok(good, "words that are none are refused");
}

int main(void)
{
	test_sums();
	test_fewer();
	test_barred();
	test_watch();
	test_room();
	test_words();
	return tap_done();
}
