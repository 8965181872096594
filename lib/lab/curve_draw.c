/* SPDX-License-Identifier: ISC */
#include <stdlib.h>

#include "core/mem.h"
#include "core/num.h"
#include "core/plain.h"
#include "lab/curve_set.h"
#include "lab/report_html.h"
#include "lab/report_page.h"

/* A curve with up to this many points is drawn with markers. */
#define DOTS_MAX 60

/* ---- the chart ---- */

/* Makes the chart of a set; its arrays belong to it. */
static void make_chart(const struct curve_set *s, struct plot *p)
{
	struct report_plot_curve *c = mem_array(s->n + 1, sizeof *c);

	for (size_t i = 0; i < s->n; i++) {
		const struct curve *from = &s->of[i].curve;
		double *x = mem_array(from->n + 1, sizeof *x),
		       *y = mem_array(from->n + 1, sizeof *y);

		for (size_t k = 0; k < from->n; k++) {
			x[k] = from->point[k].at[s->across];
			y[k] = from->point[k].value;
		}
		c[i] = (struct report_plot_curve){ s->of[i].label, x, y, from->n,
			from->n <= DOTS_MAX, s->of[i].run->colour };
	}
	*p = (struct plot){ .title = mem_printf("%s across %s", curve_metric_title(&s->metric),
		                curve_axis_name[s->across]),
		.x_name = curve_axis_name[s->across],
		.x_from_zero = true,
		.whole = s->across != CURVE_SECONDS,
		.curve = c,
		.ncurves = s->n,
		.target = &s->target };
}

static void release_chart(struct plot *p)
{
	for (size_t i = 0; i < p->ncurves; i++) {
		free((void *)p->curve[i].x);
		free((void *)p->curve[i].y);
	}
	free((void *)p->curve);
	free((void *)p->title);
}

void curve_draw_svg(struct buf *out, const struct curve_set *s)
{
	struct plot p;

	make_chart(s, &p);
	report_plot_image(out, &p);
	release_chart(&p);
}

/* ---- a page ---- */

static void put_html_table(struct buf *out, const struct curve_set *s)
{
	size_t columns;
	char **cell = curve_set_table(s, &columns), *target = curve_set_target_text(s);

	buf_puts(out, "<h2>Until ");
	report_html_text(out, target);
	buf_puts(out, "</h2>\n<div class=\"wide\"><table>\n");
	/* The first column has the letters of the plot in a terminal. */
	for (size_t i = 0; cell[i]; i++) {
		const char *tag = i < columns ? "th" : "td";

		if (i % columns == 0) {
			buf_puts(out, "<tr>");
		} else {
			buf_printf(out, "<%s>", tag);
			report_html_text(out, cell[i]);
			buf_printf(out, "</%s>%s", tag, (i + 1) % columns == 0 ? "</tr>\n" : "");
		}
		free(cell[i]);
	}
	buf_puts(out, "</table></div>\n");
	for (size_t i = 0; i < s->n; i++)
		if (*report_emulation(s->of[i].run)) {
			buf_puts(out, "<p class=\"note\">");
			report_html_printf(out, "%s is emulated: %s", s->of[i].run->name,
			    report_emulation(s->of[i].run));
			buf_puts(out, "</p>\n");
		}
	if (!s->target_is_given)
		buf_puts(out,
		    "<p class=\"note\">The target is the worst of the runs' best values.</p>\n");
	free(cell);
	free(target);
}

void curve_draw_html(struct buf *out, const struct curve_set *s)
{
	struct buf style = BUF_INIT;
	struct plot p;

	make_chart(s, &p);
	report_plot_style(&style, &p);
	buf_append(&style, "", 1);
	report_page_begin(out, p.title, (const char *)style.data);
	buf_release(&style);
	report_plot_svg(out, &p);
	put_html_table(out, s);
	report_page_end(out, "ps-ctl compare");
	release_chart(&p);
}

/* ---- a table of points ---- */

/* Appends a text without tabs and other control characters, which become "?". */
static void put_field(struct buf *out, const char *text)
{
	char *plain = mem_strdup(text);

	plain_text(plain);
	buf_puts(out, plain);
	free(plain);
}

void curve_draw_tsv(struct buf *out, const struct curve_set *s)
{
	buf_printf(out, "run\tsettings\tsteps\tseconds\tbytes\texamples\t%s\n", s->metric.name);
	for (size_t i = 0; i < s->n; i++)
		for (size_t k = 0; k < s->of[i].curve.n; k++) {
			const struct curve_point *p = &s->of[i].curve.point[k];
			char value[32];

			num_format(p->value, value);
			put_field(out, s->of[i].run->name);
			buf_puts(out, "\t");
			put_field(out, s->of[i].label);
			buf_printf(out, "\t%.0f\t%.6g\t%.0f\t%.0f\t%s\n", p->at[CURVE_STEPS],
			    p->at[CURVE_SECONDS], p->at[CURVE_BYTES], p->at[CURVE_EXAMPLES], value);
		}
}
