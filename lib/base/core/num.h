/* SPDX-License-Identifier: ISC */
#ifndef CORE_NUM_H
#define CORE_NUM_H

#include <stdbool.h>
#include <stdint.h>

/* Numbers as text. Any thread; independent of the locale.
 *
 * The parsers accept a whole string only: no blanks, nothing left over, no overflow. False leaves
 * *out unchanged. */
bool num_int(const char *s, int64_t min, int64_t max, int64_t *out);
bool num_uint(const char *s, uint64_t max, uint64_t *out);
bool num_double(const char *s, double *out); /* finite only */
bool num_size(const char *s, uint64_t *out); /* 4096, 64K, 4M, 2G (base 1024), also KiB MiB */
bool num_duration(const char *s,
    int64_t *nanoseconds); /* 30s, 200ms, 5m, 1h, 1.5s; a bare number is seconds */

/* As strtod() in the C locale, whatever the locale of the program is: a program that uses the
 * library may have set one in which the comma is the decimal sign. */
double num_strtod(const char *s, char **end);

/* The shortest text that is parsed back to the same double; the caller must not pass one that is
 * not finite. */
void num_format(double v, char out[static 32]);
/* A size for people: 1536 -> "1.5K" (base 1024). */
void num_human(double v, char out[static 16]);
/* Format a count for people, base 1000: "1.2M", "18.2k", "431", "0.25". */
void num_count(double v, char out[static 16]);
/* A number for people, with this many significant digits: integers without a point, large ones
 * without an exponent. */
void num_digits(double v, int digits, char out[static 32]);

/* The plural ending of a noun with a count of n. */
#define NUM_S(n) ((n) == 1 ? "" : "s")

#endif
