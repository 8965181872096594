/* SPDX-License-Identifier: ISC */
/* Values of a shard in published memory: a pull is told their place, every way of changing them
 * changes the state of the place, and former values and small partitions are copied. */
#include "shard_fixture.h"
#include "socket/published.h"

static struct published_view *view;
static float values[PART_ELEMENTS], copied[PART_ELEMENTS], pulled[PART_ELEMENTS];

static struct shard_place place_of_big(struct world *x, uint64_t step, enum shard_answer *a)
{
	struct shard_place p = { 0 };
	uint64_t version;

	*a = shard_pull_place(x->shard, BIG, 0, step, &p, &version);
	return p;
}

/* Does the place have the values of a pull? */
static bool is_current(struct world *x, const struct shard_place *p)
{
	uint64_t version;

	return shard_pull(x->shard, BIG, 0, SYNC_NEVER, pulled, &version) == SHARD_OK && p->known &&
	    published_copy(view, p->place, p->state, copied, sizeof copied) &&
	    memcmp(copied, pulled, sizeof copied) == 0;
}

static enum shard_answer push_big(struct world *x, uint64_t step)
{
	struct receipt r;

	return push_dense(x, BIG, 0, 0, step, 1, values, PART_ELEMENTS, &r);
}

static void changes(void)
{
	struct shard_place before, after;
	enum shard_answer a;
	struct world x;
	uint64_t version;

	world_open(&x, "asp", false, "sgd", 0.5f, 1);
	before = place_of_big(&x, SYNC_NEVER, &a);
	ok(a == SHARD_OK && is_current(&x, &before), "a pull is told the place of the values");
	ok(push_big(&x, 0) == SHARD_OK &&
	        !published_copy(view, before.place, before.state, copied, sizeof copied),
	    "a push changes the state");
	after = place_of_big(&x, SYNC_NEVER, &a);
	ok(after.place == before.place && is_current(&x, &after), "in the same place");
	before = after;
	ok(shard_assign(x.shard, BIG, 0, values) == SHARD_OK &&
	        !published_copy(view, before.place, before.state, copied, sizeof copied),
	    "an assignment changes the state");
	before = place_of_big(&x, SYNC_NEVER, &a);
	ok(is_current(&x, &before) && memcmp(copied, values, sizeof copied) == 0,
	    "and the place has the assigned values");
	ok(shard_pull_place(x.shard, BIG, 1, SYNC_NEVER, &after, &version) == SHARD_OK &&
	        !after.known,
	    "a small partition has no place");
	ok(shard_pull_place(x.shard, ROWS, 0, SYNC_NEVER, &after, &version) == SHARD_BAD &&
	        shard_pull_place(x.shard, BIG, 9, SYNC_NEVER, &after, &version) == SHARD_ELSEWHERE,
	    "nor has a sparse one, or one that is not here");
	world_close(&x);
	ok(!published_copy(view, before.place, before.state, copied, sizeof copied),
	    "when the shard ends its places are given back");
}

static void former_values(void)
{
	struct shard_place p;
	enum shard_answer a;
	struct world x;

	world_open(&x, "bsp", true, "sgd", 0.5f, 1);
	p = place_of_big(&x, 0, &a);
	ok(a == SHARD_OK && is_current(&x, &p), "a pull of the first step");
	ok(push_big(&x, 0) == SHARD_OK, "the step is closed");
	p = place_of_big(&x, 0, &a);
	ok(a == SHARD_OK && !p.known, "former values have no place");
	p = place_of_big(&x, SYNC_NEVER, &a);
	ok(a == SHARD_OK && is_current(&x, &p), "the present ones have");
	world_close(&x);
}

/* A whole table has one partition, which may be larger than a place. */
static void whole_table(void)
{
	struct table shape = { .name = "whole", .whole = true, .rows = WHOLE_ELEMENTS, .cols = 1 };
	struct shard_place p = { 0 };
	uint64_t version;
	struct table *t;
	struct world x;

	world_open(&x, "asp", false, "sgd", 0.5f, 1);
	if (layout_add(&x.layout, &shape, &t, NULL))
		abort();
	layout_place(&x.layout, (const uint16_t[]){ 0 }, 1, 1);
	x.layout.epoch++;
	if (shard_install(x.shard, &x.layout, NULL, NULL))
		abort();
	ok(shard_pull_place(x.shard, ROWS + 1, 0, SYNC_NEVER, &p, &version) == SHARD_OK && !p.known,
	    "a partition that is larger than a place has none");
	world_close(&x);
}

int main(void)
{
	struct err e = { 0 };

	if (published_new(&fixture_published, &e) ||
	    published_map(published_fd(fixture_published), &view, &e)) {
		printf("# %s\n", e.msg);
		return 1;
	}
	for (size_t i = 0; i < PART_ELEMENTS; i++)
		values[i] = (float)(i % 100);
	changes();
	former_values();
	whole_table();
	published_unmap(view);
	published_free(fixture_published);
	return tap_done();
}
