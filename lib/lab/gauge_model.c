/* SPDX-License-Identifier: ISC */
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/mem.h"
#include "core/thread.h"
#include "lab/gauge.h"

/* Batches are drawn at random from all data, and the parameters alternate between two places, as in
 * a worker, so that values of the last step may have left the cache. */

#define BATCHES 256  /* at most; at least two are measured */
#define LONGEST 0.04 /* seconds: no further batch after this */

struct runner {
	const struct job *job;
	struct model *model;
	struct row_sampler *sampler; /* as job_sampler_new */
	struct batch batch;
	float **w[2], **g;
	uint64_t seed;
	double gather[BATCHES], gradient[BATCHES];
	size_t n, ids; /* batches measured; sum of their features */
	struct err e;
	enum err_code rc;
};

static size_t floats_of(const struct runner *r, size_t table)
{
	const struct model_table *t = &r->job->table[table];

	return (t->sparse ? t->domain->used(r->job->train) : t->rows) * t->cols;
}

/* Makes two sets of parameters with small random values, which the batches use in turn. A sparse
 * table has a row for each one that the data use. Each array has a float more than needed,
 * so that an empty table is not a failed allocation. */
static enum err_code reserve_params(struct runner *r)
{
	size_t n = r->job->ntables;
	struct rng rng;

	rng_init(&rng, r->seed);
	r->g = mem_array(n, sizeof *r->g);
	for (int k = 0; k < 2; k++)
		r->w[k] = mem_array(n, sizeof *r->w[k]);
	for (size_t i = 0; i < n; i++) {
		size_t floats = floats_of(r, i);

		r->g[i] = mem_try_array(floats + 1, sizeof **r->g);
		for (int k = 0; k < 2; k++) {
			r->w[k][i] = mem_try_array(floats + 1, sizeof ***r->w);
			for (size_t f = 0; r->w[k][i] && f < floats; f++)
				r->w[k][i][f] = (float)(rng_unit(&rng) - 0.5) * 0.05f;
		}
		if (!r->g[i] || !r->w[0][i] || !r->w[1][i])
			return err_set(&r->e, ERR_NOMEM,
			    "no memory for the parameters of table \"%s\"", r->job->table[i].name);
	}
	return ERR_OK;
}

static void release_runner(struct runner *r)
{
	for (size_t i = 0; r->g && i < r->job->ntables; i++) {
		free(r->g[i]);
		free(r->w[0] ? r->w[0][i] : NULL);
		free(r->w[1] ? r->w[1][i] : NULL);
	}
	free(r->g);
	free(r->w[0]);
	free(r->w[1]);
	batch_release(&r->batch);
	model_free(r->model);
	row_sampler_free(r->sampler);
}

/* The rows are drawn with repetition, as their order does not matter for the time. Gathering and
 * the gradient are timed separately, in CPU seconds. */
static enum err_code measure_one_batch(struct runner *r, struct rng *rng, uint32_t *index)
{
	size_t n = (size_t)r->job->conf.job.batch;
	double begin, middle;
	enum err_code rc;

	gauge_sweep();
	begin = gauge_clock();

	if (n > r->job->train->rows)
		n = r->job->train->rows;
	for (size_t i = 0; i < n; i++)
		index[i] = (uint32_t)rng_below(rng, r->job->train->rows);
	rc = data_gather(r->job->train, index, n, &r->batch, &r->e);
	if (!rc)
		rc = row_sampler_sample(r->sampler, &r->batch, &r->e);
	middle = gauge_clock();
	if (rc)
		return rc;
	model_grad(r->model, &r->batch, (const float *const *)r->w[r->n % 2], r->g);
	r->gather[r->n] = middle - begin;
	r->gradient[r->n++] = gauge_clock() - middle;
	r->ids += r->batch.nids;
	return ERR_OK;
}

/* Measures at least two batches, then goes on until there are BATCHES or their gradients took
 * LONGEST seconds. */
static void *measure_batches(void *ctx)
{
	struct runner *r = ctx;
	uint32_t *index = mem_array((size_t)r->job->conf.job.batch, sizeof *index);
	struct rng rng;
	double all = 0;

	rng_init(&rng, r->seed);
	r->rc = job_model_new(r->job, &r->model, &r->e);
	if (!r->rc) {
		r->sampler = job_sampler_new(r->job);
		r->rc = reserve_params(r);
	}
	/* The first batch allocates memory and fills caches; it does not count. */
	if (!r->rc)
		r->rc = measure_one_batch(r, &rng, index);
	r->n = r->ids = 0;
	while (!r->rc && r->n < BATCHES && (r->n < 2 || all < LONGEST)) {
		r->rc = measure_one_batch(r, &rng, index);
		all += r->gradient[r->n - 1];
	}
	free(index);
	release_runner(r);
	return NULL;
}

/* Measures on `cores` threads at once; the result is the mean of their medians. */
static enum err_code measure_parallel(const struct job *j, unsigned cores, struct gauge_model *out,
    struct err *e)
{
	struct runner *r = mem_array(cores, sizeof *r);
	pthread_t *thread = mem_array(cores, sizeof *thread);
	enum err_code rc = ERR_OK;
	unsigned n = 0;

	for (; n < cores; n++) {
		r[n].job = j;
		r[n].seed = n + 1;
		rc = thread_start(&thread[n], measure_batches, &r[n], e);
		if (rc)
			break;
	}
	/* Measure with as many threads as there are. */
	if (n)
		rc = ERR_OK;
	for (unsigned i = 0; i < n; i++) {
		pthread_join(thread[i], NULL);
		if (r[i].rc)
			rc = err_because(e, r[i].rc, r[i].e.cause, "%s", r[i].e.msg);
		out->gather += gauge_median(r[i].gather, r[i].n) / n;
		out->gradient += gauge_median(r[i].gradient, r[i].n) / n;
		out->ids += r[i].n ? r[i].ids / r[i].n / n : 0;
	}
	free(r);
	free(thread);
	return rc;
}

/* Measures one core alone, then `cores` at once, at most all of the machine; the ratio of the
 * gradients' times is `crowded`. It is never below 1, and 1 where a single core is asked for. */
enum err_code gauge_model(const struct job *j, unsigned cores, struct gauge_model *out,
    struct err *e)
{
	struct gauge_model all = { 0 };
	long here = sysconf(_SC_NPROCESSORS_ONLN);
	enum err_code rc;

	*out = (struct gauge_model){ .crowded = 1 };
	if (model_task(j->model) == MODEL_OUTSIDE)
		return err_set(e, ERR_UNSUPPORTED,
		    "job.model: the cost of a gradient of model %s cannot be measured, because a "
		    "program computes it",
		    j->conf.job.model);
	rc = measure_parallel(j, 1, out, e);
	if (here > 0 && cores > (unsigned)here)
		cores = (unsigned)here;
	if (!rc && cores > 1)
		rc = measure_parallel(j, cores, &all, e);
	if (!rc && cores > 1 && all.gradient > out->gradient)
		out->crowded = all.gradient / out->gradient;
	return rc;
}
