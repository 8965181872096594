/* SPDX-License-Identifier: ISC */
#include "data/reader/data_num.h"

#include <math.h>

#include "core/num.h"

#define EXACT_DIGITS 19 /* digits that a uint64_t always holds */
#define EXACT_POWER  22 /* largest power of ten that is an exact double */

const double data_num_ten[EXACT_POWER + 1] = {
	1e0,
	1e1,
	1e2,
	1e3,
	1e4,
	1e5,
	1e6,
	1e7,
	1e8,
	1e9,
	1e10,
	1e11,
	1e12,
	1e13,
	1e14,
	1e15,
	1e16,
	1e17,
	1e18,
	1e19,
	1e20,
	1e21,
	1e22,
};

const double data_num_tenth[16] = {
	1e0,
	1e-1,
	1e-2,
	1e-3,
	1e-4,
	1e-5,
	1e-6,
	1e-7,
	1e-8,
	1e-9,
	1e-10,
	1e-11,
	1e-12,
	1e-13,
	1e-14,
	1e-15,
};

const uint64_t data_num_power[8] = { 1, 10, 100, 1000, 10000, 100000, 1000000, 10000000 };

const double data_num_sign[2] = { 1, -1 };

static inline bool is_digit(char c)
{
	return (unsigned char)(c - '0') < 10;
}

/* Parses the exponent after "e" at p; returns p itself when no digit follows. */
static const char *parse_exponent(const char *p, int *out)
{
	const char *q = p + 1;
	bool minus = *q == '-';
	int v = 0;

	if (*q == '-' || *q == '+')
		q++;
	if (!is_digit(*q))
		return p;
	for (; is_digit(*q); q++)
		if (v < 100000)
			v = v * 10 + (*q - '0');
	*out += minus ? -v : v;
	return q;
}

/* The parts of a number: digits * 10^power, with n digits from the first nonzero one (more than
 * EXACT_DIGITS overflow). take_apart returns the byte after the number, NULL when there is
 * none. */
struct parts {
	uint64_t digits;
	int power;
	bool minus;
	ptrdiff_t n;
};

/* Splits a number into its parts without rounding. */
static const char *take_apart(const char *p, struct parts *x)
{
	const char *first, *point = NULL;

	*x = (struct parts){ .minus = *p == '-' };
	if (*p == '-' || *p == '+')
		p++;
	first = p;
	for (; *p == '0'; p++)
		;
	x->n = -(p - first);
	for (; is_digit(*p); p++)
		x->digits = x->digits * 10 + (uint64_t)(*p - '0');
	x->n += p - first;
	if (*p == '.') {
		point = ++p;
		for (; x->n == 0 && *p == '0'; p++)
			;
		x->n -= p - point;
		for (; is_digit(*p); p++)
			x->digits = x->digits * 10 + (uint64_t)(*p - '0');
		x->n += p - point;
		x->power = p - point < 100000 ? -(int)(p - point) : -100000;
	}
	if (p - first == (point != NULL))
		return NULL;
	return *p == 'e' || *p == 'E' ? parse_exponent(p, &x->power) : p;
}

static bool has_power(const struct parts *x)
{
	return x->n <= EXACT_DIGITS && x->power >= -EXACT_POWER && x->power <= EXACT_POWER;
}

/* The value: rounded once when the digits are an exact double, else at most twice. */
static double combine_parts(const struct parts *x)
{
	double v = (double)x->digits;

	v = x->power < 0 ? v / data_num_ten[-x->power] : v * data_num_ten[x->power];
	return x->minus ? -v : v;
}

const char *data_num(const char *p, double *out)
{
	const char *start = p;
	struct parts x;

	p = take_apart(p, &x);
	if (p)
		*out = has_power(&x) && x.digits <= UINT64_C(1) << 53 ? combine_parts(&x)
		                                                      : num_strtod(start, NULL);
	return p;
}

/* Two roundings are off by at most 2^-52 of the value, and the exact double by 2^-53 from there: it
 * lies between the two bounds. Rounding to float is monotonic, so equal floats of both bounds are
 * the result. */
const char *data_num_float_long(const char *p, float *out)
{
	const char *start = p;
	struct parts x;
	float other;
	double v;

	p = take_apart(p, &x);
	if (!p)
		return NULL;
	if (has_power(&x)) {
		v = combine_parts(&x);
		*out = (float)(v * (1 - 0x1p-50));
		other = (float)(v * (1 + 0x1p-50));
		if (*out == other)
			return p;
	}
	*out = (float)num_strtod(start, NULL);
	return p;
}

bool data_num_all(const char *p, double *out)
{
	p = data_num(p, out);
	return p && !*p && isfinite(*out);
}
