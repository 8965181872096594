#include "base/num.h"

#include <errno.h>
#include <locale.h>
#include <math.h>

#include "base/clock.h"

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

/* The longest prefix that is a plain decimal number; strtod alone would also
 * take blanks, hexadecimal, "inf" and the locale's comma. */
static bool take_double(const char *s, double *out, const char **end)
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
	/* The programs never call setlocale, so strtod reads a dot. */
	*out = strtod(s, &stop);
	*end = p;
	return stop == p && isfinite(*out);
}

bool num_double(const char *s, double *out)
{
	const char *end;
	double v;

	if (!take_double(s, &v, &end) || *end)
		return false;
	*out = v;
	return true;
}

struct unit {
	const char *name;
	double scale;
};

static bool take_unit(const char *s, const struct unit *u, size_t n, double *scale)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(s, u[i].name) == 0) {
			*scale = u[i].scale;
			return true;
		}
	return false;
}

bool num_size(const char *s, uint64_t *out)
{
	static const struct unit unit[] = {
		{ "", 1 }, { "B", 1 }, { "K", 0x1p10 }, { "M", 0x1p20 }, { "G", 0x1p30 }, { "T", 0x1p40 },
		{ "KiB", 0x1p10 }, { "MiB", 0x1p20 }, { "GiB", 0x1p30 }, { "TiB", 0x1p40 },
		{ "k", 0x1p10 }, { "m", 0x1p20 }, { "g", 0x1p30 }, { "t", 0x1p40 },
	};
	const char *end;
	double v, scale;

	if (!take_double(s, &v, &end) || v < 0 || !take_unit(end, unit, sizeof unit / sizeof *unit, &scale) ||
	    v * scale >= 0x1p63)
		return false;
	*out = (uint64_t)(v * scale);
	return true;
}

bool num_duration(const char *s, int64_t *nanoseconds)
{
	static const struct unit unit[] = {
		{ "", 1e9 }, { "s", 1e9 }, { "ms", 1e6 }, { "us", 1e3 }, { "ns", 1 }, { "m", 60e9 }, { "h", 3600e9 },
	};
	const char *end;
	double v, scale;

	if (!take_double(s, &v, &end) || v < 0 || !take_unit(end, unit, sizeof unit / sizeof *unit, &scale) ||
	    v * scale >= 0x1p62)
		return false;
	*nanoseconds = (int64_t)llround(v * scale);
	return true;
}

void num_format(double v, char out[static 32])
{
	double back;

	for (int digits = 6; digits <= 17; digits++) {
		snprintf(out, 32, "%.*g", digits, v);
		if (num_double(out, &back) && back == v)
			return;
	}
}

void num_human(double v, char out[static 16])
{
	static const char suffix[] = " KMGTPE";
	int i = 0;

	while (fabs(v) >= 1024 && suffix[i + 1]) {
		v /= 1024;
		i++;
	}
	if (i == 0)
		snprintf(out, 16, "%.0f", v);
	else
		snprintf(out, 16, fabs(v) < 10 ? "%.1f%c" : "%.0f%c", v, suffix[i]);
}
