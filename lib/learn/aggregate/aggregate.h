/* SPDX-License-Identifier: ISC */
#ifndef AGGREGATE_AGGREGATE_H
#define AGGREGATE_AGGREGATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"

/* Aggregators: how the gradients of a step become one (the setting `robust`). An aggregator is one
 * file, aggregate_NAME.c, which defines aggregate_NAME, and one line in aggregate.def. Other code
 * does not ask which one it has. cluster/shard/robust.c keeps the gradients and calls `combine`.
 * There is no state, thread or lock. */

struct aggregate_ops;

/* An aggregator with its argument. Zeroes: the mean. */
struct aggregate {
	const struct aggregate_ops *ops;
	double argument; /* K of trimmed:K, X of clip:X */
};

/* The gradients of one step for `len` parameters, in ascending order of ranks, so that equal
 * gradients give equal bits in whatever order they arrived. 1 <= n <= ORDER_MAX (math/order.h); all
 * values are finite. */
struct aggregate_in {
	uint32_t n;
	size_t len;
	const float *const *gradient; /* n times len values */
	const uint32_t *examples;     /* as each worker states them, at least 1 */
};

struct aggregate_ops {
	const char *name;    /* as in the setting, before the colon */
	const char *accepts; /* the form of aggregate.def with its limits, for an error message */
	/* False: the gradients are added up as they arrive, weighted by their examples, and
	 * `combine` is NULL. True: the aggregator compares them, so each is kept by itself until
	 * the step is closed; only dense tables, whose workers push to every value, can have it. */
	bool compares;

	/* Parses the text after the colon (NULL: there is no colon) into a->argument. False: it is
	 * wrong. */
	bool (*parse)(const char *argument, struct aggregate *a);
	/* The least number of gradients of which it leaves something. With fewer, combine does what
	 * comes nearest. */
	uint32_t (*workers_min)(const struct aggregate *a);
	/* Combines the gradients into out[0..len-1], which overlaps none of them. Returns the
	 * divisor that makes a gradient of it, at least 1. Called once a step with the partition's
	 * lock held: neither allocates nor blocks; may use 128 KiB of stack. */
	uint64_t (*combine)(const struct aggregate *a, const struct aggregate_in *in, float *out);
};

#define AGGREGATOR(name, form) extern const struct aggregate_ops aggregate_##name;
#include "aggregate/aggregate.def"
#undef AGGREGATOR

/* Parses a setting, for example "trimmed:2", into *out. ERR_CONFIG with a sentence otherwise. */
enum err_code aggregate_parse(const char *text, struct aggregate *out, struct err *e);

/* aggregate_ops.compares of the aggregator; of the one that a setting names. */
static inline bool aggregate_compares(const struct aggregate *a)
{
	return a->ops && a->ops->compares;
}
bool aggregate_setting_compares(const char *text);

#endif
