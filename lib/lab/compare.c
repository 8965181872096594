/* SPDX-License-Identifier: ISC */
#include "lab/compare.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/json.h"
#include "core/mem.h"
#include "lab/report_read.h"
#include "lab/report_table.h"
#include "metric/metrics.h"

/* Number of steps at which curves are printed. */
#define STEPS 10
/* Without --all: the most settings, and the most steps of a curve, so that all fits on a page. */
#define PAGE_SETTINGS 12
#define PAGE_STEPS    6

struct comparison {
	bool json, all;
	struct report_run run[COMPARE_RUNS_MAX];
	struct report_sample *point[COMPARE_RUNS_MAX];
	size_t npoints[COMPARE_RUNS_MAX];
	size_t n;
};

/* ---- output ---- */

/* Prints rows as JSON Lines. A row is {"name" or "step": ..., "values": [...]} with one value for
 * each run. Takes over the reference to rows. */
static void print_rows_json(const struct comparison *c, const char *kind, json_t *rows)
{
	json_t *runs = json_array(), *row;
	size_t i;

	for (i = 0; i < c->n; i++)
		json_array_append_new(runs, json_string(c->run[i].dir));
	json_array_foreach(rows, i, row) {
		json_object_set(row, "runs", runs);
		json_print_event(kind, row);
	}
	json_decref(runs);
	json_decref(rows);
}

/* Prints rows as a table, one column for each run. With `exact`, values are printed in full, as
 * settings need it; otherwise numbers are rounded. Takes over the reference to rows. */
static void print_rows_table(const struct comparison *c, const char *first, bool exact,
    json_t *rows)
{
	struct report_text_table t = TEXT_TABLE(1 + c->n);
	const json_t *row, *v;
	size_t i, k;

	report_text_table_add(&t, mem_strdup(first));
	for (i = 0; i < c->n; i++)
		report_text_table_add(&t, mem_strdup(c->run[i].name));
	json_array_foreach(rows, i, row) {
		const json_t *step = json_object_get(row, "step");

		report_text_table_add(&t,
		    step ? report_figure_text(step) : mem_strdup(json_str(row, "name", "")));
		json_array_foreach(json_object_get(row, "values"), k, v)
			report_text_table_add(&t,
			    exact && !json_is_null(v) ? report_value_text(v)
			                              : report_figure_text(v));
	}
	report_text_table_print(&t);
	json_decref(rows);
}

static void add_figure_row(json_t *rows, const char *name, json_t *values)
{
	json_array_append_new(rows, json_pack("{s:s, s:o}", "name", name, "values", values));
}

static json_t *value_or_null(const json_t *v)
{
	return v ? json_incref((json_t *)v) : json_null();
}

/* ---- settings and results ---- */

/* Makes a row for each setting in which the runs differ. */
static json_t *settings_rows(const struct comparison *c)
{
	json_t *keys = report_run_differing_settings(c->run, c->n), *rows = json_array();
	const json_t *key;
	size_t i;

	json_array_foreach(keys, i, key) {
		json_t *values = json_array();

		for (size_t k = 0; k < c->n; k++)
			json_array_append_new(values,
			    value_or_null(
			        json_object_get(c->run[k].settings, json_string_value(key))));
		add_figure_row(rows, json_string_value(key), values);
	}
	json_decref(keys);
	return rows;
}

/* Makes a row for each figure of the results (without c->all none for details of the evaluation), one
 * for the digest of the model, and one that tells of emulated slow workers and links, if there are any. */
static json_t *results_rows(const struct comparison *c)
{
	json_t *figures = report_figure_names(c->run, c->n), *rows = json_array();
	const json_t *name;
	size_t i;

	json_array_append_new(figures, json_string("model_digest"));
	for (i = 0; i < c->n; i++)
		if (report_figure(c->run[i].result, "emulated")) {
			json_array_append_new(figures, json_string("emulated"));
			break;
		}
	json_array_foreach(figures, i, name) {
		const char *text = json_string_value(name);
		json_t *values;

		if (!c->all && strncmp(text, "eval.", 5) == 0 && metrics_is_detail(text + 5))
			continue;
		values = json_array();
		for (size_t k = 0; k < c->n; k++)
			json_array_append_new(values,
			    value_or_null(
			        report_figure(c->run[k].result, json_string_value(name))));
		add_figure_row(rows, json_string_value(name), values);
	}
	json_decref(figures);
	return rows;
}

/* ---- curves ---- */

/* Interpolates the training loss at a step linearly between the neighbouring points. Returns NaN
 * when the step is outside of the points whose loss is known. */
static double interpolate_loss(const struct report_sample *p, size_t n, double step)
{
	const struct report_sample *before = NULL;

	for (size_t i = 0; i < n; i++) {
		if (!isfinite(p[i].train_loss) || !isfinite(p[i].step))
			continue;
		if (p[i].step >= step) {
			double part;

			if (p[i].step <= step)
				return p[i].train_loss;
			if (!before)
				return NAN;
			part = (step - before->step) / (p[i].step - before->step);
			return before->train_loss + part * (p[i].train_loss - before->train_loss);
		}
		before = &p[i];
	}
	return NAN;
}

/* Finds the range of steps for which the loss of every run is known. Returns false when there is
 * none. */
static bool common_steps(const struct comparison *c, double *first, double *last)
{
	*first = 0;
	*last = INFINITY;
	for (size_t k = 0; k < c->n; k++) {
		double lo = INFINITY, hi = -INFINITY;

		for (size_t i = 0; i < c->npoints[k]; i++) {
			const struct report_sample *p = &c->point[k][i];

			if (!isfinite(p->train_loss) || !isfinite(p->step))
				continue;
			lo = p->step < lo ? p->step : lo;
			hi = p->step > hi ? p->step : hi;
		}
		*first = lo > *first ? lo : *first;
		*last = hi < *last ? hi : *last;
	}
	return *first <= *last && isfinite(*last);
}

static void add_step_row(json_t *rows, const char *name, double step, json_t *values)
{
	json_array_append_new(rows,
	    json_pack("{s:s, s:I, s:o}", "name", name, "step", (json_int_t)step, "values", values));
}

/* Makes rows of the training loss at up to STEPS steps, spread evenly over the range that all runs
 * have in common. */
static json_t *loss_curve_rows(const struct comparison *c)
{
	json_t *rows = json_array();
	double first, last, before = -1;

	for (int i = 0; i < STEPS && common_steps(c, &first, &last); i++) {
		double step = floor(first + (last - first) * i / (STEPS - 1));
		json_t *values = json_array();

		for (size_t k = 0; k < c->n; k++)
			json_array_append_new(values,
			    json_of_num(
			        interpolate_loss(c->point[k], c->npoints[k], fmax(step, first))));
		if (step > before)
			add_step_row(rows, "train_loss", step, json_incref(values));
		before = step;
		json_decref(values);
	}
	return rows;
}

/* Returns one figure of the evaluation at a step, or JSON null when there was none. */
static json_t *eval_at(const struct report_sample *p, size_t n, double step, const char *key)
{
	for (size_t i = 0; i < n; i++)
		if (p[i].eval && fabs(p[i].eval_step - step) < 0.5)
			return value_or_null(json_object_get(p[i].eval, key));
	return json_null();
}

/* Collects one figure ("eval.NAME") at the steps at which every run was evaluated. */
static json_t *eval_curve_rows(const struct comparison *c, const char *name)
{
	const char *key = name + strlen("eval.");
	json_t *rows = json_array();
	double before = -1;

	for (size_t i = 0; i < c->npoints[0]; i++) {
		double step = c->point[0][i].eval_step;
		json_t *values = json_array();
		bool all = c->point[0][i].eval && step > before;

		for (size_t k = 0; all && k < c->n; k++) {
			json_t *v = eval_at(c->point[k], c->npoints[k], step, key);

			all = !json_is_null(v);
			json_array_append_new(values, v);
		}
		if (all) {
			add_step_row(rows, name, step, json_incref(values));
			before = step;
		}
		json_decref(values);
	}
	return rows;
}

/* Keeps the first row, the last one and some between them, spread evenly: at most `most`. */
static void thin_rows(json_t *rows, size_t most)
{
	size_t n = json_array_size(rows);
	json_t *some = json_array();

	for (size_t i = 0; n > most && i < most; i++)
		json_array_append(some, json_array_get(rows, i * (n - 1) / (most - 1)));
	if (n > most) {
		json_array_clear(rows);
		json_array_extend(rows, some);
	}
	json_decref(some);
}

static void show_curve(const struct comparison *c, const char *name, json_t *rows)
{
	char *title;

	if (!c->all)
		thin_rows(rows, PAGE_STEPS);
	if (c->json) {
		print_rows_json(c, "curve", rows);
	} else if (json_array_size(rows)) {
		title = mem_printf("%s at step", name);
		putchar('\n');
		print_rows_table(c, title, false, rows);
		free(title);
	} else {
		json_decref(rows);
	}
}

/* The figure of evaluations whose curve is shown without --all: the loss, else the first one. */
static const char *find_page_figure(const json_t *figures)
{
	const char *found = NULL;
	const json_t *figure;
	size_t i;

	json_array_foreach(figures, i, figure) {
		const char *name = json_string_value(figure);

		if (strcmp(name, "eval.loss") == 0)
			return name;
		if (!found && strncmp(name, "eval.", 5) == 0)
			found = name;
	}
	return found;
}

static void show_curves(const struct comparison *c)
{
	json_t *figures = report_figure_names(c->run, c->n);
	const char *page = find_page_figure(figures);
	const json_t *figure;
	size_t i;

	show_curve(c, "train_loss", loss_curve_rows(c));
	json_array_foreach(figures, i, figure) {
		const char *name = json_string_value(figure);

		if (c->all ? strncmp(name, "eval.", 5) == 0 : name == page)
			show_curve(c, name, eval_curve_rows(c, name));
	}
	json_decref(figures);
}

/* Prints the settings that differ; without --all a page of them. Takes over the reference to rows. */
static void print_settings(const struct comparison *c, json_t *rows)
{
	size_t n = json_array_size(rows);

	if (n == 0) {
		puts("the settings are the same");
		json_decref(rows);
		return;
	}
	while (!c->all && json_array_size(rows) > PAGE_SETTINGS)
		json_array_remove(rows, json_array_size(rows) - 1);
	print_rows_table(c, "setting", true, rows);
	if (!c->all && n > PAGE_SETTINGS)
		printf("%zu more settings differ: --all prints them\n", n - PAGE_SETTINGS);
}

static void show_comparison(const struct comparison *c)
{
	json_t *rows = settings_rows(c);

	if (c->json) {
		print_rows_json(c, "setting", rows);
		print_rows_json(c, "figure", results_rows(c));
	} else {
		print_settings(c, rows);
		putchar('\n');
		print_rows_table(c, "result", false, results_rows(c));
	}
	show_curves(c);
	if (!c->all)
		fputs("\n--all prints every figure and curve\n", stdout);
}

/* Shows the runs as one plot: each has one directory. */
static enum err_code show_plot(const struct comparison *c, const struct curve_options *o,
    struct err *e)
{
	char *dir[COMPARE_RUNS_MAX][2] = { { NULL } }, **dirs[COMPARE_RUNS_MAX];

	for (size_t i = 0; i < c->n; i++) {
		dir[i][0] = c->run[i].dir;
		dirs[i] = dir[i];
	}
	return curve_set_show(o, c->run, dirs, c->n, e);
}

/* c.n counts the runs that were read, so that an error in a later one releases exactly those. */
enum err_code compare_runs(char *const *dirs, size_t n, const struct compare_options *o,
    struct err *e)
{
	struct comparison c = { .json = o->json, .all = o->all || o->json };
	enum err_code rc = o->curves ? curve_options_check(o->curves, e) : ERR_OK;
	double epoch;

	for (size_t i = 0; !rc && i < n; i++) {
		rc = report_run_read(dirs[i], &c.run[i], e);
		c.n += !rc;
	}
	for (size_t i = 0; !rc && !o->curves && i < n; i++)
		c.point[i] = report_samples_read(c.run[i].dir, &c.npoints[i], &epoch);
	if (!rc && o->curves)
		rc = show_plot(&c, o->curves, e);
	else if (!rc)
		show_comparison(&c);
	for (size_t i = 0; i < c.n; i++) {
		report_samples_free(c.point[i], c.npoints[i]);
		report_run_release(&c.run[i]);
	}
	return rc;
}
