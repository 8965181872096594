/* SPDX-License-Identifier: ISC */
#include "worker/params.h"

#include <math.h>

#include "core/clock.h"
#include "core/file.h"
#include "core/mem.h"
#include "format/safetensors.h"
#include "layout/values.h"
#include "math/vec.h"
#include "saved/saved_metadata.h"
#include "worker/data_facts.h"

/* Dense gradients begin at multiples of this many floats. */
#define ALIGNED 16

/* Makes room for `floats` values in w[i], and in g[i] if the table is sparse and gradients are pushed.
 * The contents are lost. */
static enum err_code reserve_table(struct params *p, size_t i, size_t floats, struct err *e)
{
	bool pushes = p->client && p->job->table[i].sparse;

	if (floats <= p->cap[i])
		return ERR_OK;
	free(p->w[i]);
	p->cap[i] = floats + floats / 4;
	p->w[i] = mem_try_array(p->cap[i], sizeof **p->w);
	if (pushes) {
		free(p->g[i]);
		p->g[i] = mem_try_array(p->cap[i], sizeof **p->g);
	}
	if (!p->w[i] || (pushes && !p->g[i]))
		return err_set(e, ERR_NOMEM, "no memory for %zu parameters of table \"%s\"", floats,
		    p->job->table[i].name);
	return ERR_OK;
}

/* Floats of all dense tables that workers reduce, or of those that they push, each rounded up to
 * ALIGNED. */
static size_t count_dense(const struct params *p, bool reduced)
{
	size_t n = 0;

	for (size_t i = 0; i < p->job->ntables; i++)
		if (!p->job->table[i].sparse && p->table[i]->reduced == reduced)
			n += (table_elements(p->table[i]) + ALIGNED - 1) / ALIGNED * ALIGNED;
	return n;
}

/* Lays the gradients of these tables into one vector. */
static void lay_dense(struct params *p, bool reduced, float *at)
{
	for (size_t i = 0; i < p->job->ntables; i++)
		if (!p->job->table[i].sparse && p->table[i]->reduced == reduced) {
			p->g[i] = at;
			at += (table_elements(p->table[i]) + ALIGNED - 1) / ALIGNED * ALIGNED;
		}
}

/* The gradients that workers reduce among themselves form one vector, and those that they push form
 * another one, in memory of the client. */
static enum err_code alloc_dense(struct params *p, struct err *e)
{
	size_t pushed = count_dense(p, false);
	float *at = pushed ? client_gradients(p->client, pushed) : NULL;

	p->nreduced = count_dense(p, true);
	p->reduced = p->nreduced ? mem_try_array(p->nreduced, sizeof *p->reduced) : NULL;
	if ((pushed && !at) || (p->nreduced && !p->reduced))
		return err_set(e, ERR_NOMEM, "no memory for a gradient of %zu values",
		    pushed + p->nreduced);
	lay_dense(p, false, at);
	lay_dense(p, true, p->reduced);
	return ERR_OK;
}

/* Finds table i of the model in the layout of the source. */
static enum err_code find_table(struct params *p, size_t i, struct err *e)
{
	const struct model_table *m = &p->job->table[i];
	const struct table *t = layout_find(p->source->ops->layout(p->source), m->name);

	p->table[i] = t;
	if (!t)
		return err_set(e, ERR_NOTFOUND, "the cluster has no table \"%s\"", m->name);
	if (t->sparse != m->sparse || t->cols != m->cols || (!m->sparse && t->rows < m->rows))
		return err_set(e, ERR_CONFIG,
		    "table \"%s\" has another shape than in the model: %llu x %u, and not %zu x %zu",
		    m->name, (unsigned long long)t->rows, t->cols, m->rows, m->cols);
	return ERR_OK;
}

/* Borrows dense table i from a source with constant values. */
static enum err_code borrow_table(struct params *p, size_t i, struct err *e)
{
	const float *w = NULL;
	enum err_code rc = p->source->ops->lend_dense(p->source, p->table[i], &w, e);

	/* Nothing writes to it: only steps do, and they need a client. */
	p->w[i] = (float *)(uintptr_t)w;
	return rc;
}

enum err_code params_new(const struct job *job, struct client *client, struct param_source *source,
    struct params *out, struct err *e)
{
	bool constant = param_source_is_constant(source);
	size_t n = job->ntables;
	enum err_code rc = ERR_OK;

	*out = (struct params){ .job = job,
		.client = client,
		.source = source,
		.norm = -1,
		.norm_wanted = true };
	out->table = mem_array(n, sizeof *out->table);
	out->w = mem_array(n, sizeof *out->w);
	out->g = mem_array(n, sizeof *out->g);
	out->good = mem_array(n, sizeof *out->good);
	out->cap = mem_array(n, sizeof *out->cap);
	out->next = mem_array(n, sizeof *out->next);
	out->next_w = mem_array(n, sizeof *out->next_w);
	out->next_cap = mem_array(n, sizeof *out->next_cap);
	for (size_t i = 0; !rc && i < n; i++) {
		const struct model_table *m = &job->table[i];

		rc = find_table(out, i, e);
		if (!rc && constant && !m->sparse)
			rc = borrow_table(out, i, e);
		else if (!rc)
			rc = reserve_table(out, i,
			    m->sparse ? m->cols : (size_t)table_elements(out->table[i]), e);
	}
	if (!rc && client)
		rc = alloc_dense(out, e);
	if (rc)
		params_release(out);
	return rc;
}

void params_release(struct params *p)
{
	for (size_t i = 0; p->job && i < p->job->ntables; i++) {
		if (p->job->table[i].sparse || !param_source_is_constant(p->source))
			free(p->w[i]);
		/* g of dense tables points into `reduced`, or into memory of the client. */
		if (p->job->table[i].sparse)
			free(p->g[i]);
		free(p->good[i]);
		free(p->next[i].id);
		free(p->next_w[i]);
	}
	free(p->next);
	free(p->next_w);
	free(p->next_cap);
	free((void *)p->table);
	row_counts_release(&p->counts);
	free(p->first);
	free(p->reduced);
	free(p->good);
	free(p->w);
	free(p->g);
	free(p->cap);
	*p = (struct params){ 0 };
}

/* Keeps the good values of the dense tables, and makes the other buffers the target of the next
 * pull. */
static enum err_code swap_buffers(struct params *p, struct err *e)
{
	for (size_t i = 0; i < p->job->ntables; i++) {
		float *old = p->good[i];

		if (p->job->table[i].sparse)
			continue;
		if (!old)
			old = mem_try_array(p->cap[i], sizeof *old);
		if (!old)
			return err_set(e, ERR_NOMEM, "no memory for a second copy of table \"%s\"",
			    p->job->table[i].name);
		p->good[i] = p->w[i];
		p->w[i] = old;
	}
	p->w_is_good = false;
	p->has_good = p->swapped = true;
	return ERR_OK;
}

void params_mark_good(struct params *p, uint64_t step)
{
	p->good_step = step;
	p->w_is_good = true;
}

/* May the servers send only what has changed? Not at CLIENT_NOW with a lossy codec: such pulls must
 * be exact, and the values here are not. */
static bool may_pull_delta(const struct params *p, uint64_t step)
{
	return p->job->conf.pull_delta &&
	    (step != CLIENT_NOW || strcmp(p->job->conf.pull_codec, "raw") == 0);
}

/* May the servers send only the rows that have changed? As may_pull_delta; with lookahead those that were
 * requested ahead are known. */
static bool may_pull_changed_rows(const struct params *p, uint64_t step)
{
	return may_pull_delta(p, step) || (p->job->conf.lookahead && step != CLIENT_NOW);
}

/* The values that a pull of table i may be relative to; NULL: none. */
static const float *delta_base(const struct params *p, size_t i, uint64_t step)
{
	if (!p->pulled || !may_pull_delta(p, step))
		return NULL;
	return p->swapped ? p->good[i] : p->w[i];
}

enum err_code params_request_ahead(struct params *p, uint64_t step, bool early, struct err *e)
{
	enum err_code rc = p->w_is_good ? swap_buffers(p, e) : ERR_OK;

	for (size_t i = 0; !rc && i < p->job->ntables; i++)
		if (!p->job->table[i].sparse)
			rc = client_want_parts(p->client, p->table[i], step, early, 0,
			    p->table[i]->nparts, delta_base(p, i, step), p->w[i], e);
	p->asked = true;
	p->asked_step = step;
	return rc;
}

uint64_t params_updates(const struct params *p)
{
	uint64_t n = 0;

	for (size_t i = 0; i < p->job->ntables; i++)
		if (!p->job->table[i].sparse)
			n += client_version(p->client, p->table[i], 0);
	return n;
}

bool params_has_rows(const struct params *p, const struct batch *b)
{
	const uint64_t *id;
	size_t n = 0;

	for (size_t i = 0; i < p->job->ntables; i++)
		n += p->job->table[i].sparse ? params_rows_of(p, b, i, &id) : 0;
	return n > 0;
}

size_t params_rows_of(const struct params *p, const struct batch *b, size_t i, const uint64_t **id)
{
	if (!p->rows)
		return p->job->table[i].domain->of_batch(b, id);
	*id = p->rows[i].id;
	return p->rows[i].n;
}

/* Does the step need no values at all? A model without dense tables needs none for a batch without rows. */
static bool needs_no_values(const struct params *p, const struct batch *b)
{
	const uint64_t *id;

	for (size_t i = 0; i < p->job->ntables; i++)
		if (!p->job->table[i].sparse || params_rows_of(p, b, i, &id))
			return false;
	return true;
}

/* Pulls one row, whose values are not used, so that a step that needs no values begins when the servers
 * let it begin: their answer also has the members of the step, and says whether others train. */
static enum err_code want_unused_row(struct params *p, uint64_t step, struct err *e)
{
	static const uint64_t id;
	enum err_code rc = reserve_table(p, 0, p->job->table[0].cols, e);

	return rc ? rc : client_want_rows(p->client, p->table[0], step, &id, 1, p->w[0], e);
}

/* Requests dense table i into w[i]. */
static enum err_code want_dense(struct params *p, size_t i, uint64_t step, struct err *e)
{
	const float *base = delta_base(p, i, step);

	if (step != CLIENT_NOW)
		return client_want(p->client, p->table[i], step, base, p->w[i], e);
	return param_source_is_constant(p->source)
	    ? ERR_OK
	    : p->source->ops->want_dense(p->source, p->table[i], base, p->w[i], e);
}

/* Requests rows of sparse table i for a later step, into next_w[i]. */
static enum err_code request_next_rows(struct params *p, size_t i, uint64_t step,
    const uint64_t *id, size_t n, struct err *e)
{
	size_t floats = n * p->job->table[i].cols;
	struct params_rows *next = &p->next[i];

	free(next->id);
	*next = (struct params_rows){ .id = mem_try_array(n, sizeof *next->id) };
	if (floats > p->next_cap[i]) {
		free(p->next_w[i]);
		p->next_cap[i] = floats + floats / 4;
		p->next_w[i] = mem_try_array(p->next_cap[i], sizeof **p->next_w);
	}
	if (!next->id || !p->next_w[i]) {
		p->next_cap[i] = p->next_w[i] ? p->next_cap[i] : 0;
		return err_set(e, ERR_NOMEM, "no memory for %zu rows of table \"%s\"", n,
		    p->job->table[i].name);
	}
	memcpy(next->id, id, n * sizeof *id);
	next->n = n;
	return client_want_changed_rows_early(p->client, p->table[i], step, next->id, n,
	    p->next_w[i], e);
}

enum err_code params_request_rows(struct params *p, const struct batch *b, uint64_t step,
    struct err *e)
{
	enum err_code rc = ERR_OK;

	for (size_t i = 0; !rc && i < p->job->ntables; i++) {
		const uint64_t *id;
		size_t n = p->job->table[i].sparse ? params_rows_of(p, b, i, &id) : 0;

		if (n)
			rc = request_next_rows(p, i, step, id, n, e);
	}
	p->rows_asked_step = step;
	return rc;
}

/* Has params_request_rows requested the rows of sparse table i that this batch needs at this step? */
static bool rows_are_requested(const struct params *p, const struct batch *b, size_t i,
    uint64_t step)
{
	const struct params_rows *next = &p->next[i];
	const uint64_t *id;
	size_t n;

	if (!next->n || p->rows_asked_step != step)
		return false;
	n = params_rows_of(p, b, i, &id);
	return n == next->n && memcmp(next->id, id, n * sizeof *id) == 0;
}

/* The requested rows have arrived: copies those of this batch to where its step has them. */
static void take_requested_rows(struct params *p, const struct batch *b, uint64_t step)
{
	for (size_t i = 0; i < p->job->ntables; i++)
		if (rows_are_requested(p, b, i, step))
			memcpy(p->w[i], p->next_w[i],
			    p->next[i].n * p->job->table[i].cols * sizeof **p->w);
}

/* Requests n rows of sparse table i into w[i]. id is borrowed until the answer. */
static enum err_code want_rows(struct params *p, size_t i, uint64_t step, const uint64_t *id,
    size_t n, struct err *e)
{
	enum err_code rc = reserve_table(p, i, n * p->job->table[i].cols, e);

	if (rc || !n)
		return rc;
	if (step == CLIENT_NOW)
		return p->source->ops->want_rows(p->source, p->table[i], id, n,
		    may_pull_delta(p, step), p->w[i], e);
	return (may_pull_changed_rows(p, step)
	        ? client_want_changed_rows
	        : client_want_rows)(p->client, p->table[i], step, id, n, p->w[i], e);
}

/* Requests the rows 0 .. n-1 of sparse table i. */
static enum err_code want_first_rows(struct params *p, size_t i, uint64_t step, size_t n,
    struct err *e)
{
	if (n > p->nfirst) {
		p->first = mem_regrow(p->first, n, sizeof *p->first);
		while (p->nfirst < n) {
			p->first[p->nfirst] = p->nfirst;
			p->nfirst++;
		}
	}
	return want_rows(p, i, step, p->first, n, e);
}

/* Begins a pull: requests the dense tables, unless `dense` is false or they have been requested. *dense:
 * they have been requested now. */
static enum err_code begin_pull(struct params *p, uint64_t step, bool *dense, struct err *e)
{
	enum err_code rc = ERR_OK;

	/* Steps were skipped since: let that answer arrive, and pull again for this step. */
	if (p->asked && p->asked_step != step) {
		rc = client_wait(p->client, step, e);
		p->asked = p->swapped = false;
	}
	*dense &= !p->asked;
	if (!rc && *dense && p->w_is_good)
		rc = swap_buffers(p, e);
	for (size_t i = 0; !rc && *dense && i < p->job->ntables; i++)
		if (!p->job->table[i].sparse)
			rc = want_dense(p, i, step, e);
	return rc;
}

/* Ends a pull, whose requests have ended with rc: waits for the answers. */
static enum err_code end_pull(struct params *p, uint64_t step, bool dense, enum err_code rc,
    struct err *e)
{
	if (!rc)
		rc = step == CLIENT_NOW ? p->source->ops->wait(p->source, e)
		                        : client_wait(p->client, step, e);
	p->pulled |= (dense || p->asked) && !rc;
	p->swapped = p->asked = false;
	return rc;
}

enum err_code params_pull(struct params *p, const struct batch *b, uint64_t step, bool dense,
    struct err *e)
{
	enum err_code rc = begin_pull(p, step, &dense, e);

	for (size_t i = 0; !rc && i < p->job->ntables; i++) {
		const uint64_t *id;
		size_t n = p->job->table[i].sparse ? params_rows_of(p, b, i, &id) : 0;

		if (n && rows_are_requested(p, b, i, step))
			rc = reserve_table(p, i, n * p->job->table[i].cols, e);
		else if (p->job->table[i].sparse)
			rc = want_rows(p, i, step, id, n, e);
	}
	if (!rc && dense && step != CLIENT_NOW && needs_no_values(p, b))
		rc = want_unused_row(p, step, e);
	rc = end_pull(p, step, dense, rc, e);
	if (!rc)
		take_requested_rows(p, b, step);
	return rc;
}

/* Clears the rows of all tables that params_pull_scores has pulled with the same arguments. */
static void clear_untrained(struct params *p, const struct batch *b, bool scored)
{
	for (size_t i = 0; i < p->job->ntables; i++) {
		const struct model_table *m = &p->job->table[i];
		const uint64_t *id = p->first;
		size_t n = 0;

		if (!m->sparse)
			continue;
		if (!m->domain->scored)
			n = params_rows_of(p, b, i, &id);
		else if (scored)
			n = m->domain->scored(p->job->train);
		init_clear_untrained(p->table[i], id, n, p->w[i]);
	}
}

enum err_code params_pull_scores(struct params *p, const struct batch *b, bool dense, bool scored,
    struct err *e)
{
	int64_t begin = clock_now();
	enum err_code rc = begin_pull(p, CLIENT_NOW, &dense, e);

	for (size_t i = 0; !rc && i < p->job->ntables; i++) {
		const struct model_table *m = &p->job->table[i];
		const uint64_t *id;
		size_t n;

		if (!m->sparse)
			continue;
		if (!m->domain->scored) {
			n = params_rows_of(p, b, i, &id);
			rc = want_rows(p, i, CLIENT_NOW, id, n, e);
		} else if (scored) {
			rc = want_first_rows(p, i, CLIENT_NOW, m->domain->scored(p->job->train), e);
		}
	}
	rc = end_pull(p, CLIENT_NOW, dense, rc, e);
	if (!rc)
		clear_untrained(p, b, scored);
	p->reading += clock_now() - begin;
	return rc;
}

static enum err_code check_dense_tables(const struct params *p, struct err *e)
{
	enum err_code rc = ERR_OK;

	/* The source checks what it lends. */
	if (param_source_is_constant(p->source))
		return ERR_OK;
	for (size_t i = 0; !rc && i < p->job->ntables; i++) {
		const struct model_table *m = &p->job->table[i];

		if (!m->sparse)
			rc = values_check_dense(m->name, (uint32_t)m->cols, 0, p->w[i],
			    m->rows * m->cols, e);
	}
	return rc;
}

static enum err_code check_rows(const struct params *p, size_t i, const uint64_t *id, size_t n,
    struct err *e)
{
	const struct model_table *m = &p->job->table[i];

	return n ? values_check_rows(m->name, (uint32_t)m->cols, id, p->w[i], n, e) : ERR_OK;
}

enum err_code params_check_values(struct params *p, const struct batch *b, struct err *e)
{
	enum err_code rc = p->checked ? ERR_OK : check_dense_tables(p, e);

	p->checked = !rc;
	for (size_t i = 0; !rc && i < p->job->ntables; i++)
		if (p->job->table[i].sparse) {
			const uint64_t *id;
			size_t n = params_rows_of(p, b, i, &id);

			rc = check_rows(p, i, id, n, e);
		}
	return rc;
}

enum err_code params_check_scored(const struct params *p, const struct batch *b, bool dense,
    bool scored, struct err *e)
{
	enum err_code rc = dense ? check_dense_tables(p, e) : ERR_OK;

	for (size_t i = 0; !rc && i < p->job->ntables; i++) {
		const struct row_domain *domain = p->job->table[i].domain;
		const uint64_t *id = p->first;
		size_t n = 0;

		if (!p->job->table[i].sparse)
			continue;
		if (!domain->scored)
			n = params_rows_of(p, b, i, &id);
		else if (scored)
			n = domain->scored(p->job->train);
		rc = check_rows(p, i, id, n, e);
	}
	return rc;
}

size_t params_floats(const struct params *p, const struct batch *b, size_t i)
{
	const struct model_table *m = &p->job->table[i];
	const uint64_t *id;

	return (m->sparse ? params_rows_of(p, b, i, &id) : m->rows) * m->cols;
}

/* How many examples of the batch touch each row of sparse table i, where the decay of a row is to be in
 * proportion to them. NULL: nobody needs it. Rows that a program names, and several local steps for each
 * push, have no counts. */
static const uint32_t *count_touching(struct params *p, const struct batch *b, size_t i)
{
	if (!p->job->counts_touching[i] || p->job->conf.local_steps > 1 || p->rows || !b->start)
		return NULL;
	return row_counts_of(&p->counts, p->job->table[i].domain, b);
}

enum err_code params_push(struct params *p, const struct batch *b, uint64_t step, struct err *e)
{
	uint32_t examples = (uint32_t)b->rows;
	enum err_code rc = ERR_OK;

	row_counts_begin(&p->counts);
	for (size_t i = 0; !rc && i < p->job->ntables; i++) {
		const uint64_t *id;
		size_t n;

		if (p->table[i]->reduced || p->job->frozen[i])
			continue;
		if (!p->job->table[i].sparse)
			rc = client_push_parts(p->client, p->table[i], step, examples, 0,
			    p->table[i]->nparts, p->g[i], e);
		else if ((n = params_rows_of(p, b, i, &id)) > 0)
			rc = client_push_rows(p->client,
			    &(struct row_push){ p->table[i], step, examples, id, n, p->g[i],
			        p->w[i], count_touching(p, b, i) },
			    e);
	}
	return rc;
}

/* Pushes the runs of partitions of a dense table that lack the batch. */
static enum err_code push_lacking_parts(struct params *p, size_t i, const struct batches *f,
    uint64_t step, uint32_t examples, struct err *e)
{
	const struct table *t = p->table[i];
	enum err_code rc = ERR_OK;

	for (uint32_t first = 0, end; !rc && first < t->nparts; first = end + 1) {
		for (end = first; end < t->nparts && !batches_is_taken(f, t->id, end);)
			end++;
		if (end > first)
			rc = client_push_parts(p->client, t, step, examples, first, end - first,
			    p->g[i], e);
	}
	return rc;
}

enum err_code params_push_lacking_rows(struct client *c, const struct batches *f,
    const struct row_push *push, struct err *e)
{
	const struct table *t = push->table;
	struct row_push lacking = *push;
	size_t n = push->n, cols = t->cols, some = 0;
	uint64_t *ids = mem_array(n, sizeof *ids);
	float *g = mem_array(n * cols, sizeof *g);
	float *w = push->w ? mem_array(n * cols, sizeof *w) : NULL;
	uint32_t *counts = push->touching ? mem_array(n, sizeof *counts) : NULL;
	enum err_code rc = ERR_OK;

	for (size_t k = 0; k < n; k++) {
		if (batches_is_taken(f, t->id, table_part_of(t, push->ids[k])))
			continue;
		ids[some] = push->ids[k];
		if (counts)
			counts[some] = push->touching[k];
		memcpy(g + some * cols, push->g + k * cols, cols * sizeof *g);
		if (w)
			memcpy(w + some * cols, push->w + k * cols, cols * sizeof *w);
		some++;
	}
	lacking.ids = ids;
	lacking.n = some;
	lacking.g = g;
	lacking.w = w;
	lacking.touching = counts;
	if (some)
		rc = client_push_rows(c, &lacking, e);
	free(counts);
	free(ids);
	free(g);
	free(w);
	return rc;
}

enum err_code params_push_lacking(struct params *p, const struct batch *b, const struct batches *f,
    uint64_t step, struct err *e)
{
	uint32_t examples = (uint32_t)b->rows;
	enum err_code rc = ERR_OK;

	row_counts_begin(&p->counts);
	for (size_t i = 0; !rc && i < p->job->ntables; i++) {
		const uint64_t *id;
		size_t n;

		if (p->table[i]->reduced || p->job->frozen[i])
			continue;
		if (!p->job->table[i].sparse)
			rc = push_lacking_parts(p, i, f, step, examples, e);
		else if ((n = params_rows_of(p, b, i, &id)) > 0)
			rc = params_push_lacking_rows(p->client, f,
			    &(struct row_push){ p->table[i], step, examples, id, n, p->g[i],
			        p->w[i], count_touching(p, b, i) },
			    e);
	}
	return rc;
}

void params_clip(struct params *p, const struct batch *b, double most)
{
	double sum = 0;

	for (size_t i = 0; i < p->job->ntables; i++)
		sum += vec_sumsq(params_floats(p, b, i), p->g[i]);
	p->norm = sqrt(sum);
	p->norm_wanted = false;
	if (!isfinite(sum) || p->norm <= most)
		return;
	for (size_t i = 0; i < p->job->ntables; i++)
		vec_scale(params_floats(p, b, i), (float)(most / sqrt(sum)), p->g[i]);
}

/* ---- the last good ones ---- */

/* ERR_NOTFOUND with the reason when there are no good parameters to save. */
static enum err_code check_saveable(const struct params *p, struct err *e)
{
	if (!p->has_good)
		return err_set(e, ERR_NOTFOUND, "no earlier step had finite parameters");
	for (size_t i = 0; i < p->job->ntables; i++) {
		const struct model_table *m = &p->job->table[i];

		if (m->sparse)
			return err_set(e, ERR_NOTFOUND,
			    "table \"%s\" is sparse: a worker has only some of its rows", m->name);
		if (!vec_all_finite(m->rows * m->cols, p->good[i]))
			return err_set(e, ERR_NOTFOUND,
			    "table \"%s\" was not finite at step %llu either", m->name,
			    (unsigned long long)p->good_step);
	}
	return ERR_OK;
}

/* Adds the metadata of the file. */
static enum err_code add_metadata(const struct params *p, struct safetensors_writer *w,
    struct err *e)
{
	json_t *config = conf_to_json(&p->job->conf), *facts = data_facts(p->job->train),
	       *tables = layout_tables(client_layout(p->client));
	char step[24];
	enum err_code rc = saved_metadata_add(w, config, tables, facts, e);

	snprintf(step, sizeof step, "%llu", (unsigned long long)p->good_step);
	safetensors_add_meta(w, "step", step);
	json_decref(config);
	json_decref(facts);
	json_decref(tables);
	return rc;
}

/* Writes the last good tables as a safetensors file to fd, whose owner closes it. All tables are
 * declared before the first value is written, because the header of the format comes first. Call it
 * only after check_saveable has succeeded: every table must be dense. */
static enum err_code write_kept(const struct params *p, int fd, struct err *e)
{
	struct safetensors_writer *w = safetensors_writer_new();
	enum err_code rc = add_metadata(p, w, e);

	for (size_t i = 0; !rc && i < p->job->ntables; i++)
		rc = safetensors_add(w, p->job->table[i].name, SAFETENSORS_F32,
		    (const uint64_t[]){ p->job->table[i].rows, p->job->table[i].cols }, 2, e);
	if (!rc)
		rc = safetensors_begin(w, safetensors_to_fd, &fd, e);
	for (size_t i = 0; !rc && i < p->job->ntables; i++)
		rc = safetensors_put(w, p->good[i], p->job->table[i].rows * p->job->table[i].cols,
		    e);
	if (!rc)
		rc = safetensors_end(w, e);
	safetensors_writer_free(w);
	return rc;
}

enum err_code params_save_good(const struct params *p, const char *path, struct err *e)
{
	enum err_code rc = check_saveable(p, e);
	struct file_new f;

	if (!rc)
		rc = file_new_open(path, 0600, &f, e);
	if (rc)
		return rc;
	rc = write_kept(p, f.fd, e);
	return file_new_close(&f, rc, e);
}
