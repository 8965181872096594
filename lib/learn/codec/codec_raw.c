/* SPDX-License-Identifier: ISC */
#include <string.h>

#include "codec/codec.h"
#include "math/vec.h"

/* float32, little-endian, as it lies in memory. */

extern const struct codec codec_raw;

static size_t raw_bound(double arg, size_t n)
{
	(void)arg;
	return n * sizeof(float);
}

static size_t raw_encode(double arg, struct rng *rng, const float *x, size_t n, uint8_t *out)
{
	(void)arg;
	(void)rng;
	memcpy(out, x, n * sizeof *x);
	return n * sizeof *x;
}

static const float *raw_values(const uint8_t *p, size_t n)
{
	(void)n;
	return (uintptr_t)p % sizeof(float) == 0 ? (const float *)(const void *)p : NULL;
}

static enum codec_check raw_check(const uint8_t *p, size_t len, size_t n)
{
	if (len != n * sizeof(float) || !raw_values(p, n))
		return CODEC_MALFORMED;
	return vec_all_bounded(n, raw_values(p, n)) ? CODEC_GOOD : CODEC_BAD_VALUE;
}

static void raw_add(const uint8_t *p, size_t len, size_t n, float weight, float *sum)
{
	(void)len;
	vec_axpy(n, weight, raw_values(p, n), sum);
}

const struct codec codec_raw = {
	.name = "raw",
	.help = "float32, not encoded",
	.id = 0,
	.bound = raw_bound,
	.encode = raw_encode,
	.check = raw_check,
	.add = raw_add,
	.raw_values = raw_values,
};
