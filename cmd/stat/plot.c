/* SPDX-License-Identifier: ISC */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/stat/gnuplot.h"
#include "cmd/stat/stat.h"
#include "core/clock.h"
#include "core/json.h"
#include "core/mem.h"
#include "core/num.h"
#include "rundir/rundir.h"
#include "term/chart.h"
#include "term/screen.h"

/* The view "plot": columns of a run's metrics.jsonl as curves. */

/* Width of the numbers beside a curve. */
#define MARGIN       9
#define HEIGHT_LEAST 3u
/* Height of a curve without a terminal. */
#define HEIGHT_USUAL 12u

struct plot {
	const struct plan *plan;
	const char *across;
	struct past *past;
	struct series *series;
	size_t n;
	json_t *last; /* the newest row */
};

/* ---- rows ---- */

/* Add a row of metrics.jsonl to all curves. */
static void add_plot_row(void *ctx, const json_t *row)
{
	struct plot *p = ctx;

	for (size_t i = 0; i < p->n; i++)
		past_series_add(&p->series[i], p->across, row);
	json_decref(p->last);
	p->last = json_incref((json_t *)(uintptr_t)row);
}

static void print_member_names(const json_t *o, const char *before)
{
	const char *key;
	json_t *v;

	json_object_foreach((json_t *)(uintptr_t)o, key, v) {
		if (json_is_number(v) || json_is_null(v))
			fprintf(stderr, " %s%s", before, key);
		else if (json_is_object(v) && !*before)
			print_member_names(v, "eval.");
	}
}

/* Check that the rows have all columns of the plot. Returns 0, or the exit code. */
static int check_known_columns(const struct plot *p)
{
	for (size_t i = 0; p->last && i < p->n; i++) {
		if (p->series[i].known)
			continue;
		fprintf(stderr, "ps-stat: metrics.jsonl has no column \"%s\"; there are: loss ex/s",
		    p->series[i].name);
		print_member_names(p->last, "");
		fprintf(stderr, ", and the growth of columns per second, as examples/s\n");
		return 2;
	}
	if (p->last && !json_is_number(json_object_get(p->last, p->across))) {
		fprintf(stderr, "ps-stat: --across: metrics.jsonl has no numbers of \"%s\"\n",
		    p->across);
		return 2;
	}
	return 0;
}

/* ---- drawing ---- */

/* Format an end of the x axis: "12.5 s", "step 400". */
static void format_axis_end(const struct plot *p, double v, char out[static 100])
{
	char number[32];

	num_digits(v, 4, number);
	if (strcmp(p->across, "seconds") == 0)
		snprintf(out, 100, "%s s", number);
	else
		snprintf(out, 100, "%.60s %s", p->across, number);
}

/* end: the characters that end a line. */
static void draw_plot(const struct plot *p, const struct series *s, unsigned width, unsigned height,
    const char *end)
{
	unsigned across = width > MARGIN + 2 ? width - MARGIN - 2 : 1;
	bool unicode = term_unicode(), any;
	double now = s->n ? s->y[s->n - 1] : NAN;
	struct chart_span span;
	struct chart c;
	char text[4], number[32], low[100], high[100];

	any = chart_fit(s->x, s->y, s->n, &span);
	chart_init(&c, across, height);
	if (any)
		chart_curve(&c, &span, s->x, s->y, s->n);
	printf("%s%s", s->name, strcmp(s->name, "loss") == 0 ? " (training)" : "");
	if (isfinite(now)) {
		num_digits(now, 4, number);
		printf(" %s", number);
	}
	printf("%s%s", any ? "" : ": no values yet", end);
	for (unsigned row = 0; row < height; row++) {
		num_digits(row == 0 ? span.y1 : span.y0, 4, number);
		printf("%*s ", MARGIN, any && (row == 0 || row + 1 == height) ? number : "");
		for (unsigned col = 0; col < across; col++) {
			chart_text(&c, row, col, unicode, text);
			fputs(text, stdout);
		}
		fputs(end, stdout);
	}
	format_axis_end(p, span.x0, low);
	format_axis_end(p, span.x1, high);
	printf("%*s %s%*s%s", MARGIN, "", low, (int)across - (int)strlen(low), high, end);
	chart_release(&c);
}

/* Draw all curves, one below the other. A live terminal is redrawn in place. */
static void draw_plots(const struct plot *p)
{
	bool screen = term_draws(STDOUT_FILENO), live = screen && p->plan->interval;
	unsigned width, height, each;

	term_size(STDOUT_FILENO, &width, &height);
	each = screen ? (height - 1) / (unsigned)p->n : HEIGHT_USUAL + 2;
	each = each > HEIGHT_LEAST + 2 ? each - 2 : HEIGHT_LEAST;
	if (live)
		fputs("\033[H", stdout);
	for (size_t i = 0; i < p->n; i++)
		draw_plot(p, &p->series[i], width, each, live ? "\033[K\n" : "\n");
	if (live)
		fputs("\033[J", stdout);
	fflush(stdout);
}

/* ---- the view ---- */

/* Draw at each interval until the cluster ends, and once more after that, for its last rows. */
static int follow_metrics(struct plot *p, const char *dir)
{
	uint64_t count = p->plan->count ? p->plan->count : p->plan->interval ? UINT64_MAX : 1;
	int64_t next = clock_now();
	bool alive = true;
	int rc = 0;

	for (uint64_t i = 0; !rc && alive && i < count; i++) {
		if (i) {
			next += p->plan->interval;
			stream_pause(next);
		}
		alive = !p->plan->interval || rundir_is_alive(dir, NULL);
		past_read_rows(p->past, add_plot_row, p);
		rc = check_known_columns(p);
		if (!rc)
			draw_plots(p);
		if (ferror(stdout))
			break;
	}
	return rc;
}

static int write_plot_picture(struct plot *p)
{
	struct err e = { 0 };
	int rc;

	past_read_rows(p->past, add_plot_row, p);
	rc = check_known_columns(p);
	if (!rc &&
	    gnuplot_write(p->series, p->n, p->across,
	        p->plan->style.format == FORMAT_SVG ? "svg" : "png", &e)) {
		fprintf(stderr, "ps-stat: %s\n", e.msg);
		rc = err_exit_code(e.code);
	}
	return rc;
}

static bool is_plot_picture(const struct plan *p)
{
	return p->style.format == FORMAT_SVG || p->style.format == FORMAT_PNG;
}

static int check_plot_plan(const struct plan *p)
{
	bool picture = is_plot_picture(p);

	if (!p->noperands)
		return plan_usage("name a column to plot: ps-stat plot loss");
	if (p->options->join)
		return plan_usage(
		    "plot reads metrics.jsonl of a run directory: use -C DIR, not --join");
	if (picture && p->interval)
		return plan_usage("-o writes one picture: an interval is not possible");
	if (picture && isatty(STDOUT_FILENO))
		return plan_usage("standard output is a terminal: ps-stat plot %s -o %s > FILE",
		    p->operand[0], p->style.format == FORMAT_SVG ? "svg" : "png");
	return 0;
}

/* Draws the data of the run directory once, as a picture, or follows the metrics on the terminal
 * until the run ends. Returns the exit code. */
static int run_plot(const struct plan *plan)
{
	const char *across = plan->options->across;
	const struct column *c = across ? plan_column(&stat_view_cluster, across, strlen(across))
	                                : NULL;
	struct plot p = { .plan = plan,
		.n = plan->noperands,
		.across = c  ? c->key
		    : across ? across
		             : "seconds" };
	bool picture = is_plot_picture(plan);
	struct err e = { 0 };
	enum err_code rc;
	char *dir = NULL;
	int code = check_plot_plan(plan);

	if (code)
		return code;
	rc = rundir_find(plan->options->run_dir, &dir, &e);
	/* The metrics of a run that has ended can be plotted, too. */
	if (!rc || (rc == ERR_NOTREADY && dir))
		rc = past_open(dir, &p.past, &e);
	if (rc)
		fprintf(stderr, "ps-stat: %s\n", e.msg);
	p.series = mem_array(p.n, sizeof *p.series);
	for (size_t i = 0; i < p.n; i++)
		past_series_init(&p.series[i], plan->operand[i]);
	code = rc ? err_exit_code(rc) : picture ? write_plot_picture(&p) : follow_metrics(&p, dir);
	for (size_t i = 0; i < p.n; i++)
		past_series_release(&p.series[i]);
	free(p.series);
	json_decref(p.last);
	past_close(p.past);
	free(dir);
	return code;
}

const struct stat_view stat_view_plot = {
	.name = "plot",
	.help = "curves of columns of metrics.jsonl: ps-stat plot loss",
	.run = run_plot,
};
