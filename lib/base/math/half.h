/* SPDX-License-Identifier: ISC */
#ifndef MATH_HALF_H
#define MATH_HALF_H

/* Numbers of 16 bits: IEEE 754 binary16 (f16), and the upper half of a float32 (bf16).
 *
 * Every case is computed and one result is chosen, without branches, so that loops become vector
 * code. Magnitudes are below 2^31 and compared as signed numbers, because SSE2 cannot compare
 * unsigned ones. Inlined into kernels (clones.h). */

#include <stdint.h>
#include <string.h>

#define HALF_F16_MAX  0x7bff
#define HALF_F16_INF  0x7c00
#define HALF_BF16_MAX 0x7f7f
#define HALF_BF16_INF 0x7f80
/* The least normal f16, 2^-14, and infinity, as bits of a float32. */
#define HALF_F16_LEAST 0x38800000
#define HALF_F32_INF   0x7f800000

static inline uint32_t half_bits(float x)
{
	uint32_t u;

	memcpy(&u, &x, sizeof u);
	return u;
}

static inline float half_of_bits(uint32_t u)
{
	float x;

	memcpy(&x, &u, sizeof x);
	return x;
}

/* half_to_...: rounded to nearest, ties to even. Too large values become the largest one, and those
 * that are not finite become an infinity. */
static inline uint16_t half_to_f16(float x)
{
	uint32_t u = half_bits(x), sign = u >> 16 & 0x8000;
	int32_t a = (int32_t)(u & 0x7fffffff);
	/* Below 2^-14: the addition rounds. */
	int32_t tiny = (int32_t)(half_bits(half_of_bits((uint32_t)a) + 0.5f) - half_bits(0.5f));
	int32_t h = (a - ((127 - 15) << 23) + 0xfff + (a >> 13 & 1)) >> 13;

	h = a < HALF_F16_LEAST ? tiny : h;
	h = a >= 0x477ff000 ? HALF_F16_MAX : h; /* 65520 and above */
	h = a >= HALF_F32_INF ? HALF_F16_INF : h;
	return (uint16_t)(sign | (uint32_t)h);
}

static inline float half_from_f16(uint16_t h)
{
	uint32_t sign = (uint32_t)(h & 0x8000) << 16;
	int32_t m = h & 0x7fff;
	uint32_t tiny = half_bits((float)m * 0x1p-24f),
	         other = ((uint32_t)m << 13) + ((127u - 15u) << 23);

	other = m >= HALF_F16_INF ? other + ((128u - 16u) << 23) : other;
	return half_of_bits(sign | (m < 0x400 ? tiny : other));
}

static inline uint16_t half_to_bf16(float x)
{
	uint32_t u = half_bits(x), sign = u >> 16 & 0x8000;
	int32_t a = (int32_t)(u & 0x7fffffff),
	        h = (int32_t)(((uint32_t)a + 0x7fff + (a >> 16 & 1)) >> 16);

	h = h < HALF_BF16_INF ? h : HALF_BF16_MAX;
	h = a >= HALF_F32_INF ? HALF_BF16_INF : h;
	return (uint16_t)(sign | (uint32_t)h);
}

static inline float half_from_bf16(uint16_t h)
{
	return half_of_bits((uint32_t)h << 16);
}

/* half_round_...: rounded at random, to one of the two neighbours, by 32 random bits. The chance of
 * each is proportional to its distance from the other, so that the mean is x. A value beyond the
 * largest one becomes that. */
static inline uint16_t half_round_f16(float x, uint32_t random)
{
	uint32_t u = half_bits(x), sign = u >> 16 & 0x8000;
	int32_t a = (int32_t)(u & 0x7fffffff);
	int32_t h = (a - ((127 - 15) << 23) + (int32_t)(random >> 19)) >> 13;
	/* Below 2^-14 neighbours are 2^-24 apart. Both products are exact. */
	float scaled = half_of_bits((uint32_t)(a < HALF_F16_LEAST ? a : 0)) * 0x1p24f;
	int32_t whole = (int32_t)scaled;
	float rest = (scaled - (float)whole) * 0x1p24f;
	int32_t tiny = whole + ((float)(int32_t)(random >> 8) < rest);

	h = a < HALF_F16_LEAST ? tiny : h;
	h = a >= 0x477fe000 ? HALF_F16_MAX : h; /* 65504 and above */
	h = a >= HALF_F32_INF ? HALF_F16_INF : h;
	return (uint16_t)(sign | (uint32_t)h);
}

static inline uint16_t half_round_bf16(float x, uint32_t random)
{
	uint32_t u = half_bits(x), sign = u >> 16 & 0x8000;
	int32_t a = (int32_t)(u & 0x7fffffff), h = (int32_t)(((uint32_t)a + (random >> 16)) >> 16);

	h = h < HALF_BF16_INF ? h : HALF_BF16_MAX;
	h = a >= HALF_F32_INF ? HALF_BF16_INF : h;
	return (uint16_t)(sign | (uint32_t)h);
}

#endif
