/* SPDX-License-Identifier: ISC */
#include "data/data_spread.h"

#include <math.h>

/* Values whose range is less than this share of them are the same but for rounding. */
#define ROUNDING 0x1p-40
/* Fewer steps of float32 than this in the range are a loss. */
#define STEPS 32

void data_spread_add(struct data_spread *s, double v)
{
	double error = fabs(v - (double)(float)v);

	if (!s->begun || v < s->least)
		s->least = v;
	if (!s->begun || v > s->most)
		s->most = v;
	if (error > s->error)
		s->error = error;
	s->begun = true;
}

bool data_spread_is_lost(const struct data_spread *s)
{
	double range = s->most - s->least, size = fmax(fabs(s->most), fabs(s->least));

	return s->begun && range > size * ROUNDING && 2 * s->error * STEPS > range;
}
