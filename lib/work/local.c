#include "work/local.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "kern/vec.h"

struct local {
	const struct job *job;
	struct conf_rule rule;
	uint64_t piece, pieces, steps;  /* examples of a piece, pieces of a step, steps of a push */
	uint64_t taken;                 /* local steps so far */
	float **w, **sum;               /* by table: the copy; gradients of several pieces */
	float **state;                  /* the rule's slots, one after the other; NULL: none */
	size_t *cap;                    /* floats in w[i] and sum[i] */
};

/* ---- life -------------------------------------------------------------------------- */

static enum err_code room(struct local *l, size_t i, size_t floats, struct err *e)
{
	if (floats <= l->cap[i])
		return ERR_OK;
	free(l->w[i]);
	free(l->sum[i]);
	l->w[i] = mem_try_array(floats, sizeof **l->w);
	l->sum[i] = mem_try_array(floats, sizeof **l->sum);
	l->cap[i] = l->w[i] && l->sum[i] ? floats : 0;
	return l->cap[i] ? ERR_OK : err_set(e, ERR_NOMEM, "no memory for a copy of table \"%s\"", l->job->table[i].name);
}

static enum err_code new_state(struct local *l, size_t i, struct err *e)
{
	const struct model_table *m = &l->job->table[i];
	const struct optim_rule *rule = l->rule.rule;
	size_t n = m->rows * m->cols;

	if (l->steps < 2 || !rule->nslots)
		return ERR_OK;
	if (m->sparse)
		return err_set(e, ERR_CONFIG, "local_steps: table \"%s\" is sparse, and %s has state for each row; sgd has none",
		    m->name, rule->name);
	l->state[i] = mem_try_array(n * rule->nslots, sizeof **l->state);
	if (!l->state[i])
		return err_set(e, ERR_NOMEM, "no memory for %s of table \"%s\"", rule->name, m->name);
	for (size_t k = 0; k < n * rule->nslots; k++)
		l->state[i][k] = rule->slot_init[k / n];
	return ERR_OK;
}

enum err_code local_new(const struct job *job, struct local **out, struct err *e)
{
	struct local *l = mem_alloc(sizeof *l);
	enum err_code rc = conf_job_rule(&job->conf, &l->rule, e);

	l->job = job;
	l->piece = (uint64_t)job->conf.job.batch;
	l->pieces = (uint64_t)job->conf.accumulate;
	l->steps = (uint64_t)job->conf.local_steps;
	l->w = mem_array(job->ntables, sizeof *l->w);
	l->sum = mem_array(job->ntables, sizeof *l->sum);
	l->state = mem_array(job->ntables, sizeof *l->state);
	l->cap = mem_array(job->ntables, sizeof *l->cap);
	for (size_t i = 0; !rc && i < job->ntables; i++)
		rc = new_state(l, i, e);
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
	}
	free(l->w);
	free(l->sum);
	free(l->state);
	free(l->cap);
	free(l);
}

/* ---- work --------------------------------------------------------------------------- */

/* Rows first .. first+n-1, borrowed. */
static struct batch slice(const struct batch *b, size_t first, size_t n)
{
	struct batch s = *b;

	s.rows = n;
	if (b->sparse)
		s.start = b->start + first;
	else
		s.x = b->x + first * b->cols;
	if (b->y)
		s.y = b->y + first;
	if (b->label)
		s.label = b->label + first;
	return s;
}

/* The gradient of n rows, in p->g, at these parameters; adds n * loss to *loss. */
static void gradient(struct local *l, struct params *p, const struct batch *b, size_t first, size_t n, float *const *w,
    double *loss)
{
	size_t done = 0;

	for (size_t i = 0; n > l->piece && i < l->job->ntables; i++)
		memset(l->sum[i], 0, params_floats(p, b, i) * sizeof(float));
	while (done < n) {
		size_t k = n - done < l->piece ? n - done : (size_t)l->piece;
		struct batch s = slice(b, first + done, k);

		*loss += (double)k * model_grad(l->job->model, &s, (const float *const *)w, p->g);
		for (size_t i = 0; n > l->piece && i < l->job->ntables; i++)
			vec_axpy(params_floats(p, b, i), (float)k / (float)n, p->g[i], l->sum[i]);
		done += k;
	}
	for (size_t i = 0; n > l->piece && i < l->job->ntables; i++)
		memcpy(p->g[i], l->sum[i], params_floats(p, b, i) * sizeof(float));
	if (l->job->conf.job.clip_norm > 0)
		params_clip(p, b, l->job->conf.job.clip_norm);
}

static void take_step(struct local *l, struct params *p, const struct batch *b, uint64_t step)
{
	const struct optim_rule *rule = l->rule.rule;
	struct optim_hyper h = l->rule.hyper;

	h.lr *= (float)schedule_factor(&l->rule.schedule, step);
	l->taken++;
	for (size_t i = 0; i < l->job->ntables; i++) {
		size_t n = params_floats(p, b, i);
		float *slot[OPTIM_MAX_SLOTS] = { NULL };

		for (unsigned k = 0; l->state[i] && k < rule->nslots; k++)
			slot[k] = l->state[i] + k * n;
		rule->step(&h, l->taken, l->job->table[i].decay, n, l->w[i], slot, p->g[i], 1);
	}
}

enum err_code local_work(struct local *l, struct params *p, const struct batch *b, uint64_t step, double *loss,
    struct err *e)
{
	size_t each = (size_t)(l->piece * l->pieces);
	enum err_code rc = ERR_OK;

	*loss = 0;
	for (size_t i = 0; !rc && (l->steps > 1 || l->pieces > 1) && i < l->job->ntables; i++)
		rc = room(l, i, params_floats(p, b, i), e);
	if (rc)
		return rc;
	if (l->steps < 2) {
		gradient(l, p, b, 0, b->rows, p->w, loss);
		*loss /= (double)b->rows;
		return ERR_OK;
	}
	for (size_t i = 0; i < l->job->ntables; i++)
		memcpy(l->w[i], p->w[i], params_floats(p, b, i) * sizeof(float));
	for (size_t at = 0; at < b->rows; at += each) {
		gradient(l, p, b, at, b->rows - at < each ? b->rows - at : each, l->w, loss);
		/* A step that is not finite would hide in the parameters. */
		if (!isfinite((float)*loss))
			break;
		take_step(l, p, b, step);
	}
	for (size_t i = 0; i < l->job->ntables; i++) {
		size_t n = params_floats(p, b, i);

		memcpy(p->g[i], p->w[i], n * sizeof(float));
		vec_axpy(n, -1, l->w[i], p->g[i]);
	}
	*loss /= (double)b->rows;
	return ERR_OK;
}
