/* SPDX-License-Identifier: ISC */
#include "coordinator/tensorboard.h"

#include "core/clock.h"
#include "core/json.h"
#include "core/mem.h"
#include "format/tfevents.h"

#define BUCKETS_MAX 64u

struct tensorboard {
	struct log *log;
	char *dir;               /* NULL: write nothing */
	struct tfevents *events; /* NULL: not opened yet, or opening failed */
	int64_t step, eval_step; /* steps written last; -1: none */
	double pushes;           /* number of pushes in the histogram written last */
	bool warned;
};

/* For each curve its tag, and the row's member that it shows. */
static const char *const curve[][2] = {
	{ "train/loss", "train_loss" },
	{ "train/gradient_norm", "gradient_norm" },
	{ "train/lr", "lr" },
	{ "perf/examples_per_second", "examples_per_second" },
	{ "perf/steps_per_second", "steps_per_second" },
	{ "phase/data_seconds", "data_seconds" },
	{ "phase/pull_seconds", "pull_seconds" },
	{ "phase/compute_seconds", "compute_seconds" },
	{ "phase/encode_seconds", "encode_seconds" },
	{ "phase/push_seconds", "push_seconds" },
	{ "phase/wait_seconds", "wait_seconds" },
	{ "ps/workers", "workers" },
	{ "ps/servers", "servers" },
	{ "ps/pushed_bytes", "pushed_bytes" },
	{ "ps/pulled_bytes", "pulled_bytes" },
	{ "ps/staleness_mean", "staleness_mean" },
};
static const char *const eval_curve[][2] = {
	{ "eval/loss", "loss" },
	{ "eval/accuracy", "accuracy" },
	{ "eval/auc", "auc" },
	{ "eval/rmse", "rmse" },
	{ "eval/r2", "r2" },
};

struct tensorboard *tensorboard_new(const char *dir, struct log *log)
{
	struct tensorboard *b = mem_alloc(sizeof *b);

	b->log = log;
	b->dir = dir ? mem_strdup(dir) : NULL;
	b->step = b->eval_step = -1;
	return b;
}

void tensorboard_free(struct tensorboard *b)
{
	if (!b)
		return;
	tfevents_close(b->events);
	free(b->dir);
	free(b);
}

static void put_curves(struct tfevents *t, const char *const (*list)[2], size_t n, const json_t *o)
{
	for (size_t i = 0; i < n; i++) {
		const json_t *v = json_object_get(o, list[i][1]);

		if (json_is_number(v))
			tfevents_scalar(t, list[i][0], json_number_value(v));
	}
}

/* The object {"le","counts","sum"} has cumulative counts and no bound for the last bucket, which
 * is taken to be twice as wide as the one before. The sum of squares is estimated from the
 * bounds. */
static void put_staleness(struct tfevents *t, const json_t *h)
{
	const json_t *le = json_object_get(h, "le"), *counts = json_object_get(h, "counts");
	double limit[BUCKETS_MAX], count[BUCKETS_MAX], before = 0;
	struct tfevents_histogram out = { .sum = json_num(h, "sum", 0),
		.limit = limit,
		.count = count };

	out.n = json_array_size(counts);
	if (out.n < 2 || out.n > BUCKETS_MAX || json_array_size(le) + 1 != out.n)
		return;
	for (size_t i = 0; i < out.n; i++) {
		double all = json_number_value(json_array_get(counts, i));

		limit[i] = i + 1 < out.n ? json_number_value(json_array_get(le, i))
		                         : 2 * limit[i - 1] + 1;
		count[i] = all - before;
		before = all;
		out.sum_squares += count[i] * limit[i] * limit[i];
		if (count[i] > 0)
			out.max = limit[i];
	}
	tfevents_histogram(t, "ps/staleness", &out);
}

/* Report only the first failure in a row; later writes may succeed again. */
static bool report_write(struct tensorboard *b, enum err_code rc, const struct err *e)
{
	if (rc && !b->warned)
		log_warn(b->log, "%s; the job goes on", e->msg);
	b->warned = rc != ERR_OK;
	return !rc;
}

static double count_pushes(const json_t *row)
{
	const json_t *counts = json_object_get(json_object_get(row, "staleness"), "counts");

	return json_number_value(json_array_get(counts, json_array_size(counts) - 1));
}

/* Is it a new step, or the last step with late pushes, after the job has ended? */
static bool has_new_data(const struct tensorboard *b, const json_t *row, int64_t step)
{
	return step != b->step ||
	    (strcmp(json_str(row, "state", ""), "running") != 0 && count_pushes(row) != b->pushes);
}

static void put_step(struct tensorboard *b, const json_t *row, int64_t step, double wall)
{
	struct err e = { 0 };

	tfevents_begin(b->events, wall, step);
	put_curves(b->events, curve, sizeof curve / sizeof *curve, row);
	put_staleness(b->events, json_object_get(row, "staleness"));
	if (report_write(b, tfevents_end(b->events, &e), &e)) {
		b->step = step;
		b->pushes = count_pushes(row);
	}
}

static void put_eval_event(struct tensorboard *b, const json_t *eval, int64_t step, double wall)
{
	struct err e = { 0 };

	tfevents_begin(b->events, wall, step);
	put_curves(b->events, eval_curve, sizeof eval_curve / sizeof *eval_curve, eval);
	if (report_write(b, tfevents_end(b->events, &e), &e))
		b->eval_step = step;
}

void tensorboard_row(struct tensorboard *b, const json_t *row)
{
	int64_t step = json_int(row, "step", 0), eval_step = json_int(row, "eval_step", -1);
	double wall = (double)clock_wall() / NSEC_PER_SEC;
	struct err e = { 0 };

	if (!b->dir || (!has_new_data(b, row, step) && eval_step == b->eval_step))
		return;
	if (!b->events && !report_write(b, tfevents_open(b->dir, &b->events, &e), &e))
		return;
	if (has_new_data(b, row, step))
		put_step(b, row, step, wall);
	if (eval_step >= 0 && eval_step != b->eval_step)
		put_eval_event(b, json_object_get(row, "eval"), eval_step, wall);
}
