/* SPDX-License-Identifier: ISC */
#include "tool/bench.h"

#include "core/clock.h"
#include "core/json.h"
#include "core/mem.h"
#include "core/rng.h"
#include "msg/answer.h"

#define WARM_UP      3
#define CALL_TIMEOUT (30 * NSEC_PER_SEC)

struct bench_run {
	struct admin_client *tool;
	struct bench_config *cfg;
	const struct table *table;
	float *w, *g;
	uint64_t *ids;
	uint64_t step;
};

static bool view_has_table(void *ctx, const struct view *view)
{
	return view && view->rev >= *(int64_t *)ctx;
}

/* Creates the table, under a name of its own for each shape, so that a benchmark can be
 * repeated. */
static enum err_code make_table(struct bench_run *r, struct err *e)
{
	const struct bench_config *b = r->cfg;
	struct table t = { .sparse = b->rows > 0,
		.decay = false,
		.cols = b->rows ? (uint32_t)b->width : 1,
		.rows = b->rows ? b->rows : b->bytes / 4 };
	json_t *shapes = json_array(), *msg, *answer;
	const struct view *view;
	struct answer_table made;
	enum err_code rc;

	snprintf(t.name, sizeof t.name, "bench-%s-%llux%u", t.sparse ? "sparse" : "dense",
	    (unsigned long long)t.rows, t.cols);
	json_array_append_new(shapes, table_to_json(&t));
	msg = MESSAGE(table, .tables = shapes);
	json_decref(shapes);
	rc = agent_call(cluster_view_agent(r->tool->cluster), msg, CALL_TIMEOUT, &answer, e);
	json_decref(msg);
	if (rc)
		return rc;
	rc = answer_decode_table(answer, &made, e);
	json_decref(answer);
	if (rc)
		return rc;
	rc = cluster_view_await(r->tool->cluster, view_has_table, &made.rev, CALL_TIMEOUT, &view,
	    e);
	if (!rc)
		rc = client_apply_view(r->tool->client, view, e);
	view_release(view);
	return rc ? rc : tool_table(r->tool, t.name, &r->table, e);
}

static int compare_bench_ids(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* Random gradients and random, sorted row ids. */
static enum err_code fill_buffers(struct bench_run *r, struct err *e)
{
	const struct bench_config *b = r->cfg;
	size_t n = b->rows ? b->rows * b->width : b->bytes / 4;
	struct rng rng;

	r->w = mem_try_array(n, sizeof *r->w);
	r->g = client_gradients(r->tool->client, n);
	r->ids = mem_try_array(b->rows + 1, sizeof *r->ids);
	if (!r->w || !r->g || !r->ids)
		return err_set(e, ERR_NOMEM, "no memory for %zu values", n);
	rng_init(&rng, 1);
	for (size_t i = 0; i < n; i++)
		r->g[i] = (float)rng_unit(&rng) * 1e-6f;
	for (size_t i = 0; i < b->rows; i++)
		r->ids[i] = rng_next(&rng);
	qsort(r->ids, b->rows, sizeof *r->ids, compare_bench_ids);
	return ERR_OK;
}

static enum err_code push_once(struct bench_run *r, struct err *e)
{
	enum err_code rc = r->cfg->rows
	    ? client_push_rows(r->tool->client,
	          &(struct row_push){ .table = r->table,
	              .step = r->step,
	              .examples = 1,
	              .ids = r->ids,
	              .n = r->cfg->rows,
	              .g = r->g },
	          e)
	    : client_push(r->tool->client, r->table, r->step, 1, r->g, e);

	r->step++;
	return rc ? rc : client_wait_receipts(r->tool->client, e);
}

static enum err_code pull_once(struct bench_run *r, struct err *e)
{
	enum err_code rc = r->cfg->rows
	    ? client_want_rows(r->tool->client, r->table, CLIENT_NOW, r->ids, r->cfg->rows, r->w, e)
	    : client_want(r->tool->client, r->table, CLIENT_NOW, NULL, r->w, e);

	return rc ? rc : client_wait(r->tool->client, CLIENT_NOW, e);
}

static int compare_seconds(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

void bench_sum_up(struct bench_config *b, double *took)
{
	b->result.seconds = 0;
	for (int64_t i = 0; i < b->iters; i++)
		b->result.seconds += took[i];
	qsort(took, (size_t)b->iters, sizeof *took, compare_seconds);
	b->result.p50 = took[(b->iters - 1) / 2];
	b->result.p99 = took[(b->iters - 1) * 99 / 100];
}

/* Runs the warm-up and b->iters timed repetitions, and fills b->result. */
static enum err_code run_iterations(struct bench_run *r, struct err *e)
{
	struct bench_config *b = r->cfg;
	double *took = mem_array((size_t)b->iters, sizeof *took);
	struct client_stats before = { 0 }, after;
	enum err_code rc = ERR_OK;

	for (int64_t i = -WARM_UP; !rc && i < b->iters; i++) {
		int64_t begin = clock_now();

		if (i == 0)
			client_stats(r->tool->client, &before);
		if (strcmp(b->op, "pull") != 0)
			rc = push_once(r, e);
		if (!rc && strcmp(b->op, "push") != 0)
			rc = pull_once(r, e);
		if (i >= 0)
			took[i] = (double)(clock_now() - begin) / (double)NSEC_PER_SEC;
	}
	bench_sum_up(b, took);
	client_stats(r->tool->client, &after);
	b->result.pushed = (double)(after.pushed_bytes - before.pushed_bytes) / (double)b->iters;
	b->result.pulled = (double)(after.pulled_bytes - before.pulled_bytes) / (double)b->iters;
	free(took);
	return rc;
}

enum err_code bench(struct admin_client *t, struct bench_config *b, struct err *e)
{
	struct bench_run r = { .tool = t, .cfg = b };
	enum err_code rc = make_table(&r, e);

	client_set_coding(t->client, &b->coding);
	if (!rc)
		rc = fill_buffers(&r, e);
	if (!rc)
		rc = run_iterations(&r, e);
	free(r.w);
	free(r.ids);
	return rc;
}
