#include "base/mem.h"
#include "pskit/handle.h"
#include "sync/receipt.h"

/* ---- which client, which step ------------------------------------------------------------ */

static enum err_code attach(struct ps *p)
{
	enum err_code rc;

	if (p->joined || p->attached)
		return ERR_OK;
	rc = handle_identify(p, "admin");
	if (!rc)
		rc = tool_open(&p->id, "auto", p->timeout, p->cancel, &p->log, &p->tool, &p->e);
	p->attached = !rc;
	return rc;
}

static struct client *client_of(struct ps *p)
{
	return p->joined ? p->w.client : p->tool.client;
}

static uint64_t step_of(const struct ps *p)
{
	return p->stepping ? p->w.step : CLIENT_NOW;
}

static const struct table *find(struct ps *p, const char *name, bool sparse)
{
	const struct table *t = layout_find(client_layout(client_of(p)), name);

	if (!t)
		err_set(&p->e, ERR_NOTFOUND, "there is no table \"%s\"", name);
	else if (t->sparse != sparse)
		err_set(&p->e, ERR_USAGE, "table \"%s\" is %s", name, sparse ? "dense" : "sparse");
	else
		return t;
	return NULL;
}

static void describe(const struct table *t, struct ps_table *out)
{
	*out = (struct ps_table){ .rows = t->rows, .cols = t->cols, .sparse = t->sparse };
	snprintf(out->name, sizeof out->name, "%s", t->name);
}

PUBLIC int ps_describe(struct ps *p, const char *table, struct ps_table *out)
{
	const struct table *t;
	enum err_code rc = attach(p);

	if (rc)
		return handle_return(p, rc);
	t = layout_find(client_layout(client_of(p)), table);
	if (!t)
		return handle_return(p, err_set(&p->e, ERR_NOTFOUND, "there is no table \"%s\"", table));
	describe(t, out);
	return PS_OK;
}

PUBLIC int ps_describe_at(struct ps *p, size_t i, struct ps_table *out)
{
	const struct layout *l;
	enum err_code rc = attach(p);

	if (rc)
		return handle_return(p, rc);
	l = client_layout(client_of(p));
	for (size_t k = 0; k < l->ntables; k++)
		if (!l->table[k].dropped && i-- == 0) {
			describe(&l->table[k], out);
			return PS_OK;
		}
	return handle_return(p, err_set(&p->e, ERR_NOTFOUND, "there are no more tables"));
}

/* ---- dense ------------------------------------------------------------------------------- */

static const struct table *whole(struct ps *p, const char *name, size_t n)
{
	const struct table *t = attach(p) ? NULL : find(p, name, false);

	if (t && n != table_elements(t)) {
		handle_misuse(p, "table \"%s\" has %llu x %u values, and the array %zu", name, (unsigned long long)t->rows, t->cols, n);
		return NULL;
	}
	return t;
}

PUBLIC int ps_pull(struct ps *p, const char *table, float *dst, size_t n)
{
	const struct table *t = whole(p, table, n);
	const float *here = t && p->stepping ? ps_param(p, table, NULL) : NULL;
	enum err_code rc;

	if (!t)
		return handle_return(p, p->e.code);
	if (here) {
		memcpy(dst, here, n * sizeof *dst);
		return PS_OK;
	}
	rc = client_want(client_of(p), t, step_of(p), NULL, dst, &p->e);
	return handle_return(p, rc ? rc : client_wait(client_of(p), step_of(p), &p->e));
}

/* Outside of the job: everything has its receipt, and all was taken. */
static int settled(struct ps *p, const char *table, const struct client_stats *before)
{
	struct client_stats now;
	enum err_code rc = client_settle(client_of(p), &p->e);

	if (rc)
		return handle_return(p, rc);
	client_stats(client_of(p), &now);
	if (now.receipts[PUSH_REFUSED] != before->receipts[PUSH_REFUSED])
		rc = err_set(&p->e, ERR_NONFINITE, "table \"%s\": refused: the gradient has values that are not finite, or the table takes none "
		    "from outside of the job", table);
	return handle_return(p, rc);
}

static bool may_push(struct ps *p, const char *what)
{
	if (!p->joined || p->stepping)
		return true;
	handle_misuse(p, "%s: a worker pushes between ps_step_begin and ps_step_end", what);
	return false;
}

PUBLIC int ps_push(struct ps *p, const char *table, const float *gradient, size_t n)
{
	const struct table *t = whole(p, table, n);
	struct client_stats before;
	enum err_code rc;
	float *here;

	if (!t || !may_push(p, "ps_push"))
		return handle_return(p, p->e.code);
	here = p->stepping ? ps_grad(p, table, NULL) : NULL;
	if (p->stepping && !here)
		return handle_misuse(p, "ps_push: table \"%s\" is none of the job's model", table);
	if (here) {
		memcpy(here, gradient, n * sizeof *here);
		return PS_OK;
	}
	client_stats(client_of(p), &before);
	rc = client_push(client_of(p), t, 0, 1, gradient, &p->e);
	return rc ? handle_return(p, rc) : settled(p, table, &before);
}

/* ---- sparse ------------------------------------------------------------------------------ */

PUBLIC int ps_pull_rows(struct ps *p, const char *table, const uint64_t *ids, size_t nids, float *dst)
{
	const struct table *t = attach(p) ? NULL : find(p, table, true);
	enum err_code rc;

	if (!t)
		return handle_return(p, p->e.code);
	if (!nids)
		return PS_OK;
	rc = client_want_rows(client_of(p), t, step_of(p), ids, nids, dst, &p->e);
	return handle_return(p, rc ? rc : client_wait(client_of(p), step_of(p), &p->e));
}

static struct held *hold(struct ps *p, const struct table *t, const uint64_t *ids, size_t nids, const float *rows)
{
	struct held *h = mem_alloc(sizeof *h);

	h->ids = mem_try_array(nids, sizeof *h->ids);
	h->rows = mem_try_array(nids * t->cols, sizeof *h->rows);
	h->next = p->held;
	p->held = h;
	if (!h->ids || !h->rows) {
		err_set(&p->e, ERR_NOMEM, "no memory for %zu rows of table \"%s\"", nids, t->name);
		return NULL;
	}
	memcpy(h->ids, ids, nids * sizeof *ids);
	memcpy(h->rows, rows, nids * t->cols * sizeof *rows);
	return h;
}

PUBLIC int ps_push_rows(struct ps *p, const char *table, const uint64_t *ids, size_t nids, const float *gradient)
{
	const struct table *t = attach(p) ? NULL : find(p, table, true);
	struct client_stats before;
	enum err_code rc;
	struct held *h;

	if (!t || !may_push(p, "ps_push_rows"))
		return handle_return(p, p->e.code);
	if (!nids)
		return PS_OK;
	if (p->stepping) {
		h = hold(p, t, ids, nids, gradient);
		return handle_return(p, !h ? p->e.code : client_push_rows(p->w.client, t, p->w.step, (uint32_t)p->w.batch.rows, h->ids, nids,
		    h->rows, NULL, &p->e));
	}
	client_stats(client_of(p), &before);
	rc = client_push_rows(client_of(p), t, 0, 1, ids, nids, gradient, NULL, &p->e);
	return rc ? handle_return(p, rc) : settled(p, table, &before);
}
