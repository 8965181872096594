/* SPDX-License-Identifier: ISC */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/json.h"
#include "core/mem.h"
#include "core/plain.h"
#include "lab/report_table.h"
#include "lab/sweep.h"
#include "metric/metrics.h"

const char *sweep_point_state_name(const struct point *p)
{
	static const char *const name[] = { "waiting", "running", "done", "pruned", "failed",
		"stopped" };

	return name[p->state];
}

/* ---- order ---- */

/* The order of points: more rungs first, then the better score. */
struct place {
	struct point *point;
	size_t done;  /* rungs */
	double score; /* of the last of them */
};

/* For qsort(): those that have finished more rungs first, of these the better ones; then by state, and
 * otherwise in the order of the grid. */
static int compare_places(const void *a, const void *b)
{
	const struct place *x = a, *y = b;

	if (x->done != y->done)
		return x->done > y->done ? -1 : 1;
	if (x->score < y->score || y->score < x->score)
		return x->score < y->score ? -1 : 1;
	if (x->point->state != y->point->state)
		return (x->point->state == POINT_DONE ? 0 : (int)x->point->state) -
		    (y->point->state == POINT_DONE ? 0 : (int)y->point->state);
	return (x->point > y->point) - (x->point < y->point);
}

/* Returns all points, the best first. A failed run counts as no rung. */
static struct point **sort_points(const struct sweep *s)
{
	struct place *place = mem_array(s->npoints, sizeof *place);
	struct point **order = mem_array(s->npoints, sizeof *order);

	for (size_t i = 0; i < s->npoints; i++) {
		const struct sweep_climber *at = &s->ladder.point[i];
		size_t done = at->done;

		while (done > 0 && !isfinite(at->score[done - 1]))
			done--;
		place[i] = (struct place){ &s->point[i], done,
			done ? at->score[done - 1] : INFINITY };
	}
	qsort(place, s->npoints, sizeof *place, compare_places);
	for (size_t i = 0; i < s->npoints; i++)
		order[i] = place[i].point;
	free(place);
	return order;
}

/* ---- progress ---- */

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
	if (s->ladder.rungs > 1) {
		json_object_set_new(o, "rung", json_integer((json_int_t)p->rung));
		json_object_set_new(o, "rung_steps", json_integer(s->ladder.steps[p->rung]));
	}
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
	if (s->ladder.rungs > 1)
		fprintf(stderr, ", to step %lld", (long long)s->ladder.steps[p->rung]);
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

/* Returns the number of the last rung that a point has finished, as text. */
static char *rung_text(const struct sweep *s, const struct point *p)
{
	size_t done = s->ladder.point[p - s->point].done;

	return done ? mem_printf("%zu", done - 1) : mem_strdup("-");
}

/* Columns: the values of the grid, the state, the rung if there are several, the figures of the
 * evaluation, and what the training took. All points have the keys of the first one. */
static void print_sweep_table(const struct sweep *s, struct point *const *order)
{
	static const char *const figure[] = { "seconds", "steps", "train_loss" };
	json_t *evals = list_eval_figures(s);
	bool rungs = s->ladder.rungs > 1;
	struct report_text_table t = TEXT_TABLE(
	    s->nkeys + 1 + rungs + (sizeof figure / sizeof *figure) + json_array_size(evals));
	const char *key;
	json_t *v;
	size_t k;

	json_object_foreach(s->point[0].settings, key, v)
		report_text_table_add(&t, mem_strdup(key));
	report_text_table_add(&t, mem_strdup("state"));
	if (rungs)
		report_text_table_add(&t, mem_strdup("rung"));
	json_array_foreach(evals, k, v)
		report_text_table_add(&t, mem_strdup(json_string_value(v)));
	for (k = 0; k < (sizeof figure / sizeof *figure); k++)
		report_text_table_add(&t, mem_strdup(figure[k]));
	for (size_t i = 0; i < s->npoints; i++) {
		json_object_foreach(order[i]->settings, key, v)
			report_text_table_add(&t, report_value_text(v));
		report_text_table_add(&t, mem_strdup(sweep_point_state_name(order[i])));
		if (rungs)
			report_text_table_add(&t, rung_text(s, order[i]));
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

/* Tells of an emulation that all points share; otherwise the table has a column for it. */
static void print_emulation(const struct sweep *s)
{
	for (size_t i = 0; i < s->npoints; i++) {
		const struct point *p = &s->point[i];
		const char *how = json_str(p->result, "emulated", "");

		if (*how && !json_object_get(p->settings, "job.slow") &&
		    !json_object_get(p->settings, "net")) {
			plain_print(stdout, "all points are emulated: %s\n", how);
			return;
		}
	}
}

/* Prints how many points finished each rung, and how many of them were stopped there. */
static void print_rung_table(const struct sweep *s)
{
	struct report_text_table t = TEXT_TABLE(6);
	static const char *const head[] = { "rung", "steps", "points", "failed", "promoted",
		"stopped" };

	for (size_t i = 0; i < sizeof head / sizeof *head; i++)
		report_text_table_add(&t, mem_strdup(head[i]));
	for (size_t k = 0; k < s->ladder.rungs; k++) {
		struct sweep_rung r = sweep_ladder_rung(&s->ladder, k);
		size_t stopped = k + 1 < s->ladder.rungs ? r.finished - r.promoted - r.failed : 0;

		report_text_table_add(&t, mem_printf("%zu", k));
		report_text_table_add(&t, mem_printf("%lld", (long long)s->ladder.steps[k]));
		report_text_table_add(&t, mem_printf("%zu", r.finished));
		report_text_table_add(&t, mem_printf("%zu", r.failed));
		report_text_table_add(&t, mem_printf("%zu", r.promoted));
		report_text_table_add(&t, mem_printf("%zu", stopped));
	}
	putchar('\n');
	report_text_table_print(&t);
}

static json_t *rungs_json(const struct sweep *s)
{
	json_t *rungs = json_array();

	for (size_t k = 0; k < s->ladder.rungs; k++) {
		struct sweep_rung r = sweep_ladder_rung(&s->ladder, k);

		json_array_append_new(rungs,
		    json_pack("{s:I, s:I, s:I, s:I}", "steps", (json_int_t)s->ladder.steps[k],
		        "points", (json_int_t)r.finished, "failed", (json_int_t)r.failed,
		        "promoted", (json_int_t)r.promoted));
	}
	return rungs;
}

/* `best` and `command` are null when the first point in `order` is not done. `runs` has directories of
 * points that are done. */
static void print_sweep_line(const struct sweep *s, struct point *const *order, bool stopped,
    const char *command)
{
	size_t ended = count_points(s, POINT_DONE) + count_points(s, POINT_PRUNED);
	json_t *runs = json_array(), *o;

	for (size_t i = 0; i < s->npoints; i++) {
		char *run = sweep_point_path(s, order[i], ".run");

		if (order[i]->state == POINT_DONE)
			json_array_append_new(runs, json_string(run));
		free(run);
	}
	o = json_pack("{s:s, s:I, s:I, s:I, s:O?, s:s?, s:o}", "state",
	    stopped                   ? "stopped"
	        : ended == s->npoints ? "done"
	                              : "failed",
	    "points", (json_int_t)s->npoints, "done", (json_int_t)count_points(s, POINT_DONE),
	    "failed", (json_int_t)count_points(s, POINT_FAILED), "best",
	    order[0]->state == POINT_DONE ? order[0]->settings : NULL, "command", command, "runs",
	    runs);
	if (s->ladder.rungs > 1) {
		json_object_set_new(o, "pruned",
		    json_integer((json_int_t)count_points(s, POINT_PRUNED)));
		json_object_set_new(o, "rungs", rungs_json(s));
	}
	json_print_event("sweep", o);
	json_decref(o);
}

enum err_code sweep_show(const struct sweep *s, const struct curve_options *curves, bool json,
    bool stopped, struct err *e)
{
	struct point **order = sort_points(s);
	enum err_code rc = ERR_OK, kept = ERR_OK;
	struct best_point best = { 0 };
	char *command = NULL;

	if (order[0]->state == POINT_DONE) {
		sweep_best_make(s, order[0], &best);
		command = sweep_best_command(&best, s->file);
		kept = best_point_write(s->folder, &best, e);
	}
	if (!json)
		print_sweep_table(s, order);
	if (!json)
		print_emulation(s);
	if (!json && s->ladder.rungs > 1)
		print_rung_table(s);
	if (!json && curves)
		putchar('\n');
	if (curves)
		rc = sweep_plot(s, order, curves, e);
	if (json)
		print_sweep_line(s, order, stopped, command);
	else if (command)
		plain_print(stderr, "the best point alone: %s\n", command);
	best_point_release(&best);
	free(command);
	free(order);
	return rc ? rc : kept;
}
