#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "ctl.h"
#include "report_read.h"
#include "report_table.h"

#define RUNS_MAX 16
/* At how many steps the curves are shown. */
#define STEPS 10

struct options {
	bool json;
};

static const struct opt opts[] = {
	CTL_OPT_JSON(struct options, json),
};

struct comparison {
	bool json;
	struct run_info run[RUNS_MAX];
	struct run_point *point[RUNS_MAX];
	size_t npoints[RUNS_MAX];
	size_t n;
};

/* ---- output -------------------------------------------------------------------------- */

/* Rows are {"name": or "step":, "values": [...]}, one value a run; the array is taken over. */
static void show_lines(const struct comparison *c, const char *kind, json_t *rows)
{
	json_t *runs = json_array(), *row;
	size_t i;

	for (i = 0; i < c->n; i++)
		json_array_append_new(runs, json_string(c->run[i].dir));
	json_array_foreach(rows, i, row) {
		json_object_set(row, "runs", runs);
		ctl_line(kind, row);
	}
	json_decref(runs);
	json_decref(rows);
}

static void show_table(const struct comparison *c, const char *first, bool exact, json_t *rows)
{
	struct text_table t = TEXT_TABLE(1 + c->n);
	const json_t *row, *v;
	size_t i, k;

	text_table_add(&t, mem_strdup(first));
	for (i = 0; i < c->n; i++)
		text_table_add(&t, mem_strdup(c->run[i].name));
	json_array_foreach(rows, i, row) {
		const json_t *step = json_object_get(row, "step");

		text_table_add(&t, step ? figure_text(step) : mem_strdup(json_str(row, "name", "")));
		json_array_foreach(json_object_get(row, "values"), k, v)
			text_table_add(&t, exact && !json_is_null(v) ? run_value_text(v) : figure_text(v));
	}
	text_table_print(&t);
	json_decref(rows);
}

static void add_row(json_t *rows, const char *name, json_t *values)
{
	json_array_append_new(rows, json_pack("{s:s, s:o}", "name", name, "values", values));
}

static json_t *or_null(const json_t *v)
{
	return v ? json_incref((json_t *)v) : json_null();
}

/* ---- settings and results ------------------------------------------------------------ */

static json_t *settings(const struct comparison *c)
{
	json_t *keys = run_info_differing(c->run, c->n), *rows = json_array();
	const json_t *key;
	size_t i;

	json_array_foreach(keys, i, key) {
		json_t *values = json_array();

		for (size_t k = 0; k < c->n; k++)
			json_array_append_new(values, or_null(json_object_get(c->run[k].settings, json_string_value(key))));
		add_row(rows, json_string_value(key), values);
	}
	json_decref(keys);
	return rows;
}

static json_t *results(const struct comparison *c)
{
	json_t *figures = figure_names(c->run, c->n), *rows = json_array();
	const json_t *name;
	size_t i;

	json_array_append_new(figures, json_string("model_digest"));
	json_array_foreach(figures, i, name) {
		json_t *values = json_array();

		for (size_t k = 0; k < c->n; k++)
			json_array_append_new(values, or_null(figure_of(c->run[k].result, json_string_value(name))));
		add_row(rows, json_string_value(name), values);
	}
	json_decref(figures);
	return rows;
}

/* ---- curves -------------------------------------------------------------------------- */

/* The training loss at a step, between two points of which one knew it before and one
 * after; NaN where there are no such. */
static double loss_at(const struct run_point *p, size_t n, double step)
{
	const struct run_point *before = NULL;

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

/* The steps that all runs have gone through while their loss was known. */
static bool common_steps(const struct comparison *c, double *first, double *last)
{
	*first = 0;
	*last = INFINITY;
	for (size_t k = 0; k < c->n; k++) {
		double lo = INFINITY, hi = -INFINITY;

		for (size_t i = 0; i < c->npoints[k]; i++) {
			const struct run_point *p = &c->point[k][i];

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

static void add_step(json_t *rows, const char *name, double step, json_t *values)
{
	json_array_append_new(rows, json_pack("{s:s, s:I, s:o}", "name", name, "step", (json_int_t)step, "values", values));
}

static json_t *losses(const struct comparison *c)
{
	json_t *rows = json_array();
	double first, last, before = -1;

	for (int i = 0; i < STEPS && common_steps(c, &first, &last); i++) {
		double step = floor(first + (last - first) * i / (STEPS - 1));
		json_t *values = json_array();

		for (size_t k = 0; k < c->n; k++)
			json_array_append_new(values, json_of_num(loss_at(c->point[k], c->npoints[k], fmax(step, first))));
		if (step > before)
			add_step(rows, "train_loss", step, json_incref(values));
		before = step;
		json_decref(values);
	}
	return rows;
}

/* What was found when the model of that step was judged, or null. */
static json_t *eval_at(const struct run_point *p, size_t n, double step, const char *key)
{
	for (size_t i = 0; i < n; i++)
		if (p[i].eval && fabs(p[i].eval_step - step) < 0.5)
			return or_null(json_object_get(p[i].eval, key));
	return json_null();
}

/* At the steps at which all were judged. */
static json_t *evals(const struct comparison *c, const char *name)
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
			add_step(rows, name, step, json_incref(values));
			before = step;
		}
		json_decref(values);
	}
	return rows;
}

static void show_curve(const struct comparison *c, const char *name, json_t *rows)
{
	char *title;

	if (c->json) {
		show_lines(c, "curve", rows);
	} else if (json_array_size(rows)) {
		title = mem_printf("%s at step", name);
		putchar('\n');
		show_table(c, title, false, rows);
		free(title);
	} else {
		json_decref(rows);
	}
}

static void show_curves(const struct comparison *c)
{
	json_t *figures = figure_names(c->run, c->n);
	const json_t *figure;
	size_t i;

	show_curve(c, "train_loss", losses(c));
	json_array_foreach(figures, i, figure) {
		const char *name = json_string_value(figure);

		if (strncmp(name, "eval.", 5) == 0)
			show_curve(c, name, evals(c, name));
	}
	json_decref(figures);
}

static void show(const struct comparison *c)
{
	json_t *rows = settings(c);

	if (c->json) {
		show_lines(c, "setting", rows);
		show_lines(c, "figure", results(c));
	} else {
		if (json_array_size(rows) == 0)
			puts("the settings are the same");
		else
			show_table(c, "setting", true, json_incref(rows));
		json_decref(rows);
		putchar('\n');
		show_table(c, "result", false, results(c));
	}
	show_curves(c);
}

static int run(const struct ctl_cmd *self, int argc, char **argv)
{
	struct options o = { 0 };
	struct comparison c = { 0 };
	struct err e = { 0 };
	enum err_code rc = ERR_OK;
	int nargs, code;
	double epoch;

	if (!ctl_parse(self, &o, argc, argv, &nargs, &code))
		return code;
	c.json = o.json;
	for (int i = 0; !rc && i < nargs; i++) {
		rc = run_info_read(argv[i + 1], &c.run[i], &e);
		if (!rc)
			c.point[i] = run_points(c.run[i].dir, &c.npoints[i], &epoch);
		c.n += !rc;
	}
	if (!rc)
		show(&c);
	for (size_t i = 0; i < c.n; i++) {
		run_points_free(c.point[i], c.npoints[i]);
		run_info_release(&c.run[i]);
	}
	return rc ? ctl_fail(&e) : 0;
}

const struct ctl_cmd ctl_cmd_compare = {
	"compare",
	{
		.prog = "ps-ctl compare", .args = "RUN RUN ...",
		.about = "runs side by side: settings that differ, results, curves",
		.more = "RUN is a run directory, as NAME.run.1, of a run in whatever state.  Curves are shown at steps that all\n"
		        "have reached: the training loss between its samples, an evaluation where all had one.  The exit code is\n"
		        "0 whether they differ or not.",
		.opts = opts, .nopts = CTL_COUNT(opts), .min_args = 2, .max_args = RUNS_MAX,
		.examples = "  ps-ctl compare lin.run.1 lin.run\n"
		            "  ps-ctl compare a.run b.run --json | jq -c 'select(.kind == \"setting\")'\n",
	},
	run,
};
