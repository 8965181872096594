#ifndef BASE_HIST_H
#define BASE_HIST_H

#include <jansson.h>
#include <stdatomic.h>
#include <stdint.h>

/* Counts in powers of two: bucket i holds values v with 2^(i-1) <= v < 2^i,
 * bucket 0 holds 0.  Any thread may add; a reader sees each counter whole. */
#define HIST_BUCKETS 48
struct hist {
	_Atomic uint64_t bucket[HIST_BUCKETS];
	_Atomic uint64_t count, sum;
};

void hist_add(struct hist *h, uint64_t v);
/* Smallest power-of-two bound below which a share q (0..1) of the values lies. */
uint64_t hist_quantile(const struct hist *h, double q);
/* {"le":[..],"counts":[..],"sum":x}: n bounds, scale * (2^first - 1), scale * (2^(first + every) - 1)
 * and so on; how many values lie at or below each, and at last how many there are. */
json_t *hist_json(const struct hist *h, unsigned first, unsigned every, unsigned n, double scale);

#endif
