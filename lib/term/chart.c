/* SPDX-License-Identifier: ISC */
#include "term/chart.h"

#include <math.h>
#include <stdlib.h>

#include "core/mem.h"

void chart_init(struct chart *c, unsigned width, unsigned height)
{
	*c = (struct chart){ width ? width : 1, height ? height : 1, NULL };
	c->dots = mem_array((size_t)c->width * c->height, 1);
}

void chart_release(struct chart *c)
{
	free(c->dots);
	*c = (struct chart){ 0 };
}

bool chart_fit(const double *x, const double *y, size_t n, struct chart_span *out)
{
	bool any = false;

	*out = (struct chart_span){ 0, 1, 0, 1 };
	for (size_t i = 0; i < n; i++) {
		if (!isfinite(x[i]) || !isfinite(y[i]))
			continue;
		if (!any)
			*out = (struct chart_span){ x[i], x[i], y[i], y[i] };
		any = true;
		out->x0 = fmin(out->x0, x[i]);
		out->x1 = fmax(out->x1, x[i]);
		out->y0 = fmin(out->y0, y[i]);
		out->y1 = fmax(out->y1, y[i]);
	}
	return any;
}

/* Unicode numbers the dots down the left column, then down the right one, except for the lowest
 * row, which was added later (Unicode 15, section 21.1). */
static void set_dot(struct chart *c, long x, long y)
{
	static const uint8_t bit[4][2] = { { 0x01, 0x08 }, { 0x02, 0x10 }, { 0x04, 0x20 },
		{ 0x40, 0x80 } };

	c->dots[(size_t)(y / 4) * c->width + (size_t)(x / 2)] |= bit[y % 4][x % 2];
}

/* Draw a line by Bresenham's algorithm, including both ends. */
static void draw_dot_line(struct chart *c, long x0, long y0, long x1, long y1)
{
	long dx = labs(x1 - x0), dy = -labs(y1 - y0), sx = x0 < x1 ? 1 : -1, sy = y0 < y1 ? 1 : -1,
	     err = dx + dy;

	for (;;) {
		long twice = 2 * err;

		set_dot(c, x0, y0);
		if (x0 == x1 && y0 == y1)
			return;
		if (twice >= dy) {
			err += dy;
			x0 += sx;
		}
		if (twice <= dx) {
			err += dx;
			y0 += sy;
		}
	}
}

/* The index, of n dots, at which v lies between low and high; -1: outside. */
static long dot_position(double v, double low, double high, unsigned n)
{
	if (!isfinite(v) || v < low || v > high)
		return -1;
	/* Halve before subtracting: the difference of two doubles may overflow. */
	return high > low ? lround((v / 2 - low / 2) / (high / 2 - low / 2) * (n - 1))
	                  : (long)(n - 1) / 2;
}

/* Dots count from the upper left corner, so y is turned over. px is -1 while there is no point to
 * join with: at the beginning and after a gap. */
void chart_curve(struct chart *c, const struct chart_span *span, const double *x, const double *y,
    size_t n)
{
	unsigned across = c->width * 2, down = c->height * 4;
	long px = -1, py = -1;

	for (size_t i = 0; i < n; i++) {
		long qx = dot_position(x[i], span->x0, span->x1, across),
		     qy = dot_position(y[i], span->y0, span->y1, down);

		if (qx >= 0 && qy >= 0) {
			qy = (long)down - 1 - qy;
			draw_dot_line(c, px < 0 ? qx : px, px < 0 ? qy : py, qx, qy);
		} else {
			qx = -1;
		}
		px = qx;
		py = qy;
	}
}

void chart_text(const struct chart *c, unsigned row, unsigned col, bool unicode, char out[static 4])
{
	uint8_t dots = c->dots[(size_t)row * c->width + col];
	bool upper = dots & 0x1b, lower = dots & 0xe4;

	if (!unicode || !dots) {
		out[0] = upper && lower ? ':' : upper ? '\'' : lower ? '.' : ' ';
		out[1] = '\0';
		return;
	}
	out[0] = (char)0xe2;
	out[1] = (char)(0xa0 | dots >> 6);
	out[2] = (char)(0x80 | (dots & 0x3f));
	out[3] = '\0';
}
