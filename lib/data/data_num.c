#include "data/data_num.h"

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#define EXACT_DIGITS 19         /* that a uint64_t always holds */
#define EXACT_POWER 22          /* of ten, as a double */

static const double power_of_ten[EXACT_POWER + 1] = {
	1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
	1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
};

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

const char *data_num(const char *p, double *out)
{
	const char *start = p, *first;
	uint64_t digits = 0;
	bool minus = *p == '-';
	ptrdiff_t n;
	int power = 0;
	double v;

	if (*p == '-' || *p == '+')
		p++;
	for (first = p; is_digit(*p); p++)
		digits = digits * 10 + (uint64_t)(*p - '0');
	n = p - first;
	if (*p == '.') {
		for (first = ++p; is_digit(*p); p++)
			digits = digits * 10 + (uint64_t)(*p - '0');
		n += p - first;
		power = p - first < 100000 ? -(int)(p - first) : -100000;
	}
	if (n == 0)
		return NULL;
	if (*p == 'e' || *p == 'E')
		p = exponent(p, &power);
	if (n > EXACT_DIGITS || digits > UINT64_C(1) << 53 || power < -EXACT_POWER || power > EXACT_POWER) {
		*out = strtod(start, NULL);
		return p;
	}
	v = (double)digits;
	v = power < 0 ? v / power_of_ten[-power] : v * power_of_ten[power];
	*out = minus ? -v : v;
	return p;
}

bool data_num_all(const char *p, double *out)
{
	p = data_num(p, out);
	return p && !*p && isfinite(*out);
}
