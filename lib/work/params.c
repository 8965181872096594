#include "work/params.h"

#include <math.h>

#include "base/mem.h"
#include "kern/vec.h"

static enum err_code room(struct params *p, size_t i, size_t floats, struct err *e)
{
	if (floats <= p->cap[i])
		return ERR_OK;
	free(p->w[i]);
	free(p->g[i]);
	p->cap[i] = floats + floats / 4;
	p->w[i] = mem_try_array(p->cap[i], sizeof **p->w);
	p->g[i] = mem_try_array(p->cap[i], sizeof **p->g);
	if (!p->w[i] || !p->g[i])
		return err_set(e, ERR_NOMEM, "no memory for %zu parameters of table \"%s\"", floats, p->job->table[i].name);
	return ERR_OK;
}

enum err_code params_new(const struct job *job, struct client *client, struct params *out, struct err *e)
{
	size_t n = job->ntables;
	enum err_code rc = ERR_OK;

	*out = (struct params){ .job = job, .client = client };
	out->table = mem_array(n, sizeof *out->table);
	out->w = mem_array(n, sizeof *out->w);
	out->g = mem_array(n, sizeof *out->g);
	out->cap = mem_array(n, sizeof *out->cap);
	for (size_t i = 0; !rc && i < n; i++) {
		const struct model_table *m = &job->table[i];

		out->table[i] = layout_find(client_layout(client), m->name);
		if (!out->table[i])
			rc = err_set(e, ERR_NOTFOUND, "the cluster has no table \"%s\"", m->name);
		else if (!m->sparse)
			rc = room(out, i, m->rows * m->cols, e);
	}
	if (rc)
		params_release(out);
	return rc;
}

void params_release(struct params *p)
{
	for (size_t i = 0; p->job && i < p->job->ntables; i++) {
		free(p->w[i]);
		free(p->g[i]);
	}
	free((void *)p->table);
	free(p->w);
	free(p->g);
	free(p->cap);
	*p = (struct params){ 0 };
}

enum err_code params_pull(struct params *p, const struct batch *b, uint64_t step, bool dense, struct err *e)
{
	enum err_code rc = ERR_OK;

	for (size_t i = 0; !rc && i < p->job->ntables; i++) {
		if (!p->job->table[i].sparse) {
			if (dense)
				rc = client_want(p->client, p->table[i], step, p->w[i], e);
			continue;
		}
		rc = room(p, i, b->nids * p->job->table[i].cols, e);
		if (!rc && b->nids)
			rc = client_want_rows(p->client, p->table[i], step, b->id, b->nids, p->w[i], e);
	}
	return rc ? rc : client_wait(p->client, step, e);
}

static size_t floats(const struct params *p, const struct batch *b, size_t i)
{
	const struct model_table *m = &p->job->table[i];

	return (m->sparse ? b->nids : m->rows) * m->cols;
}

enum err_code params_push(struct params *p, const struct batch *b, uint64_t step, struct err *e)
{
	uint32_t examples = (uint32_t)b->rows;
	enum err_code rc = ERR_OK;

	for (size_t i = 0; !rc && i < p->job->ntables; i++) {
		if (!p->job->table[i].sparse)
			rc = client_push(p->client, p->table[i], step, examples, p->g[i], e);
		else if (b->nids)
			rc = client_push_rows(p->client, p->table[i], step, examples, b->id, b->nids, p->g[i], e);
	}
	return rc;
}

void params_clip(struct params *p, const struct batch *b, double most)
{
	double sum = 0;

	for (size_t i = 0; i < p->job->ntables; i++)
		sum += vec_sumsq(floats(p, b, i), p->g[i]);
	if (!isfinite(sum) || sqrt(sum) <= most)
		return;
	for (size_t i = 0; i < p->job->ntables; i++)
		vec_scale(floats(p, b, i), (float)(most / sqrt(sum)), p->g[i]);
}
