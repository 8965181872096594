/* SPDX-License-Identifier: ISC */
#ifndef CORE_BACKOFF_H
#define CORE_BACKOFF_H

/* When to try again what has failed: after each failure the pause is twice as long, between two
 * limits. These functions read no clock. No locks: a struct backoff belongs to the owner of the
 * attempts.
 *
 *   event                                              next attempt
 *   backoff_reset (a new target, or a success)         at once; after the next failure in `least`
 *   backoff_failed                                     `pause` from now; then `pause` doubles up to
 *                                                      `most` */

#include <stdbool.h>
#include <stdint.h>

struct backoff {
	int64_t least, most; /* ns, more than 0; set once */
	int64_t pause, next_try;
};

/* Sets `pause` back to `least` and the next attempt to now. */
static inline void backoff_reset(struct backoff *b)
{
	b->pause = b->least;
	b->next_try = 0;
}

/* Returns the pause after a failure, in ns, for an owner that waits itself, and doubles it for the
 * next failure. */
static inline int64_t backoff_next(struct backoff *b)
{
	int64_t pause = b->pause;

	b->pause = pause < b->most / 2 ? pause * 2 : b->most;
	return pause;
}

/* Sets the next attempt; now: clock_now() of the failure. */
static inline void backoff_failed(struct backoff *b, int64_t now)
{
	b->next_try = now + backoff_next(b);
}

/* Is it time for the next attempt? */
static inline bool backoff_is_due(const struct backoff *b, int64_t now)
{
	return now >= b->next_try;
}

/* Returns the pause in ns after one more failure, for an owner that counts the failures before
 * it. */
static inline int64_t backoff_after(int64_t least, int64_t most, unsigned failures)
{
	struct backoff b = { .least = least, .most = most };

	backoff_reset(&b);
	while (failures-- > 0 && b.pause < most)
		backoff_next(&b);
	return b.pause;
}

#endif
