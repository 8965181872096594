/* SPDX-License-Identifier: ISC */
#include "cmd/stat/plan.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/buf.h"
#include "core/clock.h"
#include "core/num.h"
#include "core/suggest.h"
#include "session/control.h"
#include "term/screen.h"

static const struct stat_view *const views[] = {
#define VIEW(name) &stat_view_##name,
#include "cmd/stat/stat.def"
#undef VIEW
};
#define NVIEWS (sizeof views / sizeof *views)

static const char *const formats[] = {
	[FORMAT_TABLE] = "table",
	[FORMAT_TSV] = "tsv",
	[FORMAT_CSV] = "csv",
	[FORMAT_JSON] = "json",
	[FORMAT_PROM] = "prom",
	[FORMAT_SVG] = "svg",
	[FORMAT_PNG] = "png",
};
#define NFORMATS (sizeof formats / sizeof *formats)

int plan_usage(const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "ps-stat: ");
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fprintf(stderr, " (see ps-stat -h)\n");
	return 2;
}

/* ---- columns ---- */

const struct column *plan_column(const struct stat_view *v, const char *name, size_t n)
{
	for (size_t i = 0; i < v->ncolumns; i++)
		if (strlen(v->columns[i].name) == n && strncmp(v->columns[i].name, name, n) == 0)
			return &v->columns[i];
	return NULL;
}

/* Report a column that the view does not have, with the closest name. Returns the exit code. */
static int report_unknown_column(const struct stat_view *v, const char *name, size_t n)
{
	const char *names[PLAN_COLUMNS], *near;
	char word[64];

	snprintf(word, sizeof word, "%.*s", (int)n, name);
	for (size_t i = 0; i < v->ncolumns; i++)
		names[i] = v->columns[i].name;
	near = suggest(word, names, v->ncolumns);
	fprintf(stderr, "ps-stat: %s has no column \"%s\"", v->name, word);
	if (near)
		fprintf(stderr, "; did you mean \"%s\"?", near);
	else
		fprintf(stderr, ";");
	fprintf(stderr, " there are:");
	for (size_t i = 0; i < v->ncolumns; i++)
		fprintf(stderr, " %s", names[i]);
	fprintf(stderr, "\n");
	return 2;
}

static int add_named_columns(struct plan *p, const char *list)
{
	for (const char *at = list; at;) {
		size_t n = strcspn(at, ",");
		const struct column *c = plan_column(p->view, at, n);

		if (!c || p->style.ncolumns == PLAN_COLUMNS)
			return report_unknown_column(p->view, at, n);
		p->column[p->style.ncolumns++] = c;
		at = at[n] ? at + n + 1 : NULL;
	}
	return 0;
}

static void add_default_columns(struct plan *p, bool all)
{
	for (size_t i = 0; i < p->view->ncolumns && p->style.ncolumns < PLAN_COLUMNS; i++)
		if (all || p->view->columns[i].shown)
			p->column[p->style.ncolumns++] = &p->view->columns[i];
}

/* With -T, put the time in front unless it is among the columns. */
static void add_time_column(struct plan *p)
{
	const struct column *ts = plan_column(p->view, "ts", 2);

	for (size_t i = 0; i < p->style.ncolumns; i++)
		if (p->column[i] == ts)
			return;
	if (!ts || p->style.ncolumns == PLAN_COLUMNS)
		return;
	memmove(p->column + 1, p->column, p->style.ncolumns * sizeof *p->column);
	p->column[0] = ts;
	p->style.ncolumns++;
}

/* Is this the name of a format? */
static bool parse_format_name(const char *name, enum format *out)
{
	for (size_t i = 0; i < NFORMATS; i++)
		if (strcmp(name, formats[i]) == 0) {
			*out = (enum format)i;
			return true;
		}
	return false;
}

/* Choose the columns, the order and whether sentences are printed. Returns 0, or the exit code. */
static int choose_plan_columns(struct plan *p)
{
	const struct stat_options *o = p->options;
	bool wide = false, named = o->columns.n > 0;
	int rc = 0;

	p->style.column = p->column;
	for (size_t i = 0; i < o->output.n; i++)
		wide |= strcmp(o->output.item[i], "wide") == 0;
	for (size_t i = 0; !rc && !p->view->run && i < o->columns.n; i++)
		rc = add_named_columns(p, o->columns.item[i]);
	if (rc)
		return rc;
	if (named && p->view->run)
		return plan_usage("%s has no columns to choose", p->view->name);
	if (!named)
		add_default_columns(p, wide);
	if (o->time)
		add_time_column(p);
	p->sentences = p->view->sentences && p->style.header && p->style.format == FORMAT_TABLE &&
	    !named && !wide;
	if (!o->sort || p->view->run)
		return 0;
	p->sort = plan_column(p->view, o->sort, strlen(o->sort));
	return p->sort ? 0 : report_unknown_column(p->view, o->sort, strlen(o->sort));
}

void plan_for_view(const struct plan *p, const struct stat_view *v, struct plan *out)
{
	*out = *p;
	out->view = v;
	out->style.ncolumns = 0;
	out->style.column = out->column;
	add_default_columns(out, false);
	if (out->options->time)
		add_time_column(out);
	out->sort = NULL;
}

/* ---- operands ---- */

/* Report an unknown view, with the closest name. Returns the exit code. */
static int report_unknown_view(const char *name)
{
	const char *names[NVIEWS], *near;
	struct buf all = BUF_INIT;
	struct stat st;

	for (size_t i = 0; i < NVIEWS; i++) {
		names[i] = views[i]->name;
		buf_printf(&all, "%s%s", i == 0 ? "" : i + 1 < NVIEWS ? ", " : " and ", names[i]);
	}
	near = suggest(name, names, NVIEWS);
	if (stat(name, &st) == 0 && S_ISDIR(st.st_mode))
		plan_usage("unknown view \"%s\"; did you mean \"-C %s\"?", name, name);
	else if (near)
		plan_usage("unknown view \"%s\"; did you mean \"%s\"?", name, near);
	else
		plan_usage("unknown view \"%s\": must be one of %s", name, (const char *)all.data);
	buf_release(&all);
	return 2;
}

static int choose_view(const char *name, struct plan *p)
{
	for (size_t i = 0; i < NVIEWS; i++)
		if (strcmp(name, views[i]->name) == 0) {
			p->view = views[i];
			return 0;
		}
	return report_unknown_view(name);
}

/* Read the operands INTERVAL and COUNT from argv[at] on. Returns 0, or the exit code. */
static int read_interval_and_count(struct plan *p, int nargs, char **argv, int at)
{
	double seconds;

	if (at <= nargs) {
		if (!num_double(argv[at], &seconds) || seconds <= 0 || seconds > 1e9)
			return plan_usage(
			    "the interval must be a number of seconds above 0, got \"%s\"",
			    argv[at]);
		p->interval = (int64_t)(seconds * (double)NSEC_PER_SEC);
		at++;
	}
	if (at <= nargs) {
		if (!num_uint(argv[at], UINT64_MAX, &p->count) || !p->count)
			return plan_usage("the count must be a whole number above 0, got \"%s\"",
			    argv[at]);
		at++;
	}
	return at <= nargs ? plan_usage("unexpected operand \"%s\"", argv[at]) : 0;
}

static int read_plan_operands(struct plan *p, int nargs, char **argv)
{
	double seconds;
	int at = 1, rc = 0;

	if (at <= nargs && !num_double(argv[at], &seconds))
		rc = choose_view(argv[at++], p);
	/* The operands of a plot are columns up to the first number, which is the interval. */
	p->operand = argv + at;
	if (p->view == &stat_view_plot)
		for (; at <= nargs && !num_double(argv[at], &seconds); at++)
			p->noperands++;
	return rc ? rc : read_interval_and_count(p, nargs, argv, at);
}

/* ---- the plan ---- */

/* Choose the format from the options that name one. Returns 0, or the exit code. */
static int choose_plan_format(const struct stat_options *o, struct plan *p)
{
	enum format f = o->json ? FORMAT_JSON
	    : o->tsv            ? FORMAT_TSV
	    : o->prom           ? FORMAT_PROM
	                        : FORMAT_TABLE,
	            one;
	unsigned n = o->json + o->tsv + o->prom;

	for (size_t i = 0; i < o->output.n; i++) {
		if (strcmp(o->output.item[i], "wide") == 0)
			continue;
		if (!parse_format_name(o->output.item[i], &one))
			return plan_usage(
			    "-o %s: no such format of the output; columns are chosen by -k, and files are "
			    "written by > FILE",
			    o->output.item[i]);
		n += !n || one != f;
		f = one;
	}
	if (n > 1)
		return plan_usage(
		    "only one format is possible: --json, --tsv, --prom and -o exclude each other");
	if ((f == FORMAT_SVG || f == FORMAT_PNG) != (n && p->view == &stat_view_plot))
		return p->view == &stat_view_plot
		    ? plan_usage(
		          "a plot is shown on the terminal or written as svg or png: -o %s is not possible",
		          formats[f])
		    : plan_usage(
		          "-o %s can only be used with the view plot: ps-stat plot loss -o %s > FILE",
		          formats[f], formats[f]);
	p->style.header = !o->no_header && f != FORMAT_JSON;
	p->style.exact = o->exact || f == FORMAT_TSV || f == FORMAT_CSV;
	p->style.format = o->no_header && f == FORMAT_TABLE ? FORMAT_TSV : f;
	return 0;
}

/* Refuse options that do not go together. Returns 0, or the exit code. */
static int check_combination(const struct stat_options *o, const struct plan *p)
{
	bool rows = !p->view->run, prom = p->style.format == FORMAT_PROM;

	if (o->histograms && (p->view->sentences || !rows || p->view == &stat_view_tables))
		return plan_usage(
		    "-w can only be used with the views cluster, servers and workers: %s has no histograms",
		    p->view->name);
	if (o->histograms &&
	    (o->csv || o->command || o->sort || o->totals || prom || p->style.format == FORMAT_CSV))
		return plan_usage(
		    "-w can be used with --json and -H, but not with -c, -S, -v, --csv or other formats");
	if ((o->csv || o->command || o->totals) && (!rows || prom))
		return plan_usage("-c, -v and --csv can only be used with views that have rows");
	if (o->totals && p->view->sentences)
		return plan_usage("-v: %s has no totals", p->view->name);
	if (o->across && p->view != &stat_view_plot)
		return plan_usage("--across can only be used with the view plot");
	return 0;
}

/* Is this the bare command, typed at a terminal that can show the full screen, about a cluster that runs? */
static bool means_screen(const struct stat_options *o, int nargs)
{
	bool has_options = o->sort || o->csv || o->command || o->time || o->across ||
	    o->columns.n || o->output.n || o->no_header || o->exact || o->skip_first || o->json ||
	    o->tsv || o->prom || o->header_once || o->totals || o->histograms;
	struct err e = { 0 };
	char *dir = NULL;
	bool runs;

	if (nargs || has_options || !term_draws(STDOUT_FILENO) || !isatty(STDIN_FILENO))
		return false;
	runs = o->join || control_find(o->run_dir, &dir, &e) == ERR_OK;
	free(dir);
	return runs;
}

int plan_make(const struct stat_options *o, int nargs, char **argv, struct plan *p)
{
	int rc;

	*p = (struct plan){ .options = o,
		.view = &stat_view_cluster,
		.style = { .time = o->time ? o->time[0] : '\0' } };
	rc = read_plan_operands(p, nargs, argv);
	if (!rc && means_screen(o, nargs))
		p->view = &stat_view_top;
	/* -v shows the cluster by its servers, with a row of totals. */
	if (!rc && o->totals && p->view == &stat_view_cluster)
		p->view = &stat_view_servers;
	if (!rc)
		rc = choose_plan_format(o, p);
	if (!rc)
		rc = check_combination(o, p);
	return rc ? rc : choose_plan_columns(p);
}
