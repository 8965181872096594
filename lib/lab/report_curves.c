/* SPDX-License-Identifier: ISC */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/json.h"
#include "core/mem.h"
#include "lab/report_html.h"
#include "lab/report_page.h"

bool report_is_notable_event(enum event_kind kind)
{
	switch (kind) {
	case EVENT_server_joined:
	case EVENT_worker_joined:
	case EVENT_worker_done:
	case EVENT_layout:
	case EVENT_eval:
	case EVENT_running:
	case EVENT_finishing:
	case EVENT_done:
		return false;
	default:
		return true;
	}
}

struct curves {
	struct report_sample *p;
	size_t n;
	double *time, *step;
	struct report_plot_mark *mark;
	size_t nmarks;
};

static double *make_column(const struct curves *c,
    double (*value)(const struct report_sample *p, size_t i))
{
	double *v = mem_array(c->n + 1, sizeof *v);

	for (size_t i = 0; i < c->n; i++)
		v[i] = value(c->p, i);
	return v;
}

static double point_time(const struct report_sample *p, size_t i)
{
	return p[i].time;
}
static double point_step(const struct report_sample *p, size_t i)
{
	return p[i].step;
}
static double point_loss(const struct report_sample *p, size_t i)
{
	return p[i].train_loss;
}

static double point_examples(const struct report_sample *p, size_t i)
{
	return p[i].examples;
}
static double point_pushed(const struct report_sample *p, size_t i)
{
	return p[i].pushed_bytes;
}
static double point_pulled(const struct report_sample *p, size_t i)
{
	return p[i].pulled_bytes;
}

/* Makes the rate at which a counter grows, a second. It is averaged over a second or a hundredth
 * of the run, whichever is longer, because workers report their counters only five times a second.
 * The rate is NaN where the counter shrank: it was reset, or a worker left with its share. */
static double *make_growth_rates(const struct curves *c,
    double (*count)(const struct report_sample *p, size_t i))
{
	double *v = mem_array(c->n + 1, sizeof *v),
	       span = c->n ? fmax(1, c->time[c->n - 1] / 100) : 1;
	size_t from = 0;

	for (size_t i = 0; i < c->n; i++) {
		double grown, seconds;

		while (from + 1 < i && c->time[i] - c->time[from + 1] >= span)
			from++;
		grown = count(c->p, i) - count(c->p, from);
		seconds = c->time[i] - c->time[from];
		v[i] = seconds >= 0.3 && grown >= 0 ? grown / seconds : NAN;
	}
	return v;
}

/* Collects one figure of all evaluations, with their steps. A metrics line repeats the last
 * evaluation: each is taken once. Returns their number. */
static size_t collect_evaluations(const struct curves *c, const char *key, double *step,
    double *value)
{
	size_t n = 0;

	for (size_t i = 0; i < c->n; i++) {
		const json_t *v = json_object_get(c->p[i].eval, key);

		if (!json_is_number(v) || !isfinite(c->p[i].eval_step))
			continue;
		if (n == 0 || step[n - 1] < c->p[i].eval_step || step[n - 1] > c->p[i].eval_step) {
			step[n] = c->p[i].eval_step;
			value[n++] = json_number_value(v);
		}
	}
	return n;
}

static void draw_loss_chart(struct buf *out, const struct curves *c)
{
	double *loss = make_column(c, point_loss), *step = mem_array(c->n + 1, sizeof *step),
	       *value = mem_array(c->n + 1, sizeof *value);
	struct report_plot_curve curve[] = {
		{ "training", c->step, loss, c->n, false, 0 },
		{ "evaluation", step, value, collect_evaluations(c, "loss", step, value), true, 0 },
	};

	report_plot_svg(out,
	    &(struct plot){ .title = curve[1].n ? "Loss" : "Training loss",
	        .x_name = "step",
	        .whole = true,
	        .curve = curve,
	        .ncurves = curve[1].n ? 2 : 1 });
	free(loss);
	free(step);
	free(value);
}

static void draw_eval_chart(struct buf *out, const struct curves *c, const char *key)
{
	double *step = mem_array(c->n + 1, sizeof *step),
	       *value = mem_array(c->n + 1, sizeof *value);
	struct report_plot_curve curve = { key, step, value,
		collect_evaluations(c, key, step, value), true, 0 };
	char *title = mem_printf("Evaluation: %s", key);

	report_plot_svg(out,
	    &(struct plot){ .title = title,
	        .x_name = "step",
	        .whole = true,
	        .curve = &curve,
	        .ncurves = 1 });
	free(title);
	free(step);
	free(value);
}

/* Draws a chart for each figure of the last evaluation, in the order in which the model lists
 * them. */
static void draw_eval_charts(struct buf *out, const struct curves *c)
{
	const json_t *last = NULL;
	const char *key;
	json_t *v;

	for (size_t i = 0; i < c->n; i++)
		if (c->p[i].eval)
			last = c->p[i].eval;
	json_object_foreach((json_t *)last, key, v)
		if (strcmp(key, "loss") != 0 && strcmp(key, "examples") != 0)
			draw_eval_chart(out, c, key);
}

/* The samples have totals; the charts show their growth between neighbours, a second. */
static void draw_speed_charts(struct buf *out, const struct curves *c)
{
	double *speed = make_growth_rates(c, point_examples),
	       *pushed = make_growth_rates(c, point_pushed),
	       *pulled = make_growth_rates(c, point_pulled);
	struct report_plot_curve examples = { "examples a second", c->time, speed, c->n, false, 0 };
	struct report_plot_curve bytes[] = {
		{ "pushed", c->time, pushed, c->n, false, 0 },
		{ "pulled", c->time, pulled, c->n, false, 0 },
	};
	struct plot p = { .title = "Examples a second",
		.x_name = "seconds",
		.curve = &examples,
		.ncurves = 1,
		.mark = c->mark,
		.nmarks = c->nmarks,
		.from_zero = true };

	report_plot_svg(out, &p);
	p.title = "Bytes a second, of all workers";
	p.curve = bytes;
	p.ncurves = 2;
	report_plot_svg(out, &p);
	free(speed);
	free(pushed);
	free(pulled);
}

static void make_event_marks(struct curves *c, const json_t *events, double epoch)
{
	const json_t *e;
	size_t i;

	c->mark = mem_array(json_array_size(events) + 1, sizeof *c->mark);
	json_array_foreach(events, i, e)
		if (report_is_notable_event(event_kind_by_name(json_str(e, "event", ""))))
			c->mark[c->nmarks++] = (struct report_plot_mark){
				report_parse_time(json_str(e, "ts", "")) - epoch,
				json_str(e, "text", "")
			};
}

/* Charts without enough points are left out. *epoch is given out because the table of events counts
 * its seconds from the same moment. */
void report_curves(struct buf *out, const struct report_run *r, const json_t *events, double *epoch)
{
	struct curves c = { 0 };
	size_t before;

	c.p = report_samples_read(r->dir, &c.n, epoch);
	c.time = make_column(&c, point_time);
	c.step = make_column(&c, point_step);
	make_event_marks(&c, events, *epoch);
	buf_puts(out, "<div class=\"plots\">\n");
	before = out->len;
	draw_loss_chart(out, &c);
	draw_eval_charts(out, &c);
	draw_speed_charts(out, &c);
	if (out->len == before)
		buf_puts(out,
		    "<p>There are no curves: metrics.jsonl has fewer than two samples.</p>\n");
	buf_puts(out, "</div>\n");
	if (c.nmarks)
		buf_puts(out,
		    "<p class=\"note\">Dashed lines are events that are not part of every run; "
		    "they are in bold below.</p>\n");
	report_samples_free(c.p, c.n);
	free(c.time);
	free(c.step);
	free(c.mark);
}
