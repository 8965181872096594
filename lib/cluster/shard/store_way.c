/* SPDX-License-Identifier: ISC */
#include "shard/store_way.h"

#include <stdbool.h>

/* The first updates of a trial find the values where the other way has left them. */
#define UNTIMED (STORE_TRIAL / 2)

enum store_way store_way_next(const struct store_timer *t)
{
	if (t->updates < STORE_TRIAL)
		return STORE_PLAIN;
	return t->updates < 2 * STORE_TRIAL ? STORE_PAST_CACHES : t->faster;
}

/* Readers read from memory what was stored past the caches, which is not in these times. So this
 * way must be clearly faster: it takes three quarters of the time or less. */
static enum store_way compare_ways(const struct store_timer *t)
{
	return t->least[STORE_PAST_CACHES] < t->least[STORE_PLAIN] / 4 * 3 ? STORE_PAST_CACHES
	                                                                   : STORE_PLAIN;
}

void store_way_took(struct store_timer *t, int64_t took)
{
	int64_t *least = &t->least[store_way_next(t)];
	bool timed = t->updates < 2 * STORE_TRIAL && t->updates % STORE_TRIAL >= UNTIMED;

	if (timed && (*least == 0 || took < *least))
		*least = took;
	t->updates++;
	if (t->updates == 2 * STORE_TRIAL)
		t->faster = compare_ways(t);
	if (t->updates == STORE_PERIOD)
		*t = (struct store_timer){ .faster = t->faster };
}
