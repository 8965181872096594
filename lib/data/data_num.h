#ifndef DATA_NUM_H
#define DATA_NUM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/endian.h"

/* The decimal number at p, text that ends in a NUL:
 *   [+-] digits [. digits] [e [+-] digits]
 * with a digit before or after the point.  Returns the first byte after it, or
 * NULL when there is none.  Rounded as strtod does (exactly); overflow gives an
 * infinity.  Short numbers take the fast path of Clinger, "How to read floating
 * point numbers accurately" (1990): the digits and the power of ten are exact
 * doubles, so that their product or quotient is rounded once. */
const char *data_num(const char *p, double *out);

/* The same of the whole text, finite. */
bool data_num_all(const char *p, double *out);

/* ---- eight bytes at a time --------------------------------------------------------
 * For text of which DATA_NUM_PAD bytes behind its NUL may be read, as a stream's
 * lines.  The first byte of the text is the lowest of a word. */
#define DATA_NUM_PAD 8

extern const double data_num_ten[23];           /* 10^0 to 10^22, all of them exact */
extern const uint64_t data_num_power[8];
extern const double data_num_sign[2];           /* 1 and -1 */

/* Eight bytes; a digit stands for itself, and no other byte is below 10. */
static inline uint64_t data_num_load(const char *p)
{
	uint64_t w;

	memcpy(&w, p, sizeof(w));
	return w ^ UINT64_C(0x3030303030303030);
}

/* The highest bit of each byte that is no digit, up to the first of them and, when that is
 * a colon, the second: only bytes above a colon carry into the next. */
static inline uint64_t data_num_others(uint64_t w)
{
	return ((w + UINT64_C(0x7676767676767676)) | w) & UINT64_C(0x8080808080808080);
}

/* How many digits stand in front of the first byte that is none, 0 to 8. */
static inline unsigned data_num_run(uint64_t w)
{
	uint64_t others = data_num_others(w);

	return others ? (unsigned)__builtin_ctzll(others) / 8 : 8;
}

/* The number that all eight digits make: pairs, then fours, then all (D. Lemire,
 * "Quickly parsing eight digits", 2018). */
static inline uint64_t data_num_eight(uint64_t w)
{
	w = w * 10 + (w >> 8);
	return ((w & UINT64_C(0x000000ff000000ff)) * UINT64_C(0x000f424000000064) +
	        (w >> 16 & UINT64_C(0x000000ff000000ff)) * UINT64_C(0x0000271000000001)) >> 32;
}

/* The number that the first n digits make, n at most 7: zeroes go before them. */
static inline uint64_t data_num_digits(uint64_t w, unsigned n)
{
	return data_num_eight(w << (56 - 8 * n) << 8);
}

/* A number of padded text, of up to 7 digits, a point, and up to 15 digits in all without
 * an exponent: digits * 10^-*power, and behind it the byte that is returned.  NULL: another
 * one, or none. */
static inline const char *data_num_short(const char *p, uint64_t *digits, unsigned *power)
{
	unsigned n, m = 0;
	uint64_t w;

	/* No jump: signs come at random. */
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

/* As data_num, of padded text.  Digits below 10^15 and the power are exact, so that the
 * one quotient is what data_num takes, too. */
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

/* The float that data_num's double is rounded to, without taking that double where any
 * other near it is rounded to the same; not finite when it is too large. */
const char *data_num_float_long(const char *p, float *out);

/* The same of padded text. */
static inline const char *data_num_float(const char *p, float *out)
{
	unsigned power;
	uint64_t digits;
	const char *q = data_num_short(p, &digits, &power);

	if (!q)
		return data_num_float_long(p, out);
	*out = (float)((double)(int64_t)digits / data_num_ten[power] * data_num_sign[*p == '-']);
	return q;
}

#endif
