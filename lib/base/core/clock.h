/* SPDX-License-Identifier: ISC */
#ifndef CORE_CLOCK_H
#define CORE_CLOCK_H

/* The two clocks: one for decisions and measurements, one for people. Any thread. */

#include <stdint.h>

#define NSEC_PER_SEC  INT64_C(1000000000)
#define NSEC_PER_MSEC INT64_C(1000000)

/* CLOCK_MONOTONIC in nanoseconds: the only clock that decisions may use. */
int64_t clock_now(void);
/* Wall clock in nanoseconds of Unix time, only for time stamps in logs, JSON and HTTP
 * signatures. */
int64_t clock_wall(void);
/* The wall clock as RFC 3339 UTC with milliseconds: "2026-01-31T23:59:59.123Z". */
void clock_stamp(char out[static 32]);

/* A time to wait as the timeout of poll(): `ns` in milliseconds, rounded up, so that a wait does
 * not end before the time; 0 to INT_MAX. */
int clock_poll_timeout(int64_t ns);
/* Sleeps for `ms` milliseconds, or until this thread has handled a signal. */
void clock_sleep(int ms);

#endif
