/* SPDX-License-Identifier: ISC */
/* Curves of runs: from samples, over a resumed run, and when they reach a target. */
#include "lab/curve.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tap.h"

#define N(a) (sizeof(a) / sizeof *(a))

static struct report_sample trained(double step, double seconds, double bytes, double loss)
{
	return (struct report_sample){ .step = step,
		.seconds = seconds,
		.eval_step = (double)NAN,
		.train_loss = loss,
		.progressive_loss = 2 * loss,
		.examples = 10 * step,
		.pushed_bytes = bytes,
		.pulled_bytes = (double)NAN,
		.ring_bytes = (double)NAN };
}

static struct report_sample evaluated(double step, double seconds, double eval_step, double auc)
{
	struct report_sample p = trained(step, seconds, 100 * step, 1);

	p.eval_step = eval_step;
	p.eval = isnan(auc) ? json_object() : json_pack("{s:f}", "auc", auc);
	return p;
}

/* Makes the curve of a metric, and prints it as "step:seconds:bytes:examples=value ...". */
static const char *made(const struct report_sample *p, size_t n, const char *metric)
{
	static char out[1000];
	struct curve_metric m;
	struct curve c;
	size_t at = 0;

	out[0] = 0;
	if (curve_metric_find(metric, &m, NULL))
		return "?";
	curve_make(p, n, &m, &c);
	for (size_t i = 0; i < c.n; i++)
		at += (size_t)snprintf(out + at, sizeof out - at, "%s%g:%g:%g:%g=%g", i ? " " : "",
		    c.point[i].at[CURVE_STEPS], c.point[i].at[CURVE_SECONDS],
		    c.point[i].at[CURVE_BYTES], c.point[i].at[CURVE_EXAMPLES], c.point[i].value);
	curve_release(&c);
	return out;
}

static bool is_made(const char *want, const struct report_sample *p, size_t n, const char *metric)
{
	const char *got = made(p, n, metric);

	if (strcmp(got, want) != 0)
		printf("# \"%s\", not \"%s\"\n", got, want);
	return strcmp(got, want) == 0;
}

static void metrics(void)
{
	struct curve_metric m;
	struct err e = { 0 };

	ok(!curve_metric_find("auc", &m, &e) && m.evaluated && curve_reaches(&m, 0.9, 0.8) &&
	        curve_reaches(&m, 0.8, 0.8) && !curve_reaches(&m, 0.7, 0.8),
	    "a higher auc is better");
	ok(!curve_metric_find("eval.rmse", &m, &e) && strcmp(m.name, "rmse") == 0 &&
	        curve_reaches(&m, 0.7, 0.8) && !curve_reaches(&m, 0.9, 0.8),
	    "a lower rmse is better; eval. may be there");
	ok(!curve_metric_find("train_loss", &m, &e) && !m.evaluated && curve_reaches(&m, 0.7, 0.8),
	    "the training loss");
	ok(!curve_metric_find("calibration", &m, &e) && curve_reaches(&m, 0.9, 1.2) &&
	        !curve_reaches(&m, 0.7, 1.2),
	    "a calibration nearer to 1 is better");
	ok(curve_metric_find("acuracy", &m, &e) == ERR_USAGE &&
	        strstr(e.msg, "did you mean \"accuracy\""),
	    "other names are refused");
}

static void training(void)
{
	const double none = (double)NAN;
	struct report_sample p[] = { trained(0, 0, 0, none), trained(10, 1, 500, 3),
		trained(10, 2, 500, 3), trained(20, 3, 1000, 2) },
	                     inf[] = { trained(1, 1, 1, (double)INFINITY), trained(2, 2, 2, 5) },
	                     resumed[] = { trained(10, 1, 500, 3), trained(20, 2, 900, 2),
		                     trained(15, 0.5, 0, 2.5), trained(25, 1.5, 700, 1) },
	                     left[] = { trained(10, 1, 500, 3), trained(20, 2, 300, 2),
		                     trained(30, 3, 400, 1) },
	                     ring[] = { trained(10, 1, 500, 3), trained(20, 2, 1000, 2) };

	ring[0].ring_bytes = 2000;
	ring[1].ring_bytes = 3000;
	ring[1].pulled_bytes = 10;

	ok(is_made("10:1:500:100=3 20:3:1000:200=2", p, N(p), "train_loss"),
	    "a curve; a sample that repeats the last one adds nothing");
	ok(is_made("10:1:500:100=6 20:3:1000:200=4", p, N(p), "progressive_loss"), "another loss");
	ok(is_made("10:1:2500:100=3 20:2:4010:200=2", ring, N(ring), "train_loss"),
	    "bytes are those of pushes, pulls and all-reduce");
	ok(is_made("2:2:2:20=5", inf, N(inf), "train_loss"), "what is not finite is left out");
	ok(is_made("10:1:500:100=3 15:2:900:200=2.5 25:3:1600:300=1", resumed, N(resumed),
	       "train_loss"),
	    "a resumed run repeats steps, and its time and bytes go on");
	ok(is_made("10:1:500:100=3 20:2:500:200=2 30:3:600:300=1", left, N(left), "train_loss"),
	    "totals never shrink");
	ok(is_made("", p, 0, "train_loss") && is_made("", p, N(p), "auc"),
	    "without samples or evaluations there are no points");
}

static void evaluations(void)
{
	struct report_sample p[] = { evaluated(0, 0.5, 10, 0.5), evaluated(8, 1, 10, 0.5),
		evaluated(16, 2, 10, 0.5), evaluated(28, 3, 20, 0.75),
		evaluated(30, 4, 30, (double)NAN), evaluated(30, 5, 40, 0.7) };

	ok(is_made("10:0.5:1000:100=0.5 20:3:2000:200=0.75 40:5:3000:300=0.7", p, N(p), "auc"),
	    "an evaluation counts once, with the time at which it was seen and the totals of its step");
	for (size_t i = 0; i < N(p); i++)
		json_decref(p[i].eval);
}

static void targets(void)
{
	struct report_sample p[] = { trained(1, 1, 1, 5), trained(2, 2, 2, 3), trained(3, 3, 3, 4),
		trained(4, 4, 4, 3) };
	struct curve_metric m;
	struct curve c;

	curve_metric_find("train_loss", &m, NULL);
	curve_make(p, N(p), &m, &c);
	ok(curve_best(&c, &m) == &c.point[1], "the best point, the first of equal ones");
	ok(curve_first_at(&c, &m, 4.5) == &c.point[1] && curve_first_at(&c, &m, 5) == &c.point[0] &&
	        !curve_first_at(&c, &m, 2.9) && !curve_first_at(&c, &m, (double)NAN),
	    "the first point that reaches a target");
	curve_release(&c);
	curve_make(p, 0, &m, &c);
	ok(!curve_best(&c, &m) && !curve_first_at(&c, &m, 1), "no points");
	curve_release(&c);
	ok(curve_axis_find("examples") == CURVE_EXAMPLES && curve_axis_find("steps") == CURVE_STEPS,
	    "the axes by name");
}

int main(void)
{
	metrics();
	training();
	evaluations();
	targets();
	return tap_done();
}
