/* SPDX-License-Identifier: ISC */
#include "math/element.h"

#include <string.h>

#include "math/clones.h"
#include "math/half.h"

static const struct {
	const char *name;
	unsigned bytes;
} types[] = {
#define ELEMENT(name, bytes) { #name, bytes },
#include "math/element.def"
#undef ELEMENT
};

const char *element_name(enum element_type type)
{
	return types[type].name;
}

bool element_find(const char *name, enum element_type *out)
{
	for (unsigned i = 0; i < ELEMENT_TYPES; i++)
		if (strcmp(types[i].name, name) == 0) {
			*out = (enum element_type)i;
			return true;
		}
	return false;
}

unsigned element_bytes(enum element_type type)
{
	return types[type].bytes;
}

/* ---- kernels ---- */

/* One move each: compilers do not vectorize single bytes. */
static inline void put_half(uint8_t *p, uint16_t h)
{
	memcpy(p, &h, sizeof h);
}

static inline uint16_t get_half(const uint8_t *p)
{
	uint16_t h;

	memcpy(&h, p, sizeof h);
	return h;
}

/* 32 random bits for place i: a hash of 32 bits (Wellons, "lowbias32"), for vector code has no
 * product of 64 bits, with the upper half of the key in the middle. */
static inline uint32_t random_bits(uint64_t key, uint32_t i)
{
	uint32_t x = (uint32_t)key + i * 0x9e3779b9u;

	x = (x ^ x >> 16) * 0x7feb352du ^ (uint32_t)(key >> 32);
	x = (x ^ x >> 15) * 0x846ca68bu;
	return x ^ x >> 16;
}

KERN_CLONES static void widen_bf16(size_t n, const uint8_t *restrict from, float *restrict to)
{
	for (size_t i = 0; i < n; i++)
		to[i] = half_from_bf16(get_half(from + 2 * i));
}

KERN_CLONES static void widen_f16(size_t n, const uint8_t *restrict from, float *restrict to)
{
	for (size_t i = 0; i < n; i++)
		to[i] = half_from_f16(get_half(from + 2 * i));
}

KERN_CLONES static void narrow_bf16(size_t n, const float *restrict from, uint8_t *restrict to)
{
	for (size_t i = 0; i < n; i++)
		put_half(to + 2 * i, half_to_bf16(from[i]));
}

KERN_CLONES static void narrow_f16(size_t n, const float *restrict from, uint8_t *restrict to)
{
	for (size_t i = 0; i < n; i++)
		put_half(to + 2 * i, half_to_f16(from[i]));
}

KERN_CLONES static void round_bf16(size_t n, uint64_t key, const float *restrict from,
    uint8_t *restrict to)
{
	for (size_t i = 0; i < n; i++)
		put_half(to + 2 * i, half_round_bf16(from[i], random_bits(key, (uint32_t)i)));
}

KERN_CLONES static void round_f16(size_t n, uint64_t key, const float *restrict from,
    uint8_t *restrict to)
{
	for (size_t i = 0; i < n; i++)
		put_half(to + 2 * i, half_round_f16(from[i], random_bits(key, (uint32_t)i)));
}

/* ---- by type ---- */

void element_widen(enum element_type type, size_t n, const void *from, float *to)
{
	if (type == ELEMENT_bf16)
		widen_bf16(n, from, to);
	else if (type == ELEMENT_f16)
		widen_f16(n, from, to);
	else
		memcpy(to, from, n * sizeof *to);
}

void element_narrow(enum element_type type, size_t n, const float *from, void *to)
{
	if (type == ELEMENT_bf16)
		narrow_bf16(n, from, to);
	else if (type == ELEMENT_f16)
		narrow_f16(n, from, to);
	else
		memcpy(to, from, n * sizeof *from);
}

void element_round(enum element_type type, size_t n, uint64_t key, const float *from, void *to)
{
	if (type == ELEMENT_bf16)
		round_bf16(n, key, from, to);
	else if (type == ELEMENT_f16)
		round_f16(n, key, from, to);
	else
		memcpy(to, from, n * sizeof *from);
}

void element_fit(enum element_type type, size_t n, float *x)
{
	uint16_t half[64];

	if (type == ELEMENT_f32)
		return;
	for (size_t at = 0, m; at < n; at += m) {
		m = n - at < 64 ? n - at : 64;
		element_narrow(type, m, x + at, half);
		element_widen(type, m, half, x + at);
	}
}
