/* SPDX-License-Identifier: ISC */
#ifndef SHARD_FIXTURE_H
#define SHARD_FIXTURE_H

/* One server's shard with a dense table "w" (4 floats, table 0), a dense table
 * of two partitions (table 1) and a sparse table "rows" (2 floats a row, table
 * 2), an update rule (sgd: w -= lr * g), and workers who push constants. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core/endian.h"
#include "members.h"
#include "tap.h"

enum { W = 0, BIG = 1, ROWS = 2, N = 4, COLS = 2, BIG_N = PART_ELEMENTS + 8 };

struct world {
	struct shard *shard;
	struct layout layout;
	_Atomic unsigned wakes;
};

static inline uint64_t inc_of(uint32_t rank)
{
	return 100 + rank;
}

static inline void count_wake(void *ctx)
{
	atomic_fetch_add(&((struct world *)ctx)->wakes, 1);
}

/* The row policy of the tables that are made next. */
static struct row_policy fixture_policy;
/* The l2 of the shards that are made next. */
static float fixture_l2;
/* The memory in which the shards that are made next keep their values; NULL: memory of their own. */
static struct published *fixture_published;

static inline void add_table(struct world *x, const char *name, bool sparse, uint64_t rows,
    uint32_t cols)
{
	struct table shape = { .sparse = sparse,
		.rows = rows,
		.cols = cols,
		.seed = 7,
		.decay = true };
	struct table *t;

	snprintf(shape.name, sizeof shape.name, "%s", name);
	if (sparse) {
		shape.init = TABLE_UNIFORM;
		shape.init_limit = 0.5f;
		shape.policy = fixture_policy;
	}
	layout_add(&x->layout, &shape, &t, NULL);
}

/* mode: as for mode_of (members.h). backup: ranks that a step does not wait for. deltas:
 * shard_pull_changed is wanted. */
static inline void world_open_with(struct world *x, const char *mode, bool deterministic,
    const char *rule, float lr, uint32_t ranks, unsigned backup, bool deltas)
{
	struct shard_config cfg = { .deterministic = deterministic,
		.deltas = deltas,
		.row_versions = deltas,
		.rule = optim_find(rule),
		.published = fixture_published,
		.wake = count_wake,
		.ctx = x };

	memset(x, 0, sizeof *x);
	cfg.rule->defaults(&cfg.hyper);
	cfg.hyper.lr = lr;
	cfg.hyper.l2 = fixture_l2;
	mode_of(mode, &cfg);
	cfg.mode.backup = backup;
	schedule_parse("constant", &cfg.schedule, NULL);
	add_table(x, "w", false, N, 1);
	add_table(x, "big", false, BIG_N, 1);
	add_table(x, "rows", true, 100, COLS);
	layout_place(&x->layout, (const uint16_t[]){ 0 }, 1, 1);
	if (shard_new(&cfg, &x->shard, NULL) || shard_install(x->shard, &x->layout, NULL, NULL))
		abort();
	for (uint32_t i = 0; i < ranks; i++)
		admit(x->shard, i, inc_of(i), 0);
}

static inline void world_open(struct world *x, const char *mode, bool deterministic,
    const char *rule, float lr, uint32_t ranks)
{
	world_open_with(x, mode, deterministic, rule, lr, ranks, 0, false);
}

static inline void world_close(struct world *x)
{
	shard_free(x->shard);
	layout_release(&x->layout);
}

/* A push of n values g to a partition of a dense table. */
static inline enum shard_answer push_dense(struct world *x, uint16_t table, uint32_t part,
    uint32_t rank, uint64_t step, uint32_t examples, const float *g, size_t n, struct receipt *r)
{
	struct push p = { .rank = rank,
		.incarnation = inc_of(rank),
		.step = step,
		.table = table,
		.part = part,
		.examples = examples,
		.payload = (const uint8_t *)g,
		.len = n * sizeof *g };

	return shard_push(x->shard, &p, r);
}

/* The same number in all places of table w. */
static inline enum shard_answer push_w(struct world *x, uint32_t rank, uint64_t step,
    uint32_t examples, float value, struct receipt *r)
{
	float g[N];

	for (int i = 0; i < N; i++)
		g[i] = value;
	return push_dense(x, W, 0, rank, step, examples, g, N, r);
}

static inline uint32_t part_of(const struct world *x, uint64_t id)
{
	return table_part_of(&x->layout.table[ROWS], id);
}

/* A push of n rows of COLS values to a partition of table rows. */
static inline enum shard_answer push_rows(struct world *x, uint32_t part, uint32_t rank,
    uint64_t step, uint32_t examples, const uint64_t *ids, const float *g, uint32_t n,
    struct receipt *r)
{
	struct push p = { .rank = rank,
		.incarnation = inc_of(rank),
		.step = step,
		.table = ROWS,
		.part = part,
		.examples = examples,
		.payload = (const uint8_t *)g,
		.len = n * COLS * sizeof *g,
		.nrows = n,
		.ids = (const uint8_t *)ids };

	return shard_push(x->shard, &p, r);
}

/* Pushes one row, which `touching` of the examples touch. */
static inline enum shard_answer push_counted(struct world *x, uint32_t rank, uint64_t step,
    uint32_t examples, uint64_t id, float value, uint32_t touching, struct receipt *r)
{
	float g[COLS] = { value, 2 * value };
	uint8_t count[4];
	struct push p = { .rank = rank,
		.incarnation = inc_of(rank),
		.step = step,
		.table = ROWS,
		.part = part_of(x, id),
		.examples = examples,
		.payload = (const uint8_t *)g,
		.len = sizeof g,
		.nrows = 1,
		.ids = (const uint8_t *)&id,
		.touching = count };

	put_le32(count, touching);
	return shard_push(x->shard, &p, r);
}

static inline enum shard_answer push_row(struct world *x, uint32_t rank, uint64_t step,
    uint32_t examples, uint64_t id, float value, struct receipt *r)
{
	float g[COLS] = { value, 2 * value };

	return push_rows(x, part_of(x, id), rank, step, examples, &id, g, 1, r);
}

static inline enum shard_answer clock_of(struct world *x, uint32_t rank, uint64_t step,
    uint32_t examples)
{
	return shard_clock(x->shard, rank, inc_of(rank), step, examples);
}

static inline float pull_w(struct world *x, uint64_t step)
{
	float w[N];
	uint64_t version;

	if (shard_pull(x->shard, W, 0, step, w, &version) || w[0] != w[N - 1])
		abort();
	return w[0];
}

static inline float pull_row(struct world *x, uint64_t step, uint64_t id)
{
	float row[COLS];
	uint64_t version;

	if (shard_pull_rows(x->shard, ROWS, part_of(x, id), step, (const uint8_t *)&id, 1, row,
	        &version))
		abort();
	return row[0];
}

/* Push and CLOCK of one rank. */
static inline bool step_of(struct world *x, uint32_t rank, uint64_t step, uint32_t examples,
    float value)
{
	struct receipt r;

	return push_w(x, rank, step, examples, value, &r) == SHARD_OK && r.status == PUSH_MERGED &&
	    clock_of(x, rank, step, examples) == SHARD_OK;
}

#endif
