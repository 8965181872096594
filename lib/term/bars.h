#ifndef TERM_BARS_H
#define TERM_BARS_H

#include <stdbool.h>
#include <stddef.h>

/* Bars of characters.  Pure: it knows no terminal. */

/* Deal out width characters to n shares, each of at least 0 and together at most 1, so that
 * each is less than one character off, and their sum is rounded as a whole (largest
 * remainders first, of equal ones the first). */
void bars_split(const double *share, size_t n, unsigned width, unsigned *cells);

/* A bar that fills a fraction, 0 to 1, of width characters, by eighths of blocks or, with
 * unicode false, of '#'.  What is above 0 shows.  Written to out (3 * width + 1 bytes), without
 * blanks behind it; returns how many characters it has. */
unsigned bars_fill(double fraction, unsigned width, bool unicode, char *out);

#endif
