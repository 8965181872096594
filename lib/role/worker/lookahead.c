/* SPDX-License-Identifier: ISC */
#include "worker/lookahead.h"

#include "core/mem.h"

/* A batch whose rows were requested ahead. Its slot is used again k steps later, when client_wait has
 * returned since: the request has been answered. */
struct ahead {
	struct batch batch;
	uint64_t step;  /* the batch's */
	uint64_t mark;  /* of the client's pulls: the requests are before it; 0: there are none */
	float **values; /* by table: room for the answers, which only the client's cache uses */
	size_t *cap;    /* floats */
};

struct lookahead {
	const struct job *job;
	struct params *params;
	struct batches *batches;
	struct log *log;
	struct row_sampler *sampler; /* NULL: the examples alone say which rows a batch needs */
	uint64_t k, next;            /* batches of steps before `next` were requested */
	struct ahead *slot;          /* k of them; the batch of step n is in n % k */
	bool relay_is_told;
};

static bool has_sparse_tables(const struct job *job)
{
	for (size_t i = 0; i < job->ntables; i++)
		if (job->table[i].sparse)
			return true;
	return false;
}

struct lookahead *lookahead_new(const struct job *job, struct params *params,
    struct batches *batches, struct log *log)
{
	struct lookahead *x;

	if (!job->conf.lookahead)
		return NULL;
	if (!has_sparse_tables(job)) {
		log_warn(log, "lookahead: does nothing, because model %s has no sparse tables here",
		    job->conf.job.model);
		return NULL;
	}
	x = mem_alloc(sizeof *x);
	*x = (struct lookahead){ .job = job,
		.params = params,
		.batches = batches,
		.log = log,
		.sampler = job_sampler_new(job),
		.k = (uint64_t)job->conf.lookahead };
	x->slot = mem_array(x->k, sizeof *x->slot);
	for (uint64_t i = 0; i < x->k; i++) {
		x->slot[i].values = mem_array(job->ntables, sizeof *x->slot[i].values);
		x->slot[i].cap = mem_array(job->ntables, sizeof *x->slot[i].cap);
	}
	return x;
}

void lookahead_free(struct lookahead *x)
{
	if (!x)
		return;
	for (uint64_t i = 0; i < x->k; i++) {
		for (size_t t = 0; t < x->job->ntables; t++)
			free(x->slot[i].values[t]);
		free(x->slot[i].values);
		free(x->slot[i].cap);
		batch_release(&x->slot[i].batch);
	}
	free(x->slot);
	row_sampler_free(x->sampler);
	free(x);
}

/* Requests the rows of the slot's batch of one table. */
static enum err_code request_table(struct lookahead *x, struct ahead *a, size_t i, uint64_t step,
    struct err *e)
{
	const struct model_table *m = &x->job->table[i];
	const uint64_t *id;
	size_t n = m->sparse ? m->domain->of_batch(&a->batch, &id) : 0, floats = n * m->cols;

	if (!n)
		return ERR_OK;
	if (floats > a->cap[i]) {
		free(a->values[i]);
		a->cap[i] = floats + floats / 4;
		a->values[i] = mem_try_array(a->cap[i], sizeof **a->values);
	}
	if (!a->values[i]) {
		a->cap[i] = 0;
		return err_set(e, ERR_NOMEM, "no memory to request %zu rows of table \"%s\" ahead",
		    n, m->name);
	}
	return client_want_changed_rows(x->params->client, x->params->table[i], step, id, n,
	    a->values[i], e);
}

/* Requests the rows of the batch of step `of`. *known: false if the batch is not known yet. */
static enum err_code request_batch(struct lookahead *x, uint64_t of, uint64_t step, bool *known,
    struct err *e)
{
	struct ahead *a = &x->slot[of % x->k];
	enum err_code rc = batches_peek(x->batches, of - step, &a->batch, known, e);

	a->mark = 0;
	if (rc || !*known)
		return rc;
	rc = row_sampler_sample(x->sampler, &a->batch, e);
	for (size_t i = 0; !rc && i < x->job->ntables; i++)
		rc = request_table(x, a, i, step, e);
	a->step = of;
	a->mark = client_mark_pulls(x->params->client);
	return rc;
}

enum err_code lookahead_request(struct lookahead *x, uint64_t step, struct err *e)
{
	enum err_code rc = ERR_OK;
	bool known = true;

	if (!x)
		return ERR_OK;
	if (!client_caches_rows(x->params->client)) {
		if (!x->relay_is_told)
			log_warn(x->log,
			    "lookahead: does nothing while a relay answers pulls, because it has "
			    "rows of the present step only");
		x->relay_is_told = true;
		return ERR_OK;
	}
	if (x->next <= step)
		x->next = step + 1;
	while (!rc && known && x->next <= step + x->k) {
		rc = request_batch(x, x->next, step, &known, e);
		x->next += !rc && known;
	}
	if (!rc)
		client_poke(x->params->client);
	return rc;
}

enum err_code lookahead_await(struct lookahead *x, uint64_t step, struct err *e)
{
	const struct ahead *a = x ? &x->slot[step % x->k] : NULL;

	return a && a->step == step && a->mark
	    ? client_wait_marked(x->params->client, a->mark, step, e)
	    : ERR_OK;
}

enum err_code lookahead_prefetch(struct lookahead *x, uint64_t step, struct err *e)
{
	const struct ahead *a = x ? &x->slot[step % x->k] : NULL;
	enum err_code rc = lookahead_await(x, step, e);

	return !rc && a && a->step == step && a->mark && client_caches_rows(x->params->client)
	    ? params_request_rows(x->params, &a->batch, step, e)
	    : rc;
}
