/* SPDX-License-Identifier: ISC */
#ifndef SHARD_STORE_WAY_H
#define SHARD_STORE_WAY_H

#include <stdint.h>

/* How an update stores values that other processes read (socket/published.h).
 *
 * STORE_PLAIN changes the values in place. That is fastest while they are in this processor's cache,
 * or in one that it shares with the readers. If the readers' processors have caches of their own,
 * each store waits until they have given up their copy. STORE_PAST_CACHES writes to memory at once,
 * and the values must be read from there. Which is faster depends on the processors that the system
 * chose and on how often values are read, so both are timed, again and again: of each STORE_PERIOD
 * updates, STORE_TRIAL are made in one way, as many in the other, and the rest in the faster one.
 * Both leave the same bits. */
enum store_way { STORE_PLAIN, STORE_PAST_CACHES };
enum { STORE_TRIAL = 6, STORE_PERIOD = 256 };

/* All zero at first. The caller has it locked. */
struct store_timer {
	uint32_t updates;      /* of the present period */
	enum store_way faster; /* as the last trial has shown */
	int64_t least[2];      /* by way: shortest time of this trial in ns; 0: none */
};

/* The way of the next update. */
enum store_way store_way_next(const struct store_timer *t);
/* The update has taken so many nanoseconds. */
void store_way_took(struct store_timer *t, int64_t took);

#endif
