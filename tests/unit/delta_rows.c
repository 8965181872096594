/* SPDX-License-Identifier: ISC */
/* Pulls of sparse rows that have changed: as of which version a puller says it has them,
 * and that whoever builds on that has what the server has. */
#include "core/rng.h"
#include "codec/row_versions.h"
#include "shard_fixture.h"

static struct rng rng;

/* ---- bytes ---- */

enum { MANY = 5000 };
static struct zip *zip;

static void some_versions(size_t n, unsigned kind, uint64_t *v)
{
	uint64_t top = kind % 3 == 0 ? 100 : kind % 3 == 1 ? UINT32_MAX : ROW_VERSION_NONE;

	for (size_t i = 0; i < n; i++)
		v[i] = i && rng_unit(&rng) < 0.7 ? v[i - 1]
		    : rng_unit(&rng) < 0.2       ? ROW_VERSION_NONE
		                                 : rng_below(&rng, top);
}

/* What is read of it is never newer, and at most twice as old, and one. */
static bool holds(const uint64_t *v, const uint64_t *w, size_t n)
{
	uint64_t top = 0;

	for (size_t i = 0; i < n; i++)
		if (v[i] != ROW_VERSION_NONE && v[i] > top)
			top = v[i];
	for (size_t i = 0; i < n; i++) {
		uint64_t age = top - v[i];

		if (v[i] == ROW_VERSION_NONE ? w[i] != ROW_VERSION_NONE
		                             : w[i] > v[i] ||
		            (age < top / 2 && w[i] < top - 2 * age) || (age == 0 && w[i] != top))
			return false;
	}
	return true;
}

static void there_and_back(void)
{
	static uint64_t v[MANY], w[MANY];
	uint8_t *p = malloc(row_versions_bound(MANY));
	unsigned bad = 0;
	size_t len = 0;

	for (unsigned round = 0; round < 300; round++) {
		size_t n = 1 + (size_t)rng_below(&rng, MANY - 1);

		some_versions(n, round, v);
		len = row_versions_put(round % 2 ? zip : NULL, v, n, p);
		bad += len > row_versions_bound(n) || !row_versions_get(zip, p, len, n, w) ||
		    !holds(v, w, n);
		bad += row_versions_get(zip, p, len, n + 1, w) ||
		    row_versions_get(zip, p, len, n - 1, w) ||
		    row_versions_get(zip, p, len - 1, n, w);
	}
	ok(bad == 0, "versions are as they were, or a little older");
	for (size_t i = 0; i < MANY; i++)
		v[i] = 77;
	len = row_versions_put(zip, v, MANY, p);
	ok(len < 64, "those of one pull take %zu bytes", len);
	free(p);
}

/* Broken ones are refused, or stay within their bounds (the sanitizers see). */
static void mutated(void)
{
	uint64_t v[600], w[600];
	unsigned good = 0;

	for (unsigned round = 0; round < 20000; round++) {
		size_t n = (size_t)rng_below(&rng, 600), len;
		uint8_t *p = malloc(row_versions_bound(n)), *q;

		some_versions(n, round, v);
		len = row_versions_put(zip, v, n, p);
		if (round % 4 == 0)
			len = (size_t)rng_below(&rng, len + 1);
		for (uint64_t flips = rng_below(&rng, 4); flips > 0 && len; flips--)
			p[rng_below(&rng, len)] ^= (uint8_t)(1u << rng_below(&rng, 8));
		q = malloc(len + 1);
		memcpy(q, p, len);
		good += row_versions_get(zip, q, len, n, w);
		free(q);
		free(p);
	}
	ok(good > 4000 && good < 18000, "%u of 20000 broken ones are well-formed", good);
}

/* ---- pulls ---- */

enum { IDS = 60 };

/* What one puller has of the rows 0 .. IDS-1, which lie in one partition. */
struct puller {
	float row[IDS][COLS];
	uint64_t since[IDS];
	unsigned came, spared;
};

static void puller_begin(struct puller *p)
{
	memset(p, 0, sizeof *p);
	for (unsigned i = 0; i < IDS; i++)
		p->since[i] = ROW_VERSION_NONE;
}

/* Some rows are asked for; true when all of them are then as those that are asked for
 * without a word of what is had. */
static bool pull_some(struct world *x, uint64_t step, struct puller *p)
{
	uint64_t ids[IDS], since[IDS], then;
	float all[IDS][COLS], out[IDS][COLS];
	uint32_t place[IDS], n = 0;
	struct row_read r = { step, (const uint8_t *)ids, 0, since, out[0], place, 0, NULL, 0 };

	for (unsigned i = 0; i < IDS; i++)
		if (rng_unit(&rng) < 0.5) {
			since[n] = p->since[i];
			ids[n++] = i;
		}
	r.n = n;
	if (shard_read_rows(x->shard, ROWS, 0, &r) ||
	    shard_pull_rows(x->shard, ROWS, 0, step, (const uint8_t *)ids, n, all[0], &then) ||
	    then != r.version)
		return false;
	for (uint32_t i = 0; i < r.changed; i++)
		memcpy(p->row[ids[place[i]]], out[place[i]], sizeof out[0]);
	for (uint32_t i = 0; i < n; i++) {
		p->since[ids[i]] = r.version;
		if (memcmp(p->row[ids[i]], all[i], sizeof all[0]) != 0)
			return false;
	}
	p->came += r.changed;
	p->spared += n - r.changed;
	return true;
}

/* One row in ten gets a gradient, every third of them one that changes nothing. */
static void push_some(struct world *x, uint64_t step, uint32_t vector)
{
	uint64_t ids[IDS];
	float g[IDS * COLS];
	uint32_t n = 0;
	struct receipt r;

	for (unsigned i = 0; i < IDS; i++)
		if (rng_unit(&rng) < 0.1) {
			for (unsigned c = 0; c < COLS; c++)
				g[n * COLS + c] = i % 3 ? 1 : 0;
			ids[n++] = i;
		}
	if (n)
		push_rows(x, 0, vector, step, 10, ids, g, n, &r);
	clock_of(x, vector, step, 10);
}

static void follows(const char *mode, bool deterministic, const char *rule, const char *policy)
{
	struct world x;
	struct puller p, late;
	unsigned bad = 0;

	if (row_policy_parse(policy, &fixture_policy, NULL))
		abort();
	/* Of so few rows some must go. */
	if (fixture_policy.memory)
		fixture_policy.memory = 16 * 20 * 40;
	world_open_with(&x, mode, deterministic, rule, 0.1f, 2, 0, true);
	fixture_policy = (struct row_policy){ 0 };
	puller_begin(&p);
	puller_begin(&late);
	for (uint64_t step = 0; step < 300; step++) {
		bad += !pull_some(&x, step, &p);
		push_some(&x, step, 0);
		push_some(&x, step, 1);
		/* As a worker that was replaced does: a step ago. */
		bad += deterministic && !pull_some(&x, step, &late);
	}
	ok(bad == 0, "%s%s, %s, policy %s: what has changed makes what there is", mode,
	    deterministic ? ", deterministic" : "", rule, policy);
	/* Rows that are not there for long have changed whenever they come. */
	ok(p.spared > (strcmp(policy, "none") == 0 ? 2 * p.came : 0),
	    "and %u rows of %u need not come", p.spared, p.spared + p.came);
	world_close(&x);
}

static void strangers(void)
{
	uint64_t ids[3] = { 1, 2, 3 };
	float out[3 * COLS];
	uint32_t place[3];
	struct row_read r = { 5, (const uint8_t *)ids, 3, (const uint64_t[]){ 1000, 1000, 1000 },
		out, place, 0, NULL, 0 };
	struct world x;

	world_open_with(&x, "asp", false, "sgd", 0.1f, 2, 0, true);
	for (uint64_t step = 0; step < 5; step++)
		push_some(&x, step, 0);
	ok(!shard_read_rows(x.shard, ROWS, 0, &r) && r.changed == 3,
	    "who has them as of later has them from elsewhere: all come");
	world_close(&x);
	world_open_with(&x, "asp", false, "sgd", 0.1f, 2, 0, false);
	r.step = 0;
	r.since = (const uint64_t[]){ 0, 0, 0 };
	ok(!shard_read_rows(x.shard, ROWS, 0, &r) && r.changed == 3,
	    "where changes are not noted all come");
	world_close(&x);
}

int main(void)
{
	rng_init(&rng, 12);
	zip = zip_new();
	there_and_back();
	mutated();
	follows("bsp", false, "sgd", "none");
	follows("bsp", true, "sgd", "none");
	follows("asp", false, "sgd", "none");
	follows("ssp:2", false, "ftrl", "none");
	follows("bsp", true, "sgd", "admit=3,expire=6");
	follows("asp", false, "adagrad", "admit=0.3,expire=8");
	follows("ssp:2", false, "ftrl", "memory=4K,changes");
	follows("asp", false, "sgd", "expire=12");
	follows("bsp", true, "sgd", "values=bf16");
	follows("asp", false, "adagrad", "values=f16");
	follows("ssp:2", false, "ftrl", "values=bf16,memory=4K,changes");
	strangers();
	zip_free(zip);
	return tap_done();
}
