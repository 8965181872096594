/* SPDX-License-Identifier: ISC */
#include "layout/init.h"

#include <string.h>

#include "core/rng.h"

uint64_t init_base(const struct table *t)
{
	uint64_t h = rng_mix(t->seed);

	for (const char *s = t->name; *s && t->init == TABLE_UNIFORM; s++)
		h = rng_mix(h ^ (uint8_t)*s);
	return h;
}

void init_fill_by(const struct table *t, uint64_t base, uint64_t first, size_t n, float *out)
{
	if (t->init == TABLE_CONSTANT) {
		for (size_t i = 0; i < n; i++)
			out[i] = t->init_limit;
		return;
	}
	if (t->init != TABLE_UNIFORM && n == 1) {
		*out = 0;
		return;
	}
	if (t->init != TABLE_UNIFORM) {
		memset(out, 0, n * sizeof *out);
		return;
	}
	for (size_t i = 0; i < n; i++) {
		/* 24 bits: every float in [0, 1) at this spacing is exact. */
		uint64_t bits = rng_mix(base + first + i) >> 40;

		out[i] = t->init_limit * ((float)bits * (2.0f / (1 << 24)) - 1.0f);
	}
}

void init_fill(const struct table *t, uint64_t first, size_t n, float *out)
{
	init_fill_by(t, init_base(t), first, n, out);
}

uint64_t init_row_place(const struct table *t, uint64_t id)
{
	return id * t->cols;
}
