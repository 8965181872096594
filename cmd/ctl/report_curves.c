#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "ctl.h"
#include "report_html.h"
#include "report_page.h"

bool report_is_news(const char *event)
{
	static const char *const usual[] = { "server_joined", "worker_joined", "worker_done", "layout", "eval", "running",
		"finishing", "done" };

	for (size_t i = 0; i < CTL_COUNT(usual); i++)
		if (strcmp(usual[i], event) == 0)
			return false;
	return true;
}

struct curves {
	struct run_point *p;
	size_t n;
	double *time, *step;
	struct plot_mark *mark;
	size_t nmarks;
};

static double *column(const struct curves *c, double (*value)(const struct run_point *p, size_t i))
{
	double *v = mem_array(c->n + 1, sizeof *v);

	for (size_t i = 0; i < c->n; i++)
		v[i] = value(c->p, i);
	return v;
}

static double time_of(const struct run_point *p, size_t i) { return p[i].time; }
static double step_of(const struct run_point *p, size_t i) { return p[i].step; }
static double loss_of(const struct run_point *p, size_t i) { return p[i].train_loss; }

static double examples_of(const struct run_point *p, size_t i) { return p[i].examples; }
static double pushed_of(const struct run_point *p, size_t i) { return p[i].pushed_bytes; }
static double pulled_of(const struct run_point *p, size_t i) { return p[i].pulled_bytes; }

/* Of a count, how fast it grows: over a second or a hundredth of the run, whichever is
 * longer, because workers tell theirs five times a second.  Where it was begun to count
 * again, or somebody's part went with him, there is none. */
static double *growth(const struct curves *c, double (*count)(const struct run_point *p, size_t i))
{
	double *v = mem_array(c->n + 1, sizeof *v), span = c->n ? fmax(1, c->time[c->n - 1] / 100) : 1;
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

/* A figure of the evaluations, each once, with the step at which it was had. */
static size_t evaluations(const struct curves *c, const char *key, double *step, double *value)
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

static void draw_loss(struct buf *out, const struct curves *c)
{
	double *loss = column(c, loss_of), *step = mem_array(c->n + 1, sizeof *step),
	       *value = mem_array(c->n + 1, sizeof *value);
	struct plot_curve curve[] = {
		{ "training", c->step, loss, c->n, false },
		{ "evaluation", step, value, evaluations(c, "loss", step, value), true },
	};

	plot_svg(out, &(struct plot){ .title = "Loss", .x_name = "step", .curve = curve, .ncurves = curve[1].n ? 2 : 1 });
	free(loss);
	free(step);
	free(value);
}

static void draw_eval(struct buf *out, const struct curves *c, const char *key)
{
	double *step = mem_array(c->n + 1, sizeof *step), *value = mem_array(c->n + 1, sizeof *value);
	struct plot_curve curve = { key, step, value, evaluations(c, key, step, value), true };
	char *title = mem_printf("Evaluation: %s", key);

	plot_svg(out, &(struct plot){ .title = title, .x_name = "step", .curve = &curve, .ncurves = 1 });
	free(title);
	free(step);
	free(value);
}

/* The figures of the last evaluation, in the model's order. */
static void draw_evals(struct buf *out, const struct curves *c)
{
	const json_t *last = NULL;
	const char *key;
	json_t *v;

	for (size_t i = 0; i < c->n; i++)
		if (c->p[i].eval)
			last = c->p[i].eval;
	json_object_foreach((json_t *)last, key, v)
		if (strcmp(key, "loss") != 0 && strcmp(key, "examples") != 0)
			draw_eval(out, c, key);
}

static void draw_speed(struct buf *out, const struct curves *c)
{
	double *speed = growth(c, examples_of), *pushed = growth(c, pushed_of), *pulled = growth(c, pulled_of);
	struct plot_curve examples = { "examples a second", c->time, speed, c->n, false };
	struct plot_curve bytes[] = {
		{ "pushed", c->time, pushed, c->n, false },
		{ "pulled", c->time, pulled, c->n, false },
	};
	struct plot p = { .title = "Examples a second", .x_name = "seconds", .curve = &examples, .ncurves = 1,
		.mark = c->mark, .nmarks = c->nmarks, .from_zero = true };

	plot_svg(out, &p);
	p.title = "Bytes a second, of all workers";
	p.curve = bytes;
	p.ncurves = 2;
	plot_svg(out, &p);
	free(speed);
	free(pushed);
	free(pulled);
}

static void find_marks(struct curves *c, const json_t *events, double epoch)
{
	const json_t *e;
	size_t i;

	c->mark = mem_array(json_array_size(events) + 1, sizeof *c->mark);
	json_array_foreach(events, i, e)
		if (report_is_news(json_str(e, "event", "")))
			c->mark[c->nmarks++] = (struct plot_mark){ run_time(json_str(e, "ts", "")) - epoch, json_str(e, "text", "") };
}

void report_curves(struct buf *out, const struct run_info *r, const json_t *events, double *epoch)
{
	struct curves c = { 0 };
	size_t before;

	c.p = run_points(r->dir, &c.n, epoch);
	c.time = column(&c, time_of);
	c.step = column(&c, step_of);
	find_marks(&c, events, *epoch);
	buf_puts(out, "<div class=\"plots\">\n");
	before = out->len;
	draw_loss(out, &c);
	draw_evals(out, &c);
	draw_speed(out, &c);
	if (out->len == before)
		buf_puts(out, "<p>There are no curves: metrics.jsonl has fewer than two samples.</p>\n");
	buf_puts(out, "</div>\n");
	if (c.nmarks)
		buf_puts(out, "<p class=\"note\">Dashed lines are events that are not part of every run; they are in bold below.</p>\n");
	run_points_free(c.p, c.n);
	free(c.time);
	free(c.step);
	free(c.mark);
}
