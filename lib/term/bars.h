/* SPDX-License-Identifier: ISC */
#ifndef TERM_BARS_H
#define TERM_BARS_H

#include <stdbool.h>
#include <stddef.h>

/* Bars made of characters. Pure functions that know no terminal. */

/* Distribute width characters to n shares, each at least 0 and together at most 1, by the method
 * of the largest remainder: each is less than one character off, and their sum is the rounded
 * total. Of equal remainders the first one gets the character. */
void bars_split(const double *share, size_t n, unsigned width, unsigned *cells);

/* Write a bar that fills a fraction (0 to 1) of width characters to out, which has 3 * width + 1
 * bytes. It consists of blocks in steps of an eighth or, with unicode false, of '#'. A fraction
 * above 0 is at least one step long. No blanks follow it. Returns its number of characters. */
unsigned bars_draw(double fraction, unsigned width, bool unicode, char *out);

#endif
