/* SPDX-License-Identifier: ISC */
/* Charts and bars, character by character. */
#include <math.h>
#include <string.h>

#include "term/bars.h"
#include "term/chart.h"
#include "tap.h"

/* Row after row, with "/" between them. */
static const char *drawn(const double *x, const double *y, size_t n, unsigned width,
    unsigned height, bool unicode)
{
	static char out[400];
	struct chart_span span;
	struct chart c;
	size_t at = 0;

	chart_init(&c, width, height);
	chart_fit(x, y, n, &span);
	chart_curve(&c, &span, x, y, n);
	for (unsigned row = 0; row < height; row++) {
		for (unsigned col = 0; col < width; col++) {
			chart_text(&c, row, col, unicode, out + at);
			at += strlen(out + at);
		}
		out[at++] = row + 1 < height ? '/' : '\0';
	}
	chart_release(&c);
	return out;
}

static bool is_drawn(const char *want, const double *y, size_t n, unsigned width, unsigned height)
{
	static double x[1000];
	const char *got;

	for (size_t i = 0; i < n; i++)
		x[i] = (double)i;
	got = drawn(x, y, n, width, height, true);
	if (strcmp(got, want) == 0)
		return true;
	printf("# \"%s\", not \"%s\"\n", got, want);
	return false;
}

static void charts(void)
{
	const double up[] = { 0, 1, 2, 3 }, down[] = { 3, 2, 1, 0 }, flat[] = { 7, 7, 7, 7 },
	             one[] = { 5 };
	const double gap[] = { 0, 0, NAN, 3, 3, 3 }, none[] = { NAN, INFINITY },
	             x[] = { 0, 1, 2, 3 };
	const double huge[] = { -1.7e308, 1.7e308 }, steep[] = { 0, 3 };
	double many[1000];
	struct chart_span s;

	ok(is_drawn("⡠⠊", up, 4, 2, 1), "a line upwards is one dot a column");
	ok(is_drawn("⠑⢄", down, 4, 2, 1), "and downwards");
	ok(is_drawn("⠤⠤", flat, 4, 2, 1), "where all are equal it runs in the middle");
	ok(is_drawn("⠠ ", one, 1, 2, 1), "one point is one dot");
	ok(is_drawn("⣀⠈⠉", gap, 6, 3, 1), "what is not finite is a gap");
	ok(is_drawn("  ", none, 2, 2, 1), "and if all is, nothing is drawn");
	ok(is_drawn("⡜", steep, 2, 1, 1), "steep lines have no holes");
	ok(is_drawn(" ⢠⠊/⡠⠃ ", up, 4, 3, 2), "over two rows it goes from corner to corner");
	ok(is_drawn(" ⡜/⡜ ", huge, 2, 2, 2), "the whole range of doubles is a range, too");
	ok(strcmp(drawn(x, up, 4, 2, 1, false), ".'") == 0,
	    "without Braille it is dots and quotes");
	ok(!chart_fit(x, none, 2, &s) && s.y0 == 0 && s.y1 == 1, "nothing has no span");
	ok(chart_fit(x, up, 4, &s) && s.x0 == 0 && s.x1 == 3 && s.y0 == 0 && s.y1 == 3,
	    "the span holds all points");
	for (size_t i = 0; i < 1000; i++)
		many[i] = i % 2 ? 1 : 0;
	ok(is_drawn("⣿⣿", many, 1000, 2, 1), "many points in a column fill it");
}

static bool splits(const double *share, size_t n, unsigned width, const unsigned *want)
{
	unsigned cells[8];
	bool same = true;

	bars_split(share, n, width, cells);
	for (size_t i = 0; i < n; i++)
		same &= cells[i] == want[i];
	return same;
}

static bool fills(double fraction, unsigned width, bool unicode, unsigned n, const char *want)
{
	char out[64];

	return bars_draw(fraction, width, unicode, out) == n && strcmp(out, want) == 0;
}

static void bars(void)
{
	ok(splits((double[]){ 0.5, 0.25, 0.25 }, 3, 8, (unsigned[]){ 4, 2, 2 }),
	    "shares that come out even");
	ok(splits((double[]){ 1 / 3.0, 1 / 3.0, 1 / 3.0 }, 3, 10, (unsigned[]){ 4, 3, 3 }),
	    "thirds of ten fill ten");
	ok(splits((double[]){ 0.96, 0.02, 0.02 }, 3, 10, (unsigned[]){ 10, 0, 0 }),
	    "the largest remainder comes first");
	ok(splits((double[]){ 0.2, 0.2 }, 2, 10, (unsigned[]){ 2, 2 }),
	    "what is not shared out stays empty");
	ok(splits((double[]){ 0, 0 }, 2, 10, (unsigned[]){ 0, 0 }) &&
	        splits((double[]){ 1 }, 1, 0, (unsigned[]){ 0 }),
	    "nothing, and no room");
	ok(fills(1, 3, true, 3, "███") && fills(0.5, 3, true, 2, "█▌") &&
	        fills(1 / 24.0, 3, true, 1, "▏"),
	    "bars go by eighths");
	ok(fills(1e-9, 3, true, 1, "▏") && fills(0, 3, true, 0, ""), "what is above nothing shows");
	ok(fills(7, 2, true, 2, "██") && fills(NAN, 2, true, 0, "") && fills(-1, 2, true, 0, ""),
	    "outside of 0 to 1 it is full or empty");
	ok(fills(0.5, 4, false, 2, "##") && fills(1e-9, 4, false, 1, "#"),
	    "without blocks they are of #");
}

int main(void)
{
	charts();
	bars();
	return tap_done();
}
