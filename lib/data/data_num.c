#include "data/data_num.h"

#include <math.h>

#define EXACT_DIGITS 19         /* that a uint64_t always holds */
#define EXACT_POWER 22          /* of ten, as a double */

const double data_num_ten[EXACT_POWER + 1] = {
	1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
	1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
};

const uint64_t data_num_power[8] = { 1, 10, 100, 1000, 10000, 100000, 1000000, 10000000 };

const double data_num_sign[2] = { 1, -1 };

static inline bool is_digit(char c)
{
	return (unsigned char)(c - '0') < 10;
}

/* The exponent that follows "e" at p, or p itself when no digit does. */
static const char *exponent(const char *p, int *out)
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

/* The parts of a number: digits * 10^power, of n digits from the first that is not 0 (more
 * than EXACT_DIGITS have run over).  Returns the byte behind it, NULL when it is none. */
struct parts {
	uint64_t digits;
	int power;
	bool minus;
	ptrdiff_t n;
};

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
	return *p == 'e' || *p == 'E' ? exponent(p, &x->power) : p;
}

static bool has_power(const struct parts *x)
{
	return x->n <= EXACT_DIGITS && x->power >= -EXACT_POWER && x->power <= EXACT_POWER;
}

/* Rounded once when the digits are an exact double, else at most twice. */
static double put_together(const struct parts *x)
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
		*out = has_power(&x) && x.digits <= UINT64_C(1) << 53 ? put_together(&x) : strtod(start, NULL);
	return p;
}

/* Two roundings are off by 2^-52 of the value at most, the exact double by 2^-53 from
 * there: it lies between the two bounds, and rounding keeps the order. */
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
		v = put_together(&x);
		*out = (float)(v * (1 - 0x1p-50));
		other = (float)(v * (1 + 0x1p-50));
		if (*out == other)
			return p;
	}
	*out = (float)strtod(start, NULL);
	return p;
}

bool data_num_all(const char *p, double *out)
{
	p = data_num(p, out);
	return p && !*p && isfinite(*out);
}
