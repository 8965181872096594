/* SPDX-License-Identifier: ISC */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/json.h"
#include "core/mem.h"
#include "lab/report_table.h"
#include "lab/sweep.h"
#include "metric/metrics.h"

const char *sweep_point_state_name(const struct point *p)
{
	static const char *const name[] = { "waiting", "running", "done", "failed", "stopped" };

	return name[p->state];
}

static double point_best_loss(const struct point *p)
{
	const json_t *loss = report_figure(p->result, "eval.loss");

	if (!json_is_number(loss))
		loss = report_figure(p->result, "train_loss");
	return p->state == POINT_DONE && json_is_number(loss) ? json_number_value(loss) : INFINITY;
}

int sweep_point_compare(const void *a, const void *b)
{
	const struct point *x = *(const struct point *const *)a,
	                   *y = *(const struct point *const *)b;
	double p = point_best_loss(x), q = point_best_loss(y);

	if (p < q || q < p)
		return p < q ? -1 : 1;
	/* Done points first, then failed ones, then those not run; otherwise in the order of the
	 * grid. */
	if (x->state != y->state)
		return (x->state == POINT_DONE ? 0 : (int)x->state) -
		    (y->state == POINT_DONE ? 0 : (int)y->state);
	return (x > y) - (x < y);
}

void sweep_point_print_json(const struct sweep *s, const struct point *p)
{
	char *run = sweep_point_path(s, p, ".run");
	json_t *result = p->result ? json_copy(p->result) : json_null(), *o;

	json_object_del(result, "v");
	json_object_del(result, "ts");
	json_object_del(result, "kind");
	o = json_pack("{s:s, s:O, s:s, s:b, s:o}", "run", run, "settings", p->settings, "state",
	    sweep_point_state_name(p), "kept", (int)p->kept, "result", result);
	if (*p->reason)
		json_object_set_new(o, "reason", json_string(p->reason));
	json_print_event("point", o);
	json_decref(o);
	free(run);
}

void sweep_point_report(const struct sweep *s, const struct point *p, const char *what)
{
	const json_t *loss = report_figure(p->result, "eval.loss");
	char *text = report_figure_text(loss);

	fprintf(stderr, "[%zu/%zu]", (size_t)(p - s->point) + 1, s->npoints);
	for (size_t i = 0; i < s->nkeys; i++)
		fprintf(stderr, " %s", p->assignment[i]);
	fprintf(stderr, ": %s", what);
	if (p->state == POINT_DONE && json_is_number(loss))
		fprintf(stderr, ", eval loss %s", text);
	fprintf(stderr, "%s%s\n", *p->reason ? ": " : "", p->reason);
	free(text);
}

/* ---- the end ---- */

/* Returns a new array with the names of the figures that evaluations of any point have and that fit into a
 * table. */
static json_t *list_eval_figures(const struct sweep *s)
{
	struct report_run *list = mem_array(s->npoints, sizeof *list);
	json_t *all, *names = json_array(), *name;
	size_t i;

	for (i = 0; i < s->npoints; i++)
		list[i].result = s->point[i].result;
	all = report_figure_names(list, s->npoints);
	json_array_foreach(all, i, name)
		if (strncmp(json_string_value(name), "eval.", 5) == 0 &&
		    !metrics_is_detail(json_string_value(name) + 5))
			json_array_append(names, name);
	json_decref(all);
	free(list);
	return names;
}

/* Columns: the values of the grid, the state, the figures of the evaluation, and what the training
 * took. All points have the keys of the first one. */
static void print_sweep_table(const struct sweep *s, struct point *const *order)
{
	static const char *const figure[] = { "seconds", "steps", "train_loss" };
	json_t *evals = list_eval_figures(s);
	struct report_text_table t = TEXT_TABLE(
	    s->nkeys + 1 + (sizeof figure / sizeof *figure) + json_array_size(evals));
	const char *key;
	json_t *v;
	size_t k;

	json_object_foreach(s->point[0].settings, key, v)
		report_text_table_add(&t, mem_strdup(key));
	report_text_table_add(&t, mem_strdup("state"));
	json_array_foreach(evals, k, v)
		report_text_table_add(&t, mem_strdup(json_string_value(v)));
	for (k = 0; k < (sizeof figure / sizeof *figure); k++)
		report_text_table_add(&t, mem_strdup(figure[k]));
	for (size_t i = 0; i < s->npoints; i++) {
		json_object_foreach(order[i]->settings, key, v)
			report_text_table_add(&t, report_value_text(v));
		report_text_table_add(&t, mem_strdup(sweep_point_state_name(order[i])));
		json_array_foreach(evals, k, v)
			report_text_table_add(&t,
			    report_figure_text(
			        report_figure(order[i]->result, json_string_value(v))));
		for (k = 0; k < (sizeof figure / sizeof *figure); k++)
			report_text_table_add(&t,
			    report_figure_text(report_figure(order[i]->result, figure[k])));
	}
	report_text_table_print(&t);
	json_decref(evals);
}

static size_t count_points(const struct sweep *s, enum sweep_point_state state)
{
	size_t n = 0;

	for (size_t i = 0; i < s->npoints; i++)
		n += s->point[i].state == state;
	return n;
}

/* `best` is null when the first point in `order` is not done. `runs` has directories of points that
 * are done. */
static void print_sweep_line(const struct sweep *s, struct point *const *order, bool stopped)
{
	json_t *runs = json_array(), *o;

	for (size_t i = 0; i < s->npoints; i++) {
		char *run = sweep_point_path(s, order[i], ".run");

		if (order[i]->state == POINT_DONE)
			json_array_append_new(runs, json_string(run));
		free(run);
	}
	o = json_pack("{s:s, s:I, s:I, s:I, s:O?, s:o}", "state",
	    stopped                                         ? "stopped"
	        : count_points(s, POINT_DONE) == s->npoints ? "done"
	                                                    : "failed",
	    "points", (json_int_t)s->npoints, "done", (json_int_t)count_points(s, POINT_DONE),
	    "failed", (json_int_t)count_points(s, POINT_FAILED), "best",
	    order[0]->state == POINT_DONE ? order[0]->settings : NULL, "runs", runs);
	json_print_event("sweep", o);
	json_decref(o);
}

void sweep_show(const struct sweep *s, bool json, bool stopped)
{
	struct point **order = mem_array(s->npoints, sizeof *order);

	for (size_t i = 0; i < s->npoints; i++)
		order[i] = &s->point[i];
	qsort(order, s->npoints, sizeof *order, sweep_point_compare);
	if (json)
		print_sweep_line(s, order, stopped);
	else
		print_sweep_table(s, order);
	free(order);
}
