#ifndef OPTIM_POWER_H
#define OPTIM_POWER_H

#include <stdint.h>

/* x to the n for 0 <= x <= 1, by squaring.  Not pow(3): the C library picks a
 * version for the processor, and they differ in the last bit, so copies of a
 * partition on unlike machines would drift apart. */
static inline double power(double x, uint64_t n)
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
