#ifndef SHARD_WATCH_H
#define SHARD_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whose gradients are outliers, over all partitions of a server and over steps.  Each step's
 * gradients are compared when it is closed: one is too long when it is more than WATCH_LONG times
 * as long as the middle one, and goes against the others when its cosine with what was made of
 * all is below -WATCH_AGAINST.  A slot is suspected after so many steps of its own in a row.
 * A step of fewer than WATCH_FEWEST workers says nothing.
 *
 * Thread-safe; its lock is the last that is taken. */
#define WATCH_LONG 4.0
#define WATCH_LONG_STEPS 5u
#define WATCH_AGAINST 0.2
#define WATCH_AGAINST_STEPS 10u
#define WATCH_FEWEST 3u

struct watch;

struct watch *watch_new(void);
void watch_free(struct watch *w);

/* One partition of a step: n contributions by ascending slots, each with its squared length
 * and its product with what was made of all, of which sum2 is the squared length. */
struct watched {
	uint64_t step, elements;
	uint32_t n;
	const uint32_t *slot;
	const double *norm2, *dot;
	double sum2;
};
void watch_note(struct watch *w, const struct watched *x);
/* Steps below this are closed. */
void watch_closed(struct watch *w, uint64_t closed);
/* The slot has this holder now, or one that is let in again: nothing is known of it. */
void watch_begin(struct watch *w, uint32_t slot, uint64_t incarnation);

struct suspect {
	uint32_t slot;
	uint64_t incarnation;           /* of its holder then */
	bool against;                   /* else: too long */
	uint64_t step;                  /* the last of them */
	unsigned steps;
	double figure;                  /* mean of how many times as long, or of the cosines */
};
/* Those that are suspected now, and what they are judged by: elements of a step. */
uint64_t watch_suspects(struct watch *w, void (*fn)(void *ctx, const struct suspect *s), void *ctx);

#endif
