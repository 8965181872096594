/* SPDX-License-Identifier: ISC */
#include "worker/evaluate.h"

#include "core/mem.h"
#include "format/digest.h"

#define PIECE 1000u

/* One pass over a data set: buffers for PIECE examples. */
struct pass {
	struct params *p;
	const struct dataset *data;
	uint32_t *index;
	float *scores;
	struct batch batch;
};

static void pass_begin(struct pass *x, struct params *p, const struct dataset *data)
{
	*x = (struct pass){ .p = p, .data = data };
	x->index = mem_array(PIECE, sizeof *x->index);
	x->scores = mem_array(PIECE * model_outputs(p->job->model), sizeof *x->scores);
}

static void pass_end(struct pass *x)
{
	free(x->index);
	free(x->scores);
	batch_release(&x->batch);
}

/* Scores the next PIECE examples from `at` on; adds their loss to *loss. */
static enum err_code pass_piece(struct pass *x, size_t at, bool dense, double *loss, struct err *e)
{
	size_t n = x->data->rows - at < PIECE ? x->data->rows - at : PIECE;
	enum err_code rc;

	for (size_t i = 0; i < n; i++)
		x->index[i] = (uint32_t)(at + i);
	rc = data_gather(x->data, x->index, n, &x->batch, e);
	if (!rc)
		rc = (x->data->y || x->data->label
		        ? model_check
		        : model_check_inputs)(x->p->job->model, &x->batch, e);
	if (!rc)
		rc = params_pull(x->p, &x->batch, CLIENT_NOW, dense, e);
	if (!rc)
		*loss = model_forward(x->p->job->model, &x->batch, (const float *const *)x->p->w,
		    x->scores);
	return rc;
}

enum err_code evaluate(struct params *p, const struct dataset *data, bool dense_here,
    struct eval_result *out, struct err *e)
{
	struct metrics m;
	struct pass x;
	enum err_code rc = ERR_OK;

	metrics_init(&m, model_task(p->job->model), model_outputs(p->job->model));
	pass_begin(&x, p, data);
	for (size_t at = 0; !rc && at < data->rows; at += PIECE) {
		double loss;

		rc = pass_piece(&x, at, !dense_here && at == 0, &loss, e);
		if (!rc)
			rc = metrics_add(&m, &x.batch, x.scores, loss, e);
	}
	if (!rc)
		metrics_finish(&m, out);
	pass_end(&x);
	metrics_release(&m);
	return rc;
}

enum err_code evaluate_predict(struct params *p, const struct dataset *data, bool dense,
    predict_fn fn, void *ctx, struct err *e)
{
	struct pass x;
	enum err_code rc = ERR_OK;

	pass_begin(&x, p, data);
	for (size_t at = 0; !rc && at < data->rows; at += PIECE) {
		double loss;

		rc = pass_piece(&x, at, dense && at == 0, &loss, e);
		if (!rc)
			rc = fn(ctx, &x.batch, x.scores, e);
	}
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
		return client_scan(c, t, hash_rows, h, e);
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
