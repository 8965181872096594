#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "ctl.h"
#include "report_table.h"
#include "sweep.h"

const char *point_state_name(const struct point *p)
{
	static const char *const name[] = { "waiting", "running", "done", "failed", "stopped" };

	return name[p->state];
}

static double loss_of(const struct point *p)
{
	const json_t *loss = figure_of(p->result, "eval.loss");

	if (!json_is_number(loss))
		loss = figure_of(p->result, "train_loss");
	return p->state == POINT_DONE && json_is_number(loss) ? json_number_value(loss) : INFINITY;
}

int point_order(const void *a, const void *b)
{
	const struct point *x = *(const struct point *const *)a, *y = *(const struct point *const *)b;
	double p = loss_of(x), q = loss_of(y);

	if (p < q || q < p)
		return p < q ? -1 : 1;
	/* Done before failed before what has not been run; then as in the grid. */
	if (x->state != y->state)
		return (x->state == POINT_DONE ? 0 : (int)x->state) - (y->state == POINT_DONE ? 0 : (int)y->state);
	return (x > y) - (x < y);
}

void point_line(const struct sweep *s, const struct point *p)
{
	char *run = point_path(s, p, ".run");
	json_t *result = p->result ? json_copy(p->result) : json_null(), *o;

	json_object_del(result, "v");
	json_object_del(result, "ts");
	json_object_del(result, "kind");
	o = json_pack("{s:s, s:O, s:s, s:b, s:o}", "run", run, "settings", p->settings, "state", point_state_name(p), "kept",
	              (int)p->kept, "result", result);
	if (*p->reason)
		json_object_set_new(o, "reason", json_string(p->reason));
	ctl_line("point", o);
	json_decref(o);
	free(run);
}

void point_say(const struct sweep *s, const struct point *p, const char *what)
{
	const json_t *loss = figure_of(p->result, "eval.loss");
	char *text = figure_text(loss);

	fprintf(stderr, "[%zu/%zu]", (size_t)(p - s->point) + 1, s->npoints);
	for (size_t i = 0; i < s->nkeys; i++)
		fprintf(stderr, " %s", p->assignment[i]);
	fprintf(stderr, ": %s", what);
	if (p->state == POINT_DONE && json_is_number(loss))
		fprintf(stderr, ", eval loss %s", text);
	fprintf(stderr, "%s%s\n", *p->reason ? ": " : "", p->reason);
	free(text);
}

/* ---- the end ------------------------------------------------------------------------- */

static json_t *eval_names(const struct sweep *s)
{
	struct run_info *list = mem_array(s->npoints, sizeof *list);
	json_t *all, *names = json_array(), *name;
	size_t i;

	for (i = 0; i < s->npoints; i++)
		list[i].result = s->point[i].result;
	all = figure_names(list, s->npoints);
	json_array_foreach(all, i, name)
		if (strncmp(json_string_value(name), "eval.", 5) == 0)
			json_array_append(names, name);
	json_decref(all);
	free(list);
	return names;
}

static void show_table(const struct sweep *s, struct point *const *order)
{
	static const char *const figure[] = { "seconds", "steps", "train_loss" };
	json_t *evals = eval_names(s);
	struct text_table t = TEXT_TABLE(s->nkeys + 1 + CTL_COUNT(figure) + json_array_size(evals));
	const char *key;
	json_t *v;
	size_t k;

	json_object_foreach(s->point[0].settings, key, v)
		text_table_add(&t, mem_strdup(key));
	text_table_add(&t, mem_strdup("state"));
	json_array_foreach(evals, k, v)
		text_table_add(&t, mem_strdup(json_string_value(v)));
	for (k = 0; k < CTL_COUNT(figure); k++)
		text_table_add(&t, mem_strdup(figure[k]));
	for (size_t i = 0; i < s->npoints; i++) {
		json_object_foreach(order[i]->settings, key, v)
			text_table_add(&t, run_value_text(v));
		text_table_add(&t, mem_strdup(point_state_name(order[i])));
		json_array_foreach(evals, k, v)
			text_table_add(&t, figure_text(figure_of(order[i]->result, json_string_value(v))));
		for (k = 0; k < CTL_COUNT(figure); k++)
			text_table_add(&t, figure_text(figure_of(order[i]->result, figure[k])));
	}
	text_table_print(&t);
	json_decref(evals);
}

static size_t count(const struct sweep *s, enum point_state state)
{
	size_t n = 0;

	for (size_t i = 0; i < s->npoints; i++)
		n += s->point[i].state == state;
	return n;
}

static void show_last_line(const struct sweep *s, struct point *const *order, bool stopped)
{
	json_t *runs = json_array(), *o;

	for (size_t i = 0; i < s->npoints; i++) {
		char *run = point_path(s, order[i], ".run");

		if (order[i]->state == POINT_DONE)
			json_array_append_new(runs, json_string(run));
		free(run);
	}
	o = json_pack("{s:s, s:I, s:I, s:I, s:O?, s:o}", "state",
	              stopped ? "stopped" : count(s, POINT_DONE) == s->npoints ? "done" : "failed", "points",
	              (json_int_t)s->npoints, "done", (json_int_t)count(s, POINT_DONE), "failed",
	              (json_int_t)count(s, POINT_FAILED), "best",
	              order[0]->state == POINT_DONE ? order[0]->settings : NULL, "runs", runs);
	ctl_line("sweep", o);
	json_decref(o);
}

void sweep_show(const struct sweep *s, bool json, bool stopped)
{
	struct point **order = mem_array(s->npoints, sizeof *order);

	for (size_t i = 0; i < s->npoints; i++)
		order[i] = &s->point[i];
	qsort(order, s->npoints, sizeof *order, point_order);
	if (json)
		show_last_line(s, order, stopped);
	else
		show_table(s, order);
	free(order);
}
