/* SPDX-License-Identifier: ISC */
#include "lab/curve_set.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/file.h"
#include "core/mem.h"
#include "core/num.h"
#include "core/plain.h"
#include "core/utf8.h"
#include "lab/report_table.h"

/* ---- options ---- */

/* The format of a file by the end of its name. */
static const struct format {
	const char *end;
	void (*draw)(struct buf *out, const struct curve_set *s);
} formats[] = {
	{ ".svg", curve_draw_svg },
	{ ".html", curve_draw_html },
	{ ".tsv", curve_draw_tsv },
};

static const struct format *find_format(const char *file)
{
	for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
		size_t n = strlen(formats[i].end);

		if (strlen(file) > n && strcmp(file + strlen(file) - n, formats[i].end) == 0)
			return &formats[i];
	}
	return NULL;
}

enum err_code curve_options_check(const struct curve_options *o, struct err *e)
{
	struct curve_metric m;
	double target;

	if (o->file && !find_format(o->file))
		return err_set(e, ERR_USAGE,
		    "\"%s\" has no known format: the name of a plot must end in .svg, .html or .tsv",
		    o->file);
	if (o->target && !num_double(o->target, &target))
		return err_set(e, ERR_USAGE, "--target %s: must be a number", o->target);
	return o->metric ? curve_metric_find(o->metric, &m, e) : ERR_OK;
}

/* ---- reading ---- */

static bool has_evaluated_loss(const struct report_run *run)
{
	return json_is_number(report_figure(run->result, "eval.loss"));
}

/* Takes the evaluation's loss when all runs have one. */
static enum err_code choose_metric(const struct curve_options *o, const struct report_run *run,
    size_t n, struct curve_metric *m, struct err *e)
{
	bool evaluated = true;

	for (size_t i = 0; i < n; i++)
		evaluated &= has_evaluated_loss(&run[i]);
	return curve_metric_find(o->metric ? o->metric : evaluated ? "loss" : "train_loss", m, e);
}

/* Longer values are cut in labels. */
#define VALUE_MAX 41

/* Makes the label of a run from the settings that differ. Runs that do not differ have their names. */
static char *make_label(const struct curve_set *s, const struct report_run *run)
{
	struct buf label = BUF_INIT;
	const json_t *key;
	char *text;
	size_t i;

	json_array_foreach(s->differing, i, key) {
		const char *name = json_string_value(key);
		char *value = report_value_text(json_object_get(run->settings, name)),
		     cut[VALUE_MAX];

		utf8_printf(cut, sizeof cut, "%s", value);
		buf_printf(&label, "%s%s=%s", label.len ? " " : "",
		    strncmp(name, "job.", 4) == 0 ? name + 4 : name, cut);
		free(value);
	}
	text = label.len ? (char *)label.data : mem_strdup(run->name);
	plain_text(text);
	return text;
}

/* Adds the runs' names to labels that several runs have: repetitions with the same settings. */
static void tell_equal_labels_apart(struct curve_set *s)
{
	bool *same = mem_array(s->n + 1, sizeof *same);

	for (size_t i = 0; i < s->n; i++)
		for (size_t k = 0; k < i; k++)
			if (strcmp(s->of[i].label, s->of[k].label) == 0)
				same[i] = same[k] = true;
	for (size_t i = 0; i < s->n; i++)
		if (same[i] && json_array_size(s->differing)) {
			char *label = mem_printf("%s (%s)", s->of[i].label, s->of[i].run->name);

			plain_text(label);
			free(s->of[i].label);
			s->of[i].label = label;
		}
	free(same);
}

static void choose_target(struct curve_set *s, const struct curve_options *o)
{
	s->target = NAN;
	s->target_is_given = o->target && num_double(o->target, &s->target);
	for (size_t i = 0; i < s->n && !s->target_is_given; i++)
		if (s->of[i].best &&
		    (isnan(s->target) ||
		        curve_reaches(&s->metric, s->target, s->of[i].best->value)))
			s->target = s->of[i].best->value;
	for (size_t i = 0; i < s->n; i++)
		s->of[i].reached = curve_first_at(&s->of[i].curve, &s->metric, s->target);
}

/* Lists the metrics that evaluations of the runs have, as ": they have loss, accuracy and auc". */
static char *list_metrics(const struct report_run *run, size_t n)
{
	json_t *names = report_figure_names(run, n);
	const json_t *name;
	struct buf text = BUF_INIT;
	size_t i;

	buf_puts(&text, "train_loss");
	json_array_foreach(names, i, name)
		if (strncmp(json_string_value(name), "eval.", 5) == 0 &&
		    metrics_find(json_string_value(name) + 5) != METRICS) {
			const char *bare = json_string_value(name) + 5;

			buf_printf(&text, ", %s",
			    strcmp(bare, "loss") == 0 ? json_string_value(name) : bare);
		}
	json_decref(names);
	return (char *)text.data;
}

static bool has_points(const struct curve_set *s)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->of[i].curve.n)
			return true;
	return false;
}

static void release_curves(struct curve_set *s)
{
	for (size_t i = 0; i < s->n; i++) {
		free(s->of[i].label);
		curve_release(&s->of[i].curve);
	}
	free(s->of);
	json_decref(s->differing);
	*s = (struct curve_set){ 0 };
}

/* Reads the curves of n runs, at most CURVE_SET_MAX. dirs[i]: the run directories of run i, of which each
 * continues the one before; it ends with NULL. The runs are borrowed. s must be released after success.
 * ERR_NOTFOUND: no run has the metric. ERR_USAGE as curve_options_check(). */
static enum err_code read_curves(const struct curve_options *o, const struct report_run *run,
    char **const *dirs, size_t n, struct curve_set *s, struct err *e)
{
	enum err_code rc = curve_options_check(o, e);

	*s = (struct curve_set){ .across = o->across };
	if (!rc)
		rc = choose_metric(o, run, n, &s->metric, e);
	if (rc)
		return rc;
	s->n = n;
	s->of = mem_array(n + 1, sizeof *s->of);
	s->differing = report_run_differing_settings(run, n);
	for (size_t i = 0; i < n; i++) {
		size_t ndirs = 0;

		while (dirs[i][ndirs])
			ndirs++;
		s->of[i].run = &run[i];
		s->of[i].label = make_label(s, &run[i]);
		curve_read(dirs[i], ndirs, &s->metric, &s->of[i].curve);
		s->of[i].best = curve_best(&s->of[i].curve, &s->metric);
	}
	tell_equal_labels_apart(s);
	choose_target(s, o);
	if (!has_points(s)) {
		char *known = list_metrics(run, n);

		rc = err_set(e, ERR_NOTFOUND, "no sample of %s has %s; they have %s",
		    n == 1 ? "the run" : "the runs", curve_metric_title(&s->metric), known);
		free(known);
		release_curves(s);
	}
	return rc;
}

/* ---- the table ---- */

char *curve_set_target_text(const struct curve_set *s)
{
	bool near = !curve_reaches(&s->metric, 2, 1) && !curve_reaches(&s->metric, 0, 1),
	     lower = curve_reaches(&s->metric, 0, 1);
	char figure[32];

	num_digits(s->target, 6, figure);
	return near
	    ? mem_printf("%s at least as close to 1 as %s", curve_metric_title(&s->metric), figure)
	    : mem_printf("%s %s %s", curve_metric_title(&s->metric), lower ? "<=" : ">=", figure);
}

struct cells {
	char **text;
	size_t n;
};

static void add_cell(struct cells *c, char *text)
{
	c->text = mem_regrow(c->text, c->n + 2, sizeof *c->text);
	c->text[c->n++] = text;
	c->text[c->n] = NULL;
}

static char *figure_or_dash(const struct curve_point *p, double v, bool count)
{
	char figure[32];

	if (!p || !isfinite(v))
		return mem_strdup("-");
	if (count && v >= 10000)
		num_count(v, figure);
	else
		num_digits(v, count ? 6 : 4, figure);
	return mem_strdup(figure);
}

static void add_table_row(struct cells *c, const struct curve_set *s, size_t i)
{
	const struct curve_of_run *r = &s->of[i];
	const json_t *key;
	size_t k;

	add_cell(c, mem_printf("%c", CURVE_LETTER(i)));
	add_cell(c, mem_strdup(r->run->name));
	json_array_foreach(s->differing, k, key)
		add_cell(c,
		    report_value_text(json_object_get(r->run->settings, json_string_value(key))));
	add_cell(c, mem_strdup(r->run->state));
	add_cell(c, figure_or_dash(r->best, r->best ? r->best->value : NAN, false));
	for (k = 0; k < CURVE_AXES; k++)
		add_cell(c,
		    figure_or_dash(r->reached, r->reached ? r->reached->at[k] : NAN,
		        k != CURVE_SECONDS));
}

char **curve_set_table(const struct curve_set *s, size_t *columns)
{
	struct cells c = { NULL, 0 };
	const json_t *key;
	size_t i;

	add_cell(&c, mem_strdup(""));
	add_cell(&c, mem_strdup("run"));
	json_array_foreach(s->differing, i, key)
		add_cell(&c, mem_strdup(json_string_value(key)));
	add_cell(&c, mem_strdup("state"));
	add_cell(&c, mem_printf("best %s", curve_metric_title(&s->metric)));
	for (i = 0; i < CURVE_AXES; i++)
		add_cell(&c, mem_strdup(curve_axis_name[i]));
	*columns = c.n;
	for (i = 0; i < s->n; i++)
		add_table_row(&c, s, i);
	return c.text;
}

static void print_table(const struct curve_set *s)
{
	size_t columns;
	char **cell = curve_set_table(s, &columns), *target = curve_set_target_text(s);
	struct report_text_table t = TEXT_TABLE(columns);

	printf("cost of each run until %s%s\n", target,
	    s->target_is_given ? "" : ", the worst of the runs' best values");
	for (size_t i = 0; cell[i]; i++)
		report_text_table_add(&t, cell[i]);
	report_text_table_print(&t);
	for (size_t i = 0; i < s->n; i++)
		if (*report_emulation(s->of[i].run))
			plain_print(stdout, "run %c is emulated: %s\n", CURVE_LETTER(i),
			    report_emulation(s->of[i].run));
	free(cell);
	free(target);
}

/* Seconds are real numbers, the other totals whole ones. */
static json_t *total_json(const struct curve_point *p, enum curve_axis axis)
{
	if (!p || !isfinite(p->at[axis]))
		return json_null();
	return axis == CURVE_SECONDS ? json_real(p->at[axis])
	                             : json_integer((json_int_t)p->at[axis]);
}

static void print_json(const struct curve_set *s)
{
	for (size_t i = 0; i < s->n; i++) {
		const struct curve_of_run *r = &s->of[i];
		json_t *o = json_pack("{s:s, s:o, s:s, s:s, s:o, s:o, s:o}", "run", r->run->dir,
		    "settings", json_object(), "state", r->run->state, "metric", s->metric.name,
		    "target", json_of_num(s->target), "best",
		    json_of_num(r->best ? r->best->value : NAN), "best_step",
		    total_json(r->best, CURVE_STEPS));
		const json_t *key;
		size_t k;

		json_array_foreach(s->differing, k, key) {
			const char *name = json_string_value(key);
			json_t *v = json_object_get(r->run->settings, name);

			json_object_set(json_object_get(o, "settings"), name, v ? v : json_null());
		}
		for (k = 0; k < CURVE_AXES; k++)
			json_object_set_new(o, curve_axis_name[k],
			    total_json(r->reached, (enum curve_axis)k));
		json_print_event("target", o);
		json_decref(o);
	}
}

/* ---- all of it ---- */

static enum err_code write_file(const struct curve_set *s, const char *file, struct err *e)
{
	struct buf out = BUF_INIT;
	enum err_code rc;

	find_format(file)->draw(&out, s);
	rc = file_replace(file, out.data, out.len, 0666, e);
	buf_release(&out);
	return rc;
}

/* The file is written first: when that fails, nothing has been printed. */
enum err_code curve_set_show(const struct curve_options *o, const struct report_run *run,
    char **const *dirs, size_t n, struct err *e)
{
	struct curve_set s;
	enum err_code rc = read_curves(o, run, dirs, n, &s, e);

	if (rc)
		return rc;
	if (o->file)
		rc = write_file(&s, o->file, e);
	for (size_t i = 0; !rc && i < n; i++)
		if (!s.of[i].curve.n)
			plain_print(stderr, "%s (%s) has no sample with %s\n", run[i].name,
			    run[i].state, curve_metric_title(&s.metric));
	if (!rc && o->json)
		print_json(&s);
	if (!rc && !o->json) {
		if (!o->file)
			curve_terminal(&s);
		print_table(&s);
	}
	release_curves(&s);
	return rc;
}
