/* SPDX-License-Identifier: ISC */
#include "aggregate/aggregate.h"
#include "core/num.h"
#include "math/order.h"

/* For each coordinate, the mean without the K lowest and the K highest values (D. Yin et al., as
 * for the median). Every worker counts once. Of fewer than 2K+1 gradients the middle ones are
 * left. */

/* Less than half of the 4096 workers that there may be. */
#define TRIMMED_MAX 2047

static bool parse_trimmed(const char *argument, struct aggregate *a)
{
	int64_t k;

	if (!argument || !num_int(argument, 1, TRIMMED_MAX, &k))
		return false;
	a->argument = (double)k;
	return true;
}

static uint32_t trimmed_workers_min(const struct aggregate *a)
{
	return 2 * (uint32_t)a->argument + 1;
}

static uint64_t combine_trimmed(const struct aggregate *a, const struct aggregate_in *in,
    float *out)
{
	uint32_t k = (uint32_t)a->argument, most = (in->n - 1) / 2;

	order_trimmed(in->n, k < most ? k : most, in->len, in->gradient, out);
	return 1;
}

const struct aggregate_ops aggregate_trimmed = {
	.name = "trimmed",
	.accepts = "trimmed:K with K of 1 to 2047",
	.compares = true,
	.parse = parse_trimmed,
	.workers_min = trimmed_workers_min,
	.combine = combine_trimmed,
};
