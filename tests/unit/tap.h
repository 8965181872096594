/* SPDX-License-Identifier: ISC */
#ifndef TAP_H
#define TAP_H

/* Test Anything Protocol for unit tests: ok(condition, "what it shows %d", n),
 * then `return tap_done();` at the end of main. */
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

static int tap_count, tap_failed;

__attribute__((format(printf, 4, 5), unused)) static bool tap_ok(bool good, const char *file,
    int line, const char *fmt, ...)
{
	va_list ap;

	printf("%sok %d - ", good ? "" : "not ", ++tap_count);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf("\n");
	if (!good) {
		tap_failed++;
		printf("#   at %s:%d\n", file, line);
	}
	fflush(stdout);
	return good;
}

#define ok(cond, ...) tap_ok((cond), __FILE__, __LINE__, __VA_ARGS__)
#define skip_all(why) (printf("1..0 # SKIP %s\n", why), 0)

/* Nanoseconds of a clock that stands still while some process of this machine waits for a
 * processor: a bound on a difference of two holds on a loaded machine, too.  Where the kernel
 * does not tell how long processes waited the clock runs at a tenth of the speed. */
__attribute__((unused)) static int64_t tap_idle_clock(void)
{
	unsigned long long stalled = 0;
	FILE *f = fopen("/proc/pressure/cpu", "r");
	bool told = f && fscanf(f, "some avg10=%*f avg60=%*f avg300=%*f total=%llu", &stalled) == 1;
	struct timespec t;
	int64_t now;

	if (f)
		fclose(f);
	clock_gettime(CLOCK_MONOTONIC, &t);
	now = (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
	return told ? now - (int64_t)stalled * 1000 : now / 10;
}

__attribute__((unused)) static int tap_done(void)
{
	printf("1..%d\n", tap_count);
	return tap_failed ? 1 : 0;
}

#endif
