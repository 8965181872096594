/* SPDX-License-Identifier: ISC */
#include "worker/evaluate.h"

#include <math.h>

#include "core/mem.h"
#include "format/digest.h"
#include "math/vec.h"

#define BATCH DATA_SEQUENCE_LINES
/* Batches of models with many classes are smaller: bounded to SCORES_MOST scores, or one
 * example. */
#define SCORES_MOST ((size_t)1 << 24)

/* One pass over examples: buffers for `most` of them, and what is done with each batch. */
struct pass {
	struct params *p;
	/* pull with the next batch the dense tables; the rows that all scores use */
	bool dense, scored;
	bool strict;   /* parameters and scores that are not finite are an error */
	uint64_t seen; /* examples before this batch */
	predict_fn each;
	void *ctx;
	size_t most;
	uint32_t *index;
	float *scores;
	struct batch batch;
	double loss; /* of the batch, summed */
};

/* The scores of finite parameters must be finite, too. */
static enum err_code check_scores(const struct pass *x, struct err *e)
{
	size_t outputs = model_outputs(x->p->job->model), n = x->batch.rows * outputs, i = 0;
	enum err_code rc;

	if (vec_all_finite(n, x->scores))
		return ERR_OK;
	rc = param_source_finish(x->p->source, e);
	if (rc)
		return rc;
	while (isfinite(x->scores[i]))
		i++;
	return err_set(e, ERR_NONFINITE,
	    "the prediction of example %llu is %s, although the parameters are finite: its features, or "
	    "the parameters, are too large",
	    (unsigned long long)(x->seen + i / outputs + 1),
	    isnan(x->scores[i]) ? "NaN" : "infinite");
}

/* rows: the most examples that come; SIZE_MAX: not known. */
static void pass_begin(struct pass *x, struct params *p, bool dense, bool scored, size_t rows,
    predict_fn each, void *ctx)
{
	size_t outputs = model_outputs(p->job->model), most = SCORES_MOST / outputs;

	*x = (struct pass){ .p = p, .dense = dense, .scored = scored, .each = each, .ctx = ctx };
	x->most = most > BATCH ? BATCH : most > 0 ? most : 1;
	x->most = x->most > rows && rows ? rows : x->most;
	x->index = mem_array(x->most, sizeof *x->index);
	x->scores = mem_array(x->most * outputs, sizeof *x->scores);
}

static void pass_end(struct pass *x)
{
	free(x->index);
	free(x->scores);
	batch_release(&x->batch);
}

/* Scores a batch: the n examples of d, or of these rows of d, from `at` on. */
static enum err_code score_batch(struct pass *x, const struct dataset *d, const uint32_t *row,
    size_t at, size_t n, struct err *e)
{
	enum err_code rc;

	for (size_t i = 0; i < n; i++)
		x->index[i] = row ? row[at + i] : (uint32_t)(at + i);
	rc = data_gather(d, x->index, n, &x->batch, e);
	if (!rc)
		rc = (d->y || d->label ? model_check : model_check_inputs)(x->p->job->model,
		    &x->batch, e);
	if (!rc)
		rc = params_pull_scores(x->p, &x->batch, x->dense, x->scored, e);
	if (!rc && x->strict)
		rc = params_check_scored(x->p, &x->batch, x->dense, x->scored, e);
	if (rc)
		return rc;
	x->dense = x->scored = false;
	x->loss = model_forward(x->p->job->model, &x->batch, (const float *const *)x->p->w,
	    x->scores);
	rc = x->strict ? check_scores(x, e) : ERR_OK;
	x->seen += x->batch.rows;
	return rc;
}

/* Scores the first `rows` examples of d, or of these rows of d, in order, a batch at a time. */
static enum err_code score_examples(struct pass *x, const struct dataset *d, const uint32_t *row,
    size_t rows, struct err *e)
{
	enum err_code rc = ERR_OK;

	for (size_t at = 0, n; !rc && at < rows; at += n) {
		n = rows - at < x->most ? rows - at : x->most;
		rc = score_batch(x, d, row, at, n, e);
		if (!rc)
			rc = x->each(x->ctx, &x->batch, x->scores, e);
	}
	return rc;
}

/* Scores all chunks of a sequence. Reading and parsing a large one takes time, so the source attends to
 * its cluster between two of them. */
static enum err_code score_sequence(struct pass *x, struct data_sequence *data, struct err *e)
{
	const struct dataset *chunk;
	enum err_code rc;

	do {
		size_t n = 0;
		const uint32_t *row;

		rc = data_sequence_next(data, &chunk, e);
		row = data_sequence_rows(data, &n);
		if (!rc && chunk)
			rc = score_examples(x, chunk, row, row ? n : chunk->rows, e);
		if (!rc && chunk)
			rc = x->p->source->ops->attend(x->p->source, e);
	} while (!rc && chunk);
	if (!rc)
		rc = param_source_finish(x->p->source, e);
	if (rc)
		data_sequence_rewind(data);
	return rc;
}

struct measuring {
	struct metrics metrics;
	struct metric_detail *detail; /* NULL: not wanted */
	bool begun;                   /* the first batch has shown what is to be measured */
	const struct pass *pass;
};

static void begin_metrics(struct measuring *m, const struct batch *first)
{
	const struct model *model = m->pass->p->job->model;
	const struct metric_scores of = { .task = model_task(model),
		.outputs = model_outputs(model),
		.grouped = first && first->group,
		.top_k = (size_t)m->pass->p->job->conf.job.top_k,
		.quantile = model_quantile(model),
		.probabilities = model_gives_probabilities(model) };

	metrics_init(&m->metrics, &of);
	m->begun = true;
}

static enum err_code measure_scores(void *ctx, const struct batch *b, const float *scores,
    struct err *e)
{
	struct measuring *m = ctx;

	if (!m->begun)
		begin_metrics(m, b);
	if (m->detail) {
		enum err_code rc = metric_detail_add(m->detail, &m->metrics.of, b, scores, e);

		if (rc)
			return rc;
	}
	return metrics_add(&m->metrics, b, scores, m->pass->loss, e);
}

enum err_code evaluate(struct params *p, struct data_sequence *data, bool dense_here, bool strict,
    struct metric_detail *detail, struct eval_result *out, struct err *e)
{
	struct pass x;
	struct measuring m = { .pass = &x, .detail = detail };
	enum err_code rc;

	pass_begin(&x, p, !dense_here, true, SIZE_MAX, measure_scores, &m);
	x.strict = strict;
	rc = score_sequence(&x, data, e);
	if (!rc && !m.begun)
		begin_metrics(&m, NULL);
	if (!rc)
		metrics_finish(&m.metrics, out);
	pass_end(&x);
	metrics_release(&m.metrics);
	return rc;
}

enum err_code evaluate_predict(struct params *p, struct data_sequence *data, predict_fn fn,
    void *ctx, struct err *e)
{
	struct pass x;
	enum err_code rc;

	pass_begin(&x, p, true, true, SIZE_MAX, fn, ctx);
	x.strict = true;
	rc = score_sequence(&x, data, e);
	pass_end(&x);
	return rc;
}

enum err_code evaluate_predict_now(struct params *p, const struct dataset *data, bool fresh,
    predict_fn fn, void *ctx, struct err *e)
{
	struct pass x;
	enum err_code rc;

	pass_begin(&x, p, fresh, fresh, data->rows, fn, ctx);
	x.strict = true;
	rc = score_examples(&x, data, NULL, data->rows, e);
	pass_end(&x);
	return rc;
}

/* ---- digest ---- */

struct hashing {
	struct digest digest;
	uint32_t cols;
};

static enum err_code hash_rows(void *ctx, const uint64_t *ids, const float *rows, size_t n,
    struct err *e)
{
	struct hashing *h = ctx;

	(void)e;
	digest_rows(&h->digest, ids, rows, h->cols, n);
	return ERR_OK;
}

/* Adds the name and the values of one table to the digest. client_scan streams a sparse table,
 * while a dense one is pulled whole and needs memory for all its elements. Blocks until the servers
 * have answered. ERR_NOMEM, or the errors of the client. */
static enum err_code hash_table(struct client *c, struct hashing *h, const struct table *t,
    struct err *e)
{
	size_t n = t->sparse ? 0 : (size_t)table_elements(t);
	enum err_code rc;
	float *w;

	digest_table(&h->digest, t->name);
	h->cols = t->cols;
	if (t->sparse)
		return client_scan(c, t, 0, t->nparts, hash_rows, h, e);
	w = mem_try_array(n, sizeof *w);
	if (!w)
		return err_set(e, ERR_NOMEM, "no memory for table \"%s\"", t->name);
	rc = client_want(c, t, CLIENT_NOW, NULL, w, e);
	if (!rc)
		rc = client_wait(c, CLIENT_NOW, e);
	if (!rc)
		digest_values(&h->digest, w, n);
	free(w);
	return rc;
}

static int compare_tables_by_name(const void *a, const void *b)
{
	return strcmp((*(const struct table *const *)a)->name,
	    (*(const struct table *const *)b)->name);
}

enum err_code model_digest(struct client *c, char hex[static 65], struct err *e)
{
	const struct layout *l = client_layout(c);
	const struct table **list = mem_array(l->ntables, sizeof *list);
	struct hashing h;
	enum err_code rc = ERR_OK;
	size_t n = 0;

	/* Skip tables that users added beside the model's. */
	for (size_t i = 0; i < l->ntables; i++)
		if (!l->table[i].added)
			list[n++] = &l->table[i];
	qsort((void *)list, n, sizeof *list, compare_tables_by_name);
	digest_begin(&h.digest);
	for (size_t i = 0; !rc && i < n; i++)
		rc = hash_table(c, &h, list[i], e);
	if (!rc)
		digest_end(&h.digest, hex);
	free((void *)list);
	return rc;
}
