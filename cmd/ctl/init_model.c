/* SPDX-License-Identifier: ISC */
#include "init_model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "conf/conf.h"
#include "conf/conf_rule.h"
#include "core/clock.h"
#include "core/mem.h"
#include "core/procstat.h"
#include "init_trial.h"
#include "model/model.h"

/* All trials together take at most this time, of which the default model gets a fourth in the first
 * round. */
#define TRIALS_MAX (5 * NSEC_PER_SEC)
/* Rounds, each with another division of the examples, and the share that a round holds out. */
#define ROUNDS_MOST 8u
#define HELD_OUT    0.2
/* Fewer examples tell nothing about models. */
#define EXAMPLES_LEAST 100u
/* A larger model is chosen only if it is better by this, and after few rounds by what chance makes
 * of n examples held out, about CHANCE by sqrt(n). */
#define MARGIN     0.004
#define CHANCE     0.3
#define ROUNDS_FEW 3u
/* Bytes of binary data that are read for a trial. */
#define BINARY_MOST 2e8
/* One more worker pays off for each of these numbers of operations, of a step and of the job. */
#define STEP_OPERATIONS 4e6
#define JOB_OPERATIONS  2e10
#define WORKERS_MOST    8

/* The share of the rows by which a job chooses its model: the fewer rows, the larger. */
#define ROWS_FEW  3000
#define ROWS_MANY 20000
/* The rate of adagrad, ten times the default, for logistic on few examples. */
#define LOGISTIC_RATE 0.3
/* Evaluations of a job that ends by its epochs, too. */
#define EVALUATIONS 40
/* Evaluations that are not better, after which a job ends; more of those that few examples make. */
#define PATIENCE     5u
#define PATIENCE_FEW 10u

/* A network has a row of weights for each feature, so it is not tried with more features than
 * these. */
#define NETWORK_FEATURES_MOST 20000u

#define CANDIDATES 3u

struct candidate {
	const char *model;
	struct init_score mean; /* over the rounds */
	unsigned rounds;
};

static const char *default_model(enum init_task task)
{
	static const char *const model[] = { [INIT_REAL] = "linear",
		[INIT_TWO] = "logistic",
		[INIT_CLASSES] = "softmax",
		[INIT_RATINGS] = "mf",
		[INIT_PAIRS] = "bpr" };

	return model[task];
}

/* Lists the models that are tried: the default one first. */
static size_t list_candidates(const struct dataset *d, enum init_task task,
    struct candidate c[static CANDIDATES])
{
	size_t n = 0;

	c[n++] = (struct candidate){ .model = default_model(task) };
	if (task == INIT_RATINGS || task == INIT_PAIRS)
		return n;
	if (strcmp(d->format, "fastText") == 0) {
		if (task != INIT_REAL)
			c[n++] = (struct candidate){ .model = "fasttext" };
		return n;
	}
	if (d->sparse && (task == INIT_REAL || task == INIT_TWO))
		c[n++] = (struct candidate){ .model = "fm" };
	if (!d->sparse || d->nids <= NETWORK_FEATURES_MOST)
		c[n++] = (struct candidate){ .model = "mlp" };
	return n;
}

/* Gives the job the model, and the loss of its task where the model has another one. */
static void set_model(json_t *cluster, const char *model, enum init_task task)
{
	const struct model_info *info = model_info_find(model);
	json_t *job = json_object_get(cluster, "job");

	json_object_set_new(job, "model", json_string(model));
	json_object_del(job, "loss");
	if (task == INIT_REAL && info && info->task != MODEL_REAL && info->takes & MODEL_TAKES_REAL)
		json_object_set_new(job, "loss", json_string("squared"));
}

/* ---- what goes with the model ---- */

/* Is the cluster file one that can be run? */
static bool is_valid(const json_t *cluster)
{
	struct conf c;
	bool valid = conf_from_json(cluster, &c, NULL) == ERR_OK;

	if (valid) {
		valid = conf_validate(&c, NULL) == ERR_OK;
		conf_release(&c);
	}
	return valid;
}

/* Does each further pass fit the training examples better, until it fits their noise? Linear models
 * of few features do not. */
static bool is_network(const char *model)
{
	return strcmp(model, "linear") != 0 && strcmp(model, "logistic") != 0 &&
	    strcmp(model, "softmax") != 0;
}

/* The metric of job.stop. The loss of classes changes less by chance than a share of few examples,
 * and all models of classes have it, also one that --set names later. */
static enum metric stop_metric(enum init_task task)
{
	static const enum metric by[] = { [INIT_REAL] = METRIC_r2,
		[INIT_TWO] = METRIC_loss,
		[INIT_CLASSES] = METRIC_loss,
		[INIT_RATINGS] = METRIC_rmse,
		[INIT_PAIRS] = METRIC_ndcg_at_k };

	return by[task];
}

/* Bounds the passes of a model that needs no more than its defaults, which job.stop would lift, and
 * spreads evaluations over them. */
static void bound_epochs(json_t *cluster, double rows)
{
	json_t *job = json_object_get(cluster, "job"), *plain = json_deep_copy(cluster);
	json_int_t workers = json_integer_value(json_object_get(cluster, "workers"));
	uint64_t epochs = 0;
	double steps = 0;
	struct conf c;

	json_object_del(json_object_get(plain, "job"), "stop");
	if (conf_from_json(plain, &c, NULL) == ERR_OK) {
		epochs = conf_epochs(&c, (uint64_t)rows, 0);
		steps = ceil(rows / (double)(c.job.batch * (workers > 0 ? workers : 1)));
		conf_release(&c);
	}
	json_decref(plain);
	if (!epochs)
		return;
	json_object_set_new(job, "epochs", json_integer((json_int_t)epochs));
	if (epochs > EVALUATIONS)
		json_object_set_new(job, "eval_every",
		    json_integer((json_int_t)(steps * (double)epochs / EVALUATIONS)));
}

/* Has the job hold out a share of the training data, and keep the best model by it. Leaves the job
 * as it is where these keys do not suit the others. */
static void hold_out(json_t *cluster, enum init_task task, double rows)
{
	json_t *job = json_object_get(cluster, "job"), *before = json_deep_copy(job);
	double share = rows < ROWS_FEW ? 0.2 : rows < ROWS_MANY ? 0.1 : 0.05;
	char *stop = mem_printf("%s patience=%u", metric_name[stop_metric(task)],
	         rows < ROWS_FEW ? PATIENCE_FEW : PATIENCE),
	     *validate = mem_printf("%.0f%%", 100 * share);

	json_object_set_new(job, "validate", json_string(validate));
	json_object_set_new(job, "stop", json_string(stop));
	if (strcmp(json_str(job, "model", ""), "mlp") != 0)
		bound_epochs(cluster, rows * (1 - share));
	if (is_valid(cluster))
		json_decref(before);
	else
		json_object_set_new(cluster, "job", before);
	free(stop);
	free(validate);
}

/* Gives a linear model of few dense examples the prior of scikit-learn's, and logistic a rate at
 * which it comes near the optimum in its passes, as the others do. */
static void write_prior(json_t *job, double rows)
{
	json_object_set_new(job, "l2", json_real(1 / rows));
	if (strcmp(json_str(job, "model", ""), "logistic") == 0)
		json_object_set_new(job, "lr", json_real(LOGISTIC_RATE));
}

/* Writes what keeps the model from fitting the noise of the examples: a share of them that is held
 * out, or, for a linear model of few examples, which needs all of them, the usual prior of its
 * weights. */
static void limit_fit(json_t *cluster, const struct dataset *d, enum init_task task, double rows)
{
	json_t *job = json_object_get(cluster, "job");

	if (is_network(json_str(job, "model", "")) || rows >= ROWS_FEW)
		hold_out(cluster, task, rows);
	else if (!d->sparse && rows > 0)
		write_prior(job, rows);
}

/* Operations that an example takes, forward and backward, about. */
static double example_operations(const char *model, const struct dataset *d)
{
	double used = d->sparse && d->rows && d->start ? (double)d->start[d->rows] / (double)d->rows
	                                               : (double)d->cols,
	       outputs = d->classes > 2 ? (double)d->classes : 1;

	if (strcmp(model, "mlp") == 0)
		return 6 * 128 * (used + outputs);
	if (strcmp(model, "linear") == 0 || strcmp(model, "logistic") == 0 ||
	    strcmp(model, "softmax") == 0)
		return 6 * used * outputs;
	return 6 * 16 * used;
}

/* As many workers as the size of the job pays for: 1 where messages would take longer than the
 * work. */
static int64_t choose_workers(const json_t *cluster, const struct dataset *d, double rows)
{
	json_t *job = json_object_get(cluster, "job");
	double each = example_operations(json_str(job, "model", ""), d);
	struct conf c;
	double step = 0, all = 0, workers = procstat_processors();

	if (conf_from_json(cluster, &c, NULL) == ERR_OK) {
		step = each * (double)c.job.batch;
		all = each * rows * (double)(c.job.epochs ? c.job.epochs : 1);
		conf_release(&c);
	}
	if (step < 2 * STEP_OPERATIONS || all < JOB_OPERATIONS)
		return 1;
	workers = fmin(workers, floor(step / STEP_OPERATIONS));
	workers = fmin(workers, WORKERS_MOST);
	return workers < 1 ? 1 : (int64_t)workers;
}

/* ---- trials ---- */

/* The cluster file of a trial: with the model and its keys, without evaluation data, and with the
 * sample as its data. */
static json_t *copy_for_trial(const json_t *cluster, const char *model, json_t *data,
    const struct dataset *d, enum init_task task)
{
	json_t *copy = json_deep_copy(cluster), *job = json_object_get(copy, "job");

	json_object_del(job, "eval");
	json_object_set(job, "data", data);
	set_model(copy, model, task);
	limit_fit(copy, d, task, (double)d->rows);
	return copy;
}

/* Measures a candidate in one round. */
static enum err_code measure_candidate(struct candidate *c, const json_t *job, unsigned round,
    int64_t budget, struct err *e)
{
	struct init_score s;
	enum err_code rc = init_trial_measure(job, HELD_OUT, round + 1, budget, &s, e);

	if (!rc && s.metric == METRICS)
		rc = err_set(e, ERR_FAILED, "its loss is not finite");
	if (rc) {
		c->mean.metric = METRICS;
		return rc;
	}
	c->rounds = round + 1;
	c->mean.metric = s.metric;
	c->mean.value += (s.value - c->mean.value) / c->rounds;
	c->mean.goodness += (s.goodness - c->mean.goodness) / c->rounds;
	c->mean.cut |= s.cut;
	return rc;
}

/* Returns the paths that the trials read: of the data, where the sample has all of them, or of
 * files in memory, whose descriptors are fd[sample->n]. NULL: there is nothing to read, *why tells
 * it. */
static json_t *provide_sample(const struct init_sample *s, const char *path, int *fd,
    const char **why)
{
	const char *options = strrchr(path, '?');
	json_t *out;

	if (s->binary && s->all_bytes > BINARY_MOST)
		*why = "the data are too large for a trial";
	if (s->binary || s->whole)
		return *why ? NULL : json_string(path);
	if (init_sample_write(s, fd, NULL)) {
		*why = "the sample cannot be written";
		return NULL;
	}
	out = json_array();
	for (size_t i = 0; i < s->n; i++) {
		char *file = mem_printf("/proc/self/fd/%d%s", fd[i],
		    options && strchr(options, '=') ? options : "");

		json_array_append_new(out, json_string(file));
		free(file);
	}
	return out;
}

/* One round: each candidate on the same division of the examples. The first of `left` ns goes to
 * the default model. A candidate that cannot be tried is not tried again. */
static void try_round(struct candidate *c, json_t **job, size_t n, unsigned round, int64_t left)
{
	int64_t begin = clock_now();

	for (size_t i = 0; i < n; i++) {
		int64_t rest = left - (clock_now() - begin);
		int64_t budget = i == 0 && n > 1 ? rest / 4 : rest / (int64_t)(n - i);
		struct err e = { 0 };

		if (round && c[i].mean.metric == METRICS)
			continue;
		if (measure_candidate(&c[i], job[i], round, budget, &e))
			fprintf(stderr, "model %s cannot be tried: %s\n", c[i].model, e.msg);
	}
}

/* Tries the candidates, as often as the time allows. */
static void try_rounds(struct candidate *c, json_t **job, size_t n)
{
	int64_t begin = clock_now(), took = 0, left = TRIALS_MAX;
	bool cut = false;

	/* A further round must not be cut where those before were not. */
	for (unsigned round = 0; round < ROUNDS_MOST && !cut && left > 2 * took; round++) {
		try_round(c, job, n, round, left);
		took = left - (TRIALS_MAX - (clock_now() - begin));
		left -= took;
		for (size_t i = 0; i < n; i++)
			cut |= c[i].mean.cut;
	}
}

/* Tries the candidates. Returns the reason why there was no trial, or NULL. */
static const char *try_candidates(struct candidate *c, size_t n, const json_t *cluster,
    const struct init_sample *sample, const struct dataset *d, enum init_task task)
{
	const char *path = json_str(json_object_get(cluster, "job"), "data", ""), *why = NULL;
	json_t *job[CANDIDATES] = { NULL }, *data;
	int *fd;

	if (n < 2)
		return task == INIT_PAIRS ? "init tries no other; --model warp ranks items, too"
		                          : "no other model fits such data";
	if (d->rows < EXAMPLES_LEAST)
		return "there are too few rows for a trial";
	fd = mem_array(sample->n + 1, sizeof *fd);
	for (size_t i = 0; i < sample->n; i++)
		fd[i] = -1;
	data = provide_sample(sample, path, fd, &why);
	for (size_t i = 0; data && i < n; i++)
		job[i] = copy_for_trial(cluster, c[i].model, data, d, task);
	if (data)
		try_rounds(c, job, n);
	for (size_t i = 0; i < n; i++)
		json_decref(job[i]);
	for (size_t i = 0; i < sample->n; i++)
		if (fd[i] >= 0)
			close(fd[i]);
	free(fd);
	json_decref(data);
	return why;
}

/* How much better than the default model a candidate must be after some rounds on these
 * examples. */
static double find_margin(unsigned rounds, size_t rows)
{
	return rounds < ROUNDS_FEW ? fmax(MARGIN, CHANCE / sqrt(HELD_OUT * (double)rows)) : MARGIN;
}

/* Chooses the best candidate, and tells by how much it is better. Returns its place. */
static size_t report_choice(const struct candidate *c, size_t n, size_t rows)
{
	size_t best = 0;
	bool first = true;

	for (size_t i = 1; i < n; i++)
		if (c[i].mean.metric != METRICS &&
		    (c[best].mean.metric == METRICS ||
		        (c[i].mean.metric == c[best].mean.metric &&
		            c[i].mean.goodness >
		                c[best].mean.goodness + find_margin(c[i].rounds, rows))))
			best = i;
	fprintf(stderr, "model: %s", c[best].model);
	for (size_t k = 0; k < n; k++) {
		size_t i = k == 0 ? best : k <= best ? k - 1 : k;

		if (c[i].mean.metric == METRICS)
			continue;
		fprintf(stderr, "%s%s %s %.3f", first ? ", by a trial on a sample: " : ", ",
		    c[i].model, metric_name[c[i].mean.metric], c[i].mean.value);
		first = false;
	}
	fprintf(stderr, "\n");
	return best;
}

enum err_code init_model_choose(json_t *cluster, const struct init_request *r,
    const struct init_sample *sample, const struct dataset *d, double rows, enum init_task task,
    struct err *e)
{
	struct candidate c[CANDIDATES] = { { 0 } };
	size_t n = list_candidates(d, task, c), best = 0;
	const char *why = NULL;

	(void)e;
	for (size_t i = 0; i < CANDIDATES; i++)
		c[i].mean.metric = METRICS;
	if (r->model) {
		c[0].model = r->model;
		n = 1;
	} else if (!r->fast) {
		why = try_candidates(c, n, cluster, sample, d, task);
	}
	if (!r->model && !r->fast && !why)
		best = report_choice(c, n, d->rows);
	else
		fprintf(stderr, "model: %s%s%s\n", c[best].model, why ? ", because " : "",
		    why ? why : "");
	set_model(cluster, c[best].model, task);
	json_object_set_new(cluster, "workers", json_integer(choose_workers(cluster, d, rows)));
	limit_fit(cluster, d, task, rows);
	return ERR_OK;
}
