/* SPDX-License-Identifier: ISC */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/num.h"
#include "lab/report_html.h"
#include "rundir/run_colour.h"

/* Size of the picture, and the rectangle within the axes, in pixels. */
#define WIDE   480
#define HIGH   250
#define LEFT   58.0
#define RIGHT  470.0
#define TOP    12.0
#define BOTTOM 216.0
/* A curve with more points than this is thinned out: each column of pixels keeps its lowest and
 * highest point. */
#define COLUMNS   400
#define MARKS_MAX 60

struct axis {
	double lo, hi;
	bool log;
};

static bool is_finite_point(const struct report_plot_curve *c, size_t i)
{
	return isfinite(c->x[i]) && isfinite(c->y[i]);
}

static void widen_axis(struct axis *a, double v)
{
	a->lo = v < a->lo ? v : a->lo;
	a->hi = v > a->hi ? v : a->hi;
}

/* Chooses the ranges of both axes, and whether y is logarithmic. A logarithmic axis has log10 of
 * its values in lo and hi. */
static void find_axes(const struct plot *p, struct axis *x, struct axis *y)
{
	*x = *y = (struct axis){ .lo = INFINITY, .hi = -INFINITY };
	for (size_t k = 0; k < p->ncurves; k++)
		for (size_t i = 0; i < p->curve[k].n; i++)
			if (is_finite_point(&p->curve[k], i)) {
				widen_axis(x, p->curve[k].x[i]);
				widen_axis(y, p->curve[k].y[i]);
			}
	if (x->lo > x->hi)
		*x = *y = (struct axis){ .lo = 0, .hi = 1 };
	if (p->from_zero)
		widen_axis(y, 0);
	if (p->x_from_zero)
		widen_axis(x, 0);
	if (p->target && isfinite(*p->target))
		widen_axis(y, *p->target);
	y->log = !p->from_zero && y->lo > 0 && y->hi > 100 * y->lo;
	if (y->log) {
		y->lo = log10(y->lo);
		y->hi = log10(y->hi);
	}
	/* With a single x value, begin the axis at 0: the point is at its end, and the ticks are whole
	 * numbers. */
	if (x->hi <= x->lo) {
		x->lo = fmin(x->lo, 0);
		x->hi = fmax(x->hi, x->lo + 1);
	}
	if (y->hi - y->lo < 1e-12 * fmax(fabs(y->hi), 1e-300)) {
		double room = y->hi != 0 ? fabs(y->hi) / 10 : 1;

		y->lo -= p->from_zero ? 0 : room;
		y->hi += room;
	} else {
		y->lo -= p->from_zero ? 0 : (y->hi - y->lo) / 25;
		y->hi += (y->hi - y->lo) / 25;
	}
}

static double x_to_pixel(const struct axis *x, double v)
{
	return LEFT + (RIGHT - LEFT) * (v - x->lo) / (x->hi - x->lo);
}

static double y_to_pixel(const struct axis *y, double v)
{
	return BOTTOM - (BOTTOM - TOP) * ((y->log ? log10(v) : v) - y->lo) / (y->hi - y->lo);
}

/* ---- axes ---- */

/* Chooses a distance of ticks, 1, 2 or 5 times a power of ten, that gives about n ticks. */
static double tick_step(const struct axis *a, int n)
{
	double raw = (a->hi - a->lo) / n, power = pow(10, floor(log10(raw))), part = raw / power;

	if (a->log)
		return fmax(1, ceil(raw));
	return power * (part <= 1 ? 1 : part <= 2 ? 2 : part <= 5 ? 5 : 10);
}

static void tick_text(const struct axis *a, double v, double step, char out[static 32])
{
	double big = fmax(fabs(a->lo), fabs(a->hi));

	if (a->log)
		snprintf(out, 32, "1e%.0f", v);
	else if (big >= 10000)
		num_count(v, out);
	else if (big < 1e-3)
		snprintf(out, 32, "%.1e", fabs(v) < step / 2 ? 0 : v);
	else
		snprintf(out, 32, "%.*f", (int)fmax(0, ceil(-log10(step) - 1e-9)), v);
}

/* Upper bound of ticks. The values come from files, and a step may be too small to change a
 * double. */
#define TICKS_MAX 32

static bool tick_at(const struct axis *a, double step, int i, double *v)
{
	*v = (ceil(a->lo / step) + i) * step;
	return *v <= a->hi + step * 1e-6;
}

/* Positions are in units of the viewBox, with y downwards. Lines of the grid belong to y only.
 * Labels of x stay left of the right edge. */
static void draw_axes(struct buf *out, const struct plot *p, const struct axis *x,
    const struct axis *y)
{
	double step = tick_step(y, 5), v;
	char text[32];

	for (int i = 0; i < TICKS_MAX && tick_at(y, step, i, &v); i++) {
		double at = BOTTOM - (BOTTOM - TOP) * (v - y->lo) / (y->hi - y->lo);

		tick_text(y, v, step, text);
		buf_printf(out,
		    "<line class=\"grid\" x1=\"%.0f\" x2=\"%.0f\" y1=\"%.1f\" y2=\"%.1f\"/>"
		    "<text x=\"%.0f\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n",
		    LEFT, RIGHT, at, at, LEFT - 6, at + 4, text);
	}
	step = fmax(tick_step(x, 5), p->whole ? 1 : 0);
	for (int i = 0; i < TICKS_MAX && tick_at(x, step, i, &v); i++) {
		tick_text(x, v, step, text);
		buf_printf(out, "<text x=\"%.1f\" y=\"%.0f\" text-anchor=\"middle\">%s</text>\n",
		    fmin(x_to_pixel(x, v), RIGHT - 8), BOTTOM + 16, text);
	}
	buf_printf(out,
	    "<line class=\"axis\" x1=\"%.0f\" x2=\"%.0f\" y1=\"%.0f\" y2=\"%.0f\"/>"
	    "<text class=\"name\" x=\"%.0f\" y=\"%d\" text-anchor=\"end\">",
	    LEFT, RIGHT, BOTTOM, BOTTOM, RIGHT, HIGH - 4);
	report_html_text(out, p->x_name);
	buf_puts(out, "</text>\n");
}

static void draw_marks(struct buf *out, const struct plot *p, const struct axis *x)
{
	size_t step = p->nmarks / MARKS_MAX + 1;

	for (size_t i = 0; i < p->nmarks; i += step) {
		double at = x_to_pixel(x, p->mark[i].x);

		if (!(at >= LEFT && at <= RIGHT))
			continue;
		buf_printf(out,
		    "<line class=\"mark\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.0f\" y2=\"%.0f\"><title>",
		    at, at, TOP, BOTTOM);
		report_html_text(out, p->mark[i].text);
		buf_puts(out, "</title></line>\n");
	}
}

static void draw_target(struct buf *out, const struct plot *p, const struct axis *y)
{
	double at;

	if (!p->target || !isfinite(*p->target))
		return;
	at = y_to_pixel(y, *p->target);
	buf_printf(out,
	    "<line class=\"target\" x1=\"%.0f\" x2=\"%.0f\" y1=\"%.1f\" y2=\"%.1f\"/>\n", LEFT,
	    RIGHT, at, at);
}

/* ---- curves ---- */

struct pen {
	struct buf *out;
	bool down;
	double column, low, high,
	    last; /* the column of pixels not drawn yet; column is NaN if none */
};

static void draw_pen_to(struct pen *pen, double x, double y)
{
	buf_printf(pen->out, "%s%.1f %.1f", pen->down ? " L" : " M", x, y);
	pen->down = true;
}

/* Draws the pending column of pixels: a stroke from its lowest to its highest point, then to its
 * last. */
static void flush_column(struct pen *pen)
{
	if (isnan(pen->column))
		return;
	if (pen->high > pen->low) {
		draw_pen_to(pen, pen->column, pen->low);
		draw_pen_to(pen, pen->column, pen->high);
	}
	draw_pen_to(pen, pen->column, pen->last);
	pen->column = NAN;
}

/* Draws a curve as the path of an SVG. Points that are not finite interrupt it; long curves are
 * thinned out. */
static void draw_curve_line(struct buf *out, const struct report_plot_curve *c,
    const struct axis *x, const struct axis *y)
{
	bool thin = c->n > COLUMNS;
	struct pen pen = { .out = out, .column = NAN };

	for (size_t i = 0; i < c->n; i++) {
		double px, py;

		if (!is_finite_point(c, i)) {
			flush_column(&pen);
			pen.down = false;
			continue;
		}
		px = x_to_pixel(x, c->x[i]);
		py = y_to_pixel(y, c->y[i]);
		if (thin)
			px = LEFT +
			    floor((px - LEFT) * COLUMNS / (RIGHT - LEFT)) * (RIGHT - LEFT) /
			        COLUMNS;
		if (!(px >= pen.column && px <= pen.column)) {
			flush_column(&pen);
			pen.column = px;
			pen.low = pen.high = py;
		}
		pen.low = fmin(pen.low, py);
		pen.high = fmax(pen.high, py);
		pen.last = py;
	}
	flush_column(&pen);
}

static void draw_curve(struct buf *out, const struct report_plot_curve *c, size_t k,
    const struct axis *x, const struct axis *y)
{
	buf_printf(out, "<path class=\"c%zu\" d=\"", k);
	draw_curve_line(out, c, x, y);
	buf_puts(out, "\"/>\n");
	for (size_t i = 0; (c->dots || c->n == 1) && c->n <= COLUMNS / 4 && i < c->n; i++)
		if (is_finite_point(c, i))
			buf_printf(out, "<circle class=\"c%zu\" cx=\"%.1f\" cy=\"%.1f\" r=\"3\"/>",
			    k, x_to_pixel(x, c->x[i]), y_to_pixel(y, c->y[i]));
}

static void draw_legend(struct buf *out, const struct plot *p)
{
	if (p->ncurves < 2)
		return;
	buf_puts(out, "<p class=\"legend\">");
	for (size_t k = 0; k < p->ncurves; k++) {
		buf_printf(out,
		    "<span><svg class=\"key\" viewBox=\"0 0 24 8\"><path class=\"c%zu\" d=\"M0 4 L24 4\"/></svg> ",
		    k);
		report_html_text(out, p->curve[k].name);
		buf_puts(out, "</span> ");
	}
	buf_puts(out, "</p>\n");
}

static bool has_drawable_curve(const struct plot *p)
{
	for (size_t k = 0; k < p->ncurves; k++) {
		size_t n = 0;

		for (size_t i = 0; i < p->curve[k].n; i++)
			n += is_finite_point(&p->curve[k], i);
		if (n >= 2 || (n == 1 && p->curve[k].dots))
			return true;
	}
	return false;
}

/* Draws everything within the axes and the axes themselves. */
static void draw_inside(struct buf *out, const struct plot *p, const struct axis *x,
    const struct axis *y)
{
	draw_axes(out, p, x, y);
	draw_marks(out, p, x);
	draw_target(out, p, y);
	for (size_t k = 0; k < p->ncurves; k++)
		draw_curve(out, &p->curve[k], k, x, y);
}

/* Appends nothing when no curve has enough points. Colours come from the page's style sheet. */
void report_plot_svg(struct buf *out, const struct plot *p)
{
	struct axis x, y;

	if (!has_drawable_curve(p))
		return;
	find_axes(p, &x, &y);
	buf_puts(out, "<figure><figcaption>");
	report_html_text(out, p->title);
	buf_printf(out,
	    "%s</figcaption>\n<svg class=\"plot\" role=\"img\" viewBox=\"0 0 %d %d\"><title>",
	    y.log ? " <small>logarithmic</small>" : "", WIDE, HIGH);
	report_html_text(out, p->title);
	buf_puts(out, "</title>\n");
	draw_inside(out, p, &x, &y);
	buf_puts(out, "</svg>\n");
	draw_legend(out, p);
	buf_puts(out, "</figure>\n");
}

/* ---- an image ---- */

/* Height of the title above the chart, and of a line of the legend below it, in pixels. */
#define TITLE_HIGH  24
#define LEGEND_LINE 18

void report_plot_style(struct buf *out, const struct plot *p)
{
	static const char *const dashes[] = { "none", "6 3", "2 3", "9 3 2 3" };

	for (size_t k = 0; k < p->ncurves; k++) {
		const char *colour = run_colour[p->curve[k].colour].light;
		size_t same = 0;

		for (size_t i = 0; i < k; i++)
			same += p->curve[i].colour == p->curve[k].colour;
		buf_printf(out,
		    "path[class=c%zu]{stroke:%s;stroke-dasharray:%s}"
		    "circle[class=c%zu]{stroke:%s;fill:none;stroke-width:1.5}\n",
		    k, colour, dashes[same % (sizeof dashes / sizeof *dashes)], k, colour);
	}
	buf_puts(out, ".target{stroke:#888;stroke-dasharray:2 3}\n");
}

/* Returns the width of the image: that of the chart, or more for a long name in the legend, whose
 * characters take about 7 pixels. */
static int image_width(const struct plot *p)
{
	int wide = WIDE;

	for (size_t k = 0; k < p->ncurves; k++) {
		int legend = (int)LEFT + 40 + 7 * (int)strlen(p->curve[k].name);

		wide = legend > wide ? legend : wide;
	}
	return wide;
}

/* The image has a white background, so that it can stand in any document. */
void report_plot_image(struct buf *out, const struct plot *p)
{
	struct axis x, y;
	int wide = image_width(p), high = TITLE_HIGH + HIGH + LEGEND_LINE * (int)p->ncurves + 6;

	find_axes(p, &x, &y);
	buf_printf(out,
	    "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
	    "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" viewBox=\"0 0 %d %d\" width=\"%d\" "
	    "height=\"%d\">\n<title>",
	    wide, high, 2 * wide, 2 * high);
	report_html_text(out, p->title);
	buf_printf(out,
	    "</title>\n<style>\ntext{font:12px sans-serif;fill:#555}.grid{stroke:#ddd}.axis{stroke:#555}"
	    ".mark{stroke:#b3261e;stroke-dasharray:2 3}path{fill:none;stroke-width:2;stroke-linejoin:round}"
	    ".title{font-weight:bold;fill:#222}\n");
	report_plot_style(out, p);
	buf_printf(out,
	    "</style>\n<rect width=\"%d\" height=\"%d\" fill=\"#fff\"/>\n<text class=\"title\" x=\"%.0f\" "
	    "y=\"17\">",
	    wide, high, LEFT);
	report_html_text(out, p->title);
	buf_printf(out, "%s</text>\n<g transform=\"translate(0 %d)\">\n",
	    y.log ? " (logarithmic)" : "", TITLE_HIGH);
	draw_inside(out, p, &x, &y);
	for (size_t k = 0; k < p->ncurves; k++) {
		int at = HIGH + LEGEND_LINE * (int)k + 8;

		buf_printf(out,
		    "<path class=\"c%zu\" d=\"M%.0f %d h24\"/><text x=\"%.0f\" y=\"%d\">", k, LEFT,
		    at, LEFT + 32, at + 4);
		report_html_text(out, p->curve[k].name);
		buf_puts(out, "</text>\n");
	}
	buf_puts(out, "</g>\n</svg>\n");
}
