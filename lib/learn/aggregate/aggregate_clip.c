/* SPDX-License-Identifier: ISC */
#include <math.h>
#include <string.h>

#include "aggregate/aggregate.h"
#include "core/num.h"
#include "math/order.h"
#include "math/vec.h"

/* The mean, after each gradient that is longer than X times the median length was shortened to
 * that. */

static bool parse_clip(const char *argument, struct aggregate *a)
{
	return argument && num_double(argument, &a->argument) && a->argument > 0 &&
	    a->argument <= 1e6;
}

static uint32_t clip_workers_min(const struct aggregate *a)
{
	(void)a;
	return 1;
}

/* The weight of a gradient is its number of examples, but at most the median number: a worker
 * cannot gain weight by stating more. */
static uint32_t median_weight(const struct aggregate_in *in)
{
	double v[ORDER_MAX];

	for (uint32_t i = 0; i < in->n; i++)
		v[i] = in->examples[i];
	return (uint32_t)order_middle(in->n, v);
}

/* Clips every gradient whose L2 norm exceeds X times the median norm to that length, then adds them
 * with their weights. The divisor is the sum of the weights used. Norms stay squared, so that only
 * a clipped gradient costs a square root. The two arrays take 64 KiB of stack. */
static uint64_t combine_clipped(const struct aggregate *a, const struct aggregate_in *in,
    float *out)
{
	double norm2[ORDER_MAX], sorted[ORDER_MAX], limit2;
	uint32_t most = median_weight(in);
	uint64_t examples = 0;

	for (uint32_t i = 0; i < in->n; i++)
		norm2[i] = vec_sumsq(in->len, in->gradient[i]);
	memcpy(sorted, norm2, in->n * sizeof *sorted);
	limit2 = a->argument * a->argument * order_middle(in->n, sorted);
	for (uint32_t i = 0; i < in->n; i++) {
		uint32_t weight = in->examples[i] < most ? in->examples[i] : most;
		double factor = norm2[i] > limit2 ? sqrt(limit2 / norm2[i]) : 1;

		if (i)
			vec_axpy(in->len, (float)(factor * weight), in->gradient[i], out);
		else
			vec_axpy_first(in->len, (float)(factor * weight), in->gradient[i], out);
		examples += weight;
	}
	return examples;
}

const struct aggregate_ops aggregate_clip = {
	.name = "clip",
	.accepts = "clip:X with X above 0",
	.compares = true,
	.parse = parse_clip,
	.workers_min = clip_workers_min,
	.combine = combine_clipped,
};
