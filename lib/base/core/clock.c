/* SPDX-License-Identifier: ISC */
#include "core/clock.h"

#include <limits.h>
#include <poll.h>
#include <time.h>

int64_t clock_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * NSEC_PER_SEC + ts.tv_nsec;
}

int64_t clock_wall(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return ts.tv_sec * NSEC_PER_SEC + ts.tv_nsec;
}

void clock_stamp(char out[static 32])
{
	int64_t now = clock_wall();
	time_t s = now / NSEC_PER_SEC;
	unsigned ms = (unsigned)(now % NSEC_PER_SEC / NSEC_PER_MSEC) % 1000u;
	struct tm tm;
	size_t n;

	gmtime_r(&s, &tm);
	n = strftime(out, 24, "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(out + n, 32 - n, ".%03uZ", ms);
}

int clock_poll_timeout(int64_t ns)
{
	int64_t ms = ns / NSEC_PER_MSEC + (ns % NSEC_PER_MSEC > 0);

	return ms < 0 ? 0 : ms > INT_MAX ? INT_MAX : (int)ms;
}

void clock_sleep(int ms)
{
	poll(NULL, 0, ms);
}
