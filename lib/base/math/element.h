/* SPDX-License-Identifier: ISC */
#ifndef MATH_ELEMENT_H
#define MATH_ELEMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The types in which values can be stored; they are computed with as float32. No allocation, no
 * errors, any thread. Stored values may have any alignment. The bits of every result are the same
 * on every instruction set. */
enum element_type {
#define ELEMENT(name, bytes) ELEMENT_##name,
#include "math/element.def"
#undef ELEMENT
	ELEMENT_TYPES
};

/* The name in element.def, and the type of a name; false: there is none. */
const char *element_name(enum element_type type);
bool element_find(const char *name, enum element_type *out);
/* Bytes of a value. */
unsigned element_bytes(enum element_type type);

/* Reads n stored values. It is exact. */
void element_widen(enum element_type type, size_t n, const void *from, float *to);
/* Stores n values, rounded to nearest, ties to even. Finite values that are too large become the
 * largest one, and a NaN becomes an infinity, except in f32. */
void element_narrow(enum element_type type, size_t n, const float *from, void *to);
/* Does the same, but rounds each value at random to one of its two neighbours, so that the mean of
 * the results is the value. The key and the place of a value in `from` choose its random bits:
 * equal keys give equal results. A value that the type has stays as it is. */
void element_round(enum element_type type, size_t n, uint64_t key, const float *from, void *to);
/* Rounds n values in place, to nearest. */
void element_fit(enum element_type type, size_t n, float *x);

#endif
