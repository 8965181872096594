/* SPDX-License-Identifier: ISC */
#ifndef CORE_HIST_H
#define CORE_HIST_H

#include <stdatomic.h>
#include <stdint.h>

#include "core/json.h"

/* A histogram with buckets of powers of two: bucket i counts values v with 2^(i-1) <= v < 2^i,
 * bucket 0 counts 0. Any thread may add and read; a reader sees each counter whole, but not all of
 * the same moment. */
#define HIST_BUCKETS 48
struct hist {
	_Atomic uint64_t bucket[HIST_BUCKETS];
	_Atomic uint64_t count, sum;
};

/* Counts a value; values of 2^46 and more share the last bucket. Never blocks. */
void hist_add(struct hist *h, uint64_t v);
/* Smallest power-of-two bound below which a share q (0..1) of the values lies; 0 when those are all
 * 0, or when there are no values. It is up to twice the true quantile. */
uint64_t hist_quantile(const struct hist *h, double q);
/* {"le":[..],"counts":[..],"sum":x} as a new object: n bounds, scale * (2^first - 1), scale *
 * (2^(first + every) - 1) and so on; counts: how many values are at or below each bound, and last
 * the number of all values. */
json_t *hist_json(const struct hist *h, unsigned first, unsigned every, unsigned n, double scale);

#endif
