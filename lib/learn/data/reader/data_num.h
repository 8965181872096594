/* SPDX-License-Identifier: ISC */
#ifndef DATA_NUM_H
#define DATA_NUM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "core/endian.h"

/* Parses decimal numbers, as fast as text formats need. All functions are pure.
 *
 * The number at p, a text with a NUL at its end, has the form [+-] digits [. digits] [e [+-]
 * digits], with a digit before or after the point. Returns the first byte after it, or NULL when
 * there is none. The result is rounded exactly, as by strtod; overflow gives an infinity. Short
 * numbers take the fast path of Clinger, "How to read floating point numbers accurately" (1990):
 * digits and power of ten are exact doubles, so that their product or quotient is rounded once. */
const char *data_num(const char *p, double *out);

/* Parses the whole text as one finite number. */
bool data_num_all(const char *p, double *out);

/* ---- eight bytes at a time --------------------------------------------------------
 * For text of which DATA_NUM_PAD bytes after its NUL may be read, as a stream's
 * lines. The first byte of the text is the lowest of a word. */
#define DATA_NUM_PAD 8

extern const double data_num_ten[23];   /* 10^0 to 10^22, all of them exact */
extern const double data_num_tenth[16]; /* 10^0 to 10^-15, rounded */
extern const uint64_t data_num_power[8];
extern const double data_num_sign[2]; /* 1 and -1 */

/* Loads eight bytes so that a digit becomes its value, and no other byte is below 10. */
static inline uint64_t data_num_load(const char *p)
{
	uint64_t w;

	memcpy(&w, p, sizeof(w));
	return w ^ UINT64_C(0x3030303030303030);
}

/* Sets the highest bit of each byte that is not a digit. Exact up to the first such byte and, when
 * that is a colon, the second: only bytes above a colon carry into the next. */
static inline uint64_t data_num_others(uint64_t w)
{
	return ((w + UINT64_C(0x7676767676767676)) | w) & UINT64_C(0x8080808080808080);
}

/* Number of digits before the first other byte, 0 to 8. */
static inline unsigned data_num_run(uint64_t w)
{
	uint64_t others = data_num_others(w);

	return others ? (unsigned)__builtin_ctzll(others) / 8 : 8;
}

/* The value of eight digits: pairs, then fours, then all (D. Lemire, "Quickly parsing eight
 * digits", 2018). */
static inline uint64_t data_num_eight(uint64_t w)
{
	w = w * 10 + (w >> 8);
	return ((w & UINT64_C(0x000000ff000000ff)) * UINT64_C(0x000f424000000064) +
	           (w >> 16 & UINT64_C(0x000000ff000000ff)) * UINT64_C(0x0000271000000001)) >>
	    32;
}

/* The value of the first n digits, n at most 7: zeroes are shifted in before them. */
static inline uint64_t data_num_digits(uint64_t w, unsigned n)
{
	return data_num_eight(w << (56 - 8 * n) << 8);
}

/* Parses a short number in padded text: up to 7 digits, a point, at most 15 digits in all, no
 * exponent. The value is digits * 10^-*power; returns the byte after it. NULL: the number is
 * longer, or there is none. */
static inline const char *data_num_short(const char *p, uint64_t *digits, unsigned *power)
{
	unsigned n, m = 0;
	uint64_t w;

	/* No branch: signs are unpredictable. */
	p += (*p == '-') | (*p == '+');
	w = data_num_load(p);
	n = data_num_run(w);
	if (n == 8)
		return NULL;
	*digits = data_num_digits(w, n);
	p += n;
	*power = 0;
	if (*p == '.') {
		w = data_num_load(++p);
		m = data_num_run(w);
		p += m;
		*power = m;
		if (m == 8) {
			*digits = *digits * 100000000 + data_num_eight(w);
			w = data_num_load(p);
			m = data_num_run(w);
			if (n + 8 + m > 15)
				return NULL;
			p += m;
			*power += m;
		}
		*digits = m == 8 ? *digits : *digits * data_num_power[m] + data_num_digits(w, m);
	}
	return n + *power == 0 || (*p | 0x20) == 'e' ? NULL : p;
}

/* As data_num, for padded text. The digits (below 10^15) and the power are exact, so the one
 * quotient is rounded as in data_num. */
static inline const char *data_num_padded(const char *p, double *out)
{
	unsigned power;
	uint64_t digits;
	const char *q = data_num_short(p, &digits, &power);

	if (!q)
		return data_num(p, out);
	*out = (double)(int64_t)digits / data_num_ten[power] * data_num_sign[*p == '-'];
	return q;
}

/* Parses a number as a float: the float that data_num's double would be rounded to. Takes a less
 * exact double when all doubles near it round to the same float. Not finite when it is too
 * large. */
const char *data_num_float_long(const char *p, float *out);

/* As data_num_float_long, for padded text; short numbers are fast. */
static inline const char *data_num_float(const char *p, float *out)
{
	unsigned power;
	uint64_t digits;
	const char *q = data_num_short(p, &digits, &power);
	double v, sign = data_num_sign[*p == '-'];
	float other;

	if (!q)
		return data_num_float_long(p, out);
	/* A product is much faster than a quotient, and as good where the bounds of its error round
	 * to one float (data_num_float_long). */
	v = (double)(int64_t)digits * data_num_tenth[power] * sign;
	*out = (float)(v * (1 - 0x1p-50));
	other = (float)(v * (1 + 0x1p-50));
	if (*out != other)
		*out = (float)((double)(int64_t)digits / data_num_ten[power] * sign);
	return q;
}

#endif
