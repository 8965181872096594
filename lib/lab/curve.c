/* SPDX-License-Identifier: ISC */
#include "lab/curve.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "core/suggest.h"

const char *const curve_axis_name[CURVE_AXES] = { "steps", "seconds", "bytes", "examples" };

enum curve_axis curve_axis_find(const char *name)
{
	int i = 0;

	while (i + 1 < CURVE_AXES && strcmp(name, curve_axis_name[i]) != 0)
		i++;
	return (enum curve_axis)i;
}

/* ---- the metric ---- */

enum err_code curve_metric_find(const char *name, struct curve_metric *out, struct err *e)
{
	static const char *const losses[] = { "train_loss", "progressive_loss" };
	const char *bare = strncmp(name, "eval.", 5) == 0 ? name + 5 : name, *near;
	enum metric k = metrics_find(bare);

	for (size_t i = 0; i < sizeof losses / sizeof *losses; i++)
		if (strcmp(name, losses[i]) == 0) {
			*out = (struct curve_metric){ losses[i], false, METRIC_loss };
			return ERR_OK;
		}
	if (k != METRICS) {
		*out = (struct curve_metric){ metric_name[k], true, k };
		return ERR_OK;
	}
	near = suggest(bare, metric_name, METRICS);
	return err_set(e, ERR_USAGE, "unknown metric \"%s\"%s%s%s", name,
	    near ? "; did you mean \"" : "; ps-metrics(7) lists the metrics", near ? near : "",
	    near ? "\"?" : "");
}

const char *curve_metric_title(const struct curve_metric *m)
{
	return m->evaluated && m->measure == METRIC_loss ? "eval.loss" : m->name;
}

bool curve_reaches(const struct curve_metric *m, double a, double b)
{
	return metrics_goodness(m->measure, a) >= metrics_goodness(m->measure, b);
}

/* ---- totals ---- */

/* A counter of a run's samples. It begins again when the run is resumed, and shrinks when a worker
 * leaves with its share; the total goes on from there. */
struct counter {
	double total, last;
};

static double counter_add(struct counter *c, double now)
{
	if (isfinite(now)) {
		c->total += fmax(now - c->last, 0);
		c->last = now;
	}
	return c->total;
}

/* The totals at each sample, with steps that ascend: samples of steps that were repeated later are
 * left out. */
struct totals {
	struct curve_point *at; /* without values */
	size_t n;
};

/* Adds a point after the points of lower steps; the others were rolled back. Of equal points that
 * follow each other the first one stays. */
static void add_point(struct curve_point *to, size_t *n, const struct curve_point *p)
{
	const struct curve_point *last = *n ? &to[*n - 1] : NULL;

	if (last && !(p->at[CURVE_STEPS] < last->at[CURVE_STEPS]) &&
	    !(p->at[CURVE_STEPS] > last->at[CURVE_STEPS]) && !(p->value < last->value) &&
	    !(p->value > last->value))
		return;
	while (*n > 0 && to[*n - 1].at[CURVE_STEPS] >= p->at[CURVE_STEPS])
		--*n;
	to[(*n)++] = *p;
}

/* Adds the bytes of all links. Runs of earlier versions have no ring_bytes in their samples. */
static double sample_bytes(const struct report_sample *p)
{
	return isfinite(p->pushed_bytes) || isfinite(p->pulled_bytes) || isfinite(p->ring_bytes)
	    ? fmax(p->pushed_bytes, 0) + fmax(p->pulled_bytes, 0) + fmax(p->ring_bytes, 0)
	    : NAN;
}

/* Sets the totals of seconds, bytes and examples of each sample in all[i], and collects the samples
 * of ascending steps. */
static struct totals collect_totals(const struct report_sample *p, size_t n,
    struct curve_point *all)
{
	struct totals t = { mem_array(n + 1, sizeof *t.at), 0 };
	struct counter seconds = { 0, 0 }, bytes = { 0, 0 }, examples = { 0, 0 };

	for (size_t i = 0; i < n; i++) {
		all[i] = (struct curve_point){
			.at = { [CURVE_STEPS] = p[i].step,
			    [CURVE_SECONDS] = counter_add(&seconds, p[i].seconds),
			    [CURVE_BYTES] = counter_add(&bytes, sample_bytes(&p[i])),
			    [CURVE_EXAMPLES] = counter_add(&examples, p[i].examples) }
		};
		while (isfinite(p[i].step) && t.n > 0 && t.at[t.n - 1].at[CURVE_STEPS] >= p[i].step)
			t.n--;
		if (isfinite(p[i].step))
			t.at[t.n++] = all[i];
	}
	return t;
}

/* Interpolates a total, a whole number, at a step between the samples around it. A step before the
 * first sample has its total, one after the last that of the last. */
static double total_at_step(const struct totals *t, enum curve_axis axis, double step)
{
	size_t i = 0;
	const struct curve_point *a, *b;

	while (i < t->n && t->at[i].at[CURVE_STEPS] < step)
		i++;
	if (t->n == 0)
		return NAN;
	if (i == 0 || i == t->n)
		return t->at[i == t->n ? t->n - 1 : 0].at[axis];
	a = &t->at[i - 1];
	b = &t->at[i];
	return round(a->at[axis] +
	    (b->at[axis] - a->at[axis]) * (step - a->at[CURVE_STEPS]) /
	        (b->at[CURVE_STEPS] - a->at[CURVE_STEPS]));
}

/* ---- the curve ---- */

static double train_value(const struct report_sample *p, const struct curve_metric *m)
{
	return strcmp(m->name, "train_loss") == 0 ? p->train_loss : p->progressive_loss;
}

static double eval_value(const struct report_sample *p, const struct curve_metric *m)
{
	const json_t *v = json_object_get(p->eval, m->name);

	return json_is_number(v) ? json_number_value(v) : NAN;
}

/* A sample repeats the last evaluation, with counters of the workers' last heartbeats. So each
 * evaluation is taken once, from the first sample that has it: its time is that of the sample, and
 * its bytes and examples are of its step. */
void curve_make(const struct report_sample *p, size_t n, const struct curve_metric *m,
    struct curve *out)
{
	struct curve_point *all = mem_array(n + 1, sizeof *all);
	struct totals t = collect_totals(p, n, all);
	const json_t *seen = NULL;
	double seen_step = NAN;

	*out = (struct curve){ mem_array(n + 1, sizeof *out->point), 0 };
	for (size_t i = 0; i < n; i++) {
		struct curve_point x = all[i];

		x.value = m->evaluated ? eval_value(&p[i], m) : train_value(&p[i], m);
		if (m->evaluated) {
			if (!p[i].eval || !isfinite(p[i].eval_step) ||
			    (json_equal(seen, p[i].eval) && p[i].eval_step <= seen_step &&
			        p[i].eval_step >= seen_step))
				continue;
			seen = p[i].eval;
			seen_step = p[i].eval_step;
			x.at[CURVE_STEPS] = seen_step;
			x.at[CURVE_BYTES] = total_at_step(&t, CURVE_BYTES, seen_step);
			x.at[CURVE_EXAMPLES] = total_at_step(&t, CURVE_EXAMPLES, seen_step);
		}
		if (isfinite(x.value) && isfinite(x.at[CURVE_STEPS]))
			add_point(out->point, &out->n, &x);
	}
	free(t.at);
	free(all);
}

void curve_read(char *const *dirs, size_t n, const struct curve_metric *m, struct curve *out)
{
	struct report_sample *all = NULL;
	size_t nall = 0;

	for (size_t i = 0; i < n; i++) {
		size_t more;
		double epoch;
		struct report_sample *p = report_samples_read(dirs[i], &more, &epoch);

		all = mem_regrow(all, nall + more + 1, sizeof *all);
		for (size_t k = 0; k < more; k++)
			all[nall++] = p[k];
		free(p); /* the samples have moved */
	}
	curve_make(all, nall, m, out);
	report_samples_free(all, nall);
}

void curve_release(struct curve *c)
{
	free(c->point);
	*c = (struct curve){ 0 };
}

const struct curve_point *curve_best(const struct curve *c, const struct curve_metric *m)
{
	const struct curve_point *best = NULL;

	for (size_t i = 0; i < c->n; i++)
		if (!best || !curve_reaches(m, best->value, c->point[i].value))
			best = &c->point[i];
	return best;
}

const struct curve_point *curve_first_at(const struct curve *c, const struct curve_metric *m,
    double target)
{
	for (size_t i = 0; i < c->n; i++)
		if (curve_reaches(m, c->point[i].value, target))
			return &c->point[i];
	return NULL;
}
