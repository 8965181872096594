/* SPDX-License-Identifier: ISC */
#include "core/num.h"

#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>

static locale_t c_locale;
static pthread_once_t c_locale_once = PTHREAD_ONCE_INIT;

/* The C locale is static, so that this does not fail and allocates nothing. */
static void open_c_locale(void)
{
	c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

double num_strtod(const char *s, char **end)
{
	pthread_once(&c_locale_once, open_c_locale);
	return strtod_l(s, end, c_locale);
}

bool num_uint(const char *s, uint64_t max, uint64_t *out)
{
	uint64_t v = 0;

	if (!*s)
		return false;
	for (; *s; s++) {
		if (*s < '0' || *s > '9' || __builtin_mul_overflow(v, 10u, &v) ||
		    __builtin_add_overflow(v, (uint64_t)(*s - '0'), &v))
			return false;
	}
	if (v > max)
		return false;
	*out = v;
	return true;
}

bool num_int(const char *s, int64_t min, int64_t max, int64_t *out)
{
	bool minus = *s == '-';
	uint64_t v;
	int64_t n;

	if (!num_uint(s + (minus || *s == '+'), minus ? UINT64_C(1) << 63 : INT64_MAX, &v))
		return false;
	n = minus ? (int64_t)(0 - v) : (int64_t)v;
	if (n < min || n > max)
		return false;
	*out = n;
	return true;
}

/* Parses a plain decimal number; strtod alone would also accept blanks, hexadecimal, "inf" and the
 * locale's comma. */
static bool parse_double(const char *s, double *out)
{
	const char *p = s + (*s == '-' || *s == '+');
	size_t digits = strspn(p, "0123456789");
	char *stop;

	p += digits;
	if (*p == '.') {
		size_t more = strspn(p + 1, "0123456789");

		digits += more;
		p += 1 + more;
	}
	if (!digits)
		return false;
	if (*p == 'e' || *p == 'E') {
		const char *x = p + 1 + (p[1] == '-' || p[1] == '+');

		if (*x >= '0' && *x <= '9')
			p = x + strspn(x, "0123456789");
	}
	*out = num_strtod(s, &stop);
	return stop == p && !*stop && isfinite(*out);
}

bool num_double(const char *s, double *out)
{
	double v;

	if (!parse_double(s, &v))
		return false;
	*out = v;
	return true;
}

struct unit {
	const char *name;
	uint64_t scale;
};

/* Parses a decimal number digits * 10^exponent; *end is after it. Digits beyond 64 bits are below
 * every unit used here, or overflow later. */
static bool parse_decimal(const char *s, uint64_t *digits, int *exponent, const char **end)
{
	const char *p = s + (*s == '+');
	bool point = false, any = false;

	*digits = 0;
	*exponent = 0;
	for (; (*p >= '0' && *p <= '9') || (*p == '.' && !point); p++) {
		if (*p == '.') {
			point = true;
			continue;
		}
		any = true;
		if (*digits < UINT64_MAX / 10 - 1) {
			*digits = *digits * 10 + (uint64_t)(*p - '0');
			*exponent -= point;
		} else {
			*exponent += !point;
		}
	}
	if (*p == 'e' || *p == 'E') {
		const char *x = p + 1 + (p[1] == '-' || p[1] == '+');
		int n = 0;

		if (*x < '0' || *x > '9')
			return false;
		for (; *x >= '0' && *x <= '9'; x++)
			n = n < 1000 ? n * 10 + (*x - '0') : n;
		*exponent += p[1] == '-' ? -n : n;
		p = x;
	}
	*end = p;
	return any;
}

/* Parses a decimal number with a unit, in integers only: no double holds 1.1s or 2^53 + 1. A
 * fraction of the result is rounded down, or to the nearest. A nonzero number must not become 0,
 * which often means "none". */
static bool parse_scaled(const char *s, const struct unit *u, size_t n, uint64_t max, bool nearest,
    uint64_t *out)
{
	unsigned __int128 v, one = 1;
	uint64_t digits;
	const char *end;
	int exponent;
	size_t i = 0;

	if (!parse_decimal(s, &digits, &exponent, &end))
		return false;
	while (i < n && strcmp(end, u[i].name) != 0)
		i++;
	if (i == n)
		return false;
	v = (unsigned __int128)digits * u[i].scale;
	for (; v && exponent > 0; exponent--) {
		v *= 10;
		if (v > max)
			return false;
	}
	for (; exponent < 0 && one <= v; exponent++)
		one *= 10;
	v = exponent < 0 ? 0 : (v + (nearest ? one / 2 : 0)) / one;
	if (v > max || (digits && !v))
		return false;
	*out = (uint64_t)v;
	return true;
}

#define KIB (UINT64_C(1) << 10)
#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)
#define TIB (UINT64_C(1) << 40)

/* All units are powers of 1024; "k" and "K" are the same. */
bool num_size(const char *s, uint64_t *out)
{
	static const struct unit unit[] = {
		{ "", 1 },
		{ "B", 1 },
		{ "K", KIB },
		{ "k", KIB },
		{ "KiB", KIB },
		{ "M", MIB },
		{ "m", MIB },
		{ "MiB", MIB },
		{ "G", GIB },
		{ "g", GIB },
		{ "GiB", GIB },
		{ "T", TIB },
		{ "t", TIB },
		{ "TiB", TIB },
	};

	return parse_scaled(s, unit, sizeof unit / sizeof *unit, INT64_MAX, false, out);
}

#define SECOND UINT64_C(1000000000)

bool num_duration(const char *s, int64_t *nanoseconds)
{
	static const struct unit unit[] = {
		{ "", SECOND },
		{ "s", SECOND },
		{ "m", 60 * SECOND },
		{ "h", 3600 * SECOND },
		{ "ms", 1000000 },
		{ "us", 1000 },
		{ "ns", 1 },
	};
	uint64_t v;

	/* Half of the range, so that a time added to the clock cannot overflow. */
	if (!parse_scaled(s, unit, sizeof unit / sizeof *unit, INT64_MAX / 2, true, &v))
		return false;
	*nanoseconds = (int64_t)v;
	return true;
}

/* Prints with a decimal point, whatever locale a program that uses the library has set. */
__attribute__((format(printf, 3, 4))) static void print_c_locale(char *out, size_t n,
    const char *fmt, ...)
{
	locale_t before;
	va_list ap;

	pthread_once(&c_locale_once, open_c_locale);
	before = uselocale(c_locale);
	va_start(ap, fmt);
	vsnprintf(out, n, fmt, ap);
	va_end(ap);
	uselocale(before);
}

static int count_significant(const char *text)
{
	int n = 0, zeros = 0;

	for (; *text && *text != 'e'; text++) {
		if (*text < '0' || *text > '9' || (*text == '0' && !n))
			continue;
		/* Zeroes at the end may only be place holders. */
		zeros = *text == '0' ? zeros + 1 : 0;
		n++;
	}
	return n - zeros;
}

/* With 15 digits, zeroes at the end are not printed (%g), so a number with fewer digits needs no
 * search for the precision. */
void num_format(double v, char out[static 32])
{
	double back;
	int n;

	print_c_locale(out, 32, "%.15g", v);
	if (num_double(out, &back) && back == v) {
		n = count_significant(out);
		if (n < 15)
			print_c_locale(out, 32, "%.*g", n < 6 ? 6 : n, v);
		return;
	}
	print_c_locale(out, 32, "%.16g", v);
	if (!num_double(out, &back) || back != v)
		print_c_locale(out, 32, "%.17g", v);
}

void num_digits(double v, int digits, char out[static 32])
{
	if (fabs(v) < 1e15 && fabs(v) >= pow(10, digits) - 0.5)
		print_c_locale(out, 32, "%.0f", v);
	else
		print_c_locale(out, 32, "%.*g", digits, v);
}

/* The limits hold for the rounded text: never "1024K" or "10.0K". */
void num_human(double v, char out[static 16])
{
	static const char suffix[] = " KMGTPE";
	int i = 0;

	while (isfinite(v) && fabs(v) >= 1023.5 && suffix[i + 1]) {
		v /= 1024;
		i++;
	}
	if (i == 0)
		print_c_locale(out, 16, "%.0f", v);
	else
		print_c_locale(out, 16, fabs(v) < 9.95 ? "%.1f%c" : "%.0f%c", v, suffix[i]);
}

void num_count(double v, char out[static 16])
{
	static const char unit[] = " kMGTP";
	size_t i = 0;

	for (; (v >= 999.5 || v <= -999.5) && i + 2 < sizeof unit; i++)
		v /= 1000;
	if (i == 0)
		print_c_locale(out, 16, "%.3g", v);
	else
		print_c_locale(out, 16, v < 99.95 ? "%.1f%c" : "%.0f%c", v, unit[i]);
}
