/* SPDX-License-Identifier: ISC */
#include "layout/deal.h"

/* b is not 0, and a + b must not overflow. */
static uint64_t ceil_div(uint64_t a, uint64_t b)
{
	return (a + b - 1) / b;
}

struct deal_pos deal_advance(struct deal_pos at, uint64_t steps, const struct deal_shape *s)
{
	uint64_t stride = s->batch * s->ranks;
	uint64_t rest = ceil_div(s->examples - at.offset, stride);
	uint64_t whole = ceil_div(s->examples, stride);

	if (steps < rest)
		return (struct deal_pos){ at.epoch, at.offset + steps * stride };
	steps -= rest;
	return (struct deal_pos){ at.epoch + 1 + steps / whole, steps % whole * stride };
}

void deal_range(struct deal_pos at, uint64_t position, const struct deal_shape *s, uint64_t *begin,
    uint64_t *end)
{
	*begin = at.offset + position * s->batch;
	if (*begin > s->examples)
		*begin = s->examples;
	*end = *begin + s->batch;
	if (*end > s->examples)
		*end = s->examples;
}

uint64_t deal_steps_left(struct deal_pos at, uint64_t epochs, const struct deal_shape *s)
{
	uint64_t stride = s->batch * s->ranks;

	if (at.epoch >= epochs)
		return 0;
	return ceil_div(s->examples - at.offset, stride) +
	    (epochs - at.epoch - 1) * ceil_div(s->examples, stride);
}
