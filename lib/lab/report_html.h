/* SPDX-License-Identifier: ISC */
#ifndef LAB_REPORT_HTML_H
#define LAB_REPORT_HTML_H

#include <stdbool.h>
#include <stddef.h>

#include "core/buf.h"

/* HTML and SVG for ps-ctl report. Appends text, escaped for content and for quoted attributes:
 * nothing that a file of a run contains can become markup. */
void report_html_text(struct buf *out, const char *s);
/* Formats as printf does, and appends the result with report_html_text(). */
void report_html_printf(struct buf *out, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* A chart: curves with a common x axis, drawn as one <svg>. */
struct report_plot_curve {
	const char *name;
	const double *x, *y; /* n points; one that is not finite interrupts the line */
	size_t n;
	bool dots;       /* also draw each point: there are few, and each matters */
	unsigned colour; /* of the run, in images and pages of several runs */
};
struct report_plot_mark { /* an event: a vertical line */
	double x;
	const char *text;
};
struct plot {
	const char *title, *x_name;
	bool x_from_zero;                      /* begin the x axis at 0 */
	bool whole;                            /* x counts something: ticks are whole numbers */
	const struct report_plot_curve *curve; /* at most PLOT_CURVES */
	size_t ncurves;
	const struct report_plot_mark *mark;
	size_t nmarks;
	const double *target; /* a value of y to mark by a horizontal line, or NULL */
	bool from_zero;       /* begin the y axis at 0; else the values decide, and the axis is
	                                 * logarithmic if they are positive and span a factor of 100 */
};
#define PLOT_CURVES 16
/* Appends a style sheet with the colour of each curve's run; runs of the same colour are dashed in different
 * ways. The page of one run has its colour by itself. */
void report_plot_style(struct buf *out, const struct plot *p);
/* Appends the chart as an SVG document of its own, with a legend. */
void report_plot_image(struct buf *out, const struct plot *p);
/* Appends the chart. Appends nothing when no curve has two finite points, or one and `dots`. */
void report_plot_svg(struct buf *out, const struct plot *p);

#endif
