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
	/* Fragments: before the last work; as pushed last, and the way there, which stays
	 * until its receipt; as it comes from the servers. */
	unsigned nfragments, asked;     /* asked: the fragment that is on its way */
	bool begun, waits;              /* waits: there is one */
	float **before, **state_before, **sent, **way, **in;
	uint64_t taken_before;
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

/* Does it take steps by itself? */
static bool alone(const struct local *l)
{
	return l->job->conf.local_steps > 1;
}

static enum err_code new_state(struct local *l, size_t i, struct err *e)
{
	const struct model_table *m = &l->job->table[i];
	const struct optim_rule *rule = l->rule.rule;
	size_t n = m->rows * m->cols;

	if (!alone(l) || !rule->nslots)
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

static enum err_code measure(struct local *l, struct err *e)
{
	const struct conf *c = &l->job->conf;

	l->piece = (uint64_t)c->job.batch;
	l->pieces = (uint64_t)c->accumulate;
	l->nfragments = (unsigned)c->fragments;
	l->steps = (uint64_t)c->local_steps / l->nfragments;
	return conf_job_rule(c, &l->rule, e);
}

enum err_code local_turn(struct local *l, struct err *e)
{
	const struct optim_rule *before = l->rule.rule;
	enum err_code rc = measure(l, e);

	if (l->rule.rule != before)
		l->taken = 0;
	for (size_t i = 0; !rc && i < l->job->ntables; i++) {
		if (l->rule.rule == before && (l->state[i] || !alone(l)))
			continue;
		free(l->state[i]);
		l->state[i] = NULL;
		rc = new_state(l, i, e);
	}
	return rc;
}

enum err_code local_new(const struct job *job, struct local **out, struct err *e)
{
	struct local *l = mem_alloc(sizeof *l);
	enum err_code rc;

	l->job = job;
	rc = measure(l, e);
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

/* ---- work --------------------------------------------------------------------------- */

/* Rows first .. first+n-1, borrowed. */
static struct batch slice(const struct batch *b, size_t first, size_t n)
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
		params_clip(p, b, l->job->conf.job.clip_norm > 0 ? l->job->conf.job.clip_norm : HUGE_VAL);
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
	local_finish(l, p, b);
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

		if (job_is_frozen(l->job, i))
			continue;
		for (unsigned k = 0; l->state[i] && k < rule->nslots; k++)
			slot[k] = l->state[i] + k * n;
		rule->step(&h, l->taken, l->job->table[i].decay, n, l->w[i], slot, p->g[i], 1);
	}
}

static void swap(float **a, float **b)
{
	float *kept = *a;

	*a = *b;
	*b = kept;
}

/* For local_undo. */
static void remember(struct local *l, const struct params *p)
{
	for (size_t i = 0; i < l->job->ntables; i++) {
		size_t n = table_elements(p->table[i]);

		memcpy(l->before[i], l->w[i], n * sizeof(float));
		if (l->state[i])
			memcpy(l->state_before[i], l->state[i], n * l->rule.rule->nslots * sizeof(float));
	}
	l->taken_before = l->taken;
}

enum err_code local_work(struct local *l, struct params *p, const struct batch *b, uint64_t step, double *loss,
    struct err *e)
{
	size_t each = (size_t)(l->piece * l->pieces);
	enum err_code rc = ERR_OK;

	*loss = 0;
	for (size_t i = 0; !rc && (alone(l) || l->pieces > 1 || b->rows > l->piece) && i < l->job->ntables; i++)
		rc = room(l, i, params_floats(p, b, i) + 1, e);
	if (rc)
		return rc;
	if (!alone(l)) {
		gradient(l, p, b, 0, b->rows, p->w, loss);
		*loss /= (double)b->rows;
		return ERR_OK;
	}
	if (l->nfragments > 1)
		remember(l, p);
	for (size_t i = 0; l->nfragments < 2 && i < l->job->ntables; i++)
		memcpy(l->w[i], p->w[i], params_floats(p, b, i) * sizeof(float));
	for (size_t at = 0; at < b->rows; at += each) {
		gradient(l, p, b, at, b->rows - at < each ? b->rows - at : each, l->w, loss);
		/* A step that is not finite would hide in the parameters. */
		if (!isfinite((float)*loss))
			break;
		take_step(l, p, b, step);
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

/* ---- fragments ------------------------------------------------------------------------- */

bool local_streams(const struct local *l)
{
	return l->nfragments > 1;
}

bool local_begun(const struct local *l)
{
	return l->begun;
}

static enum err_code stream_room(struct local *l, size_t i, struct err *e)
{
	const struct model_table *m = &l->job->table[i];
	size_t n = m->rows * m->cols;

	if (m->sparse)
		return err_set(e, ERR_CONFIG, "fragments: table \"%s\" is sparse, and a worker has only some of its rows", m->name);
	if (room(l, i, n, e))
		return e->code;
	l->before[i] = mem_try_array(n, sizeof(float));
	l->sent[i] = mem_try_array(n, sizeof(float));
	l->way[i] = mem_try_array(n, sizeof(float));
	l->in[i] = mem_try_array(n, sizeof(float));
	if (l->state[i])
		l->state_before[i] = mem_try_array(n * l->rule.rule->nslots, sizeof(float));
	return l->before[i] && l->sent[i] && l->way[i] && l->in[i] && (l->state_before[i] || !l->state[i]) ? ERR_OK :
	    err_set(e, ERR_NOMEM, "no memory for copies of table \"%s\"", m->name);
}

enum err_code local_begin(struct local *l, const struct params *p, struct err *e)
{
	uint64_t parts = 0;
	enum err_code rc = ERR_OK;

	for (size_t i = 0; !rc && i < l->job->ntables; i++) {
		parts += p->table[i]->nparts;
		rc = stream_room(l, i, e);
		if (!rc)
			memcpy(l->w[i], p->w[i], table_elements(p->table[i]) * sizeof(float));
	}
	if (!rc && parts < l->nfragments)
		rc = err_set(e, ERR_CONFIG, "fragments: the model has %llu partitions, which cannot make %u", (unsigned long long)parts,
		    l->nfragments);
	l->begun = true;
	return rc;
}

void local_undo(struct local *l)
{
	/* What was done last goes where the next local_work writes what is before it. */
	for (size_t i = 0; i < l->job->ntables; i++) {
		swap(&l->w[i], &l->before[i]);
		swap(&l->state[i], &l->state_before[i]);
	}
	l->taken = l->taken_before;
}

enum err_code local_probe(struct local *l, struct params *p, uint64_t step, struct err *e)
{
	return client_want_parts(p->client, p->table[0], step, false, 0, 1, NULL, l->in[0], e);
}

/* What of a table belongs to a fragment: partitions, and elements. */
struct piece {
	uint32_t first, count;
	size_t at, n;
};

/* Of table i: the partitions of all tables in a row are dealt out evenly.  False: none. */
static bool piece_of(const struct local *l, const struct params *p, unsigned fragment, size_t i, struct piece *out)
{
	uint64_t all = 0, before = 0, begin, end, n = p->table[i]->nparts, elements = table_elements(p->table[i]);

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
		if (!piece_of(l, p, l->asked, i, &f))
			continue;
		/* From where the others have come together, and on what was done since. */
		vec_axpy(f.n, -1, l->sent[i] + f.at, l->w[i] + f.at);
		vec_add(f.n, l->in[i] + f.at, l->w[i] + f.at);
		memcpy(p->w[i] + f.at, l->in[i] + f.at, f.n * sizeof(float));
	}
	l->waits = false;
}

enum err_code local_send(struct local *l, struct params *p, const struct batch *b, uint64_t step, struct err *e)
{
	enum err_code rc = ERR_OK;
	struct piece f;

	l->asked = (unsigned)(step % l->nfragments);
	l->waits = true;
	for (size_t i = 0; !rc && i < l->job->ntables; i++) {
		if (!piece_of(l, p, l->asked, i, &f))
			continue;
		memcpy(l->sent[i] + f.at, l->w[i] + f.at, f.n * sizeof(float));
		memcpy(l->way[i] + f.at, p->w[i] + f.at, f.n * sizeof(float));
		vec_axpy(f.n, -1, l->w[i] + f.at, l->way[i] + f.at);
		rc = client_want_parts(p->client, p->table[i], step + 1, true, f.first, f.count, NULL, l->in[i], e);
		if (!rc)
			rc = client_push_parts(p->client, p->table[i], step, (uint32_t)b->rows, f.first, f.count, l->way[i], e);
	}
	return rc;
}
