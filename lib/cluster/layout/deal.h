/* SPDX-License-Identifier: ISC */
#ifndef LAYOUT_DEAL_H
#define LAYOUT_DEAL_H

#include <stdint.h>

/* How bsp distributes the training data, by seed, epoch, step and position: each epoch has an order of
 * its own; each step takes `batch` examples for each of `ranks` workers from the front of what is
 * left; the last step of an epoch takes the rest. Pure arithmetic, so all processes agree without
 * messages. */
struct deal_pos {
	uint64_t epoch, offset;
};

/* examples: how many the data have. batch: examples of one worker a step. ranks: workers that
 * share a step. */
struct deal_shape {
	uint64_t examples, batch, ranks;
};

/* The position `steps` steps after `at`. */
struct deal_pos deal_advance(struct deal_pos at, uint64_t steps, const struct deal_shape *s);
/* The examples of the position-th of the workers at the step that begins at `at`: places *begin to *end
 * - 1 in the epoch's order. Empty if the epoch ends before its share. */
void deal_range(struct deal_pos at, uint64_t position, const struct deal_shape *s, uint64_t *begin,
    uint64_t *end);
/* Steps from `at` to the end of `epochs` epochs. */
uint64_t deal_steps_left(struct deal_pos at, uint64_t epochs, const struct deal_shape *s);

#endif
