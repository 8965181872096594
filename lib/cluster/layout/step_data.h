/* SPDX-License-Identifier: ISC */
#ifndef LAYOUT_STEP_DATA_H
#define LAYOUT_STEP_DATA_H

#include <stdint.h>

/* Which training examples belong to a bsp step. Each epoch has an order of its own, from the seed
 * and the epoch. Each step takes `batch` examples for each of `ranks` workers, in this order; the
 * last step of an epoch takes the rest. This is pure arithmetic, so all processes agree without
 * messages. */

/* The first example of a step: its place in the order of this epoch, both from 0. */
struct data_position {
	uint64_t epoch, offset;
};

/* examples: the number in the data. batch: examples of one worker in a step. ranks: the number of
 * workers that take part in a step. */
struct step_shape {
	uint64_t examples, batch, ranks;
};

/* The position `steps` steps after `at`. */
struct data_position step_data_advance(struct data_position at, uint64_t steps,
    const struct step_shape *s);
/* The examples of worker number `position` (from 0) at the step that begins at `at`: places *begin
 * to *end - 1 in the epoch's order. Empty if the epoch ends before them. */
void step_data_range(struct data_position at, uint64_t position, const struct step_shape *s,
    uint64_t *begin, uint64_t *end);
/* Steps from `at` to the end of `epochs` epochs. */
uint64_t step_data_steps_left(struct data_position at, uint64_t epochs, const struct step_shape *s);

#endif
