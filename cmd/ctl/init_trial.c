/* SPDX-License-Identifier: ISC */
#include "init_trial.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "conf/conf_rule.h"
#include "core/clock.h"
#include "core/log.h"
#include "core/mem.h"
#include "core/rng.h"
#include "math/blas.h"
#include "metric/early_stop.h"
#include "worker/job.h"
#include "worker/local_rows.h"

/* Examples of a batch for evaluation. */
#define EVAL_BATCH 1024u
/* Passes over the data of a job that ends by job.stop alone. */
#define PASSES_MOST 1000u

/* A model in training. Sparse tables have a row for each feature of the data, in the order of its
 * features. */
struct trainee {
	struct job job;
	struct conf_rule rule;
	struct table_rules_choice *use; /* by table */
	float **w, **state;             /* by table: parameters; vectors of a dense one's rule */
	struct local_rows **rows;       /* by table: the rule's vectors of a sparse one */
	/* By table: the parameters and the gradient of a batch, and floats that they have room for.
	 * A dense table's parameters are in w. */
	float **used, **grad;
	size_t *room;
	struct row_counts counts;
	uint64_t step;
	/* The examples that job.validate holds out of the training examples, for job.stop. */
	uint32_t *watched;
	size_t nwatched;
};

/* ---- parameters ---- */

static size_t table_rows(const struct trainee *t, size_t i)
{
	const struct model_table *m = &t->job.table[i];

	return m->sparse ? t->job.train->nids : m->rows;
}

/* The mean of the first target, as tables fit it. */
static float mean_target(const struct dataset *d)
{
	struct target_scaling s = dataset_target_scaling(d, 0);
	double sum = 0;

	for (size_t r = 0; d->y && r < d->rows; r++)
		sum += (double)d->y[r * d->targets];
	sum = d->y && d->rows ? sum / (double)d->rows : 0;
	return (float)(s.factor != 0 ? (sum - s.shift) * s.factor : sum);
}

static void fill_table(const struct trainee *t, size_t i)
{
	const struct model_table *m = &t->job.table[i];
	size_t n = table_rows(t, i) * m->cols;
	float mean = m->init == INIT_MEAN ? mean_target(t->job.train) : 0;

	for (size_t k = 0; k < n; k++) {
		double unit = (double)(rng_mix((uint64_t)i << 40 ^ (k + 1)) >> 11) * 0x1p-53;

		t->w[i][k] = m->init == INIT_GLOROT ? m->init_scale * (float)(2 * unit - 1) : mean;
	}
}

static void make_tables(struct trainee *t)
{
	size_t n = t->job.ntables + 1;

	t->use = mem_array(n, sizeof *t->use);
	t->w = mem_array(n, sizeof *t->w);
	t->state = mem_array(n, sizeof *t->state);
	t->rows = mem_array(n, sizeof *t->rows);
	t->used = mem_array(n, sizeof *t->used);
	t->grad = mem_array(n, sizeof *t->grad);
	t->room = mem_array(n, sizeof *t->room);
	for (size_t i = 0; i < t->job.ntables; i++) {
		const struct model_table *m = &t->job.table[i];
		const struct optim_rule *rule;
		size_t floats = table_rows(t, i) * m->cols;

		t->use[i] = conf_rule_of_table(&t->rule, m->name);
		rule = t->use[i].rule;
		t->w[i] = mem_array(floats + 1, sizeof **t->w);
		fill_table(t, i);
		if (m->sparse) {
			t->rows[i] = local_rows_new(rule, (uint32_t)m->cols);
			continue;
		}
		t->grad[i] = mem_array(floats + 1, sizeof **t->grad);
		t->state[i] = mem_array(floats * rule->nvectors + 1, sizeof **t->state);
		for (size_t k = 0; k < floats * rule->nvectors; k++)
			t->state[i][k] = rule->vector_init[k / floats];
	}
}

static void release_trainee(struct trainee *t)
{
	for (size_t i = 0; t->w && i < t->job.ntables; i++) {
		free(t->w[i]);
		free(t->state[i]);
		free(t->grad[i]);
		local_rows_free(t->rows[i]);
		if (t->job.table[i].sparse)
			free(t->used[i]);
	}
	free(t->use);
	free(t->w);
	free(t->state);
	free(t->rows);
	free(t->used);
	free(t->grad);
	free(t->room);
	free(t->watched);
	row_counts_release(&t->counts);
	job_release(&t->job);
}

/* The place of a feature among the features of the data. */
static size_t find_row(const struct dataset *d, uint64_t id)
{
	size_t low = 0, high = d->nids;

	if (!d->id)
		return (size_t)id;
	while (low + 1 < high) {
		size_t mid = low + (high - low) / 2;

		if (d->id[mid] <= id)
			low = mid;
		else
			high = mid;
	}
	return low;
}

/* Copies the rows that a batch uses, or copies them back. Returns the number of floats of the
 * table. */
static size_t move_rows(struct trainee *t, const struct batch *b, size_t i, bool back)
{
	const struct model_table *m = &t->job.table[i];
	const uint64_t *id;
	size_t n;

	if (!m->sparse) {
		t->used[i] = t->w[i];
		return m->rows * m->cols;
	}
	n = m->domain->of_batch(b, &id);
	if (n * m->cols > t->room[i]) {
		t->room[i] = 2 * n * m->cols;
		free(t->used[i]);
		free(t->grad[i]);
		t->used[i] = mem_array(t->room[i], sizeof **t->used);
		t->grad[i] = mem_array(t->room[i], sizeof **t->grad);
	}
	for (size_t k = 0; k < n; k++) {
		float *row = t->w[i] + find_row(t->job.train, id[k]) * m->cols,
		      *copy = t->used[i] + k * m->cols;

		memcpy(back ? row : copy, back ? copy : row, m->cols * sizeof *row);
	}
	return n * m->cols;
}

/* ---- training ---- */

/* Applies the rule of table i to the gradient of a batch. */
static enum err_code update_table(struct trainee *t, const struct batch *b, size_t i, size_t floats,
    struct err *e)
{
	const struct model_table *m = &t->job.table[i];
	struct optim_hyper h = *t->use[i].hyper;
	float *vector[OPTIM_VECTORS_MAX] = { NULL };
	const uint64_t *id;
	size_t n;

	h.lr *= (float)schedule_factor(&t->rule.schedule, t->step);
	if (m->sparse) {
		n = m->domain->of_batch(b, &id);
		if (local_rows_find(t->rows[i], id, n, e))
			return e->code;
		local_rows_step(t->rows[i], &h, t->step + 1, m->decay, t->used[i],
		    &(struct local_rows_gradient){ NULL, n, t->grad[i], b->rows,
		        t->job.counts_touching[i] ? row_counts_of(&t->counts, m->domain, b)
		                                  : NULL });
		move_rows(t, b, i, true);
		return ERR_OK;
	}
	for (unsigned k = 0; k < t->use[i].rule->nvectors; k++)
		vector[k] = t->state[i] + k * floats;
	t->use[i].rule->step(&h, t->step + 1, m->decay, floats, t->w[i], vector,
	    &(struct optim_gradient){ t->grad[i], 1, b->rows, 0, 0 });
	return ERR_OK;
}

/* One step on the examples of a batch. *finite: the loss was. */
static enum err_code train_batch(struct trainee *t, const struct batch *b, bool *finite,
    struct err *e)
{
	size_t *floats = mem_array(t->job.ntables + 1, sizeof *floats);
	enum err_code rc = ERR_OK;

	for (size_t i = 0; i < t->job.ntables; i++)
		floats[i] = move_rows(t, b, i, false);
	*finite = isfinite(
	    model_grad(t->job.model, b, (const float *const *)t->used, (float *const *)t->grad));
	row_counts_begin(&t->counts);
	for (size_t i = 0; *finite && !rc && i < t->job.ntables; i++)
		rc = update_table(t, b, i, floats[i], e);
	t->step++;
	free(floats);
	return rc;
}

/* Swaps the numbers at random, by the pass. */
static void shuffle_rows(uint32_t *row, size_t n, uint64_t pass)
{
	for (size_t i = n; i > 1; i--) {
		size_t k = (size_t)(rng_mix(pass << 32 ^ i) % i);
		uint32_t r = row[i - 1];

		row[i - 1] = row[k];
		row[k] = r;
	}
}

/* One pass over the training examples. Ends early at the time `end`, *cut, or with a loss that is
 * not finite. */
static enum err_code train_pass(struct trainee *t, uint64_t pass, int64_t end, bool *cut,
    bool *finite, struct err *e)
{
	struct data_split *split = &t->job.split;
	size_t size = (size_t)t->job.conf.job.batch;
	struct batch b = { .epoch = pass };
	enum err_code rc = ERR_OK;

	shuffle_rows(split->train, split->ntrain, pass);
	for (size_t at = 0; !rc && *finite && at < split->ntrain; at += size) {
		size_t n = split->ntrain - at < size ? split->ntrain - at : size;

		*cut = clock_now() > end;
		if (*cut)
			break;
		rc = data_gather(t->job.train, split->train + at, n, &b, e);
		if (!rc)
			rc = model_check(t->job.model, &b, e);
		if (!rc)
			rc = train_batch(t, &b, finite, e);
	}
	batch_release(&b);
	return rc;
}

/* ---- evaluation ---- */

/* The metric by which models are compared. */
static enum metric choose_metric(const struct eval_result *r)
{
	static const enum metric by[] = { METRIC_ndcg_at_k, METRIC_auc, METRIC_accuracy, METRIC_r2,
		METRIC_rmse, METRIC_loss };

	for (size_t i = 0; i < sizeof by / sizeof by[0]; i++)
		if (r->has[by[i]])
			return by[i];
	return METRICS;
}

/* Evaluates the model on n examples. */
static enum err_code evaluate_trainee(struct trainee *t, const uint32_t *rows, size_t nrows,
    struct eval_result *out, struct err *e)
{
	struct metric_scores of = { .task = model_task(t->job.model),
		.outputs = model_outputs(t->job.model),
		.top_k = 10,
		.quantile = model_quantile(t->job.model),
		.probabilities = model_gives_probabilities(t->job.model) };
	float *scores = mem_array(EVAL_BATCH * of.outputs, sizeof *scores);
	struct batch b = { 0 };
	struct metrics m;
	enum err_code rc = model_reserve(t->job.model, EVAL_BATCH, e);

	metrics_init(&m, &of);
	for (size_t at = 0; !rc && at < nrows; at += EVAL_BATCH) {
		size_t n = nrows - at < EVAL_BATCH ? nrows - at : EVAL_BATCH;
		double loss;

		rc = data_gather(t->job.train, rows + at, n, &b, e);
		for (size_t i = 0; !rc && i < t->job.ntables; i++)
			move_rows(t, &b, i, false);
		if (rc)
			break;
		loss = model_forward(t->job.model, &b, (const float *const *)t->used, scores);
		rc = metrics_add(&m, &b, scores, loss, e);
	}
	if (!rc)
		metrics_finish(&m, out);
	metrics_release(&m);
	batch_release(&b);
	free(scores);
	return rc;
}

/* Measures the model on the examples that are held out of the trial. */
static enum err_code measure_trainee(struct trainee *t, unsigned pass, struct init_score *out,
    struct err *e)
{
	const struct data_split *split = &t->job.split;
	struct eval_result r = { 0 };
	enum err_code rc = evaluate_trainee(t, split->held_out, split->nheld_out, &r, e);
	enum metric k = rc ? METRICS : choose_metric(&r);

	if (k == METRICS || !isfinite(r.value[k]))
		return rc;
	out->metric = k;
	out->value = r.value[k];
	out->goodness = metrics_goodness(k, r.value[k]);
	out->best_pass = pass;
	return rc;
}

/* Is the model the best one so far by job.stop, and is it time to end? */
static enum err_code watch_trainee(struct trainee *t, const struct early_stop_rule *rule,
    struct early_stop *state, unsigned pass, enum early_stop_verdict *out, struct err *e)
{
	struct eval_result r = { 0 };
	enum err_code rc = evaluate_trainee(t, t->watched, t->nwatched, &r, e);

	*out = early_stop_take(state, rule, pass,
	    r.has[rule->metric] ? r.value[rule->metric] : (double)NAN);
	return rc;
}

/* Passes over the training examples between two evaluations of the job. */
static uint64_t passes_between(const struct trainee *t)
{
	uint64_t examples = (uint64_t)t->job.conf.job.eval_every * (uint64_t)t->job.conf.job.batch;

	return examples > t->job.split.ntrain ? examples / t->job.split.ntrain : 1;
}

/* Trains until the passes, the time or the patience of job.stop end, and measures the model that
 * the job would save: the best one by job.stop, or else the last one. */
static enum err_code train_and_measure(struct trainee *t, int64_t end, struct init_score *out,
    struct err *e)
{
	uint64_t passes = conf_epochs(&t->job.conf, t->job.split.ntrain, job_most_rows(&t->job)),
	         each = passes_between(t);
	struct early_stop state = EARLY_STOP_INIT;
	struct early_stop_rule rule;
	bool finite = true, ends = false;
	enum err_code rc = early_stop_parse(t->job.conf.job.stop, &rule, e);

	passes = passes ? passes : PASSES_MOST;
	for (uint64_t pass = 1; !rc && !ends; pass++) {
		enum early_stop_verdict verdict = EARLY_STOP_BEST;

		rc = train_pass(t, pass, end, &out->cut, &finite, e);
		out->passes = (unsigned)pass;
		ends = out->cut || !finite || pass >= passes;
		if (rc || !finite || (!ends && (!t->nwatched || pass % each)))
			continue;
		if (t->nwatched)
			rc = watch_trainee(t, &rule, &state, (unsigned)pass, &verdict, e);
		if (!rc && verdict == EARLY_STOP_BEST)
			rc = measure_trainee(t, (unsigned)pass, out, e);
		ends |= verdict == EARLY_STOP_ENOUGH;
	}
	return rc;
}

/* Holds out examples of the trial, and, of the others, the examples of job.validate. */
static enum err_code split_trial(struct trainee *t, double share, uint64_t seed, struct err *e)
{
	struct data_split *split = &t->job.split, inner = { 0 };
	const char *stop = t->job.conf.job.stop;
	double watched = 0;
	enum err_code rc;

	data_split_release(split);
	rc = data_split_make(seed, share, (uint32_t)t->job.train->rows, split, e);
	if (!rc)
		rc = data_split_parse(t->job.conf.job.validate, &watched, e);
	if (rc || watched == 0 || !conf_is_named(stop))
		return rc;
	rc = data_split_make(seed, watched, split->ntrain, &inner, e);
	if (rc)
		return rc;
	t->nwatched = inner.nheld_out;
	t->watched = mem_array(t->nwatched, sizeof *t->watched);
	for (size_t i = 0; i < t->nwatched; i++)
		t->watched[i] = split->train[inner.held_out[i]];
	/* Ascending, so no place is read after it was written. */
	for (size_t i = 0; i < inner.ntrain; i++)
		split->train[i] = split->train[inner.train[i]];
	split->ntrain = inner.ntrain;
	data_split_release(&inner);
	return ERR_OK;
}

enum err_code init_trial_measure(const json_t *job, double share, uint64_t seed, int64_t budget,
    struct init_score *out, struct err *e)
{
	int64_t end = clock_now() + budget;
	struct trainee t = { 0 };
	struct log log;
	struct job_source from = { .models = model_kinds_all,
		.cache = "none",
		.no_eval = true,
		.log = &log };
	enum err_code rc;

	*out = (struct init_score){ .metric = METRICS };
	log_init(&log, "init", 2, LOG_LEVEL_ERROR);
	blas_init();
	rc = job_load(job, &from, &t.job, e);
	if (rc)
		return rc;
	rc = split_trial(&t, share, seed, e);
	if (!rc) {
		t.job.conf.job.l2 = conf_l2(&t.job.conf, t.job.split.ntrain);
		rc = conf_job_rule(&t.job.conf, &t.rule, e);
	}
	if (!rc) {
		make_tables(&t);
		rc = train_and_measure(&t, end, out, e);
	}
	release_trainee(&t);
	return rc;
}
