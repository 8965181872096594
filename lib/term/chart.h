#ifndef TERM_CHART_H
#define TERM_CHART_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Curves of Braille dots, two across and four down in each character.  Pure: it knows no
 * terminal. */
struct chart {
	unsigned width, height;         /* characters */
	uint8_t *dots;                  /* of each, row by row: the low byte of U+28xx */
};

/* Empty, with memory for width * height, each at least 1. */
void chart_init(struct chart *c, unsigned width, unsigned height);
void chart_release(struct chart *c);

/* What a chart shows: x from x0 to x1, y from y0 to y1. */
struct chart_span {
	double x0, x1, y0, y1;
};
/* The least span with all finite points in it; where all are at one height the curve runs
 * in the middle.  False: there is no such point, and *out is 0 to 1. */
bool chart_fit(const double *x, const double *y, size_t n, struct chart_span *out);
/* Points joined by lines, in ascending order of x.  One that is not finite makes a gap; what
 * lies outside of the span is not drawn. */
void chart_curve(struct chart *c, const struct chart_span *span, const double *x, const double *y, size_t n);
/* One character as UTF-8 or, with unicode false, as ASCII; NUL-terminated. */
void chart_text(const struct chart *c, unsigned row, unsigned col, bool unicode, char out[static 4]);

#endif
