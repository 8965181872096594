/* SPDX-License-Identifier: ISC */
#ifndef VARIANT_FIXTURE_H
#define VARIANT_FIXTURE_H

/* Kernels, update rules and codecs once more, compiled for VARIANT (a target attribute, or
 * nothing), beside those that the library has chosen for this processor: equal bits. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/endian.h"
#include "core/mem.h"
#include "codec/block.h"
#include "codec/codec.h"
#include "codec/places.h"
#include "math/clones.h"
#include "math/element.h"
#include "math/gemv.h"
#include "math/vec.h"
#include "optim/optim.h"
#include "optim/power.h"
#include "tap.h"

#undef KERN_CLONES
#define KERN_CLONES VARIANT

/* ---- the variant ---- */

#define vec_axpy        variant_axpy
#define vec_axpy_first  variant_axpy_first
#define vec_add         variant_add
#define vec_xpay        variant_xpay
#define vec_mask        variant_mask
#define vec_scale       variant_scale
#define vec_copy_scaled variant_copy_scaled
#define vec_add_scaled  variant_add_scaled
#define vec_join        variant_join
#define vec_all_finite  variant_all_finite
#define vec_all_bounded variant_all_bounded
#define vec_max_abs     variant_max_abs
#define vec_sumsq       variant_sumsq
#define vec_dot         variant_dot
#define vec_norm2       variant_norm2
#define gemv_add        variant_gemv_add
#define gemv_transposed variant_gemv_transposed
#define element_name    variant_element_name
#define element_find    variant_element_find
#define element_bytes   variant_element_bytes
#define element_widen   variant_element_widen
#define element_narrow  variant_element_narrow
#define element_round   variant_element_round
#define element_fit     variant_element_fit
#undef MATH_VEC_H
#include "math/vec.h"
#undef MATH_GEMV_H
#include "math/gemv.h"

/* Its type is there already. */
const char *element_name(enum element_type type);
bool element_find(const char *name, enum element_type *out);
unsigned element_bytes(enum element_type type);
void element_widen(enum element_type type, size_t n, const void *from, float *to);
void element_narrow(enum element_type type, size_t n, const float *from, void *to);
void element_round(enum element_type type, size_t n, uint64_t key, const float *from, void *to);
void element_fit(enum element_type type, size_t n, float *x);

#define put_half element_put_half
#define get_half element_get_half
#include "../../lib/base/math/element.c"
#undef put_half
#undef get_half
#include "../../lib/base/math/gemv.c"
#include "../../lib/base/math/vec.c"

#define AGAIN(name) variant_##name
#include "again/codecs.h"
#include "again/rules.h"
#undef AGAIN

static const struct codec *const variant_codec[] = {
#define CODEC(name, number, form) &variant_##name,
#include "codec/codec.def"
#undef CODEC
};

static const struct optim_rule *const variant_rule[] = {
#define RULE(name, number) &variant_##name,
#include "optim/optim.def"
#undef RULE
};

#undef vec_axpy
#undef vec_axpy_first
#undef vec_add
#undef vec_xpay
#undef vec_mask
#undef vec_scale
#undef vec_copy_scaled
#undef vec_add_scaled
#undef vec_join
#undef vec_all_finite
#undef vec_all_bounded
#undef vec_max_abs
#undef vec_sumsq
#undef vec_dot
#undef vec_norm2
#undef gemv_add
#undef gemv_transposed
#undef element_name
#undef element_find
#undef element_bytes
#undef element_widen
#undef element_narrow
#undef element_round
#undef element_fit

/* ---- values ---- */

enum { VARIANT_N = 5000, VARIANT_KINDS = 5 };

/* Sums of uniform ones; the same of all sizes; few different ones; any bits that are finite, so
 * also denormals and both zeroes; and any bits at all. */
static void variant_values(struct rng *rng, int kind, size_t n, float *x)
{
	for (size_t i = 0; i < n; i++) {
		float v = (float)(rng_unit(rng) + rng_unit(rng) + rng_unit(rng) - 1.5);
		uint32_t u = (uint32_t)rng_next(rng);

		switch (kind) {
		case 0:
			x[i] = v;
			break;
		case 1:
			x[i] = ldexpf(v, (int)(u % 60) - 30);
			break;
		case 2:
			x[i] = (float)((int)(u % 7) - 3);
			break;
		default:
			memcpy(&x[i], &u, sizeof u);
			x[i] = kind == 3 && !isfinite(x[i]) ? 0 : x[i];
		}
	}
}

static const size_t variant_sizes[] = { 0, 1, 3, 7, 8, 15, 16, 17, 31, 33, 64, 127, 129, 255, 257,
	511, 513, 2047, 2049, VARIANT_N };
#define VARIANT_SIZES (sizeof variant_sizes / sizeof *variant_sizes)

/* ---- kernels ---- */

/* Equal bits; which NaN comes of two is not said. */
static bool variant_same(size_t n, const float *x, const float *y)
{
	for (size_t i = 0; i < n; i++)
		if (memcmp(x + i, y + i, sizeof *x) != 0 && !(isnan(x[i]) && isnan(y[i])))
			return false;
	return true;
}

static bool variant_vectors(size_t n, const float *x, const float *y)
{
	static float a[VARIANT_N], b[VARIANT_N];
	const float f = -0.37f;
	bool same = true;

#define BOTH(call, variant) \
	do { \
		memcpy(a, y, n * sizeof *a); \
		memcpy(b, y, n * sizeof *b); \
		call; \
		variant; \
		same = same && variant_same(n, a, b); \
	} while (0)
	BOTH(vec_axpy(n, f, x, a), variant_axpy(n, f, x, b));
	BOTH(vec_axpy_first(n, f, x, a), variant_axpy_first(n, f, x, b));
	/* Matrices of 5 rows, the first of x, and of n / 5 or 5 columns. */
	BOTH(gemv_add(n < 5 ? n : 5, n / 5, x, y, a),
	    variant_gemv_add(n < 5 ? n : 5, n / 5, x, y, b));
	BOTH(gemv_transposed(n / 5, n < 5 ? n : 5, x, y, a),
	    variant_gemv_transposed(n / 5, n < 5 ? n : 5, x, y, b));
	BOTH(vec_add(n, x, a), variant_add(n, x, b));
	BOTH(vec_xpay(n, x, f, a), variant_xpay(n, x, f, b));
	BOTH(vec_mask(n, x, a), variant_mask(n, x, b));
	BOTH(vec_scale(n, f, a), variant_scale(n, f, b));
	BOTH(vec_copy_scaled(n, f, x, a), variant_copy_scaled(n, f, x, b));
	BOTH(vec_add_scaled(n, x, f, a), variant_add_scaled(n, x, f, b));
	BOTH(vec_join(n, f, x, y, f, a), variant_join(n, f, x, y, f, b));
#undef BOTH
	return same;
}

static bool variant_numbers(size_t n, const float *x, const float *y)
{
	float max[2] = { vec_max_abs(n, x), variant_max_abs(n, x) };
	double dot[2] = { vec_dot(n, x, y), variant_dot(n, x, y) },
	       sumsq[2] = { vec_sumsq(n, x), variant_sumsq(n, x) };

	return vec_all_finite(n, x) == variant_all_finite(n, x) &&
	    vec_all_bounded(n, x) == variant_all_bounded(n, x) && variant_same(1, max, max + 1) &&
	    (dot[0] == dot[1] || (isnan(dot[0]) && isnan(dot[1]))) &&
	    (sumsq[0] == sumsq[1] || (isnan(sumsq[0]) && isnan(sumsq[1])));
}

static void variant_kernels(void)
{
	static float x[VARIANT_N], y[VARIANT_N];
	unsigned bad = 0;
	struct rng rng;

	rng_init(&rng, 3);
	for (int kind = 0; kind < VARIANT_KINDS; kind++)
		for (size_t i = 0; i < VARIANT_SIZES; i++) {
			size_t n = variant_sizes[i];

			variant_values(&rng, kind, n, x);
			variant_values(&rng, kind, n, y);
			bad += !variant_vectors(n, x, y) || !variant_numbers(n, x, y);
		}
	ok(bad == 0, "kernels: the bits of those that were chosen (%u differ)", bad);
}

/* ---- types of stored values ---- */

static bool variant_stores(enum element_type type, size_t n, uint64_t key, const float *x)
{
	static float wide[2][VARIANT_N];
	static uint16_t narrow[2][2 * VARIANT_N];
	size_t bytes = n * element_bytes(type);
	bool same;

	element_narrow(type, n, x, narrow[0]);
	variant_element_narrow(type, n, x, narrow[1]);
	same = memcmp(narrow[0], narrow[1], bytes) == 0;
	element_round(type, n, key, x, narrow[0]);
	variant_element_round(type, n, key, x, narrow[1]);
	same = same && memcmp(narrow[0], narrow[1], bytes) == 0;
	element_widen(type, n, narrow[0], wide[0]);
	variant_element_widen(type, n, narrow[0], wide[1]);
	return same && variant_same(n, wide[0], wide[1]);
}

static void variant_elements(enum element_type type)
{
	static float x[VARIANT_N];
	unsigned bad = 0;
	struct rng rng;

	rng_init(&rng, 8);
	for (int kind = 0; kind < VARIANT_KINDS; kind++)
		for (size_t i = 0; i < VARIANT_SIZES; i++) {
			variant_values(&rng, kind, variant_sizes[i], x);
			bad += !variant_stores(type, variant_sizes[i], rng_next(&rng), x);
		}
	ok(bad == 0, "values stored as %s: the bits of what was chosen (%u differ)",
	    element_name(type), bad);
}

/* ---- update rules ---- */

static void variant_rules(const struct optim_rule *rule, const struct optim_rule *other)
{
	static const uint64_t steps[] = { 1, 2, 100, 1000, 100000 };
	static float w[2][VARIANT_N], s[2][OPTIM_VECTORS_MAX][VARIANT_N], g[VARIANT_N];
	const struct optim_gradient quarter = { g, 0.25f, 3, 0, 0 };
	unsigned bad = 0;
	struct rng rng;

	rng_init(&rng, 4);
	for (int kind = 0; kind < VARIANT_KINDS - 1; kind++)
		for (size_t i = 0; i < VARIANT_SIZES; i++) {
			struct optim_hyper h;

			rule->defaults(&h);
			h.l1 = 0.01f;
			h.l2 = kind % 2 ? 0.1f : 0;
			variant_values(&rng, 0, VARIANT_N, w[0]);
			memset(s, 0, sizeof s);
			memcpy(w[1], w[0], sizeof w[0]);
			for (size_t k = 0; k < sizeof steps / sizeof *steps; k++) {
				float *const vector[2][OPTIM_VECTORS_MAX] = {
					{ s[0][0], s[0][1], s[0][2] }, { s[1][0], s[1][1], s[1][2] }
				};

				variant_values(&rng, kind, VARIANT_N, g);
				rule->step(&h, steps[k], true, variant_sizes[i], w[0], vector[0],
				    &quarter);
				other->step(&h, steps[k], true, variant_sizes[i], w[1], vector[1],
				    &quarter);
			}
			bad += !variant_same(VARIANT_N, w[0], w[1]);
			for (size_t k = 0; k < OPTIM_VECTORS_MAX; k++)
				bad += !variant_same(VARIANT_N, s[0][k], s[1][k]);
		}
	ok(bad == 0, "%s: the bits of what was chosen (%u differ)", rule->name, bad);
}

/* ---- codecs ---- */

static bool variant_codes(const struct codec *c, const struct codec *other, double arg,
    const float *x, size_t n)
{
	static float sum[2][VARIANT_N];
	size_t room = c->bound(arg, n) + 1, len[2];
	uint8_t *p = mem_array(2, room), *q = p + room;
	struct rng rng[2];
	bool same;

	rng_init(&rng[0], 5);
	rng_init(&rng[1], 5);
	len[0] = c->encode(arg, &rng[0], x, n, p);
	len[1] = other->encode(arg, &rng[1], x, n, q);
	same = len[0] == len[1] && memcmp(p, q, len[0]) == 0 &&
	    memcmp(&rng[0], &rng[1], sizeof *rng) == 0;
	same = same && c->check(p, len[0], n) == other->check(p, len[0], n);
	if (same && c->check(p, len[0], n) == CODEC_GOOD) {
		for (size_t i = 0; i < n; i++)
			sum[0][i] = sum[1][i] = i % 3 ? -0.0f : (float)i;
		c->add(p, len[0], n, -3.7f, sum[0]);
		other->add(p, len[0], n, -3.7f, sum[1]);
		same = variant_same(n, sum[0], sum[1]);
	}
	free(p);
	return same;
}

static void variant_coding(const char *text)
{
	static float x[VARIANT_N];
	const struct codec *other = NULL;
	struct codec_spec s;
	unsigned bad = 0;
	struct rng rng;
	struct err e;

	if (codec_parse(text, &s, &e))
		abort();
	for (size_t i = 0; i < sizeof variant_codec / sizeof *variant_codec; i++)
		if (variant_codec[i]->id == s.codec->id)
			other = variant_codec[i];
	rng_init(&rng, 6);
	for (int kind = 0; kind < VARIANT_KINDS; kind++)
		for (size_t i = 0; i < VARIANT_SIZES; i++) {
			variant_values(&rng, kind, variant_sizes[i], x);
			bad += !variant_codes(s.codec, other, s.arg, x, variant_sizes[i]);
		}
	ok(bad == 0, "%s: the bytes and bits of what was chosen (%u differ)", text, bad);
}

static int variant_main(void)
{
	static const char *const specs[] = { "raw", "f16", "bf16", "int8", "qsgd:1", "qsgd:3",
		"qsgd:5", "qsgd:16", "qsgd:40", "qsgd:127", "onebit", "topk:0.01", "topk:0.3",
		"topk:1", "randomk:0.05", "dgc:0.02" };

	variant_kernels();
	for (unsigned type = 0; type < ELEMENT_TYPES; type++)
		variant_elements((enum element_type)type);
	for (size_t i = 0; optim_at(i); i++)
		variant_rules(optim_at(i), variant_rule[i]);
	for (size_t i = 0; i < sizeof specs / sizeof *specs; i++)
		variant_coding(specs[i]);
	return tap_done();
}

#endif
