#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>

#define NSEC_PER_SEC INT64_C(1000000000)
#define NSEC_PER_MSEC INT64_C(1000000)

/* CLOCK_MONOTONIC in nanoseconds: the only clock that decisions use. */
int64_t clock_now(void);
/* Wall clock, for stamps in logs, JSON and HTTP signatures alone. */
int64_t clock_wall(void);
/* RFC 3339 UTC with milliseconds: "2026-01-31T23:59:59.123Z". */
void clock_stamp(char out[static 32]);

#endif
