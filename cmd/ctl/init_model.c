/* SPDX-License-Identifier: ISC */
#include "init_model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "conf/conf.h"
#include "conf/sizing.h"
#include "core/clock.h"
#include "core/file.h"
#include "core/mem.h"
#include "core/num.h"
#include "core/procstat.h"
#include "init_trial.h"
#include "model/model.h"


/* All trials together take at most this time, of which the default model gets a fourth. */
#define TRIALS_MAX (5 * NSEC_PER_SEC)
/* The share of held-out examples. Data with fewer examples than EXAMPLES_MANY are divided REPEATS times. */
#define HELD_OUT      0.2
#define EXAMPLES_MANY 3000u
#define EXAMPLES_FEW  1000u
#define REPEATS       3u
#define REPEATS_FEW   5u
/* Fewer examples tell nothing about models. */
#define EXAMPLES_LEAST 100u
/* A larger model is chosen only if it is better by this, and by what chance makes of n examples held out, about
 * this by sqrt(n): its best pass is chosen by the same examples. */
#define MARGIN 0.004
#define CHANCE 0.3
/* Bytes of binary data that are read for a trial. */
#define BINARY_MOST 2e8
/* One more worker pays off for each of these numbers of operations, of a step and of the job. */
#define STEP_OPERATIONS 4e6
#define JOB_OPERATIONS  2e10
#define WORKERS_MOST    8

/* Evaluations that are not better, after which the job of a network ends; examples of a batch by default. */
#define PATIENCE      5u
#define BATCH_DEFAULT 64

#define CANDIDATES 3u

struct candidate {
	const char *model;
	struct init_score mean; /* over the repeats */
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
	bool wide = d->sparse && (task == INIT_REAL || task == INIT_TWO);

	c[n++] = (struct candidate){ .model = default_model(task) };
	if (task == INIT_RATINGS || task == INIT_PAIRS)
		return n;
	if (!d->sparse)
		c[n++] = (struct candidate){ .model = "mlp" };
	else if (strcmp(d->format, "fastText") == 0 && task != INIT_REAL)
		c[n++] = (struct candidate){ .model = "fasttext" };
	else if (wide)
		c[n++] = (struct candidate){ .model = "fm" };
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

/* ---- trials ---- */

/* The cluster file of a trial: without evaluation data, and with the sample as its data. */
static json_t *copy_for_trial(const json_t *cluster, const char *data)
{
	json_t *copy = json_deep_copy(cluster), *job = json_object_get(copy, "job");

	json_object_del(job, "eval");
	json_object_set_new(job, "data", json_string(data));
	return copy;
}

/* Measures a candidate on several divisions of the sample. The time is for all of them. */
static enum err_code measure_candidate(struct candidate *c, const json_t *cluster, const char *data,
    enum init_task task, unsigned repeats, int64_t budget, struct err *e)
{
	json_t *copy = copy_for_trial(cluster, data);
	enum err_code rc = ERR_OK;

	set_model(copy, c->model, task);
	for (unsigned k = 0; !rc && k < repeats; k++) {
		struct init_score s;

		rc = init_trial_measure(copy, HELD_OUT, k + 1, budget / repeats, &s, e);
		if (rc)
			break;
		if (s.metric == METRICS) {
			rc = err_set(e, ERR_FAILED, "its loss is not finite");
			break;
		}
		c->mean.metric = s.metric;
		c->mean.value += s.value / repeats;
		c->mean.goodness += s.goodness / repeats;
		c->mean.passes = s.passes;
		c->mean.best_pass += s.best_pass;
		c->mean.cut |= s.cut;
	}
	c->mean.best_pass /= repeats;
	json_decref(copy);
	if (rc)
		c->mean.metric = METRICS;
	return rc;
}

/* The path of what the trials read: the data, where the sample has all of them, or files that are written into a new
 * directory *dir. NULL: there is nothing to read, *why tells it. */
static char *provide_sample(const struct init_sample *s, const char *path, char **dir,
    const char **why)
{
	const char *tmp = getenv("TMPDIR"), *options = strrchr(path, '?');
	char *file = NULL, *out;

	*dir = NULL;
	if (s->binary)
		*why = s->all_bytes > BINARY_MOST ? "the data are too large for a trial" : NULL;
	if (s->binary || s->whole)
		return *why ? NULL : mem_strdup(path);
	*dir = mem_printf("%s/pskit-init-XXXXXX", tmp && *tmp ? tmp : "/tmp");
	if (!mkdtemp(*dir)) {
		free(*dir);
		*dir = NULL;
		*why = "no directory for a sample can be made";
		return NULL;
	}
	if (init_sample_write(s, *dir, &file, NULL))
		*why = "the sample cannot be written";
	out = *why ? NULL : mem_printf("%s%s", file, options && strchr(options, '=') ? options : "");
	free(file);
	return out;
}

static unsigned count_repeats(size_t rows)
{
	return rows < EXAMPLES_FEW ? REPEATS_FEW : rows < EXAMPLES_MANY ? REPEATS : 1;
}

/* Tries the candidates. Returns the reason why there was no trial, or NULL. */
static const char *try_candidates(struct candidate *c, size_t n, const json_t *cluster,
    const struct init_sample *sample, const struct dataset *d, enum init_task task)
{
	int64_t begin = clock_now();
	const char *path = json_str(json_object_get(cluster, "job"), "data", ""), *why = NULL;
	unsigned repeats = count_repeats(d->rows);
	char *dir, *data;

	if (n < 2)
		return "no other model fits such data";
	if (d->rows < EXAMPLES_LEAST)
		return "there are too few rows for a trial";
	data = provide_sample(sample, path, &dir, &why);
	for (size_t i = 0; data && i < n; i++) {
		struct err e = { 0 };
		int64_t left = TRIALS_MAX - (clock_now() - begin);
		int64_t budget = i + 1 < n ? left / 4 : left;

		if (measure_candidate(&c[i], cluster, data, task, repeats, budget, &e))
			fprintf(stderr, "model %s cannot be tried: %s\n", c[i].model, e.msg);
	}
	if (dir)
		file_remove_tree(dir, NULL);
	free(dir);
	free(data);
	return why;
}

/* Chooses the best candidate, and tells by how much it is better. Returns its place. */
static size_t report_choice(const struct candidate *c, size_t n, size_t rows)
{
	double margin = fmax(MARGIN,
	    CHANCE / sqrt(HELD_OUT * (double)rows * (double)count_repeats(rows)));
	size_t best = 0;
	bool first = true;

	for (size_t i = 1; i < n; i++)
		if (c[i].mean.metric != METRICS &&
		    (c[best].mean.metric == METRICS ||
		        (c[i].mean.metric == c[best].mean.metric &&
		            c[i].mean.goodness > c[best].mean.goodness + margin)))
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

/* Has the job hold out a share of the training data, and keep the best model by it. False: these keys do not suit the
 * others, and are not written. */
static bool hold_out(json_t *cluster, const struct init_score *s, enum init_task task, double rows)
{
	static const enum metric usual[] = { [INIT_REAL] = METRIC_r2,
		[INIT_TWO] = METRIC_auc,
		[INIT_CLASSES] = METRIC_accuracy,
		[INIT_RATINGS] = METRIC_rmse,
		[INIT_PAIRS] = METRIC_ndcg_at_k };
	json_t *job = json_object_get(cluster, "job");
	enum metric by = s->metric == METRICS ? usual[task] : s->metric;
	char *stop = mem_printf("%s patience=%u", metric_name[by], PATIENCE);
	json_int_t batch = (json_int_t)json_integer_value(json_object_get(job, "batch"));

	json_object_set_new(job, "validate", json_string("10%"));
	json_object_set_new(job, "stop", json_string(stop));
	free(stop);
	if (is_valid(cluster))
		return true;
	batch = batch ? batch : BATCH_DEFAULT;
	batch *= json_integer_value(json_object_get(cluster, "workers"));
	json_object_set_new(job, "eval_every",
	    json_integer((json_int_t)(rows * 0.9 / (double)batch) + 1));
	if (is_valid(cluster))
		return true;
	json_object_del(job, "eval_every");
	json_object_del(job, "validate");
	json_object_del(job, "stop");
	return false;
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

/* As many workers as the size of the job pays for: 1 where messages would take longer than the work. */
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

enum err_code init_model_choose(json_t *cluster, const struct init_request *r,
    const struct init_sample *sample, const struct dataset *d, double rows, enum init_task task,
    struct err *e)
{
	struct candidate c[CANDIDATES] = { { 0 } };
	size_t n = list_candidates(d, task, c), best = 0;
	json_t *job = json_object_get(cluster, "job");
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
	if (strcmp(c[best].model, "mlp") == 0 && !hold_out(cluster, &c[best].mean, task, rows) &&
	    c[best].mean.metric != METRICS && !c[best].mean.cut &&
	    4 * c[best].mean.best_pass < 3 * c[best].mean.passes)
		json_object_set_new(job, "epochs", json_integer(c[best].mean.best_pass));
	return ERR_OK;
}
