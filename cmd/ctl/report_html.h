#ifndef CTL_REPORT_HTML_H
#define CTL_REPORT_HTML_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

/* Text as HTML or SVG shows it, in content and in quoted attributes: whatever a
 * file says is text, and no markup. */
void html_text(struct buf *out, const char *s);
/* The same of printf's. */
void html_printf(struct buf *out, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* A chart of curves over one axis, as an <svg> of its own. */
struct plot_curve {
	const char *name;
	const double *x, *y;            /* of n points; those that are not finite break the line */
	size_t n;
	bool dots;                      /* few points, each of which means something */
};
struct plot_mark {                      /* something that happened */
	double x;
	const char *text;
};
struct plot {
	const char *title, *x_name;
	const struct plot_curve *curve; /* at most PLOT_CURVES */
	size_t ncurves;
	const struct plot_mark *mark;
	size_t nmarks;
	bool from_zero;                 /* the y axis begins at 0; else the values decide, in logarithms
	                                 * where they are all above 0 and span more than two orders */
};
#define PLOT_CURVES 4
/* Nothing when no curve has two finite points, or a dot. */
void plot_svg(struct buf *out, const struct plot *p);

#endif
