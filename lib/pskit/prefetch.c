/* SPDX-License-Identifier: ISC */
#include "core/mem.h"
#include "pskit/handle.h"

/* The rows that the next step needs (ps_prefetch_rows).
 *
 *   call                what happens to the rows
 *   ps_prefetch_rows    their ids become `next`. With pull_delta they are requested as of the present
 *                       step, and travel while the caller computes; the client caches them
 *   ps_step_end         waits for these early answers before the first push
 *   ps_step_begin       requests `next` in the same round trip as the dense tables, as of the step that
 *                       begins. With pull_delta the servers send only the rows that the step before has
 *                       changed, whichever worker pushed them. `next` becomes `here`
 *   ps_pull_rows        a list that equals `here` is copied, without a request
 *
 * The values are those that a pull within the step would bring, because the servers answer both by the
 * same rule. */

/* The rows of one sparse table that were requested early. */
struct early_rows {
	float *values;
	size_t cap; /* floats */
};

struct prefetch {
	size_t ntables;                  /* of the job */
	struct params_rows *next, *here; /* by table; n is 0 where no rows are named */
	struct early_rows *early;        /* by table */
	bool is_early_open;              /* there are early requests that may not be answered */
};

static struct prefetch *prefetch_of(struct ps *p)
{
	struct prefetch *f = p->prefetch;

	if (f)
		return f;
	f = p->prefetch = mem_alloc(sizeof *f);
	f->ntables = p->w.job.ntables;
	f->next = mem_array(f->ntables, sizeof *f->next);
	f->here = mem_array(f->ntables, sizeof *f->here);
	f->early = mem_array(f->ntables, sizeof *f->early);
	return f;
}

static void clear_rows(struct params_rows *rows, size_t ntables)
{
	for (size_t i = 0; i < ntables; i++) {
		free(rows[i].id);
		rows[i] = (struct params_rows){ 0 };
	}
}

void pskit_free_prefetch(struct ps *p)
{
	struct prefetch *f = p->prefetch;

	if (!f)
		return;
	clear_rows(f->next, f->ntables);
	clear_rows(f->here, f->ntables);
	for (size_t i = 0; i < f->ntables; i++)
		free(f->early[i].values);
	free(f->next);
	free(f->here);
	free(f->early);
	free(f);
	p->prefetch = NULL;
}

/* ---- naming rows ---- */

/* Finds the sparse table of a list among the tables of the job. Returns its number, or SIZE_MAX with the
 * reason in p->e. */
static size_t find_sparse_table(struct ps *p, const char *name)
{
	for (size_t i = 0; i < p->w.job.ntables; i++)
		if (p->w.job.table[i].sparse && strcmp(p->w.job.table[i].name, name) == 0)
			return i;
	err_set(&p->e, ERR_NOTFOUND, "the job has no sparse table \"%s\"", name);
	return SIZE_MAX;
}

static enum err_code name_list(struct ps *p, const struct ps_rows *list)
{
	size_t i = find_sparse_table(p, list->table);
	struct params_rows *r = i == SIZE_MAX ? NULL : &p->prefetch->next[i];

	if (!r)
		return p->e.code;
	if (r->n)
		return err_set(&p->e, ERR_USAGE, "ps_prefetch_rows: table \"%s\" is named twice",
		    list->table);
	if (!list->nids)
		return ERR_OK;
	r->id = mem_try_array(list->nids, sizeof *r->id);
	if (!r->id)
		return err_set(&p->e, ERR_NOMEM, "no memory for %zu ids of table \"%s\"",
		    list->nids, list->table);
	memcpy(r->id, list->ids, list->nids * sizeof *r->id);
	r->n = list->nids;
	return ERR_OK;
}

/* ---- early requests ---- */

/* Requests the named rows as of the present step, which the client's cache then has. */
static enum err_code request_early_rows(struct ps *p)
{
	struct prefetch *f = p->prefetch;
	enum err_code rc = ERR_OK;

	for (size_t i = 0; !rc && i < f->ntables; i++) {
		const struct params_rows *r = &f->next[i];
		size_t floats = r->n * p->w.job.table[i].cols;

		if (!r->n)
			continue;
		if (floats > f->early[i].cap) {
			free(f->early[i].values);
			f->early[i].values = mem_try_array(floats, sizeof(float));
			f->early[i].cap = f->early[i].values ? floats : 0;
		}
		if (!f->early[i].values)
			return err_set(&p->e, ERR_NOMEM, "no memory for %zu rows of table \"%s\"",
			    r->n, p->w.job.table[i].name);
		f->is_early_open = true;
		rc = client_want_changed_rows(p->w.client, p->w.params.table[i], p->w.step, r->id,
		    r->n, f->early[i].values, &p->e);
	}
	if (!rc)
		client_poke(p->w.client);
	return rc;
}

enum err_code pskit_await_early_rows(struct ps *p)
{
	if (!p->prefetch || !p->prefetch->is_early_open)
		return ERR_OK;
	p->prefetch->is_early_open = false;
	return client_wait(p->w.client, p->w.step, &p->e);
}

/* ps_prefetch_rows */
static int prefetch_rows(struct ps *p, const struct call *c)
{
	const struct ps_rows *lists = c->from;
	struct prefetch *f;
	enum err_code rc;

	if (!p->joined || !p->stepping)
		return pskit_misuse(p,
		    "ps_prefetch_rows: must be called between ps_step_begin and ps_step_end");
	f = prefetch_of(p);
	rc = pskit_await_early_rows(p);
	clear_rows(f->next, f->ntables);
	for (size_t i = 0; !rc && i < c->n; i++)
		rc = name_list(p, &lists[i]);
	if (!rc && p->w.job.conf.pull_delta)
		rc = request_early_rows(p);
	if (rc)
		clear_rows(f->next, f->ntables);
	return pskit_return(p, rc);
}

PUBLIC int ps_prefetch_rows(struct ps *p, const struct ps_rows *lists, size_t n)
{
	return pskit_run_call(p, &(const struct call){ prefetch_rows, .from = lists, .n = n });
}

/* ---- the step that needs them ---- */

void pskit_name_prefetched(struct ps *p)
{
	if (p->prefetch)
		p->w.params.rows = p->prefetch->next;
}

void pskit_take_prefetched(struct ps *p, bool stepping)
{
	struct prefetch *f = p->prefetch;
	struct params_rows *arrived;

	p->w.params.rows = NULL;
	if (!f || !stepping)
		return;
	clear_rows(f->here, f->ntables);
	arrived = f->next;
	f->next = f->here;
	f->here = arrived;
}

bool pskit_copy_prefetched(const struct ps *p, const struct table *t, const struct ps_rows *list)
{
	const struct prefetch *f = p->prefetch;
	size_t i = 0;

	if (!f || !p->stepping)
		return false;
	while (i < f->ntables && p->w.params.table[i] != t)
		i++;
	if (i == f->ntables || f->here[i].n != list->nids ||
	    memcmp(f->here[i].id, list->ids, list->nids * sizeof *list->ids) != 0)
		return false;
	memcpy(list->values, p->w.params.w[i], list->nids * t->cols * sizeof *list->values);
	return true;
}
