#ifndef COORD_DEAL_H
#define COORD_DEAL_H

#include <stdint.h>

/* bsp deals the data by (seed, epoch, step, slot): in each epoch the examples
 * stand in an order of their own, each step takes `batch` for each of `slots`
 * workers from the front, and the last step of an epoch takes what is left. */
struct deal_pos {
	uint64_t epoch, offset;
};

struct deal_shape {
	uint64_t examples, batch, slots;
};

/* The position `steps` steps later. */
struct deal_pos deal_advance(struct deal_pos at, uint64_t steps, const struct deal_shape *s);
/* The examples of the rank-th slot at a step that begins at `at`: places
 * *begin .. *end-1 in the epoch's order; empty when the epoch's rest runs out
 * before it. */
void deal_range(struct deal_pos at, uint64_t rank, const struct deal_shape *s, uint64_t *begin, uint64_t *end);
/* Steps from `at` to the end of `epochs` epochs. */
uint64_t deal_steps_left(struct deal_pos at, uint64_t epochs, const struct deal_shape *s);

#endif
