/* SPDX-License-Identifier: ISC */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/stat/top.h"
#include "core/buf.h"
#include "core/clock.h"
#include "core/json.h"
#include "core/num.h"
#include "msg/words.h"
#include "rundir/learning.h"
#include "term/chart.h"

/* Draws the screen of ps-stat top: one line with the state, a sentence about the waits, two
 * curves, the tables, and the keys. */

/* The screen is stale after this time, and this many intervals, without an answer. */
#define STALE           (2 * NSEC_PER_SEC)
#define STALE_INTERVALS 3
/* Screens with fewer rows have no curves. */
#define CURVES_FROM   18u
#define CURVES_LEAST  4u
#define CURVES_MOST   14u
#define SERVERS_LEAST 4u

bool top_is_stale(const struct top *t)
{
	int64_t age = clock_now() - t->now.at, most = STALE_INTERVALS * t->interval;

	return !t->paused && (t->fault.code || age > (most > STALE ? most : STALE));
}

/* ---- the head ---- */

static unsigned state_attribute(const char *text)
{
	int64_t state = words_find(words_phase, text);

	if (state == PHASE_RUNNING || state == PHASE_DONE)
		return SCREEN_GREEN;
	return state == PHASE_FAILED ? SCREEN_RED : SCREEN_YELLOW;
}

/* Row 0: name, state, step, mode and counts from the left, the age of the run in h:mm:ss at the
 * right edge, if it fits. */
static void draw_state_line(struct top *t)
{
	const json_t *s = t->now.status;
	long long step = json_int(s, "step", 0), total = json_int(s, "steps_total", 0),
	          age = (long long)json_num(s, "seconds", 0);
	int64_t workers = json_int(s, "workers_wanted", 0),
	        servers = json_int(s, "servers_wanted", 0);
	const char *state = json_flag(s, "paused") ? "paused" : json_str(s, "state", "");
	unsigned col = screen_printf(t->screen, 0, 0, SCREEN_BOLD, "%s", json_str(s, "name", "")) +
	    2;
	struct buf more = BUF_INIT;
	char clock[32];

	col = screen_put(t->screen, 0, col, SCREEN_BOLD | state_attribute(state), state) + 2;
	if (total > 0)
		col = screen_printf(t->screen, 0, col, 0, "step %lld of %lld (%lld %%)", step,
		          total, 100 * step / total) +
		    2;
	else
		col = screen_printf(t->screen, 0, col, 0, "step %lld", step) + 2;
	col = screen_put(t->screen, 0, col, 0, json_str(s, "sync", "")) + 2;
	col = screen_printf(t->screen, 0, col, 0, "%lld/%lld worker%s  %lld/%lld server%s",
	    (long long)json_int(s, "workers", 0), (long long)workers, NUM_S(workers),
	    (long long)json_int(s, "servers", 0), (long long)servers, NUM_S(servers));
	learning_put_best(json_object_get(s, "best_eval"), &more);
	if (words_find(words_phase, state) == PHASE_RUNNING && step > 0 && total > step && age > 0)
		buf_printf(&more, "%seta %lld s", more.len ? "  " : "",
		    age * (total - step) / step);
	if (more.len && col + 2 + more.len + 10 <= screen_width(t->screen))
		col = screen_put(t->screen, 0, col + 2, 0, (char *)more.data);
	buf_release(&more);
	snprintf(clock, sizeof clock, "%u:%02u:%02u", (unsigned)(age / 3600),
	    (unsigned)(age / 60 % 60), (unsigned)(age % 60));
	if (col + strlen(clock) <= screen_width(t->screen))
		screen_put(t->screen, 0, screen_width(t->screen) - (unsigned)strlen(clock), 0,
		    clock);
}

/* The lines for the sentence: three on narrow screens, two on wide ones. */
static unsigned sentence_lines(const struct top *t)
{
	return screen_width(t->screen) < 110 ? 3 : 2;
}

/* Draw text, wrapped between words, in at most sentence_lines() lines. */
static void draw_wrapped_text(struct top *t, unsigned row, unsigned attr, const char *text)
{
	size_t width = screen_width(t->screen);
	unsigned end = row + sentence_lines(t);

	for (; *text && row < end; row++) {
		size_t len = strlen(text), n = len < width ? len : width;

		/* A word that is longer than half a line is cut. */
		while (n < len && n > width / 2 && text[n] != ' ')
			n--;
		if (n < len && text[n] != ' ')
			n = width;
		screen_printf(t->screen, row, 0, attr, "%.*s", (int)n, text);
		text += n;
		text += strspn(text, " ");
	}
	if (*text && width > 3)
		screen_put(t->screen, end - 1, (unsigned)width - 4, attr, " ...");
}

static void draw_stale_warning(struct top *t)
{
	double age = (double)(clock_now() - t->now.at) / NSEC_PER_SEC;
	char text[800];

	if (t->fault.code)
		snprintf(text, sizeof text, "No answer for %.0f s: %s. Trying again.", age,
		    t->fault.msg);
	else
		snprintf(text, sizeof text, "The coordinator has not answered for %.0f s. Waiting.",
		    age);
	draw_wrapped_text(t, 1, SCREEN_BOLD | SCREEN_RED, text);
}

/* The first wait for a worker, as a sentence. Waits for the servers come second, because the
 * servers usually wait for that worker, too. */
static char *first_reason(const json_t *rows)
{
	const json_t *row;
	size_t i;

	json_array_foreach(rows, i, row)
		if (strcmp(json_str(row, "for", ""), "the servers") != 0)
			return why_sentence(rows, i);
	return json_array_size(rows) ? why_sentence(rows, 0) : NULL;
}

static void draw_running(struct top *t, const json_t *status)
{
	struct buf text = BUF_INIT;

	buf_puts(&text, "No process waits for another.");
	if (json_int(status, "overfits_since", -1) >= 0)
		buf_printf(&text, " The model overfits since step %lld.",
		    (long long)json_int(status, "overfits_since", 0));
	draw_wrapped_text(t, 1, 0, (char *)text.data);
	buf_release(&text);
}

/* Draw the sentence about the waits, or about the state of the job. */
static void draw_sentence(struct top *t)
{
	char *why = first_reason(t->now.why);
	const json_t *s = t->now.status;
	const char *state = json_str(s, "state", ""), *reason = json_str(s, "reason", "");
	char text[800];

	if (top_is_stale(t)) {
		draw_stale_warning(t);
	} else if (why) {
		draw_wrapped_text(t, 1, SCREEN_YELLOW, why);
	} else if (words_find(words_phase, state) == PHASE_RUNNING) {
		draw_running(t, s);
	} else {
		snprintf(text, sizeof text, "The job is %s%s%s, after %lld step%s.", state,
		    *reason ? ": " : "", reason, (long long)json_int(s, "step", 0),
		    json_int(s, "step", 0) == 1 ? "" : "s");
		draw_wrapped_text(t, 1, 0, text);
	}
	free(why);
}

/* ---- curves ---- */

/* Reduce a series to at most `most` points by averaging neighbours. */
static void average_points(const struct series *s, size_t most, struct series *out)
{
	size_t each = most ? (s->n + most - 1) / most : 1;

	*out = (struct series){ 0 };
	for (size_t i = 0; i < s->n; i += each) {
		size_t n = 0;
		double sum = 0;

		for (size_t k = i; k < i + each && k < s->n; k++)
			if (isfinite(s->y[k])) {
				sum += s->y[k];
				n++;
			}
		past_series_put(out, s->x[i], n ? sum / (double)n : NAN);
	}
}

static void format_short_number(double v, char out[static 24])
{
	if (fabs(v) < 1000)
		snprintf(out, 24, "%.4g", v);
	else
		table_count(v, out, 24);
}

/* Draw one curve under its title, the newest value and the range. */
static void draw_series(struct top *t, const struct series *all, const char *title, unsigned attr,
    unsigned row, unsigned col, unsigned width, unsigned height)
{
	double now = all->n ? all->y[all->n - 1] : NAN;
	unsigned at = screen_put(t->screen, row, col, SCREEN_BOLD, title) + 1;
	struct chart_span span;
	struct series s;
	struct chart c;
	char text[4], number[24], low[24], high[24];

	if (!chart_fit(all->x, all->y, all->n, &span))
		return;
	format_short_number(now, number);
	format_short_number(span.y0, low);
	format_short_number(span.y1, high);
	if (isfinite(now))
		at = screen_put(t->screen, row, at, 0, number) + 1;
	screen_printf(t->screen, row, at, SCREEN_DIM, "(%s to %s)", low, high);
	average_points(all, 2 * width, &s);
	chart_fit(s.x, s.y, s.n, &span);
	chart_init(&c, width, height);
	chart_curve(&c, &span, s.x, s.y, s.n);
	past_series_release(&s);
	for (unsigned y = 0; y < height; y++)
		for (unsigned x = 0; x < width; x++) {
			chart_text(&c, y, x, screen_is_unicode(t->screen), text);
			screen_put(t->screen, row + 1 + y, col + x, attr, text);
		}
	chart_release(&c);
}

/* Draw the curves in the rows that the tables leave, within limits. Returns the number of rows
 * used. */
static unsigned draw_curves(struct top *t, unsigned row)
{
	unsigned width = (screen_width(t->screen) - 3) / 2, all = screen_height(t->screen),
	         height = CURVES_LEAST;
	unsigned tables = (unsigned)(top_count_rows(t, TOP_WORKERS) +
	                      top_count_rows(t, TOP_SERVERS)) +
	    7;

	if (all < CURVES_FROM || width < 10)
		return 0;
	if (all > row + tables + height)
		height = all - row - tables < CURVES_MOST ? all - row - tables : CURVES_MOST;
	draw_series(t, &t->loss, "loss (training)", t->run_colour, row, 0, width, height);
	draw_series(t, &t->speed, "examples/s", SCREEN_GREEN, row, width + 3, width, height);
	return height + 2;
}

/* ---- the rest ---- */

static void draw_help_text(struct top *t, unsigned row)
{
	static const char *const lines[] = {
		"The slowest worker comes first: slow is the time of its own part of a step,",
		"divided by the median of all workers. The other columns are shares of the",
		"time of a step in percent: data (getting a batch), compute, encode (the",
		"gradient, to send it), push, wait (for other workers) and pull.",
		"",
		"  tab, v     switch between workers with servers, servers, and tables",
		"  w s t      show workers, servers or tables",
		"  < >        sort by the column to the left or right (also the arrow keys)",
		"  r          reverse the order",
		"  up, down   scroll the rows (also page up, page down and home)",
		"  space      pause and continue",
		"  ? h        show this help",
		"  q          quit",
	};

	for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
		screen_put(t->screen, row + (unsigned)i, 0, 0, lines[i]);
}

static void draw_key_line(struct top *t)
{
	static const char *const keys[][2] = {
		{ "q", "quit" },
		{ "?", "help" },
		{ "space", "pause" },
		{ "tab", "view" },
		{ "< >", "sort" },
		{ "r", "reverse" },
		{ "arrows", "scroll" },
	};
	unsigned col = 0, row = screen_height(t->screen) - 1;

	screen_printf(t->screen, row, 0, 0, "%*s", (int)screen_width(t->screen), "");
	if (t->paused) {
		screen_put(t->screen, row, 0, SCREEN_REVERSE | SCREEN_BOLD,
		    " Paused: space continues, q quits. ");
		return;
	}
	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
		col = screen_put(t->screen, row, col, SCREEN_REVERSE, keys[i][0]) + 1;
		col = screen_put(t->screen, row, col, 0, keys[i][1]) + 2;
	}
}

static void draw_tables(struct top *t, unsigned row, unsigned end)
{
	unsigned servers = (unsigned)top_count_rows(t, TOP_SERVERS) + 1,
	         workers = (unsigned)top_count_rows(t, TOP_WORKERS) + 2;
	unsigned spare = end - row > workers ? end - row - workers : 0, below = 0;

	/* Show servers below the workers, in the rows that the workers leave, or at least a few. */
	if (t->view == TOP_WORKERS && (spare >= servers || end - row > 2 * SERVERS_LEAST)) {
		below = spare > SERVERS_LEAST ? spare : SERVERS_LEAST;
		below = below < servers ? below : servers;
	}
	row += top_table(t, t->view, row, end - row - (below ? below + 1 : 0), true);
	if (below)
		top_table(t, TOP_SERVERS, row + 1, below, false);
}

bool top_draw(struct top *t)
{
	unsigned row = 1 + sentence_lines(t), end = screen_height(t->screen) - 1;

	screen_clear(t->screen);
	if (t->now.status) {
		draw_state_line(t);
		draw_sentence(t);
	} else {
		draw_wrapped_text(t, 0, 0,
		    t->fault.code ? t->fault.msg : "Asking the coordinator ...");
	}
	if (t->help) {
		draw_help_text(t, row + 1);
	} else if (t->now.status) {
		row += draw_curves(t, row);
		if (end > row + 1)
			draw_tables(t, row, end);
	}
	draw_key_line(t);
	return screen_show(t->screen);
}
