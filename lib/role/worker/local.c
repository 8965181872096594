/* SPDX-License-Identifier: ISC */
#include "worker/local.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "math/vec.h"

struct local {
	const struct job *job;
	struct conf_rule rule;
	/* examples a piece, pieces a local step, local steps a push */
	uint64_t piece, pieces, steps;
	uint64_t taken; /* local steps so far */
	/* by table: the copy of the parameters; sum of the pieces' gradients */
	float **w, **sum;
	/* by table: the rule's vectors, one after the other; NULL: none */
	float **state;
	size_t *cap; /* floats in w[i] and sum[i] */
	/* Streaming, by table. before, state_before: the copy and its state before the last work,
	 * for local_undo. sent: the copy when it was pushed last. way: that push (pulled minus
	 * copy), which the client borrows until its receipt. in: where the servers' answer
	 * arrives. */
	unsigned nfragments, asked; /* asked: the fragment pushed last */
	bool begun, waits;          /* waits: its answer has not been merged */
	float **before, **state_before, **sent, **way, **in;
	uint64_t taken_before;
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
	const struct optim_rule *rule = l->rule.rule;
	size_t n = m->rows * m->cols;

	if (!takes_local_steps(l) || !rule->nslots)
		return ERR_OK;
	if (m->sparse)
		return err_set(e, ERR_CONFIG,
		    "local_steps: table \"%s\" is sparse, and %s has state for each row; sgd has none",
		    m->name, rule->name);
	l->state[i] = mem_try_array(n * rule->nslots, sizeof **l->state);
	if (!l->state[i])
		return err_set(e, ERR_NOMEM, "no memory for %s of table \"%s\"", rule->name,
		    m->name);
	for (size_t k = 0; k < n * rule->nslots; k++)
		l->state[i][k] = rule->slot_init[k / n];
	return ERR_OK;
}

/* Takes the sizes and the rule from the configuration. */
static enum err_code read_batch_sizes(struct local *l, struct err *e)
{
	const struct conf *c = &l->job->conf;

	l->piece = (uint64_t)c->job.batch;
	l->pieces = (uint64_t)c->accumulate;
	l->nfragments = (unsigned)c->fragments;
	l->steps = (uint64_t)c->local_steps / l->nfragments;
	return conf_job_rule(c, &l->rule, e);
}

enum err_code local_reconfigure(struct local *l, struct err *e)
{
	const struct optim_rule *before = l->rule.rule;
	enum err_code rc = read_batch_sizes(l, e);

	if (l->rule.rule != before)
		l->taken = 0;
	for (size_t i = 0; !rc && i < l->job->ntables; i++) {
		if (l->rule.rule == before && (l->state[i] || !takes_local_steps(l)))
			continue;
		free(l->state[i]);
		l->state[i] = NULL;
		rc = new_rule_state(l, i, e);
	}
	return rc;
}

enum err_code local_new(const struct job *job, struct local **out, struct err *e)
{
	struct local *l = mem_alloc(sizeof *l);
	enum err_code rc;

	l->job = job;
	rc = read_batch_sizes(l, e);
	l->w = mem_array(job->ntables, sizeof *l->w);
	l->sum = mem_array(job->ntables, sizeof *l->sum);
	l->state = mem_array(job->ntables, sizeof *l->state);
	l->cap = mem_array(job->ntables, sizeof *l->cap);
	l->before = mem_array(job->ntables, sizeof *l->before);
	l->state_before = mem_array(job->ntables, sizeof *l->state_before);
	l->sent = mem_array(job->ntables, sizeof *l->sent);
	l->way = mem_array(job->ntables, sizeof *l->way);
	l->in = mem_array(job->ntables, sizeof *l->in);
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
		free(l->before[i]);
		free(l->state_before[i]);
		free(l->sent[i]);
		free(l->way[i]);
		free(l->in[i]);
	}
	free(l->w);
	free(l->sum);
	free(l->state);
	free(l->cap);
	free(l->before);
	free(l->state_before);
	free(l->sent);
	free(l->way);
	free(l->in);
	free(l);
}

/* ---- work ---- */

/* The examples first .. first+n-1 of a batch, borrowed. */
static struct batch slice_batch(const struct batch *b, size_t first, size_t n)
{
	struct batch s = *b;

	s.rows = n;
	if (b->sparse)
		s.start = b->start + first;
	else if (b->x)
		s.x = b->x + first * b->cols;
	s.first = b->first + first;
	if (b->y)
		s.y = b->y + first;
	if (b->label)
		s.label = b->label + first;
	return s;
}

void local_finish(const struct local *l, struct params *p, const struct batch *b)
{
	for (size_t i = 0; i < l->job->ntables; i++)
		if (job_is_frozen(l->job, i))
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
		struct batch s = slice_batch(b, first + done, k);

		*loss += (double)k * model_grad(l->job->model, &s, (const float *const *)w, p->g);
		for (size_t i = 0; n > l->piece && i < l->job->ntables; i++)
			vec_axpy(params_floats(p, b, i), (float)k / (float)n, p->g[i], l->sum[i]);
		done += k;
	}
	for (size_t i = 0; n > l->piece && i < l->job->ntables; i++)
		memcpy(p->g[i], l->sum[i], params_floats(p, b, i) * sizeof(float));
	local_finish(l, p, b);
}

/* One step of the rule on the copy, with the gradient in p->g. */
static void take_local_step(struct local *l, struct params *p, const struct batch *b, uint64_t step)
{
	const struct optim_rule *rule = l->rule.rule;
	struct optim_hyper h = l->rule.hyper;

	h.lr *= (float)schedule_factor(&l->rule.schedule, step);
	l->taken++;
	for (size_t i = 0; i < l->job->ntables; i++) {
		size_t n = params_floats(p, b, i);
		float *slot[OPTIM_MAX_SLOTS] = { NULL };

		if (job_is_frozen(l->job, i))
			continue;
		for (unsigned k = 0; l->state[i] && k < rule->nslots; k++)
			slot[k] = l->state[i] + k * n;
		rule->step(&h, l->taken, l->job->table[i].decay, n, l->w[i], slot, p->g[i], 1);
	}
}

static void swap_floats(float **a, float **b)
{
	float *kept = *a;

	*a = *b;
	*b = kept;
}

/* Saves the copy and its state for local_undo. */
static void save_for_undo(struct local *l, const struct params *p)
{
	for (size_t i = 0; i < l->job->ntables; i++) {
		size_t n = table_elements(p->table[i]);

		memcpy(l->before[i], l->w[i], n * sizeof(float));
		if (l->state[i])
			memcpy(l->state_before[i], l->state[i],
			    n * l->rule.rule->nslots * sizeof(float));
	}
	l->taken_before = l->taken;
}

enum err_code local_compute(struct local *l, struct params *p, const struct batch *b, uint64_t step,
    double *loss, struct err *e)
{
	size_t each = (size_t)(l->piece * l->pieces);
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
	if (l->nfragments > 1)
		save_for_undo(l, p);
	for (size_t i = 0; l->nfragments < 2 && i < l->job->ntables; i++)
		memcpy(l->w[i], p->w[i], params_floats(p, b, i) * sizeof(float));
	for (size_t at = 0; at < b->rows; at += each) {
		sum_gradient(l, p, b, at, b->rows - at < each ? b->rows - at : each, l->w, loss);
		/* After a step with a bad gradient the loss might be finite again and hide it. */
		if (!isfinite((float)*loss))
			break;
		take_local_step(l, p, b, step);
		if (l->waits)
			client_poke(p->client);
	}
	for (size_t i = 0; l->nfragments < 2 && i < l->job->ntables; i++) {
		size_t n = params_floats(p, b, i);

		memcpy(p->g[i], p->w[i], n * sizeof(float));
		vec_axpy(n, -1, l->w[i], p->g[i]);
	}
	*loss /= (double)b->rows;
	return ERR_OK;
}

/* ---- fragments ---- */

bool local_streams(const struct local *l)
{
	return l->nfragments > 1;
}

bool local_begun(const struct local *l)
{
	return l->begun;
}

/* Makes room for what streaming keeps of table i, which must be dense. */
static enum err_code reserve_stream(struct local *l, size_t i, struct err *e)
{
	const struct model_table *m = &l->job->table[i];
	size_t n = m->rows * m->cols;

	if (m->sparse)
		return err_set(e, ERR_CONFIG,
		    "fragments: table \"%s\" is sparse, and a worker has only some of its rows",
		    m->name);
	if (reserve_copy(l, i, n, e))
		return e->code;
	l->before[i] = mem_try_array(n, sizeof(float));
	l->sent[i] = mem_try_array(n, sizeof(float));
	l->way[i] = mem_try_array(n, sizeof(float));
	l->in[i] = mem_try_array(n, sizeof(float));
	if (l->state[i])
		l->state_before[i] = mem_try_array(n * l->rule.rule->nslots, sizeof(float));
	return l->before[i] && l->sent[i] && l->way[i] && l->in[i] &&
	        (l->state_before[i] || !l->state[i])
	    ? ERR_OK
	    : err_set(e, ERR_NOMEM, "no memory for copies of table \"%s\"", m->name);
}

enum err_code local_begin(struct local *l, const struct params *p, struct err *e)
{
	uint64_t parts = 0;
	enum err_code rc = ERR_OK;

	for (size_t i = 0; !rc && i < l->job->ntables; i++) {
		parts += p->table[i]->nparts;
		rc = reserve_stream(l, i, e);
		if (!rc)
			memcpy(l->w[i], p->w[i], table_elements(p->table[i]) * sizeof(float));
	}
	if (!rc && parts < l->nfragments)
		rc = err_set(e, ERR_CONFIG,
		    "fragments: the model has %llu partitions, which cannot make %u",
		    (unsigned long long)parts, l->nfragments);
	l->begun = true;
	return rc;
}

void local_undo(struct local *l)
{
	/* Swapping is enough: the next local_compute overwrites `before`. */
	for (size_t i = 0; i < l->job->ntables; i++) {
		swap_floats(&l->w[i], &l->before[i]);
		swap_floats(&l->state[i], &l->state_before[i]);
	}
	l->taken = l->taken_before;
}

enum err_code local_probe(struct local *l, struct params *p, uint64_t step, struct err *e)
{
	return client_want_parts(p->client, p->table[0], step, false, 0, 1, NULL, l->in[0], e);
}

/* The part of a table that belongs to a fragment: partitions [first, first+count), elements [at,
 * at+n). */
struct piece {
	uint32_t first, count;
	size_t at, n;
};

/* The part of table i in a fragment. The partitions of all tables, in order, are divided evenly
 * among the fragments. False: the table has no part in it. */
static bool fragment_range(const struct local *l, const struct params *p, unsigned fragment,
    size_t i, struct piece *out)
{
	uint64_t all = 0, before = 0, begin, end, n = p->table[i]->nparts,
	         elements = table_elements(p->table[i]);

	for (size_t k = 0; k < l->job->ntables; k++) {
		before += k < i ? p->table[k]->nparts : 0;
		all += p->table[k]->nparts;
	}
	begin = all * fragment / l->nfragments;
	end = all * (fragment + 1) / l->nfragments;
	begin = begin < before ? 0 : begin - before < n ? begin - before : n;
	end = end < before ? 0 : end - before < n ? end - before : n;
	out->first = (uint32_t)begin;
	out->count = (uint32_t)(end - begin);
	out->at = table_part_begin(p->table[i], out->first);
	end = table_part_begin(p->table[i], (uint32_t)end);
	out->n = (size_t)((end < elements ? end : elements) - out->at);
	return out->count;
}

void local_merge(struct local *l, struct params *p)
{
	struct piece f;

	for (size_t i = 0; l->waits && i < l->job->ntables; i++) {
		if (!fragment_range(l, p, l->asked, i, &f))
			continue;
		/* copy += (what the servers have now) - (what was pushed): the local steps since
		 * the push stay on top. */
		vec_axpy(f.n, -1, l->sent[i] + f.at, l->w[i] + f.at);
		vec_add(f.n, l->in[i] + f.at, l->w[i] + f.at);
		memcpy(p->w[i] + f.at, l->in[i] + f.at, f.n * sizeof(float));
	}
	l->waits = false;
}

enum err_code local_send(struct local *l, struct params *p, const struct batch *b, uint64_t step,
    struct err *e)
{
	enum err_code rc = ERR_OK;
	struct piece f;

	l->asked = (unsigned)(step % l->nfragments);
	l->waits = true;
	for (size_t i = 0; !rc && i < l->job->ntables; i++) {
		if (!fragment_range(l, p, l->asked, i, &f))
			continue;
		memcpy(l->sent[i] + f.at, l->w[i] + f.at, f.n * sizeof(float));
		memcpy(l->way[i] + f.at, p->w[i] + f.at, f.n * sizeof(float));
		vec_axpy(f.n, -1, l->w[i] + f.at, l->way[i] + f.at);
		rc = client_want_parts(p->client, p->table[i], step + 1, true, f.first, f.count,
		    NULL, l->in[i], e);
		if (!rc)
			rc = client_push_parts(p->client, p->table[i], step, (uint32_t)b->rows,
			    f.first, f.count, l->way[i], e);
	}
	return rc;
}
