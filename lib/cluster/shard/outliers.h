/* SPDX-License-Identifier: ISC */
#ifndef SHARD_OUTLIERS_H
#define SHARD_OUTLIERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Finds the slots whose gradients are outliers, over all partitions of a server and over steps. The
 * gradients of a step are compared when it is closed. One is too long when it is more than
 * OUTLIERS_LONG times as long as the median, and goes against the others when its cosine with the
 * combined gradient is below -OUTLIERS_AGAINST. A slot is suspected after so many such steps of its
 * own in a row. Steps of fewer than OUTLIERS_WORKERS_MIN workers are not judged.
 *
 * A step: not seen --outliers_note, by each partition--> collected --outliers_judge--> judged.
 *
 * Thread-safe; its lock is the last one in the lock order of shard.h, and is held while the fn of
 * outliers_suspects is called. */
#define OUTLIERS_LONG          4.0
#define OUTLIERS_LONG_STEPS    5u
#define OUTLIERS_AGAINST       0.2
#define OUTLIERS_AGAINST_STEPS 10u
#define OUTLIERS_WORKERS_MIN   3u

struct outliers;

/* Makes a detector that knows nothing of any slot. */
struct outliers *outliers_new(void);
void outliers_free(struct outliers *w);

/* One partition of a step: n contributions (n at least 1) in ascending order of slots, each with
 * its squared length and its scalar product with the combined gradient, whose squared length is
 * sum2. `elements` is the length of the gradients. */
struct watched {
	uint64_t step, elements;
	uint32_t n;
	const uint32_t *slot;
	const double *norm2, *dot;
	double sum2;
};
/* Adds a partition's figures to its step. */
void outliers_note(struct outliers *w, const struct watched *x);
/* The steps below `closed` are closed: judges those that were not judged yet. */
void outliers_judge(struct outliers *w, uint64_t closed);
/* Forgets the slot's history, because it has another holder or its holder was admitted again. */
void outliers_begin_slot(struct outliers *w, uint32_t slot, uint64_t incarnation);

/* A slot that is suspected. */
struct outliers_suspect {
	uint32_t slot;
	uint64_t incarnation; /* incarnation of its holder */
	bool against;         /* it goes against the others; false: it is too long */
	uint64_t step;        /* the last step that was an outlier */
	/* Steps in a row. */
	unsigned steps;
	/* Mean over those steps of length / median length, or of the cosines. */
	double figure;
};
/* Calls fn for each slot that is suspected now. Returns the elements of the last step that was
 * judged, summed over partitions. */
uint64_t outliers_suspects(struct outliers *w,
    void (*fn)(void *ctx, const struct outliers_suspect *s), void *ctx);

#endif
