/* SPDX-License-Identifier: ISC */
#include "model/deep.h"

#include <limits.h>

#include "model/graph_parts.h"

/* Number of fields of the data; 1 without fields, and the tower then sees the sum of all
 * vectors. */
static size_t field_count(const struct model_shape *shape)
{
	return shape->fields ? shape->fields : 1;
}

struct tower deep_tower(const struct model *m)
{
	return tower_of(m, field_count(&m->shape) * m->shape.factors, 1, NULL);
}

enum err_code deep_fits(const struct model_shape *shape, const char *model, struct err *e)
{
	if (shape->nhidden == 0)
		return err_set(e, ERR_CONFIG,
		    "job.model %s needs job.hidden, such as [64, 32]; without hidden layers use fm",
		    model);
	if (field_count(shape) > INT_MAX / shape->factors)
		return err_set(e, ERR_CONFIG, "job.factors: %zu fields of %zu factors are too many",
		    field_count(shape), shape->factors);
	return factors_fit(shape, e);
}

void deep_plan_tower(struct model *m)
{
	struct tower t = deep_tower(m);

	tower_plan(m, &t);
}

/* First the straight part's scratch, then the tower's input and its own. */
size_t deep_scratch(const struct model *m)
{
	struct tower t = deep_tower(m);

	return m->shape.factors + t.in + tower_scratch(&t);
}

/* The tower's input, (rows, in), after the scratch of the straight part. */
static float *input_of(const struct model *m)
{
	return m->scratch + m->shape.factors;
}

void deep_embed(const struct model *m, size_t before, const struct batch *b, const float *v,
    float *in)
{
	size_t k = m->shape.factors, width = deep_tower(m).in;

	memset(in, 0, b->rows * width * sizeof *in);
	for (size_t r = 0; r < b->rows; r++, in += width) {
		struct entries x = entries_of(b, r);

		for (size_t i = 0; i < x.n; i++)
			entries_axpy(k, x.val[i], v + entries_at(&x, i, before + k) + before,
			    in + (m->shape.fields ? entries_field(&x, i) : 0) * k);
	}
}

void deep_embed_grad(const struct model *m, size_t before, const struct batch *b,
    const float *below, float *g)
{
	size_t k = m->shape.factors, width = deep_tower(m).in;

	for (size_t r = 0; r < b->rows; r++, below += width) {
		struct entries x = entries_of(b, r);

		for (size_t i = 0; i < x.n; i++)
			entries_axpy(k, x.val[i],
			    below + (m->shape.fields ? entries_field(&x, i) : 0) * k,
			    g + entries_at(&x, i, before + k) + before);
	}
}

/* f = tower(embedding) + straight(x). Both parts get the same d loss / d f, which replaces the
 * tower's output in place, as tower_back expects. Then d loss / d embedding overwrites `in`, and is
 * added to the gradient of the vectors, which may have one by the straight part. */
double deep_grad(struct model *m, const struct deep *d, const struct batch *b,
    const float *const params[], float *const grads[])
{
	const float *const *tower = params + d->vectors + 1;
	struct tower t = deep_tower(m);
	float *in = input_of(m), *acts = in + b->rows * t.in, *f;
	double loss = 0, n = (double)b->rows, slope;

	deep_embed(m, d->before, b, params[d->vectors], in);
	f = tower_run(m, &t, b->rows, in, tower, acts, NULL);
	for (size_t i = 0; i <= d->vectors; i++)
		factors_clear(&m->tables[i], b, grads[i]);
	for (size_t r = 0; r < b->rows; r++) {
		struct entries x = entries_of(b, r);
		double at = (double)f[r] + d->straight->score(m, &x, params[0]),
		       y = (double)b->y[r], weight = (double)batch_weight(b, r);

		loss += loss_at(m->loss, at, y, &slope) * weight;
		f[r] = (float)(slope / n * weight);
		d->straight->spread(m, &x, params[0], f[r], grads[0]);
	}
	tower_back(m, &t, b->rows, in, tower, acts, grads + d->vectors + 1, in);
	deep_embed_grad(m, d->before, b, in, grads[d->vectors]);
	return loss_unscaled(m->loss, loss / n);
}

/* The tower writes its output to `scores` directly; each score is then completed by the straight
 * part. */
double deep_forward(struct model *m, const struct deep *d, const struct batch *b,
    const float *const params[], float *scores)
{
	const float *const *tower = params + d->vectors + 1;
	struct tower t = deep_tower(m);
	float *in = input_of(m);
	double loss = 0, slope;

	deep_embed(m, d->before, b, params[d->vectors], in);
	tower_run(m, &t, b->rows, in, tower, in + b->rows * t.in, scores);
	for (size_t r = 0; r < b->rows; r++) {
		struct entries x = entries_of(b, r);
		double at = (double)scores[r] + d->straight->score(m, &x, params[0]);

		if (b->y != NULL)
			loss += loss_at(m->loss, at, (double)b->y[r], &slope) *
			    (double)batch_weight(b, r);
		scores[r] = (float)loss_score(m->loss, at);
	}
	return loss_unscaled(m->loss, loss);
}

const char *deep_graph_tower(const struct model *m, const struct graph *g, const char *vectors,
    size_t table)
{
	struct tower t = deep_tower(m);

	return graph_tower(g, m, &t, table, graph_by_field(g, m, vectors, m->shape.factors));
}
