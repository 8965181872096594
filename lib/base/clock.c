#include "base/clock.h"

#include <time.h>

static int64_t read_clock(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return ts.tv_sec * NSEC_PER_SEC + ts.tv_nsec;
}

int64_t clock_now(void)
{
	return read_clock(CLOCK_MONOTONIC);
}

int64_t clock_wall(void)
{
	return read_clock(CLOCK_REALTIME);
}

void clock_stamp(char out[static 32])
{
	int64_t now = clock_wall();
	time_t s = now / NSEC_PER_SEC;
	struct tm tm;

	gmtime_r(&s, &tm);
	snprintf(out, 32, "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday,
	    tm.tm_hour, tm.tm_min, tm.tm_sec, (int)(now % NSEC_PER_SEC / NSEC_PER_MSEC));
}
