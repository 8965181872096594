/* SPDX-License-Identifier: ISC */
#ifndef TERM_CHART_H
#define TERM_CHART_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Curves made of Braille characters, each of which has two columns and four rows of dots. Pure
 * functions that know no terminal; a chart belongs to one thread. */
struct chart {
	unsigned width, height; /* characters */
	uint8_t *dots;          /* of each character, row by row: the low byte of U+28xx */
};

/* Make an empty chart of width * height characters; 0 is taken as 1. */
void chart_init(struct chart *c, unsigned width, unsigned height);
void chart_release(struct chart *c);

/* The range that a chart shows: x from x0 to x1, y from y0 to y1. */
struct chart_span {
	double x0, x1, y0, y1;
};
/* Set *out to the smallest span that contains all finite points. False: there are none, and *out
 * is 0 to 1 in both directions. */
bool chart_fit(const double *x, const double *y, size_t n, struct chart_span *out);
/* Draw points, in ascending order of x, joined by lines. A point that is not finite or outside of
 * the span makes a gap. In a span without height the curve runs in the middle. */
void chart_curve(struct chart *c, const struct chart_span *span, const double *x, const double *y,
    size_t n);
/* Write one character to out, as UTF-8 or, with unicode false, as ASCII; NUL-terminated. */
void chart_text(const struct chart *c, unsigned row, unsigned col, bool unicode,
    char out[static 4]);

#endif
