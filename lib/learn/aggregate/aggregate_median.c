/* SPDX-License-Identifier: ISC */
#include "aggregate/aggregate.h"
#include "math/order.h"

/* The median of each coordinate (D. Yin et al., Byzantine-robust distributed learning: towards
 * optimal statistical rates, ICML 2018). Every worker counts once, whatever number of examples it
 * states. */

static bool parse_median(const char *argument, struct aggregate *a)
{
	(void)a;
	return !argument;
}

static uint32_t median_workers_min(const struct aggregate *a)
{
	(void)a;
	return 1;
}

static uint64_t combine_by_median(const struct aggregate *a, const struct aggregate_in *in,
    float *out)
{
	(void)a;
	order_median(in->n, in->len, in->gradient, out);
	return 1;
}

const struct aggregate_ops aggregate_median = {
	.name = "median",
	.accepts = "median",
	.compares = true,
	.parse = parse_median,
	.workers_min = median_workers_min,
	.combine = combine_by_median,
};
