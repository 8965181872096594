/* SPDX-License-Identifier: ISC */
/* Values that are put into a shard from elsewhere: what pulls have of them, and what they are told
 * has changed. */
#include "shard_fixture.h"

static struct world x;

static uint64_t pull(const uint64_t *ids, uint32_t n, const uint64_t *since, float *out,
    uint32_t *place, uint32_t *k)
{
	struct row_read r = { .step = SYNC_NEVER,
		.ids = (const uint8_t *)ids,
		.n = n,
		.since = since,
		.out = out,
		.place = place };

	*k = shard_read_rows(x.shard, ROWS, 0, &r) == SHARD_OK ? r.changed : UINT32_MAX;
	return r.version;
}

static void dense(void)
{
	float w[N] = { 1, 2, 3, 4 }, out[N] = { 0 };
	uint32_t place[N];
	struct changed_values changed = { .most = N, .place = place, .out = out };
	uint64_t first, version;

	shard_pull(x.shard, W, 0, SYNC_NEVER, out, &first);
	ok(shard_assign(x.shard, W, 0, w) == SHARD_OK &&
	        shard_pull(x.shard, W, 0, SYNC_NEVER, out, &version) == SHARD_OK &&
	        memcmp(out, w, sizeof w) == 0 && version > first,
	    "a dense partition is as it was assigned, of another version");
	first = version;
	w[2] = 30;
	shard_assign(x.shard, W, 0, w);
	changed.since = first;
	ok(shard_pull_changed(x.shard, W, 0, SYNC_NEVER, &changed) == SHARD_OK && changed.n == 1 &&
	        place[0] == 2 && out[0] == 30,
	    "who had the one before is told of the value that is another");
	ok(shard_assign(x.shard, ROWS, 0, w) == SHARD_BAD &&
	        shard_assign(x.shard, W, 7, w) == SHARD_ELSEWHERE,
	    "rows are not assigned so, nor what is not here");
}

static void rows(void)
{
	const uint64_t ids[] = { 3, 900, 5000000000 }, two[] = { 3, 5000000000 };
	const float w[] = { 1, 2, 3, 4, 5, 6 }, other[] = { 1, 2, 50, 60 };
	uint64_t since[3], version;
	uint32_t place[3], k;
	float out[3 * COLS], first[COLS];

	pull(ids + 1, 1, NULL, first, NULL, &k);
	ok(shard_assign_rows(x.shard, ROWS, 0, (const uint8_t *)ids, 3, w) == SHARD_OK,
	    "rows are made");
	version = pull(ids, 3, NULL, out, NULL, &k);
	ok(memcmp(out, w, sizeof w) == 0, "and are as they were assigned");
	since[0] = since[1] = since[2] = version;
	pull(ids, 3, since, out, place, &k);
	ok(k == 0, "who has them is told that none has changed");
	shard_assign_rows(x.shard, ROWS, 0, (const uint8_t *)two, 2, other);
	since[0] = since[1] = since[2] = version;
	version = pull(ids, 3, since, out, place, &k);
	ok(k == 1 && place[0] == 2 && out[4] == 50 && out[5] == 60,
	    "of two, one with the same values: the other has");
	shard_retain_rows(x.shard, ROWS, 0, two, 2);
	since[0] = since[1] = since[2] = version;
	pull(ids, 3, since, out, place, &k);
	ok(k != UINT32_MAX && k >= 1 && memcmp(out + 2, first, sizeof first) == 0 && out[4] == 50,
	    "one that is not kept is as if it had never been, and who had it is told");
	shard_retain_rows(x.shard, ROWS, 0, NULL, 0);
	ok(shard_assign_rows(x.shard, W, 0, (const uint8_t *)ids, 1, w) == SHARD_BAD &&
	        shard_retain_rows(x.shard, W, 0, ids, 1) == SHARD_BAD,
	    "a dense table has none");
	version = 0;
	for (uint64_t id = 0; id < 300; id++) {
		const float value[COLS] = { (float)id, -(float)id };

		version += shard_assign_rows(x.shard, ROWS, 0, (const uint8_t *)&id, 1, value) ==
		    SHARD_OK;
	}
	for (uint64_t id = 0; id < 300; id++) {
		pull(&id, 1, NULL, out, NULL, &k);
		version += out[0] == (float)id && out[1] == -(float)id;
	}
	ok(version == 600, "all of many are found");
}

int main(void)
{
	fixture_policy = (struct row_policy){ 0 };
	world_open_with(&x, "asp", false, "sgd", 1, 0, 0, true);
	dense();
	rows();
	world_close(&x);
	fixture_policy = (struct row_policy){ .changes = true };
	world_open_with(&x, "asp", false, "sgd", 1, 0, 0, true);
	rows();
	world_close(&x);
	fixture_policy = (struct row_policy){ .expire = 1000 };
	world_open_with(&x, "asp", false, "momentum", 1, 0, 0, true);
	rows();
	world_close(&x);
	return tap_done();
}
