/* SPDX-License-Identifier: ISC */
#include "aggregate/aggregate.h"

/* The mean of all examples' gradients. Gradients are summed as they arrive, and the sum is divided
 * by the number of examples when the step is closed. */

static bool parse_mean(const char *argument, struct aggregate *a)
{
	(void)a;
	return !argument;
}

static uint32_t mean_workers_min(const struct aggregate *a)
{
	(void)a;
	return 1;
}

const struct aggregate_ops aggregate_mean = {
	.name = "none",
	.accepts = "none",
	.parse = parse_mean,
	.workers_min = mean_workers_min,
};
