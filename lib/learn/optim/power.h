/* SPDX-License-Identifier: ISC */
#ifndef OPTIM_POWER_H
#define OPTIM_POWER_H

#include <stdint.h>

/* x to the n for 0 <= x <= 1, by squaring. pow(3) is not used: the C library selects a version for
 * the processor, and these differ in the last bit, so that replicas of a partition on different
 * machines would drift apart. Pure. */
static inline double power_by_squaring(double x, uint64_t n)
{
	double p = 1;

	for (; n > 0; n >>= 1) {
		if (n & 1)
			p *= x;
		x *= x;
	}
	return p;
}

#endif
