/* SPDX-License-Identifier: ISC */
/* Speed and size of sparse tables in one process, one thread: rows by id alone
 * (shard/rows.h), then pushes and pulls of a whole table's partitions as a server takes
 * them from records. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/mem.h"
#include "core/num.h"
#include "core/rng.h"
#include "shard/rows.h"
#include "shard/shard.h"

enum { MANY = 1000000, MOST = 10000000, ROUNDS = 7, BATCHES = 64 };

static int by_id(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static int by_value(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

static uint64_t *random_ids(size_t n, uint64_t seed)
{
	uint64_t *ids = mem_array(n, sizeof *ids);
	struct rng rng;

	rng_init(&rng, seed);
	for (size_t i = 0; i < n; i++)
		ids[i] = rng_next(&rng);
	return ids;
}

static void say(const char *what, uint64_t rows, int64_t *took, int n)
{
	qsort(took, (size_t)n, sizeof *took, by_value);
	printf("%-44s %7.1f M rows/s (best %.1f)\n", what, (double)rows * 1e3 / (double)took[n / 2],
	    (double)rows * 1e3 / (double)took[0]);
	fflush(stdout);
}

/* ---- rows by id ---- */

/* This process's memory in bytes, now or at most. */
static double memory(const char *field)
{
	FILE *f = fopen("/proc/self/status", "r");
	char line[256];
	double kib = 0;

	while (f && fgets(line, sizeof line, f))
		if (strncmp(line, field, strlen(field)) == 0)
			kib = strtod(line + strlen(field), NULL);
	if (f)
		fclose(f);
	return kib * 1024;
}

static void one_by_one(const struct rows *r, const uint64_t *ids, size_t n, const char *what)
{
	int64_t took[ROUNDS];
	double sum = 0;

	for (int k = 0; k < ROUNDS; k++) {
		took[k] = -clock_now();
		for (size_t i = 0; i < n; i++) {
			const float *row = rows_get(r, ids[i]);

			sum += row ? (double)row[0] : 1;
		}
		took[k] += clock_now();
	}
	if (sum < 0)
		puts("never");
	say(what, n, took, ROUNDS);
}

static void by_blocks(const struct rows *r, const uint64_t *ids, size_t n, const char *what)
{
	int64_t took[ROUNDS];
	double sum = 0;

	for (int k = 0; k < ROUNDS; k++) {
		took[k] = -clock_now();
		for (size_t at = 0; at < n; at += ROWS_BLOCK) {
			uint32_t m = n - at < ROWS_BLOCK ? (uint32_t)(n - at) : ROWS_BLOCK;
			void *row[ROWS_BLOCK];

			rows_find(r, (const uint8_t *)(ids + at), m, row);
			for (uint32_t i = 0; i < m; i++)
				sum += row[i] ? (double)*(const float *)row[i] : 1;
		}
		took[k] += clock_now();
	}
	if (sum < 0)
		puts("never");
	say(what, n, took, ROUNDS);
}

static void fill(struct rows *r, const uint64_t *ids, size_t n)
{
	for (size_t at = 0; at < n; at += ROWS_BLOCK) {
		uint32_t m = n - at < ROWS_BLOCK ? (uint32_t)(n - at) : ROWS_BLOCK;
		void *row[ROWS_BLOCK];
		uint64_t made;

		if (!rows_make(r, (const uint8_t *)(ids + at), m, row, &made))
			abort();
	}
}

static void shuffle(uint64_t *ids, size_t n)
{
	struct rng rng;

	rng_init(&rng, 5);
	for (size_t i = n; i > 1; i--) {
		size_t j = rng_below(&rng, i);
		uint64_t id = ids[j];

		ids[j] = ids[i - 1];
		ids[i - 1] = id;
	}
}

static void look_ups(size_t n)
{
	uint64_t *ids = random_ids(n, 1), *others = random_ids(n, 2);
	struct rows *r;
	int64_t took[3];

	printf("\n%zu rows of width 1\n", n);
	for (int k = 0; k < 3; k++) {
		r = rows_new(sizeof(float));
		took[k] = -clock_now();
		fill(r, ids, n);
		took[k] += clock_now();
		if (k < 2)
			rows_free(r);
	}
	say("made, by blocks", n, took, 3);
	shuffle(ids, n);
	one_by_one(r, ids, n, "found one by one");
	by_blocks(r, ids, n, "found by blocks");
	one_by_one(r, others, n, "not there, one by one");
	by_blocks(r, others, n, "not there, by blocks");
	rows_free(r);
	free(ids);
	free(others);
}

/* The worst there is of it while the table grows: by its own count, and by the system's. */
static void size_of(uint32_t stride)
{
	uint64_t *ids = random_ids(MOST, 3), each = 8 + stride * 4;
	struct rows *r = rows_new(stride * (uint32_t)sizeof(float));
	double before = memory("VmRSS:"), worst = 0, rss = 0;

	for (size_t at = 0; at < MOST; at += ROWS_BLOCK * 25) {
		fill(r, ids + at, ROWS_BLOCK * 25);
		double bytes = (double)rows_bytes(r) / (double)rows_count(r);

		if (rows_count(r) >= 100000 && bytes > worst)
			worst = bytes;
		/* Reading it takes as long as many rows. */
		if (at % (ROWS_BLOCK * 25 * 50) == 0 && rows_count(r) >= MOST / 10) {
			double seen = (memory("VmRSS:") - before) / (double)rows_count(r);

			rss = seen > rss ? seen : rss;
		}
	}
	printf(
	    "%d rows of width %u: %.2f bytes each at the end, %.2f at the worst (%.3f of id and values), %.2f by the system\n",
	    MOST, stride, (double)rows_bytes(r) / (double)rows_count(r), worst,
	    worst / (double)each, rss);
	rows_free(r);
	free(ids);
}

/* In a process of its own, so that nothing is left there of others. */
static void in_child(void (*fn)(uint32_t), uint32_t arg)
{
	pid_t pid = fork();

	if (pid == 0) {
		fn(arg);
		fflush(stdout);
		_exit(0);
	}
	if (pid < 0 || waitpid(pid, NULL, 0) != pid)
		abort();
}

/* ---- a table ---- */

struct store {
	struct layout layout;
	struct shard *shard;
	const struct table *table;
	uint64_t *ids; /* those of partition p: first[p] .. first[p + 1] - 1 */
	size_t *first;
	float *g, *out;
	uint64_t step;
};

static void no_wake(void *ctx)
{
	(void)ctx;
}

static void store_open(struct store *x, const char *rule, uint32_t width, size_t n)
{
	struct shard_config cfg = { .rule = optim_find(rule), .wake = no_wake };
	struct table shape = { .name = "t", .sparse = true, .rows = n, .cols = width }, *t;
	uint64_t *ids = random_ids(n, 4);
	size_t *next;

	*x = (struct store){ .step = 1 };
	if (sync_parse("asp", &cfg.mode, NULL) || schedule_parse("constant", &cfg.schedule, NULL))
		abort();
	cfg.rule->defaults(&cfg.hyper);
	layout_add(&x->layout, &shape, &t, NULL);
	layout_place(&x->layout, (const uint16_t[]){ 0 }, 1, 1);
	if (shard_new(&cfg, &x->shard, NULL) || shard_install(x->shard, &x->layout, NULL, NULL))
		abort();
	x->table = t;
	qsort(ids, n, sizeof *ids, by_id);
	x->first = mem_array(t->nparts + 1, sizeof *x->first);
	next = mem_array(t->nparts + 1, sizeof *next);
	x->ids = mem_array(n, sizeof *x->ids);
	for (size_t i = 0; i < n; i++)
		x->first[table_part_of(t, ids[i]) + 1]++;
	for (uint32_t p = 0; p < t->nparts; p++)
		next[p] = x->first[p + 1] += x->first[p];
	for (size_t i = n; i-- > 0;)
		x->ids[--next[table_part_of(t, ids[i])]] = ids[i];
	x->g = mem_array(n * width, sizeof *x->g);
	x->out = mem_array(n * width, sizeof *x->out);
	for (size_t i = 0; i < n * width; i++)
		x->g[i] = (float)(i % 97) * 1e-4f + 1e-3f;
	free(ids);
	free(next);
}

static void store_close(struct store *x)
{
	shard_free(x->shard);
	layout_release(&x->layout);
	free(x->ids);
	free(x->first);
	free(x->g);
	free(x->out);
}

static void push_some(struct store *x, uint32_t part, const uint64_t *ids, const float *g, size_t n)
{
	struct push push = { .rank = SHARD_OUTSIDE,
		.step = x->step,
		.part = part,
		.examples = 1,
		.payload = (const uint8_t *)g,
		.len = n * x->table->cols * 4,
		.nrows = (uint32_t)n,
		.ids = (const uint8_t *)ids };
	struct receipt r;

	if (shard_push(x->shard, &push, &r) || r.status != PUSH_APPLIED)
		abort();
}

static int64_t push_all(struct store *x)
{
	int64_t begin = clock_now();

	for (uint32_t p = 0; p < x->table->nparts; p++)
		push_some(x, p, x->ids + x->first[p], x->g + x->first[p] * x->table->cols,
		    x->first[p + 1] - x->first[p]);
	x->step++;
	return clock_now() - begin;
}

/* The first push of all, in many batches of rows from everywhere: so they lie in no order
 * that helps later ones. */
static int64_t make_all(struct store *x)
{
	uint64_t *ids = mem_array(MANY, sizeof *ids);
	int64_t took = 0;

	for (size_t k = 0; k < BATCHES; k++)
		for (uint32_t p = 0; p < x->table->nparts; p++) {
			size_t n = 0;

			for (size_t i = x->first[p] + (k * 37) % BATCHES; i < x->first[p + 1];
			     i += BATCHES)
				ids[n++] = x->ids[i];
			took -= clock_now();
			push_some(x, p, ids, x->g, n);
			took += clock_now();
		}
	free(ids);
	return took;
}

static int64_t pull_all(struct store *x)
{
	int64_t begin = clock_now();
	uint64_t version;

	for (uint32_t p = 0; p < x->table->nparts; p++) {
		size_t at = x->first[p], n = x->first[p + 1] - at;

		if (shard_pull_rows(x->shard, 0, p, SYNC_NEVER, (const uint8_t *)(x->ids + at),
		        (uint32_t)n, x->out + at * x->table->cols, &version))
			abort();
	}
	return clock_now() - begin;
}

static void table_of(const char *rule, uint32_t width, size_t n)
{
	int64_t took[ROUNDS], first;
	struct store x;
	char what[64];

	store_open(&x, rule, width, n);
	first = pull_all(&x);
	snprintf(what, sizeof what, "%s, width %u: pulls of none", rule, width);
	say(what, n, &first, 1);
	first = make_all(&x);
	snprintf(what, sizeof what, "%s, width %u: pushes that make", rule, width);
	say(what, n, &first, 1);
	for (int k = 0; k < ROUNDS; k++)
		took[k] = push_all(&x);
	snprintf(what, sizeof what, "%s, width %u: pushes", rule, width);
	say(what, n, took, ROUNDS);
	for (int k = 0; k < ROUNDS; k++)
		took[k] = pull_all(&x);
	snprintf(what, sizeof what, "%s, width %u: pulls", rule, width);
	say(what, n, took, ROUNDS);
	store_close(&x);
}

int main(void)
{
	in_child(size_of, 8);
	in_child(size_of, 1);
	look_ups(MANY / 16);
	look_ups(MANY);
	printf("\n%d rows of a table in its partitions\n", MANY);
	table_of("sgd", 1, MANY);
	table_of("adagrad", 1, MANY);
	table_of("adam", 1, MANY);
	table_of("sgd", 16, MANY);
	table_of("adagrad", 16, MANY);
	table_of("adam", 16, MANY);
	return 0;
}
