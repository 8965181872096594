/* SPDX-License-Identifier: ISC */
/* Robust sums in a shard: what a step comes to, whose word counts for what, and what is refused. */
#include <math.h>

#include "shard_fixture.h"

enum { RANKS = 5 };

static void open_robust(struct world *x, const char *robust, uint64_t mem_limit)
{
	struct shard_config cfg = { .rule = optim_find("sgd"),
		.wake = count_wake,
		.ranks = RANKS,
		.mem_limit = mem_limit,
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
	for (uint32_t i = 0; i < RANKS; i++)
		admit(x->shard, i, inc_of(i), 0);
}

/* One step of these gradients, pushed in this order; what w is then less than before. */
static float step(struct world *x, uint64_t at, const uint32_t *order, const float *value,
    const uint32_t *examples)
{
	float before = pull_w(x, SYNC_NEVER);
	struct receipt r;
	bool good = true;

	for (int i = 0; i < RANKS; i++)
		good &= push_w(x, order[i], at, examples[order[i]], value[order[i]], &r) ==
		    SHARD_OK;
	for (uint32_t i = 0; i < RANKS; i++)
		good &= clock_of(x, i, at, examples[i]) == SHARD_OK;
	return good ? before - pull_w(x, at + 1) : -12345;
}

static const uint32_t up[RANKS] = { 0, 1, 2, 3, 4 }, down[RANKS] = { 4, 2, 0, 3, 1 };
static const uint32_t ten[RANKS] = { 10, 10, 10, 10, 10 },
                      liar[RANKS] = { 10, 10, 10, 10, 4000000000 };
static const float bad[RANKS] = { 1, 2, 3, 4, 100000 };

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
	for (uint32_t i = 2; i < RANKS; i++)
		dismiss(x.shard, i, 0);
	push_w(&x, 0, 0, 10, 4, &r);
	push_w(&x, 1, 0, 10, 8, &r);
	clock_of(&x, 0, 0, 10);
	clock_of(&x, 1, 0, 10);
	ok(before - pull_w(&x, 1) == 6, "of fewer than 2K+1 the middle is left");
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
	ok(robust >= plain + RANKS * N * sizeof(float),
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
	test_room();
	test_words();
	return tap_done();
}
