/* SPDX-License-Identifier: ISC */
/* Rows that come and go: what a policy's text says, how often a sketch says that an id was seen, who
 * gets a row and who loses it, and that what is saved goes on as it was. */
#include "core/rng.h"
#include "shard/row_sketch.h"
#include "shard_fixture.h"

static struct rng rng;

/* ---- the text ---- */

static void texts(void)
{
	static const char *const good[][2] = { { "none", "none" }, { "values=f32", "none" },
		{ "values=bf16", "values=bf16" }, { "changes,values=f16", "values=f16,changes" },
		{ "values=bf16,admit=0.5", "values=bf16,admit=0.5" }, { "admit=1", "none" },
		{ "admit=5", "admit=5" }, { "changes", "changes" }, { "admit=0.25", "admit=0.25" },
		{ "changes,memory=8K", "memory=8192,changes" },
		{ "expire=100,admit=2,decay=7,sketch=8K,memory=1M,changes",
		    "admit=2,decay=7,expire=100,memory=1048576,sketch=8192,changes" } };
	static const char *const bad[][2] = { { "", "must be none, or some of" },
		{ "admit", "admit: must have a value" },
		{ "admit=0", "admit: must be a number of times" }, { "admit=256", "1 to 255" },
		{ "admit=1.5", "admit:" }, { "admit=-0.5", "admit:" }, { "admit=nan", "admit:" },
		{ "admit=2,", "must be none, or some of" }, { "admit=2,,expire=1", "some of" },
		{ "admit=2,admit=3", "twice" }, { "expire=0", "expire: must be steps" },
		{ "expire=9999999999", "expire: must be steps" },
		{ "memory=10", "memory: must be bytes" }, { "decay=5", "requires admit=N" },
		{ "admit=0.5,decay=5", "requires admit=N" }, { "sketch=64K", "requires admit=N" },
		{ "widen=1@10", "must be none, or some of" },
		{ "admit=2,sketch=65G", "sketch: must be at most 64G" },
		{ "admit=2,sketch=1", "sketch: must be bytes, 4K at least" },
		{ "changes=1", "no value" },
		{ "values", "values: must have a value, as in values=bf16" },
		{ "ram", "ram: must have a value, as in ram=2G" },
		{ "ram=16M,disk", "disk: must have a value, as in disk=200G" },
		{ "rams=16M", "values=TYPE, ram=SIZE, disk=SIZE and changes" },
		{ "values=fp8", "values: must be f32, bf16 or f16, got" },
		{ "none,admit=2", "some of" },
		{ "admit=00000000000000000000000000000000000000000000000000000000000002",
		    "too long" } };
	struct row_policy p;

	for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
		char text[POLICY_TEXT] = "";
		bool fine = !row_policy_parse(good[i][0], &p, NULL);

		row_policy_text(&p, text);
		ok(fine && strcmp(text, good[i][1]) == 0, "\"%s\" is %s", good[i][0], text);
	}
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		struct err e = { 0 };

		ok(row_policy_parse(bad[i][0], &p, &e) == ERR_CONFIG && strstr(e.msg, bad[i][1]),
		    "\"%.40s\": %s", bad[i][0], e.msg);
	}
}

/* ---- the sketch ---- */

enum { IDS = 200000, OFTEN = 5 };

static void counts(uint64_t most, double errors)
{
	static uint8_t seen[IDS];
	struct row_sketch s = { 0 }, other = { 0 };
	size_t low = 0, high = 0, n;
	bool same = true;
	uint64_t *words;

	memset(seen, 0, sizeof seen);
	for (size_t i = 0; i < 2 * IDS; i++) {
		uint64_t id = rng_below(&rng, IDS);
		unsigned says = row_sketch_add(&s, id * 977, most);

		seen[id]++;
		low += says < seen[id];
		high += says >= OFTEN && seen[id] < OFTEN;
	}
	ok(low == 0 && (double)high < errors * 2 * IDS,
	    "%zu of %d are said to be seen %d times before they were, in %.1f bytes an id; none too late",
	    high, 2 * IDS, OFTEN, (double)row_sketch_bytes(&s) / IDS);
	n = row_sketch_words(&s);
	words = calloc(n + 1, sizeof *words);
	if (!words)
		abort();
	row_sketch_put(&s, words);
	ok(row_sketch_get(&other, words, n + 1) == n && row_sketch_words(&other) == n,
	    "it is saved as %zu words", n);
	for (size_t i = 0; i < 1000; i++)
		same &= row_sketch_add(&s, i * 977, most) == row_sketch_add(&other, i * 977, most);
	ok(same, "and goes on as it was");
	row_sketch_release(&other);
	words[0] = 3;
	ok(!row_sketch_get(&other, words, n) && !row_sketch_get(&other, words, 1),
	    "words that are none are refused");
	for (unsigned k = 0; k < 8; k++)
		row_sketch_halve(&s);
	ok(row_sketch_add(&s, 977, most) == 1, "halved often enough it has forgotten all");
	row_sketch_release(&s);
	free(words);
}

/* ---- rows ---- */

static void begin(struct world *x, const char *mode, const char *policy, uint64_t memory)
{
	struct err e = { 0 };

	if (row_policy_parse(policy, &fixture_policy, &e))
		abort();
	if (memory)
		fixture_policy.memory = memory;
	world_open(x, mode, false, "sgd", 1, 1);
	fixture_policy = (struct row_policy){ 0 };
}

static void values(struct world *x, uint64_t id, float out[COLS])
{
	uint64_t version;

	if (shard_pull_rows(x->shard, ROWS, part_of(x, id), SYNC_NEVER, (const uint8_t *)&id, 1,
	        out, &version))
		abort();
}

static bool is_there(struct world *x, uint64_t id)
{
	uint8_t ids[64 * 8];
	struct scan scan = { .begin = true, .ids = ids, .n = 64 };
	uint64_t found;
	bool there = false;

	if (shard_scan(x->shard, ROWS, part_of(x, id), &scan))
		abort();
	for (uint32_t i = 0; i < scan.n; i++) {
		memcpy(&found, ids + i * 8, sizeof found);
		there |= found == id;
	}
	return there;
}

static uint64_t counter(struct world *x, enum row_policy_counter which)
{
	struct table_stats st;

	if (!shard_table_stats(x->shard, ROWS, &st))
		abort();
	return st.count[which];
}

static void offer(struct world *x, uint64_t step, uint64_t id)
{
	struct receipt r;

	if (push_row(x, 0, step, 10, id, 1, &r) || r.status > PUSH_MERGED ||
	    clock_of(x, 0, step, 10))
		abort();
}

static void by_count(const char *mode)
{
	float first[COLS], now[COLS];
	bool kept = true;
	struct world x;

	begin(&x, mode, "admit=3", 0);
	values(&x, 7, first);
	for (uint64_t step = 0; step < 2; step++) {
		offer(&x, step, 7);
		values(&x, 7, now);
		kept &= memcmp(first, now, sizeof now) == 0 && !is_there(&x, 7);
	}
	ok(kept, "%s: before it is admitted an id has its initial value, and no row", mode);
	offer(&x, 2, 7);
	values(&x, 7, now);
	ok(is_there(&x, 7) && now[0] == first[0] - 1 && now[1] == first[1] - 2,
	    "%s: the gradient that has it admitted counts, once", mode);
	offer(&x, 3, 7);
	values(&x, 7, now);
	ok(now[0] == first[0] - 1 - 1, "%s: and so do those that follow", mode);
	ok(counter(&x, ROW_POLICY_offered) == 4 && counter(&x, ROW_POLICY_refused) == 2 &&
	        counter(&x, ROW_POLICY_admitted) == 1,
	    "%s: all of that is counted", mode);
	world_close(&x);
}

static void by_chance(void)
{
	struct world x, y;
	uint64_t there = 0, same = 0;

	begin(&x, "asp", "admit=0.25", 0);
	begin(&y, "asp", "admit=0.25", 0);
	for (uint64_t i = 0; i < 800; i++) {
		offer(&x, i, i);
		offer(&y, i, i);
		there += is_there(&x, i);
		same += is_there(&x, i) == is_there(&y, i);
	}
	ok(there > 150 && there < 250 && there == counter(&x, ROW_POLICY_admitted),
	    "by chance %d of 800 have a row", (int)there);
	ok(same == 800, "and the same ones each time");
	world_close(&x);
	world_close(&y);
}

/* Another id of the same partition, so that there is an update. */
static uint64_t neighbour(const struct world *x, uint64_t id)
{
	uint64_t other = id + 1;

	while (part_of(x, other) != part_of(x, id))
		other++;
	return other;
}

static void by_age(const char *mode)
{
	float first[COLS], now[COLS];
	struct world x;
	uint64_t other, gone = 0;

	begin(&x, mode, "expire=16", 0);
	other = neighbour(&x, 7);
	values(&x, 7, first);
	offer(&x, 0, 7);
	for (uint64_t step = 1; step < 40 && !gone; step++) {
		offer(&x, step, other);
		gone = is_there(&x, 7) ? 0 : step;
	}
	values(&x, 7, now);
	ok(gone >= 16 && gone <= 18, "%s: a row that is not updated for 16 steps goes at step %d",
	    mode, (int)gone);
	ok(memcmp(first, now, sizeof now) == 0 && is_there(&x, other),
	    "%s: it has its initial value again, and the other stays", mode);
	offer(&x, gone + 1, 7);
	values(&x, 7, now);
	ok(now[0] == first[0] - 1 && counter(&x, ROW_POLICY_expired) == 1 &&
	        counter(&x, ROW_POLICY_admitted) == 3,
	    "%s: it may come again", mode);
	world_close(&x);
}

/* Of one partition: room for so many rows. */
static void by_room(void)
{
	enum { MOST = 4, BYTES = MOST * 16 * ((COLS + 1) * 4 + 16) };
	uint64_t id[MOST + 2] = { 7 };
	struct world x;
	bool good = true;

	begin(&x, "asp", "none", BYTES);
	for (unsigned i = 1; i < MOST + 2; i++)
		id[i] = neighbour(&x, id[i - 1]);
	for (unsigned i = 0; i < MOST; i++)
		offer(&x, i, id[i]);
	for (unsigned i = 0; i < MOST; i++)
		good &= is_there(&x, id[i]);
	ok(good && counter(&x, ROW_POLICY_evicted) == 0, "where there is room all stay");
	/* The first is used once more. */
	offer(&x, MOST, id[0]);
	offer(&x, MOST + 1, id[MOST]);
	ok(is_there(&x, id[0]) && !is_there(&x, id[1]) && is_there(&x, id[2]) &&
	        is_there(&x, id[MOST]),
	    "else that goes which was used least lately");
	offer(&x, MOST + 2, id[MOST + 1]);
	ok(!is_there(&x, id[2]) && counter(&x, ROW_POLICY_evicted) == 2, "and the next");
	world_close(&x);
}

static void forgotten(void)
{
	struct world x;
	uint64_t other;

	begin(&x, "asp", "admit=3,decay=10", 0);
	other = neighbour(&x, 7);
	offer(&x, 1, 7);
	offer(&x, 2, 7);
	/* Twice halved: nothing is left of two. */
	offer(&x, 25, other);
	offer(&x, 26, 7);
	offer(&x, 27, 7);
	ok(!is_there(&x, 7), "what was counted long ago counts no more");
	offer(&x, 28, 7);
	ok(is_there(&x, 7), "and is counted anew");
	world_close(&x);
}

int main(void)
{
	rng_init(&rng, 3);
	texts();
	counts(UINT64_C(1) << 20, 0.01);
	counts(4096, 1);
	by_count("asp");
	by_count("bsp");
	by_chance();
	by_age("asp");
	by_age("bsp");
	by_room();
	forgotten();
	return tap_done();
}
