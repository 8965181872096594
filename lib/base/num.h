#ifndef BASE_NUM_H
#define BASE_NUM_H

#include <stdbool.h>
#include <stdint.h>

/* Bounded parsing of a whole string: no leading or trailing blanks, nothing
 * left over, no overflow.  False leaves *out alone. */
bool num_int(const char *s, int64_t min, int64_t max, int64_t *out);
bool num_uint(const char *s, uint64_t max, uint64_t *out);
bool num_double(const char *s, double *out);              /* finite only */
bool num_size(const char *s, uint64_t *out);              /* 4096, 64K, 4M, 2G (base 1024), also KiB MiB */
bool num_duration(const char *s, int64_t *nanoseconds);   /* 30s, 200ms, 5m, 1h, 1.5s; a bare number is seconds */

/* Shortest text that a double parses back from; "null" is never written. */
void num_format(double v, char out[static 32]);
/* 1536 -> "1.5K" (base 1024), for people. */
void num_human(double v, char out[static 16]);

#endif
