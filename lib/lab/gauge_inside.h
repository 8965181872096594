/* SPDX-License-Identifier: ISC */
#ifndef LAB_GAUGE_INSIDE_H
#define LAB_GAUGE_INSIDE_H

/* Helpers shared by gauge*.c. Pure. */
#include "lab/gauge.h"

#define GAUGE_REPEATS 9

/* How many of n values are tried: a part is enough, because values are all alike. */
size_t gauge_tried(size_t n);
/* n new values around 0, to be freed. */
float *gauge_noise(size_t n, uint64_t seed, float size);
/* Does the codec send float32 as it is? NULL counts as raw. */
bool gauge_is_raw(const struct codec *c);

#endif
