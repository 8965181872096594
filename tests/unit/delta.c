/* SPDX-License-Identifier: ISC */
/* Pulls of what has changed: the places and values on the wire, when a value was
 * changed last, and that whoever builds on them has what the server has. */
#include <math.h>

#include "core/rng.h"
#include "codec/delta.h"
#include "shard/change_log.h"
#include "shard_fixture.h"

static struct rng rng;

/* ---- bytes ---- */

static size_t some_places(size_t n, double density, uint32_t *place)
{
	size_t k = 0;

	for (size_t i = 0; i < n; i++)
		if (rng_unit(&rng) < density)
			place[k++] = (uint32_t)i;
	return k;
}

/* n rows in an order of their own. */
static void shuffle(size_t n, uint32_t *pos)
{
	for (size_t i = 0; i < n; i++) {
		size_t j = (size_t)rng_below(&rng, i + 1);

		pos[i] = pos[j];
		pos[j] = (uint32_t)i;
	}
}

static unsigned round_trip(size_t n, size_t width, double density, bool moved)
{
	static uint32_t place[PART_ELEMENTS], pos[PART_ELEMENTS];
	static float x[PART_ELEMENTS], y[PART_ELEMENTS];
	const struct codec *raw = codec_by_name("raw");
	size_t k = some_places(n, density, place), len, bound = delta_bound(raw, k, n, width);
	uint8_t *p = malloc(bound);
	unsigned bad = 0;

	for (size_t i = 0; i < k * width; i++)
		x[i] = (float)i + 0.5f;
	memset(y, 0, sizeof y);
	shuffle(n, pos);
	len = delta_encode(raw, place, x, k, width, p);
	bad += len > bound || delta_check(raw, p, len, n, width) != CODEC_GOOD;
	bad += k && delta_check(raw, p, len, place[k - 1], width) == CODEC_GOOD;
	delta_apply(raw, p, len, n, width, moved ? pos : NULL, y);
	for (size_t j = 0; j < k; j++) {
		float *at = y + (moved ? pos[place[j]] : place[j]) * width;

		bad += memcmp(at, x + j * width, width * sizeof *x) != 0;
		memset(at, 0, width * sizeof *at);
	}
	for (size_t i = 0; i < n * width; i++)
		bad += y[i] != 0;
	free(p);
	return bad;
}

static void there_and_back(void)
{
	static const double density[] = { 0, 0.00003, 0.01, 0.3, 1 };
	unsigned bad = 0;

	for (size_t i = 0; i < 5; i++)
		for (size_t width = 1; width < 20; width = width * 3 + 1)
			for (size_t n = 1; n * width <= PART_ELEMENTS; n = n * 4 + (n < 1000))
				bad += round_trip(n, width, density[i], n % 2);
	ok(bad == 0, "rows come to their places, and nothing to others");
}

/* Broken ones are refused, or stay within their bounds (the sanitizers see). */
static void mutated(void)
{
	uint32_t place[600], pos[600];
	float x[1800], y[1800];
	unsigned good = 0;

	for (unsigned round = 0; round < 20000; round++) {
		const struct codec *c = codec_by_id((uint16_t)(round % 4));
		size_t width = 1 + round / 4 % 3, n = 1 + (size_t)rng_below(&rng, 600),
		       k = some_places(n, 0.2, place), len;
		uint8_t *p = malloc(delta_bound(c, k, n, width)), *q;

		for (size_t j = 0; j < k * width; j++)
			x[j] = 1;
		shuffle(n, pos);
		len = delta_encode(c, place, x, k, width, p);
		if (round % 8 < 4)
			len = (size_t)rng_below(&rng, len + 1);
		for (uint64_t flips = rng_below(&rng, 5); flips > 0 && len; flips--)
			p[rng_below(&rng, len)] ^= (uint8_t)(1u << rng_below(&rng, 8));
		q = malloc(len + 1);
		memcpy(q, p, len);
		if (delta_check(c, q, len, n, width) == CODEC_GOOD) {
			delta_apply(c, q, len, n, width, pos, y);
			good++;
		}
		free(q);
		free(p);
	}
	ok(good > 1000 && good < 15000, "%u of 20000 broken ones are well-formed", good);
}

/* ---- when ---- */

static void many_versions(void)
{
	enum { VALUES = 50, VERSIONS = 200000, KNOWN = 30000 };
	struct change_log *s = change_log_new(VALUES, 7);
	uint64_t changed[VALUES] = { 0 };
	unsigned bad = 0, whole = 0, few = 0;
	uint32_t place[VALUES];

	for (uint64_t v = 8; v < VERSIONS; v++) {
		size_t at = (size_t)rng_below(&rng, VALUES - 3);
		float old[3] = { 1, 2, 3 }, now[3] = { 1, 2.5f, 3 };

		change_log_note(s, v, at, 3, old, now);
		changed[at + 1] = v;
		if (v % 97)
			continue;
		for (uint64_t since = v; since + 100 > v && since >= 7; since -= 9) {
			size_t k = change_log_since(s, since, VALUES, place), want = 0;

			for (size_t i = 0; i < VALUES; i++) {
				bad += changed[i] > since && (want >= k || place[want] != i);
				want += changed[i] > since;
			}
			bad += want != k;
			few += k > 2 && change_log_since(s, since, 2, place) != SIZE_MAX;
		}
		whole += v > KNOWN && change_log_since(s, v - KNOWN, VALUES, place) == SIZE_MAX;
	}
	ok(bad == 0 && few == 0, "what has changed since is told, no more and no less");
	ok(whole == 0 && change_log_since(s, 7, VALUES, place) == SIZE_MAX,
	    "for %u versions at least, not for ever", KNOWN);
	change_log_reset(s, 500000);
	ok(change_log_since(s, 499999, VALUES, place) == SIZE_MAX &&
	        change_log_since(s, 500000, VALUES, place) == 0,
	    "another state begins anew");
	change_log_free(s);
}

/* ---- pulls ---- */

/* A few values of table big are pushed to; true when a puller who takes what has
 * changed has the same as one who takes all. */
static bool follows(struct world *x, uint64_t step, uint32_t vectors, uint64_t *version, float *had)
{
	static float g[PART_ELEMENTS], all[PART_ELEMENTS], w[PART_ELEMENTS / 2];
	static uint32_t place[PART_ELEMENTS / 2];
	struct changed_values changed = { .most = PART_ELEMENTS / 2, .place = place, .out = w };
	struct receipt r;
	uint64_t then;

	for (uint32_t vector = 0; vector < vectors; vector++) {
		memset(g, 0, sizeof g);
		for (int i = 0; i < 20; i++)
			g[rng_below(&rng, PART_ELEMENTS)] = 1;
		push_dense(x, BIG, 0, vector, step, 10, g, PART_ELEMENTS, &r);
		clock_of(x, vector, step, 10);
	}
	changed.since = *version;
	if (shard_pull_changed(x->shard, BIG, 0, step + 1, &changed) || changed.n == SIZE_MAX ||
	    shard_pull(x->shard, BIG, 0, step + 1, all, &then) || changed.version != then)
		return false;
	for (size_t i = 0; i < changed.n; i++)
		had[place[i]] = w[i];
	*version = changed.version;
	return changed.n <= 20 * vectors && memcmp(had, all, sizeof all) == 0;
}

/* Pulls the values that have changed since a version, at most 4. */
static enum shard_answer pull_changed(struct world *x, uint64_t step, uint64_t since, size_t *n,
    uint64_t *version)
{
	uint32_t place[4];
	float w[4];
	struct changed_values changed = { .since = since, .most = 4, .place = place, .out = w };
	enum shard_answer a = shard_pull_changed(x->shard, BIG, 0, step, &changed);

	*n = changed.n;
	*version = changed.version;
	return a;
}

static void pulls(const char *mode, bool deterministic)
{
	static float had[PART_ELEMENTS];
	struct world x;
	uint64_t version, now;
	unsigned bad = 0;
	size_t k;

	world_open_with(&x, mode, deterministic, "sgd", 0.1f, 2, 0, true);
	shard_pull(x.shard, BIG, 0, 0, had, &version);
	for (uint64_t step = 0; step < 50; step++)
		bad += !follows(&x, step, 2, &version, had);
	ok(bad == 0, "%s%s: what has changed makes what there is", mode,
	    deterministic ? ", deterministic" : "");
	ok(!pull_changed(&x, 50, version, &k, &now) && k == 0, "no more when nothing has");
	ok(!pull_changed(&x, 50, 0, &k, &now) && k == SIZE_MAX, "and all when it is much");
	/* As a worker that was replaced does. */
	if (deterministic)
		ok(!pull_changed(&x, 49, version - 1, &k, &now) && now == version - 1,
		    "a step ago it was the version before");
	if (deterministic)
		ok(!pull_changed(&x, 49, version, &k, &now) && now == version - 1 && k == SIZE_MAX,
		    "all of it comes to who has the version after it");
	world_close(&x);
}

int main(void)
{
	rng_init(&rng, 11);
	there_and_back();
	mutated();
	many_versions();
	pulls("bsp", false);
	pulls("bsp", true);
	pulls("asp", false);
	return tap_done();
}
