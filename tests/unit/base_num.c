/* SPDX-License-Identifier: ISC */
/* Numbers from text and back: bounds, exactness, what is refused. */
#include <float.h>
#include <inttypes.h>
#include <locale.h>
#include <math.h>

#include "core/num.h"
#include "core/rng.h"
#include "tap.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

static void test_int(void)
{
	static const struct {
		const char *text;
		int64_t min, max, want;
		bool good;
	} row[] = {
		{ "0", 0, 0, 0, true },
		{ "-0", 0, 0, 0, true },
		{ "+7", -10, 10, 7, true },
		{ "007", 0, 10, 7, true },
		{ "9223372036854775807", INT64_MIN, INT64_MAX, INT64_MAX, true },
		{ "-9223372036854775808", INT64_MIN, INT64_MAX, INT64_MIN, true },
		{ "9223372036854775808", INT64_MIN, INT64_MAX, 0, false },
		{ "-9223372036854775809", INT64_MIN, INT64_MAX, 0, false },
		{ "18446744073709551617", INT64_MIN, INT64_MAX, 0, false },
		{ "11", -10, 10, 0, false },
		{ "-11", -10, 10, 0, false },
		{ "", INT64_MIN, INT64_MAX, 0, false },
		{ "-", INT64_MIN, INT64_MAX, 0, false },
		{ "+", INT64_MIN, INT64_MAX, 0, false },
		{ "--1", INT64_MIN, INT64_MAX, 0, false },
		{ "+-1", INT64_MIN, INT64_MAX, 0, false },
		{ " 1", INT64_MIN, INT64_MAX, 0, false },
		{ "1 ", INT64_MIN, INT64_MAX, 0, false },
		{ "1\n", INT64_MIN, INT64_MAX, 0, false },
		{ "1x", INT64_MIN, INT64_MAX, 0, false },
		{ "0x10", INT64_MIN, INT64_MAX, 0, false },
		{ "1e3", INT64_MIN, INT64_MAX, 0, false },
		{ "1.0", INT64_MIN, INT64_MAX, 0, false },
	};

	for (size_t i = 0; i < COUNT(row); i++) {
		int64_t v = 42;
		bool good = num_int(row[i].text, row[i].min, row[i].max, &v);

		ok(good == row[i].good && v == (good ? row[i].want : 42), "num_int \"%s\"",
		    row[i].text);
	}
}

static void test_uint(void)
{
	uint64_t v = 42;

	ok(num_uint("18446744073709551615", UINT64_MAX, &v) && v == UINT64_MAX,
	    "num_uint: 2^64 - 1");
	v = 42;
	ok(!num_uint("18446744073709551616", UINT64_MAX, &v) && v == 42,
	    "num_uint: 2^64 overflows");
	ok(!num_uint("99999999999999999999999", UINT64_MAX, &v) && v == 42,
	    "num_uint: far overflow");
	ok(num_uint("255", 255, &v) && v == 255, "num_uint: the bound itself");
	ok(!num_uint("256", 255, &v) && v == 255, "num_uint: one above the bound");
	ok(!num_uint("-1", UINT64_MAX, &v), "num_uint: no minus");
	ok(!num_uint("+1", UINT64_MAX, &v), "num_uint: no plus");
	ok(!num_uint("", UINT64_MAX, &v) && !num_uint(" 1", UINT64_MAX, &v),
	    "num_uint: empty, blank");
	ok(v == 255, "num_uint: a refusal leaves the value alone");
}

static void test_double(void)
{
	static const char *const bad[] = {
		"",
		" 1",
		"1 ",
		"nan",
		"inf",
		"-inf",
		"infinity",
		"NAN(1)",
		"0x10",
		"0x1p3",
		"1e",
		"1e+",
		"e5",
		".",
		"-.",
		"+",
		"1,5",
		"1.5.2",
		"1e400",
		"-1e400",
		"1_000",
		"--1",
		"1f",
		"1e5.5",
	};
	static const struct {
		const char *text;
		double want;
	} good[] = {
		{ "0", 0 },
		{ "1", 1 },
		{ "-1.5", -1.5 },
		{ "+2.5e3", 2500 },
		{ ".5", 0.5 },
		{ "5.", 5 },
		{ "1E-3", 0.001 },
		{ "0.1", 0.1 },
		{ "1e308", 1e308 },
		{ "4.9e-324", 4.9e-324 },
		{ "9007199254740993", 9007199254740992.0 },
		{ "1e-400", 0 },
	};
	double v;

	for (size_t i = 0; i < COUNT(good); i++)
		ok(num_double(good[i].text, &v) && v == good[i].want, "num_double \"%s\"",
		    good[i].text);
	for (size_t i = 0; i < COUNT(bad); i++) {
		v = 42;
		ok(!num_double(bad[i], &v) && v == 42, "num_double refuses \"%s\"", bad[i]);
	}
}

static void test_size(void)
{
	static const char *const bad[] = {
		"",
		"K",
		"-1",
		"-0",
		"1 K",
		" 1",
		"1KB",
		"1Kib",
		"1kiB",
		"1P",
		"1e",
		"1eK",
		".",
		".K",
		"1.2.3",
		"9223372036854775808",
		"8388608T",
		"1e19",
		"1e999999999999",
		"0.5",
		"0.0001K",
		"1e-3",
		"0x10",
		"inf",
	};
	static const struct {
		const char *text;
		uint64_t want;
	} good[] = {
		{ "0", 0 },
		{ "0K", 0 },
		{ "0e99", 0 },
		{ "4096", 4096 },
		{ "4096B", 4096 },
		{ "+1", 1 },
		{ "64K", 65536 },
		{ "64k", 65536 },
		{ "64KiB", 65536 },
		{ "4M", 4194304 },
		{ "4MiB", 4194304 },
		{ "2G", UINT64_C(2) << 30 },
		{ "1T", UINT64_C(1) << 40 },
		{ "1TiB", UINT64_C(1) << 40 },
		{ "1.5K", 1536 },
		{ ".5M", 524288 },
		{ "1.K", 1024 },
		{ "0.3K", 307 },
		{ "1e3", 1000 },
		{ "1e+09", 1000000000 },
		{ "1.5E1K", 15360 },
		{ "25e-1K", 2560 },
		{ "9007199254740993", UINT64_C(9007199254740993) },
		{ "9223372036854775807", INT64_MAX },
		{ "8388607T", UINT64_C(8388607) << 40 },
		{ "0.00000000000000000000000000000001e35", 1000 },
		{ "00000000000000000000000000000000000012K", 12288 },
		{ "1.00000000000000000000000000000000000000000", 1 },
		{ "100000000000000000000000000000000000000000e-40", 10 },
	};
	uint64_t v;

	for (size_t i = 0; i < COUNT(good); i++) {
		v = 42;
		ok(num_size(good[i].text, &v) && v == good[i].want, "num_size \"%s\" is %" PRIu64,
		    good[i].text, v);
	}
	for (size_t i = 0; i < COUNT(bad); i++) {
		v = 42;
		ok(!num_size(bad[i], &v) && v == 42, "num_size refuses \"%s\"", bad[i]);
	}
}

static void test_duration(void)
{
	static const char *const bad[] = {
		"",
		"s",
		"-1s",
		"1 s",
		"1S",
		"1min",
		"1d",
		"ms",
		"1e",
		"0.1ns",
		"1e-10",
		"1e300",
		"200y",
		"4611686018427387904ns",
		"9223372036854775808ns",
		"nan",
		"1s ",
		"1,5s",
	};
	static const struct {
		const char *text;
		int64_t want;
	} good[] = {
		{ "0", 0 },
		{ "0s", 0 },
		{ "30", INT64_C(30000000000) },
		{ "30s", INT64_C(30000000000) },
		{ "200ms", 200000000 },
		{ "5m", INT64_C(300000000000) },
		{ "1h", INT64_C(3600000000000) },
		{ "1.5s", 1500000000 },
		{ "250us", 250000 },
		{ "7ns", 7 },
		{ "1.5ns", 2 },
		{ "0.5ns", 1 },
		{ "0.1", 100000000 },
		{ "0.3s", 300000000 },
		{ "1.1s", 1100000000 },
		{ "0.1h", INT64_C(360000000000) },
		{ "1e-3", 1000000 },
		{ "1e3ms", 1000000000 },
		{ "5e-05", 50000 },
		{ "9007199.254740993s", INT64_C(9007199254740993) },
		{ "4611686018.427387903", INT64_C(4611686018427387903) },
		{ "0.0000000014999999999999999999s", 1 },
	};
	int64_t v;

	for (size_t i = 0; i < COUNT(good); i++) {
		v = 42;
		ok(num_duration(good[i].text, &v) && v == good[i].want,
		    "num_duration \"%s\" is %" PRId64, good[i].text, v);
	}
	for (size_t i = 0; i < COUNT(bad); i++) {
		v = 42;
		ok(!num_duration(bad[i], &v) && v == 42, "num_duration refuses \"%s\"", bad[i]);
	}
}

static void test_format(void)
{
	static const struct {
		double v;
		const char *want;
	} row[] = {
		{ 0, "0" },
		{ 1, "1" },
		{ -1.5, "-1.5" },
		{ 0.1, "0.1" },
		{ 0.1 + 0.2, "0.30000000000000004" },
		{ 100000, "100000" },
		{ 1234567, "1234567" },
		{ 1e100, "1e+100" },
		{ 1.0 / 3, "0.3333333333333333" },
		{ DBL_MAX, "1.7976931348623157e+308" },
		{ -2.2250738585072014e-308, "-2.2250738585072014e-308" },
	};
	struct rng r;
	int lost = 0;
	char text[32];
	double back;

	for (size_t i = 0; i < COUNT(row); i++) {
		num_format(row[i].v, text);
		ok(strcmp(text, row[i].want) == 0, "num_format %s (%s)", row[i].want, text);
	}
	rng_init(&r, 1);
	for (int i = 0; i < 20000; i++) {
		uint64_t bits = rng_next(&r);
		double v;

		memcpy(&v, &bits, sizeof v);
		if (!isfinite(v))
			continue;
		num_format(v, text);
		back = -v;
		lost += !num_double(text, &back) || memcmp(&back, &v, sizeof v) != 0;
	}
	ok(lost == 0, "num_format: 20000 random doubles come back with the same bits (%d lost)",
	    lost);
	num_format(INFINITY, text);
	ok(strcmp(text, "inf") == 0, "num_format: infinity ends the search (%s)", text);
}

static void test_human(void)
{
	static const struct {
		double v;
		const char *want;
	} row[] = {
		{ 0, "0" },
		{ 1, "1" },
		{ 1023, "1023" },
		{ 1023.7, "1.0K" },
		{ 1024, "1.0K" },
		{ 1536, "1.5K" },
		{ 10239, "10K" },
		{ 10240, "10K" },
		{ 65536, "64K" },
		{ 1048575, "1.0M" },
		{ 0x1p20, "1.0M" },
		{ 1.5 * 0x1p30, "1.5G" },
		{ 0x1p40, "1.0T" },
		{ 0x1p50, "1.0P" },
		{ 0x1p60, "1.0E" },
		{ -1536, "-1.5K" },
		{ INFINITY, "inf" },
	};
	char text[16];

	for (size_t i = 0; i < COUNT(row); i++) {
		num_human(row[i].v, text);
		ok(strcmp(text, row[i].want) == 0, "num_human %g is %s (%s)", row[i].v, row[i].want,
		    text);
	}
	num_human(DBL_MAX, text);
	ok(strlen(text) < sizeof text, "num_human: the largest double stays in its room");
}

static void test_digits(void)
{
	static const struct {
		double v;
		int digits;
		const char *want;
	} row[] = {
		{ 0, 4, "0" },
		{ 3, 4, "3" },
		{ 0.69314, 4, "0.6931" },
		{ 12345, 4, "12345" },
		{ 1234567, 3, "1234567" },
		{ 1234.5, 3, "1234" },
		{ 999.4, 3, "999" },
		{ 999.5, 3, "1000" },
		{ -12345.6, 4, "-12346" },
		{ 0.00001234, 4, "1.234e-05" },
		{ 1e30, 4, "1e+30" },
		{ INFINITY, 4, "inf" },
	};
	char text[32];

	for (size_t i = 0; i < COUNT(row); i++) {
		num_digits(row[i].v, row[i].digits, text);
		ok(strcmp(text, row[i].want) == 0, "num_digits %g is %s (%s)", row[i].v,
		    row[i].want, text);
	}
}

/* Only where such a locale is installed; there a dot is no decimal point. */
static void test_locale(void)
{
	static const char *const name[] = { "de_DE.UTF-8", "de_DE", "fr_FR.UTF-8" };
	char text[32];
	size_t i = 0;
	double v = 0;

	while (i < COUNT(name) && !setlocale(LC_ALL, name[i]))
		i++;
	if (i == COUNT(name)) {
		ok(true, "locale # SKIP none with a decimal comma is installed");
		return;
	}
	ok(num_double("1.5", &v) && v == 1.5 && !num_double("1,5", &v),
	    "num_double keeps its dot in %s", name[i]);
	num_format(1.5, text);
	ok(strcmp(text, "1.5") == 0, "num_format keeps its dot in %s", name[i]);
	num_human(1536, text);
	ok(strcmp(text, "1.5K") == 0, "num_human keeps its dot in %s", name[i]);
	setlocale(LC_ALL, "C");
}

int main(void)
{
	test_int();
	test_uint();
	test_double();
	test_size();
	test_duration();
	test_format();
	test_human();
	test_digits();
	test_locale();
	return tap_done();
}
