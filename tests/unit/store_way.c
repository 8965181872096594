/* SPDX-License-Identifier: ISC */
/* part_store_way of shard/part.h: the faster way of storing is found, and found again when it changes. */
#include "shard/part.h"
#include "tap.h"

/* One period of updates that take so long by each way; the first update of each way takes ten times
 * as long. Returns how many were made past the caches. */
static int past_caches(struct store_timer *t, int64_t plain, int64_t past)
{
	int before = -1, n = 0;

	for (int i = 0; i < STORE_PERIOD; i++) {
		enum store_way way = part_store_way(t);
		int64_t took = way == STORE_PLAIN ? plain : past;

		part_store_took(t, (int)way == before ? took : 10 * took);
		n += way == STORE_PAST_CACHES;
		before = (int)way;
	}
	return n;
}

int main(void)
{
	struct store_timer t = { 0 };

	ok(past_caches(&t, 1000, 900) == STORE_TRIAL, "not clearly faster: only the trial");
	ok(past_caches(&t, 1000, 300) == STORE_PERIOD - STORE_TRIAL, "past the caches is faster");
	ok(past_caches(&t, 300, 1000) == STORE_TRIAL, "and no longer in the next period");
	ok(past_caches(&t, 1, 0) == STORE_TRIAL, "no measurable time: plain");
	return tap_done();
}
