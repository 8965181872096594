/* SPDX-License-Identifier: ISC */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/mem.h"
#include "core/num.h"
#include "lab/curve_set.h"
#include "rundir/run_colour.h"
#include "term/chart.h"
#include "term/screen.h"

/* Size of the plot in characters: no wider than people can follow. */
#define WIDTH_MAX 90
#define WIDTH_MIN 20
#define HEIGHT    16
/* Room on the left for the values of the axis. */
#define MARGIN 10
/* Each curve has its letter once in this many columns, beside the letters of the others. */
#define LETTER_EVERY 24

struct picture {
	const struct curve_set *s;
	struct chart *chart; /* one a curve */
	unsigned width;
	bool unicode, colours, log;
	struct chart_span span;
};

/* ---- the curves ---- */

/* As in the other plots, y is logarithmic where all values are positive and span a factor of 100. */
static bool spans_a_hundred(const struct curve_set *s)
{
	double lo = INFINITY, hi = -INFINITY;

	for (size_t i = 0; i < s->n; i++)
		for (size_t k = 0; k < s->of[i].curve.n; k++) {
			lo = fmin(lo, s->of[i].curve.point[k].value);
			hi = fmax(hi, s->of[i].curve.point[k].value);
		}
	return lo > 0 && hi > 100 * lo;
}

/* Sets x and y of all points of all curves, one curve after the other. Returns their number. */
static size_t collect_points(const struct picture *p, double **x, double **y)
{
	size_t n = 0;

	for (size_t i = 0; i < p->s->n; i++)
		n += p->s->of[i].curve.n;
	*x = mem_array(n + 1, sizeof **x);
	*y = mem_array(n + 1, sizeof **y);
	n = 0;
	for (size_t i = 0; i < p->s->n; i++)
		for (size_t k = 0; k < p->s->of[i].curve.n; k++) {
			const struct curve_point *at = &p->s->of[i].curve.point[k];

			(*x)[n] = at->at[p->s->across];
			(*y)[n++] = p->log ? log10(at->value) : at->value;
		}
	return n;
}

static void draw_curves(struct picture *p)
{
	double *x, *y;
	size_t n = collect_points(p, &x, &y), at = 0;

	chart_fit(x, y, n, &p->span);
	p->span.x0 = fmin(0, p->span.x0);
	p->chart = mem_array(p->s->n + 1, sizeof *p->chart);
	for (size_t i = 0; i < p->s->n; i++) {
		chart_init(&p->chart[i], p->width, HEIGHT);
		chart_curve(&p->chart[i], &p->span, x + at, y + at, p->s->of[i].curve.n);
		at += p->s->of[i].curve.n;
	}
	free(x);
	free(y);
}

/* ---- characters ---- */

/* The colour of the curve's run, as the number of an SGR sequence. Letters tell curves of one
 * colour apart. */
static unsigned curve_colour(const struct picture *p, size_t i)
{
	return 30 + run_colour[p->s->of[i].run->colour].terminal;
}

/* True where the letter of curve i stands: in some of its columns, and in its last one. */
static bool is_letter_column(const struct picture *p, size_t i, unsigned column)
{
	size_t apart = p->s->n * 2 > LETTER_EVERY ? p->s->n * 2 : LETTER_EVERY;

	return column % apart == (2 * i + 1) % apart;
}

/* Finds the topmost row with a dot in a column; HEIGHT: there is none. */
static unsigned top_row(const struct chart *c, unsigned column)
{
	unsigned row = 0;

	while (row < HEIGHT && !c->dots[(size_t)row * c->width + column])
		row++;
	return row;
}

static unsigned last_column(const struct chart *c)
{
	unsigned column = c->width;

	while (column > 0 && top_row(c, column - 1) == HEIGHT)
		column--;
	return column - 1; /* without dots a column that no chart has */
}

/* Prints text in the colour of curve i; of a number that no curve has: without a colour. */
static void print_coloured(const struct picture *p, size_t i, const char *text)
{
	if (p->colours && i < p->s->n)
		printf("\033[%um%s\033[m", curve_colour(p, i), text);
	else
		fputs(text, stdout);
}

/* Prints one character: the letter of a curve, or the dots of all curves there. Of several letters
 * the first curve's is printed. */
static void print_cell(const struct picture *p, unsigned row, unsigned column)
{
	struct chart one = { 1, 1, (uint8_t[]){ 0 } };
	size_t first = p->s->n, letter = p->s->n;
	char text[4];

	for (size_t i = 0; i < p->s->n; i++) {
		const struct chart *c = &p->chart[i];
		uint8_t dots = c->dots[(size_t)row * c->width + column];

		if (!dots)
			continue;
		one.dots[0] |= dots;
		first = first == p->s->n ? i : first;
		if (letter == p->s->n && top_row(c, column) == row &&
		    (is_letter_column(p, i, column) || column == last_column(c)))
			letter = i;
	}
	chart_text(&one, 0, 0, p->unicode, text);
	if (letter < p->s->n) {
		text[0] = CURVE_LETTER(letter);
		text[1] = '\0';
		first = letter;
	}
	print_coloured(p, first, text);
}

/* Prints the value at a row of the axis: of the first, the middle and the last row. */
static void print_margin(const struct picture *p, unsigned row)
{
	char figure[32];
	double y = p->span.y1 + (p->span.y0 - p->span.y1) * row / (HEIGHT - 1);

	if (row > 0 && row != HEIGHT / 2 && row + 1 < HEIGHT) {
		printf("%*s %s", MARGIN, "", p->unicode ? "\342\224\202" : "|");
		return;
	}
	num_digits(p->log ? pow(10, y) : y, 4, figure);
	printf("%*s %s", MARGIN, figure, p->unicode ? "\342\224\244" : "+");
}

static void x_text(const struct picture *p, double x, char out[static 32])
{
	if (x >= 10000)
		num_count(x, out);
	else
		num_digits(x, p->s->across == CURVE_SECONDS ? 3 : 6, out);
}

static void print_x_axis(const struct picture *p)
{
	char from[32], to[32];
	int room;

	printf("%*s %s", MARGIN, "", p->unicode ? "\342\224\224" : "+");
	for (unsigned i = 0; i < p->width; i++)
		fputs(p->unicode ? "\342\224\200" : "-", stdout);
	x_text(p, p->span.x0, from);
	x_text(p, p->span.x1, to);
	room = (int)p->width - (int)strlen(from);
	printf("\n%*s  %s%*s %s\n", MARGIN, "", from, room, to, curve_axis_name[p->s->across]);
}

void curve_terminal(const struct curve_set *s)
{
	struct picture p = { .s = s, .log = spans_a_hundred(s) };
	unsigned width, height;
	const char *none = getenv("NO_COLOR");

	p.unicode = term_unicode();
	p.colours = term_draws(STDOUT_FILENO) && !(none && *none);
	term_size(STDOUT_FILENO, &width, &height);
	width = width > WIDTH_MAX ? WIDTH_MAX : width;
	p.width = width > MARGIN + 4 + WIDTH_MIN ? width - MARGIN - 4 : WIDTH_MIN;
	draw_curves(&p);
	printf("%s%s\n", curve_metric_title(&s->metric), p.log ? " (logarithmic)" : "");
	for (unsigned row = 0; row < HEIGHT; row++) {
		print_margin(&p, row);
		for (unsigned column = 0; column < p.width; column++)
			print_cell(&p, row, column);
		putchar('\n');
	}
	print_x_axis(&p);
	for (size_t i = 0; i < s->n; i++) {
		print_coloured(&p, i, (char[]){ CURVE_LETTER(i), '\0' });
		printf("  %s\n", s->of[i].label);
		chart_release(&p.chart[i]);
	}
	putchar('\n');
	fflush(stdout);
	free(p.chart);
}
