/* SPDX-License-Identifier: ISC */
#include "worker/local.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "data/batch/batch_slice.h"
#include "math/copy.h"
#include "math/vec.h"
#include "worker/local_rows.h"

struct local {
	const struct job *job;
	struct conf_rule rule;
	/* By table: its rule and constants, of the job or in `rule`. */
	struct table_rules_choice *optim;
	/* examples a piece, pieces a local step, local steps a push */
	uint64_t piece, pieces, steps;
	uint64_t *taken; /* by table: local steps since its rule began */
	/* by table: the copy of the parameters; sum of the pieces' gradients */
	float **w, **sum;
	/* by dense table: the rule's vectors, one after the other; NULL: none */
	float **state;
	/* by sparse table, with local steps: the rule's vectors of its rows */
	struct local_rows **rows;
	/* The examples of one local step, and by table the parameters that they use: of a sparse
	 * table a copy of their rows, of a dense one w. */
	struct batch_slice slice;
	float **used, **copy;
	size_t *copy_cap;            /* floats in copy[i] */
	struct row_counts counts;    /* of the examples of a local step */
	size_t *cap;                 /* floats in w[i] and sum[i] */
	struct table_update *update; /* by table, for steps of one example */
};

/* The update of one table in steps of one example each. */
struct table_update {
	const struct optim_rule *rule;
	struct optim_hyper hyper; /* with the schedule's factor */
	uint64_t before;          /* updates before the first example */
	bool frozen, decay;
	size_t floats; /* of a dense table */
	float *vector[OPTIM_VECTORS_MAX];
	struct local_rows *rows; /* NULL: the table is dense */
};

/* ---- life ---- */

/* Makes room for `floats` values of table i in the copy and the sum. The contents are lost. */
static enum err_code reserve_copy(struct local *l, size_t i, size_t floats, struct err *e)
{
	if (floats <= l->cap[i])
		return ERR_OK;
	free(l->w[i]);
	free(l->sum[i]);
	l->w[i] = mem_try_array(floats, sizeof **l->w);
	l->sum[i] = mem_try_array(floats, sizeof **l->sum);
	l->cap[i] = l->w[i] && l->sum[i] ? floats : 0;
	return l->cap[i]
	    ? ERR_OK
	    : err_set(e, ERR_NOMEM, "no memory for a copy of table \"%s\"", l->job->table[i].name);
}

static bool takes_local_steps(const struct local *l)
{
	return l->job->conf.local_steps > 1;
}

/* Allocates the rule's state of table i with its initial values. No state: nothing to do. */
static enum err_code new_rule_state(struct local *l, size_t i, struct err *e)
{
	const struct model_table *m = &l->job->table[i];
	const struct optim_rule *rule = l->optim[i].rule;
	size_t n = m->rows * m->cols;

	if (takes_local_steps(l) && m->sparse)
		l->rows[i] = local_rows_new(rule, (uint32_t)m->cols);
	if (!takes_local_steps(l) || !rule->nvectors || m->sparse)
		return ERR_OK;
	l->state[i] = mem_try_array(n * rule->nvectors, sizeof **l->state);
	if (!l->state[i])
		return err_set(e, ERR_NOMEM, "no memory for %s of table \"%s\"", rule->name,
		    m->name);
	for (size_t k = 0; k < n * rule->nvectors; k++)
		l->state[i][k] = rule->vector_init[k / n];
	return ERR_OK;
}

/* Takes the sizes and the rule from the configuration. */
static enum err_code read_batch_sizes(struct local *l, struct err *e)
{
	const struct conf *c = &l->job->conf;
	enum err_code rc;

	l->piece = (uint64_t)c->job.batch;
	l->pieces = (uint64_t)c->accumulate;
	l->steps = (uint64_t)c->local_steps;
	rc = conf_job_rule(c, &l->rule, e);
	for (size_t i = 0; !rc && i < l->job->ntables; i++)
		l->optim[i] = conf_rule_of_table(&l->rule, l->job->table[i].name);
	return rc;
}

enum err_code local_reconfigure(struct local *l, struct err *e)
{
	const struct optim_rule **before = mem_array(l->job->ntables + 1, sizeof *before);
	enum err_code rc;

	for (size_t i = 0; i < l->job->ntables; i++)
		before[i] = l->optim[i].rule;
	rc = read_batch_sizes(l, e);
	for (size_t i = 0; !rc && i < l->job->ntables; i++) {
		bool same = l->optim[i].rule == before[i];

		if (!same)
			l->taken[i] = 0;
		if (same && (l->state[i] || l->rows[i] || !takes_local_steps(l)))
			continue;
		free(l->state[i]);
		local_rows_free(l->rows[i]);
		l->state[i] = NULL;
		l->rows[i] = NULL;
		rc = new_rule_state(l, i, e);
	}
	free((void *)before);
	return rc;
}

enum err_code local_new(const struct job *job, struct local **out, struct err *e)
{
	struct local *l = mem_alloc(sizeof *l);
	enum err_code rc;

	l->job = job;
	l->optim = mem_array(job->ntables + 1, sizeof *l->optim);
	l->taken = mem_array(job->ntables + 1, sizeof *l->taken);
	rc = read_batch_sizes(l, e);
	l->w = mem_array(job->ntables, sizeof *l->w);
	l->sum = mem_array(job->ntables, sizeof *l->sum);
	l->state = mem_array(job->ntables, sizeof *l->state);
	l->rows = mem_array(job->ntables, sizeof *l->rows);
	l->used = mem_array(job->ntables, sizeof *l->used);
	l->copy = mem_array(job->ntables, sizeof *l->copy);
	l->cap = mem_array(job->ntables, sizeof *l->cap);
	l->update = mem_array(job->ntables, sizeof *l->update);
	l->copy_cap = mem_array(job->ntables, sizeof *l->copy_cap);
	for (size_t i = 0; !rc && i < job->ntables; i++)
		rc = new_rule_state(l, i, e);
	*out = rc ? NULL : l;
	if (rc)
		local_free(l);
	return rc;
}

void local_free(struct local *l)
{
	if (!l)
		return;
	for (size_t i = 0; i < l->job->ntables; i++) {
		free(l->w[i]);
		free(l->sum[i]);
		free(l->state[i]);
		free(l->copy[i]);
		local_rows_free(l->rows[i]);
	}
	batch_slice_release(&l->slice);
	free(l->w);
	free(l->sum);
	free(l->state);
	free((void *)l->rows);
	free((void *)l->used);
	free((void *)l->copy);
	free(l->copy_cap);
	row_counts_release(&l->counts);
	free(l->cap);
	free(l->update);
	free(l->optim);
	free(l->taken);
	free(l);
}

/* ---- work ---- */

void local_finish(const struct local *l, struct params *p, const struct batch *b)
{
	for (size_t i = 0; i < l->job->ntables; i++)
		if (l->job->frozen[i])
			memset(p->g[i], 0, params_floats(p, b, i) * sizeof(float));
	if (l->job->conf.job.clip_norm > 0 || p->norm_wanted)
		params_clip(p, b,
		    l->job->conf.job.clip_norm > 0 ? l->job->conf.job.clip_norm : HUGE_VAL);
}

/* The mean gradient of n examples from `first` on, in p->g, at the parameters w; adds n * loss to
 * *loss. More than one piece is summed in l->sum, weighted by its examples. */
static void sum_gradient(struct local *l, struct params *p, const struct batch *b, size_t first,
    size_t n, float *const *w, double *loss)
{
	size_t done = 0;

	for (size_t i = 0; n > l->piece && i < l->job->ntables; i++)
		memset(l->sum[i], 0, params_floats(p, b, i) * sizeof(float));
	while (done < n) {
		size_t k = n - done < l->piece ? n - done : (size_t)l->piece;
		struct batch s = batch_borrow(b, first + done, k);

		*loss += (double)k * model_grad(l->job->model, &s, (const float *const *)w, p->g);
		for (size_t i = 0; n > l->piece && i < l->job->ntables; i++)
			vec_axpy(params_floats(p, b, i), (float)k / (float)n, p->g[i], l->sum[i]);
		done += k;
	}
	for (size_t i = 0; n > l->piece && i < l->job->ntables; i++)
		memcpy(p->g[i], l->sum[i], params_floats(p, b, i) * sizeof(float));
	local_finish(l, p, b);
}

/* ---- local steps ---- */

/* Copies the rows of sparse table i that l->slice uses, at these places in l->w[i], to l->copy[i]. */
static enum err_code copy_used_rows(struct local *l, size_t i, const uint32_t *place, struct err *e)
{
	const uint64_t *id;
	size_t cols = l->job->table[i].cols,
	       n = l->job->table[i].domain->of_batch(&l->slice.b, &id);

	if (n * cols > l->copy_cap[i] || !l->copy[i]) {
		free(l->copy[i]);
		l->copy_cap[i] = n * cols + n * cols / 4 + 1;
		l->copy[i] = mem_try_array(l->copy_cap[i], sizeof **l->copy);
		if (!l->copy[i]) {
			l->copy_cap[i] = 0;
			return err_set(e, ERR_NOMEM, "no memory for %zu rows of table \"%s\"", n,
			    l->job->table[i].name);
		}
	}
	for (size_t k = 0; k < n; k++)
		copy_floats(l->copy[i] + k * cols, l->w[i] + place[k] * cols, cols);
	return ERR_OK;
}

/* The places of the rows of table i that a local step on the batch b uses. NULL: it uses all rows of the
 * push, such as those that a program names. */
static const uint32_t *places_used(const struct local *l, const struct params *p,
    const struct batch *b, size_t i)
{
	const struct model_table *m = &l->job->table[i];

	return m->sparse && b->sparse && !p->rows ? m->domain->of_slice(&l->slice) : NULL;
}

/* Chooses the examples first .. first+n-1 for a local step. *b: the batch of the step, and l->used its
 * parameters. */
static enum err_code begin_local_step(struct local *l, const struct params *p,
    const struct batch *all, size_t first, size_t n, struct batch *b, struct err *e)
{
	bool cut = all->sparse && !p->rows;
	enum err_code rc = cut ? batch_slice_cut(&l->slice, all, first, n, e) : ERR_OK;

	*b = cut ? l->slice.b : batch_borrow(all, first, n);
	for (size_t i = 0; !rc && i < l->job->ntables; i++) {
		const uint32_t *place = places_used(l, p, b, i);

		if (place)
			rc = copy_used_rows(l, i, place, e);
		l->used[i] = place ? l->copy[i] : l->w[i];
	}
	row_counts_begin(&l->counts);
	return rc;
}

/* One step of the tables' rules on the copy, with the gradient in p->g, which is the mean over the
 * examples of b. */
static void take_local_step(struct local *l, struct params *p, const struct batch *b, uint64_t step)
{
	float factor = (float)schedule_factor(&l->rule.schedule, step);

	for (size_t i = 0; i < l->job->ntables; i++) {
		const struct model_table *m = &l->job->table[i];
		const struct optim_rule *rule = l->optim[i].rule;
		struct optim_hyper h = *l->optim[i].hyper;
		size_t n = params_floats(p, b, i);
		float *vector[OPTIM_VECTORS_MAX] = { NULL };
		const uint32_t *place = places_used(l, p, b, i);

		h.lr *= factor;
		l->taken[i]++;
		if (l->job->frozen[i])
			continue;
		if (m->sparse) {
			local_rows_step(l->rows[i], &h, l->taken[i], m->decay, l->w[i],
			    &(struct local_rows_gradient){ place, n / m->cols, p->g[i], b->rows,
			        place && l->job->counts_touching[i]
			            ? row_counts_of(&l->counts, m->domain, b)
			            : NULL });
			continue;
		}
		for (unsigned k = 0; l->state[i] && k < rule->nvectors; k++)
			vector[k] = l->state[i] + k * n;
		rule->step(&h, l->taken[i], m->decay, n, l->w[i], vector,
		    &(struct optim_gradient){ p->g[i], 1, b->rows, 0, 0 });
	}
}

/* ---- local steps of one example ---- */

/* Examples that the model learns from between two looks at the loss. */
#define LEARN_AT_ONCE 1024u

/* Are the steps of one example each, and does the model need no gradient of a batch for them? Whoever
 * clips or measures gradients needs one. */
static bool learns_in_place(const struct local *l, const struct params *p, const struct batch *b)
{
	return l->piece * l->pieces == 1 && b->sparse && !p->rows && model_learns(l->job->model) &&
	    l->job->conf.job.clip_norm <= 0 && !p->norm_wanted;
}

/* model_update.row */
static void update_row(void *ctx, size_t example, size_t table, size_t row, float *w,
    const float *g)
{
	const struct table_update *u = &((const struct table_update *)ctx)[table];
	uint64_t t = u->before + example + 1;

	if (u->frozen)
		return;
	if (u->rows)
		local_rows_step_one(u->rows, &u->hyper, t, u->decay, row, w, g);
	else
		u->rule->step(&u->hyper, t, u->decay, u->floats, w, u->vector,
		    &(struct optim_gradient){ g, 1, 1, 0, 0 });
}

/* model_update.expect */
static void expect_row(const void *ctx, size_t table, size_t row, unsigned stage)
{
	const struct table_update *u = &((const struct table_update *)ctx)[table];

	if (u->rows && !u->frozen)
		local_rows_expect(u->rows, row, stage);
}

static void begin_table_update(const struct local *l, size_t i, uint64_t step,
    struct table_update *u)
{
	const struct model_table *m = &l->job->table[i];

	*u = (struct table_update){ .rule = l->optim[i].rule,
		.hyper = *l->optim[i].hyper,
		.before = l->taken[i],
		.frozen = l->job->frozen[i],
		.decay = m->decay,
		.floats = m->rows * m->cols,
		.rows = m->sparse ? l->rows[i] : NULL };
	u->hyper.lr *= (float)schedule_factor(&l->rule.schedule, step);
	for (unsigned k = 0; l->state[i] && k < u->rule->nvectors; k++)
		u->vector[k] = l->state[i] + k * u->floats;
}

/* Trains the copy on at most LEARN_AT_ONCE examples from `first` on, in steps of one each; adds the
 * sum of their losses to *loss. Returns the number of examples. */
static size_t learn_in_place(struct local *l, const struct batch *b, size_t first, uint64_t step,
    double *loss)
{
	size_t left = b->rows - first, n = left < LEARN_AT_ONCE ? left : LEARN_AT_ONCE;
	struct batch some = batch_borrow(b, first, n);
	const struct model_update update = { update_row, l->update, expect_row };

	for (size_t i = 0; i < l->job->ntables; i++)
		begin_table_update(l, i, step, &l->update[i]);
	*loss += model_learn(l->job->model, &some, l->w, &update);
	for (size_t i = 0; i < l->job->ntables; i++)
		l->taken[i] += n;
	return n;
}

/* Copies the pulled parameters, and finds the state of their rows. */
static enum err_code begin_local_steps(struct local *l, const struct params *p,
    const struct batch *b, struct err *e)
{
	enum err_code rc = ERR_OK;

	for (size_t i = 0; !rc && i < l->job->ntables; i++) {
		const uint64_t *id;
		size_t n;

		memcpy(l->w[i], p->w[i], params_floats(p, b, i) * sizeof(float));
		if (!l->job->table[i].sparse)
			continue;
		n = params_rows_of(p, b, i, &id);
		rc = local_rows_find(l->rows[i], id, n, e);
	}
	return rc;
}

/* A local step on the examples from `first` on, or several of one example each. *done: how many examples
 * these are. */
static enum err_code make_local_step(struct local *l, struct params *p, const struct batch *b,
    size_t first, uint64_t step, size_t *done, double *loss, struct err *e)
{
	size_t each = (size_t)(l->piece * l->pieces), left = b->rows - first;
	struct batch of_step;
	enum err_code rc;

	*done = left < each ? left : each;
	if (learns_in_place(l, p, b)) {
		*done = learn_in_place(l, b, first, step, loss);
		return ERR_OK;
	}
	rc = begin_local_step(l, p, b, first, *done, &of_step, e);
	if (rc)
		return rc;
	sum_gradient(l, p, &of_step, 0, *done, l->used, loss);
	/* After a step with a bad gradient the loss might be finite again and hide it. */
	if (isfinite((float)*loss))
		take_local_step(l, p, &of_step, step);
	return ERR_OK;
}

enum err_code local_compute(struct local *l, struct params *p, const struct batch *b, uint64_t step,
    double *loss, struct err *e)
{
	enum err_code rc = ERR_OK;

	*loss = 0;
	for (size_t i = 0; !rc && (takes_local_steps(l) || l->pieces > 1 || b->rows > l->piece) &&
	     i < l->job->ntables;
	     i++)
		rc = reserve_copy(l, i, params_floats(p, b, i) + 1, e);
	if (rc)
		return rc;
	if (!takes_local_steps(l)) {
		sum_gradient(l, p, b, 0, b->rows, p->w, loss);
		*loss /= (double)b->rows;
		return ERR_OK;
	}
	rc = begin_local_steps(l, p, b, e);
	for (size_t at = 0, some; !rc && at < b->rows && isfinite((float)*loss); at += some)
		rc = make_local_step(l, p, b, at, step, &some, loss, e);
	if (rc)
		return rc;
	for (size_t i = 0; i < l->job->ntables; i++) {
		size_t n = params_floats(p, b, i);

		memcpy(p->g[i], p->w[i], n * sizeof(float));
		vec_axpy(n, -1, l->w[i], p->g[i]);
	}
	*loss /= (double)b->rows;
	return ERR_OK;
}
