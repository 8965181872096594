#ifndef WORK_GAUGE_INSIDE_H
#define WORK_GAUGE_INSIDE_H

/* Shared by gauge*.c. */
#include "work/gauge.h"

#define GAUGE_REPEATS 9

/* Of n values, how many are tried: they are all alike. */
size_t gauge_tried(size_t n);
/* Values around 0, fresh. */
float *gauge_noise(size_t n, uint64_t seed, float size);
bool gauge_is_raw(const struct codec *c);

#endif
