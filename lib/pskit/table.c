/* SPDX-License-Identifier: ISC */
#include "core/mem.h"
#include "pskit/handle.h"
#include "sync/push_status.h"

/* ---- client and step ---- */

static enum err_code attach_to_cluster(struct ps *p)
{
	enum err_code rc;

	if (p->joined || p->attached)
		return ERR_OK;
	rc = pskit_identify(p, "admin");
	if (!rc)
		rc = tool_open(&p->id, "auto", p->timeout, &p->interrupt, &p->log, &p->tool, &p->e);
	p->attached = !rc;
	return rc;
}

static struct client *current_client(struct ps *p)
{
	return p->joined ? p->w.client : p->tool.client;
}

static uint64_t current_step(const struct ps *p)
{
	return p->stepping ? p->w.step : CLIENT_NOW;
}

static const struct table *find_table_of_kind(struct ps *p, const char *name, bool sparse)
{
	const struct table *t = layout_find(client_layout(current_client(p)), name);

	if (!t)
		err_set(&p->e, ERR_NOTFOUND, "there is no table \"%s\"", name);
	else if (t->sparse != sparse)
		err_set(&p->e, ERR_USAGE, "table \"%s\" is %s", name, sparse ? "dense" : "sparse");
	else
		return t;
	return NULL;
}

static void fill_description(const struct table *t, struct ps_table *out)
{
	*out = (struct ps_table){ .rows = t->rows, .cols = t->cols, .sparse = t->sparse };
	snprintf(out->name, sizeof out->name, "%s", t->name);
}

static int describe_table_by_name(struct ps *p, const struct call *c)
{
	enum err_code rc = attach_to_cluster(p);
	const struct table *t = rc ? NULL : layout_find(client_layout(current_client(p)), c->text);

	if (t)
		fill_description(t, c->to);
	return pskit_return(p,
	    rc || t ? rc : err_set(&p->e, ERR_NOTFOUND, "there is no table \"%s\"", c->text));
}

PUBLIC int ps_describe(struct ps *p, const char *table, struct ps_table *out)
{
	return pskit_run_call(p,
	    &(const struct call){ describe_table_by_name, .text = table, .to = out });
}

static int describe_table_at(struct ps *p, const struct call *c)
{
	enum err_code rc = attach_to_cluster(p);
	const struct layout *l = rc ? NULL : client_layout(current_client(p));
	uint64_t left = c->n;

	for (size_t k = 0; l && k < l->ntables; k++)
		if (!l->table[k].dropped && left-- == 0) {
			fill_description(&l->table[k], c->to);
			return PS_OK;
		}
	return pskit_return(p, rc ? rc : err_set(&p->e, ERR_NOTFOUND, "there are no more tables"));
}

PUBLIC int ps_describe_at(struct ps *p, size_t i, struct ps_table *out)
{
	return pskit_run_call(p, &(const struct call){ describe_table_at, .n = i, .to = out });
}

/* ---- creation ---- */

static json_t *make_table_shapes(const struct model_table *t, size_t n)
{
	json_t *list = json_array();

	for (size_t i = 0; i < n; i++) {
		struct table shape = { .sparse = t[i].sparse,
			.decay = t[i].decay,
			.rows = t[i].rows,
			.cols = (uint32_t)t[i].cols,
			.init = t[i].init == INIT_GLOROT ? TABLE_UNIFORM : TABLE_ZEROS,
			.init_limit = t[i].init_scale };

		snprintf(shape.name, sizeof shape.name, "%s", t[i].name);
		json_array_append_new(list, table_to_json(&shape));
	}
	return list;
}

static int create_tables(struct ps *p, const struct call *c)
{
	struct model_table *t;
	json_t *shapes;
	enum err_code rc;
	size_t n;

	if (p->joined)
		return pskit_misuse(p,
		    "ps_create: cannot be used in a job, whose tables are those of ps_join");
	rc = model_spec_parse(c->text, &t, &n, &p->e);
	if (rc)
		return pskit_return(p, rc);
	shapes = make_table_shapes(t, n);
	rc = attach_to_cluster(p);
	if (!rc)
		rc = tool_create(&p->tool, shapes, &p->e);
	json_decref(shapes);
	free(t);
	/* A table of this name has another shape. */
	return pskit_return(p, rc == ERR_EXISTS ? ERR_CONFIG : rc);
}

PUBLIC int ps_create(struct ps *p, const char *tables)
{
	return pskit_run_call(p, &(const struct call){ create_tables, .text = tables });
}

/* ---- dense ---- */

static const struct table *find_whole_table(struct ps *p, const char *name, size_t n)
{
	const struct table *t = attach_to_cluster(p) ? NULL : find_table_of_kind(p, name, false);

	if (t && n != table_elements(t)) {
		pskit_misuse(p, "table \"%s\" has %llu x %u values, but the array has %zu", name,
		    (unsigned long long)t->rows, t->cols, n);
		return NULL;
	}
	return t;
}

static int pull_whole_table(struct ps *p, const struct call *c)
{
	const struct table *t = find_whole_table(p, c->text, c->n);
	const float *here = t && p->stepping ? pskit_dense(p, c->text, false, NULL) : NULL;
	enum err_code rc;

	if (!t)
		return pskit_return(p, p->e.code);
	if (here) {
		memcpy(c->to, here, c->n * sizeof *here);
		return PS_OK;
	}
	rc = client_want(current_client(p), t, current_step(p), NULL, c->to, &p->e);
	return pskit_return(p, rc ? rc : client_wait(current_client(p), current_step(p), &p->e));
}

/* Waits until a push outside of the job is acknowledged, and reports a refused one. */
static int await_push(struct ps *p, const char *table, const struct client_stats *before)
{
	struct client_stats now;
	enum err_code rc = client_wait_receipts(current_client(p), &p->e);

	if (rc)
		return pskit_return(p, rc);
	client_stats(current_client(p), &now);
	if (now.receipts[PUSH_REFUSED] != before->receipts[PUSH_REFUSED])
		rc = err_set(&p->e, ERR_NONFINITE,
		    "table \"%s\": refused: the gradient has values that are not finite, or the table takes none "
		    "from outside of the job",
		    table);
	return pskit_return(p, rc);
}

static bool check_may_push(struct ps *p, const char *what)
{
	if (!p->joined || p->stepping)
		return true;
	pskit_misuse(p, "%s: a worker must push between ps_step_begin and ps_step_end", what);
	return false;
}

/* ps_push. In a step it only fills in the gradient of the table, which ps_step_end pushes. */
static int push_whole_table(struct ps *p, const struct call *c)
{
	const struct table *t = find_whole_table(p, c->text, c->n);
	struct client_stats before;
	enum err_code rc;
	float *here;

	if (!t || !check_may_push(p, "ps_push"))
		return pskit_return(p, p->e.code);
	here = p->stepping ? pskit_dense(p, c->text, true, NULL) : NULL;
	if (p->stepping && !here)
		return pskit_misuse(p, "ps_push: table \"%s\" is not a table of the job's model",
		    c->text);
	if (here) {
		memcpy(here, c->from, c->n * sizeof *here);
		return PS_OK;
	}
	client_stats(current_client(p), &before);
	rc = client_push(current_client(p), t, 0, 1, c->from, &p->e);
	return rc ? pskit_return(p, rc) : await_push(p, c->text, &before);
}

PUBLIC int ps_pull(struct ps *p, const char *table, float *dst, size_t n)
{
	return pskit_run_call(p,
	    &(const struct call){ pull_whole_table, .text = table, .to = dst, .n = n });
}

PUBLIC int ps_push(struct ps *p, const char *table, const float *gradient, size_t n)
{
	return pskit_run_call(p,
	    &(const struct call){ push_whole_table, .text = table, .from = gradient, .n = n });
}

/* ---- sparse ---- */

/* Begins the pull of one list, unless the rows are here. ERR_OK also for an empty list. */
static enum err_code want_row_list(struct ps *p, const struct ps_rows *list, bool *wanted)
{
	const struct table *t = find_table_of_kind(p, list->table, true);
	enum err_code rc;

	if (!t)
		return p->e.code;
	if (!list->nids || pskit_copy_prefetched(p, t, list))
		return ERR_OK;
	rc = client_want_rows(current_client(p), t, current_step(p), list->ids, list->nids,
	    list->values, &p->e);
	*wanted |= !rc;
	return rc;
}

/* Asks for the rows of all lists, and then waits for all answers: one round trip. When a list cannot be
 * asked for, the answers to the lists before it must arrive all the same, because they go to memory of the
 * caller. */
static int pull_row_lists(struct ps *p, const struct ps_rows *lists, size_t n)
{
	enum err_code rc = attach_to_cluster(p);
	bool wanted = false;

	for (size_t i = 0; !rc && i < n; i++)
		rc = want_row_list(p, &lists[i], &wanted);
	if (wanted) {
		struct err e = { 0 };
		enum err_code waited = client_wait(current_client(p), current_step(p),
		    rc ? &e : &p->e);

		rc = rc ? rc : waited;
	}
	return pskit_return(p, rc);
}

static int pull_table_rows(struct ps *p, const struct call *c)
{
	return pull_row_lists(p, &(struct ps_rows){ c->text, c->ids, c->n, c->to }, 1);
}

static int pull_rows_of_tables(struct ps *p, const struct call *c)
{
	return pull_row_lists(p, c->from, c->n);
}

PUBLIC int ps_pull_rows(struct ps *p, const char *table, const uint64_t *ids, size_t nids,
    float *dst)
{
	return pskit_run_call(p,
	    &(const struct call){ pull_table_rows, .text = table, .ids = ids, .n = nids,
	        .to = dst });
}

PUBLIC int ps_pull_many(struct ps *p, const struct ps_rows *lists, size_t n)
{
	return pskit_run_call(p,
	    &(const struct call){ pull_rows_of_tables, .from = lists, .n = n });
}

/* ---- rows that are pushed ---- */

static void held_free(struct held *h)
{
	free(h->ids);
	free(h->rows);
	free(h);
}

void pskit_free_pushed_rows(struct ps *p)
{
	for (struct held *next; p->held; p->held = next) {
		next = p->held->next;
		held_free(p->held);
	}
}

/* Allocates room for nids rows of the table. Returns NULL and sets p->e when there is not enough
 * memory. */
static struct held *reserve_held(struct ps *p, const struct table *t, size_t nids)
{
	struct held *h = mem_alloc(sizeof *h);

	h->ids = mem_try_array(nids, sizeof *h->ids);
	h->rows = mem_try_array(nids * t->cols, sizeof *h->rows);
	if (h->ids && h->rows)
		return h;
	held_free(h);
	err_set(&p->e, ERR_NOMEM, "no memory for %zu rows of table \"%s\"", nids, t->name);
	return NULL;
}

/* Pushes rows. In a step, the memory must stay until the step's pushes are acknowledged; otherwise
 * until await_push() returns. A batch that a lost worker may have pushed goes only to the partitions that
 * lack it. */
static enum err_code push_held_rows(struct ps *p, const struct table *t, const uint64_t *ids,
    size_t n, const float *rows)
{
	struct worker *w = &p->w;
	struct row_push push = { .table = t,
		.step = p->stepping ? w->step : 0,
		.examples = p->stepping ? (uint32_t)w->batch.rows : 1,
		.ids = ids,
		.n = n,
		.g = rows };

	if (p->stepping && batches_repeats(w->batches))
		return params_push_lacking_rows(w->client, w->batches, &push, &p->e);
	return client_push_rows(p->stepping ? w->client : current_client(p), &push, &p->e);
}

/* Pushes one list of rows. In a step, the rows are copied and kept until the step is acknowledged; beside
 * the job, the caller must wait for the receipts. */
static enum err_code push_row_list(struct ps *p, const struct ps_rows *list)
{
	const struct table *t = find_table_of_kind(p, list->table, true);
	struct held *h;

	if (!t)
		return p->e.code;
	if (!list->nids)
		return ERR_OK;
	if (!p->stepping)
		return push_held_rows(p, t, list->ids, list->nids, list->values);
	h = reserve_held(p, t, list->nids);
	if (!h)
		return p->e.code;
	memcpy(h->ids, list->ids, list->nids * sizeof *h->ids);
	memcpy(h->rows, list->values, list->nids * t->cols * sizeof *h->rows);
	h->next = p->held;
	p->held = h;
	return push_held_rows(p, t, h->ids, list->nids, h->rows);
}

/* Pushes the lists of rows. Beside the job, waits for the receipts of all of them. */
static int push_row_lists(struct ps *p, const struct ps_rows *lists, size_t n, const char *what)
{
	struct client_stats before;
	enum err_code rc = attach_to_cluster(p);

	if (rc || !check_may_push(p, what))
		return pskit_return(p, p->e.code);
	rc = pskit_await_early_rows(p);
	client_stats(current_client(p), &before);
	for (size_t i = 0; !rc && i < n; i++)
		rc = push_row_list(p, &lists[i]);
	if (rc || p->stepping || !n)
		return pskit_return(p, rc);
	return await_push(p, n == 1 ? lists[0].table : "one of several", &before);
}

static int push_table_rows(struct ps *p, const struct call *c)
{
	/* The values are only read. */
	float *values = (float *)(uintptr_t)c->from;

	return push_row_lists(p, &(struct ps_rows){ c->text, c->ids, c->n, values }, 1,
	    "ps_push_rows");
}

static int push_rows_of_tables(struct ps *p, const struct call *c)
{
	return push_row_lists(p, c->from, c->n, "ps_push_many");
}

PUBLIC int ps_push_rows(struct ps *p, const char *table, const uint64_t *ids, size_t nids,
    const float *gradient)
{
	return pskit_run_call(p,
	    &(const struct call){ push_table_rows, .text = table, .ids = ids, .n = nids,
	        .from = gradient });
}

PUBLIC int ps_push_many(struct ps *p, const struct ps_rows *lists, size_t n)
{
	return pskit_run_call(p,
	    &(const struct call){ push_rows_of_tables, .from = lists, .n = n });
}

/* ---- rows that are made in place ---- */

static void drop_reserved_rows(struct ps *p)
{
	if (p->reserved)
		held_free(p->reserved);
	p->reserved = NULL;
}

PUBLIC int ps_reserve_rows(struct ps *p, const char *table, size_t nids, uint64_t **ids,
    float **gradient)
{
	const struct table *t;

	if (pskit_is_busy(p))
		return PS_USAGE;
	t = attach_to_cluster(p) ? NULL : find_table_of_kind(p, table, true);
	if (!t)
		return pskit_return(p, p->e.code);
	if (p->reserved)
		return pskit_misuse(p,
		    "ps_reserve_rows: the previous reservation is not yet committed");
	p->reserved = reserve_held(p, t, nids ? nids : 1);
	if (!p->reserved)
		return pskit_return(p, p->e.code);
	snprintf(p->reserved->name, sizeof p->reserved->name, "%s", t->name);
	p->reserved->n = nids;
	*ids = p->reserved->ids;
	*gradient = p->reserved->rows;
	return PS_OK;
}

/* ps_commit_rows. The reserved rows move to p->held: in a step until it is acknowledged, beside
 * the job until the push has its receipts. */
static int commit_reserved_rows(struct ps *p, const struct call *c)
{
	struct held *h = p->reserved;
	const struct table *t;
	struct client_stats before;
	enum err_code rc;

	if (!h || c->n > h->n)
		return pskit_misuse(p, "ps_commit_rows: %s",
		    h ? "more rows than reserved" : "must be called after ps_reserve_rows");
	if (!check_may_push(p, "ps_commit_rows"))
		return PS_USAGE;
	rc = pskit_await_early_rows(p);
	if (rc)
		return pskit_return(p, rc);
	t = layout_find(client_layout(current_client(p)), h->name);
	client_stats(current_client(p), &before);
	if (!t || !c->n) {
		drop_reserved_rows(p);
		return t ? PS_OK
		         : pskit_return(p,
		               err_set(&p->e, ERR_NOTFOUND,
		                   "the table with the reserved rows no longer exists"));
	}
	p->reserved = NULL;
	h->next = p->held;
	p->held = h;
	rc = push_held_rows(p, t, h->ids, c->n, h->rows);
	if (p->stepping)
		return pskit_return(p, rc);
	rc = rc ? pskit_return(p, rc) : await_push(p, t->name, &before);
	pskit_free_pushed_rows(p);
	return rc;
}

PUBLIC int ps_commit_rows(struct ps *p, size_t n)
{
	return pskit_run_call(p, &(const struct call){ commit_reserved_rows, .n = n });
}

/* ---- all rows ---- */

struct row_scan {
	ps_row_fn fn;
	void *ctx;
};

static enum err_code give_scanned_rows(void *ctx, const uint64_t *ids, const float *rows, size_t n,
    struct err *e)
{
	const struct row_scan *x = ctx;

	return x->fn(x->ctx, ids, rows, n)
	    ? err_set(e, ERR_STOPPED, "ps_scan_rows: the callback ended the scan")
	    : ERR_OK;
}

static int scan_table_rows(struct ps *p, const struct call *c)
{
	const struct table *t = attach_to_cluster(p) ? NULL : find_table_of_kind(p, c->text, true);
	struct row_scan x = { c->row_fn, c->to };
	enum err_code rc = t ? pskit_await_early_rows(p) : p->e.code;

	if (!rc)
		rc = client_scan(current_client(p), t, 0, t->nparts, give_scanned_rows, &x, &p->e);
	return pskit_return(p, rc);
}

PUBLIC int ps_scan_rows(struct ps *p, const char *table, ps_row_fn fn, void *ctx)
{
	return pskit_run_call(p,
	    &(const struct call){ scan_table_rows, .text = table, .to = ctx, .row_fn = fn });
}
