/* SPDX-License-Identifier: ISC */
#include "layout/step_data.h"

/* b is not 0, and a + b must not overflow. */
static uint64_t ceil_div(uint64_t a, uint64_t b)
{
	return (a + b - 1) / b;
}

struct data_position step_data_advance(struct data_position at, uint64_t steps,
    const struct step_shape *s)
{
	uint64_t stride = s->batch * s->ranks;
	uint64_t rest = ceil_div(s->examples - at.offset, stride);
	uint64_t whole = ceil_div(s->examples, stride);

	if (steps < rest)
		return (struct data_position){ at.epoch, at.offset + steps * stride };
	steps -= rest;
	return (struct data_position){ at.epoch + 1 + steps / whole, steps % whole * stride };
}

void step_data_range(struct data_position at, uint64_t position, const struct step_shape *s,
    uint64_t *begin, uint64_t *end)
{
	*begin = at.offset + position * s->batch;
	if (*begin > s->examples)
		*begin = s->examples;
	*end = *begin + s->batch;
	if (*end > s->examples)
		*end = s->examples;
}

uint64_t step_data_steps_left(struct data_position at, uint64_t epochs, const struct step_shape *s)
{
	uint64_t stride = s->batch * s->ranks;

	if (at.epoch >= epochs)
		return 0;
	return ceil_div(s->examples - at.offset, stride) +
	    (epochs - at.epoch - 1) * ceil_div(s->examples, stride);
}
