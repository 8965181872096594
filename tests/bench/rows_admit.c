/* SPDX-License-Identifier: ISC */
/* Ids that are offered to a sparse table in one process, of which some are admitted: how fast, in
 * what memory, and how many come in before their time. The same ids to a table that takes all,
 * beside it.
 *
 * usage: build/bench/rows_admit [IDS]      IDS (100000000) offered, of a fifth as many different ones */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/mem.h"
#include "core/num.h"
#include "core/procstat.h"
#include "core/rng.h"
#include "shard/shard.h"

enum { BATCH = 1 << 20, OFTEN = 5 };

struct kind {
	const char *policy, *rule;
	uint32_t width;
};

struct store {
	struct layout layout;
	struct shard *shard;
	const struct table *table;
	uint64_t *ids, *sorted;
	uint16_t *part;
	float *g;
	uint64_t step;
};

static void no_wake(void *ctx)
{
	(void)ctx;
}

static void store_open(struct store *x, const struct kind *k, uint64_t different)
{
	struct shard_config cfg = { .rule = optim_find(k->rule), .wake = no_wake };
	struct table shape = { .name = "t", .sparse = true, .rows = different, .cols = k->width },
	             *t;

	*x = (struct store){ .step = 0 };
	if (row_policy_parse(k->policy, &shape.policy, NULL) ||
	    sync_parse("asp", &cfg.mode, NULL) || schedule_parse("constant", &cfg.schedule, NULL))
		abort();
	cfg.rule->defaults(&cfg.hyper);
	layout_add(&x->layout, &shape, &t, NULL);
	layout_place(&x->layout, (const uint16_t[]){ 0 }, 1, 1);
	if (shard_new(&cfg, &x->shard, NULL) || shard_install(x->shard, &x->layout, NULL, NULL))
		abort();
	shard_take_members(x->shard, &(struct member){ .state = MEMBER_ACTIVE, .incarnation = 1 },
	    1);
	x->table = t;
	x->ids = mem_array(BATCH, sizeof *x->ids);
	x->sorted = mem_array(BATCH, sizeof *x->sorted);
	x->part = mem_array(BATCH, sizeof *x->part);
	x->g = mem_array((size_t)BATCH * k->width, sizeof *x->g);
	for (size_t i = 0; i < (size_t)BATCH * k->width; i++)
		x->g[i] = 1e-3f;
}

static void store_close(struct store *x)
{
	shard_free(x->shard);
	layout_release(&x->layout);
	free(x->ids);
	free(x->sorted);
	free(x->part);
	free(x->g);
}

/* Those of each partition together, as workers send them. */
static void by_part(struct store *x, size_t n, size_t *first)
{
	size_t nparts = x->table->nparts;

	table_parts_of(x->table, x->ids, n, x->part);
	memset(first, 0, (nparts + 2) * sizeof *first);
	for (size_t i = 0; i < n; i++)
		first[x->part[i] + 2]++;
	for (size_t p = 0; p < nparts; p++)
		first[p + 2] += first[p + 1];
	for (size_t i = 0; i < n; i++)
		x->sorted[first[x->part[i] + 1]++] = x->ids[i];
}

static int64_t push(struct store *x, size_t n, size_t *first)
{
	int64_t begin;

	by_part(x, n, first);
	begin = clock_now();
	for (uint32_t p = 0; p < x->table->nparts; p++) {
		struct push push = { .incarnation = 1,
			.step = x->step,
			.part = p,
			.examples = 1,
			.payload = (const uint8_t *)x->g,
			.nrows = (uint32_t)(first[p + 1] - first[p]),
			.ids = (const uint8_t *)(x->sorted + first[p]) };
		struct receipt r;

		push.len = (size_t)push.nrows * x->table->cols * sizeof(float);
		if (push.nrows && (shard_push(x->shard, &push, &r) || r.status != PUSH_APPLIED))
			abort();
	}
	if (shard_clock(x->shard, 0, 1, x->step++, 1))
		abort();
	return clock_now() - begin;
}

static uint64_t draw(struct rng *rng, uint64_t different, bool even)
{
	double u = rng_unit(rng);

	/* The k-th often as 1 over the root of k. */
	return (uint64_t)((double)different * (even ? u : u * u));
}

static void run(const struct kind *k, uint64_t offered, bool even)
{
	uint64_t different = offered / 5, often = 0, once = 0;
	uint8_t *seen = mem_array(different, 1);
	struct table_stats st;
	struct row_policy p;
	struct procstat ps;
	struct store x;
	struct rng rng;
	int64_t took = 0;
	double early;
	size_t *first;

	store_open(&x, k, different);
	first = mem_array(x.table->nparts + 2, sizeof *first);
	rng_init(&rng, 1);
	for (uint64_t at = 0; at < offered; at += BATCH) {
		size_t n = offered - at < BATCH ? (size_t)(offered - at) : BATCH;

		for (size_t i = 0; i < n; i++) {
			uint64_t id = draw(&rng, different, even);

			seen[id] = (uint8_t)(seen[id] + (seen[id] < 255));
			x.ids[i] = rng_mix(id);
		}
		took += push(&x, n, first);
	}
	for (uint64_t i = 0; i < different; i++) {
		once += seen[i] > 0;
		often += seen[i] >= OFTEN;
	}
	if (!shard_table_stats(x.shard, 0, &st))
		abort();
	procstat_read(&ps);
	early = row_policy_parse(k->policy, &p, NULL) || !p.admit
	    ? 0.0
	    : 100.0 * ((double)st.rows - (double)often) / (double)often;
	printf(
	    "%-6s %-9s %-7s width %-2u %6.1f M offered, %5.1f M different, %5.1f M of them %d times; %5.2f M rows (%.2f %% early), %6.0f MB, rss %6.0f MB; %5.1f M ids/s\n",
	    even ? "even" : "skewed", k->policy, k->rule, k->width, (double)offered / 1e6,
	    (double)once / 1e6, (double)often / 1e6, OFTEN, (double)st.rows / 1e6, early,
	    (double)st.bytes / 1e6, (double)ps.rss_bytes / 1e6,
	    (double)offered * 1e3 / (double)took);
	fflush(stdout);
	store_close(&x);
	free(first);
	free(seen);
}

int main(int argc, char **argv)
{
	static const struct kind kinds[] = { { "admit=5", "sgd", 8 }, { "none", "sgd", 8 } };
	uint64_t offered = 100000000;

	if (argc > 1 && !num_uint(argv[1], UINT64_C(1) << 40, &offered)) {
		fprintf(stderr, "rows_admit: a number of ids is wanted, got \"%s\"\n", argv[1]);
		return 2;
	}
	for (int even = 1; even >= 0; even--)
		for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
			run(&kinds[i], offered, even);
	return 0;
}
