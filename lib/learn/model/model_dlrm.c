/* SPDX-License-Identifier: ISC */
#include <limits.h>
#include <string.h>

#include "math/vec.h"
#include "core/mem.h"
#include "model/factors.h"
#include "model/graph_parts.h"
#include "model/layer.h"
#include "model/tower.h"

/* DLRM with dot products (Naumov et al., "Deep Learning Recommendation Model for Personalization and
 * Recommendation Systems", 2019, arXiv:1906.00091, section 2.5). The numbers x of an example pass
 * the bottom layers, z_0 = act(bottom(x)), and z_1, z_2, ... are the vectors of its categories, one
 * for each field. All have the width of job.factors. The score is
 *
 *   top(z_0, <z_i, z_j> for all i < j)
 *
 * where top is a tower of one output, and z_0 comes first in its input. Data without columns of
 * numbers have no z_0 and no bottom layers. Unlike in the paper, a field with several categories has
 * the sum of their vectors, and the numbers are scaled by job.scale, not by log(1 + x). Rows of v that
 * belong to numbers have no gradient. */

/* The tables: the bottom layers' are between the vectors and the top. */
enum { VECTORS, BOTTOM };

/* The sizes of the model, which follow from its shape, and its scratch memory for a batch. */
struct interaction {
	size_t k;               /* width of each z */
	size_t numbers, n;      /* of an example: its numbers, and how many z it has */
	size_t first;           /* of the z, the one of the first field: 1 after z_0, else 0 */
	struct tower low, high; /* bottom and top */
	size_t top;             /* the first table of the top */
	float *x;               /* (rows, numbers) */
	float *z, *back;        /* (rows, n, k): z, and d loss / d z */
	float *in;              /* (rows, high.in): input of the top, then d loss / d input */
	float *low_acts, *high_acts;
};

static size_t pairs_of(size_t n)
{
	return n * (n - 1) / 2;
}

static struct interaction interaction_of(const struct model *m)
{
	const struct model_shape *s = &m->shape;
	struct interaction t = { .k = s->factors, .numbers = s->numbers, .first = s->numbers > 0 };

	t.n = t.first + s->places;
	t.low = (struct tower){ .in = s->numbers,
		.out = t.k,
		.hidden = m->bottom,
		.nhidden = s->nbottom,
		.prefix = "bottom_" };
	t.high = tower_of(m, t.first * t.k + pairs_of(t.n), 1, NULL);
	t.top = BOTTOM + (t.first ? 2 * (t.low.nhidden + 1) : 0);
	return t;
}

/* Returns the sizes with the scratch memory divided for a batch of `rows`. */
static struct interaction interaction_of_batch(const struct model *m, size_t rows)
{
	struct interaction t = interaction_of(m);

	t.x = m->scratch;
	t.z = t.x + rows * t.numbers;
	t.back = t.z + rows * t.n * t.k;
	t.in = t.back + rows * t.n * t.k;
	t.low_acts = t.in + rows * t.high.in;
	t.high_acts = t.low_acts + rows * tower_scratch(&t.low);
	return t;
}

static enum err_code dlrm_fits(const struct model_shape *shape, struct err *e)
{
	size_t n = (shape->numbers > 0) + shape->places, in;

	if (!shape->sparse || shape->fields == 0 || shape->places == 0 || n < 2)
		return err_set(e, ERR_CONFIG,
		    "job.model dlrm needs columns of categories, beside columns of numbers or other "
		    "categories, or features in fields: field:index:value (?format=ffm) or "
		    "?format=criteo; use mlp for numbers alone, and fm for other data");
	if (shape->nhidden == 0)
		return err_set(e, ERR_CONFIG,
		    "job.model dlrm needs job.hidden, such as [64]; without hidden layers use fm");
	if (__builtin_mul_overflow(n, n - 1, &in) ||
	    __builtin_add_overflow(in / 2, shape->factors, &in) || in > INT_MAX)
		return err_set(e, ERR_CONFIG,
		    "job.data: %zu fields make too many pairs for model dlrm", n);
	return factors_fit(shape, e);
}

static void dlrm_plan(struct model *m)
{
	struct interaction t = interaction_of(m);

	factors_add_vectors(m, "v", t.k);
	if (t.first)
		tower_plan(m, &t.low);
	tower_plan(m, &t.high);
}

static size_t dlrm_scratch(const struct model *m)
{
	struct interaction t = interaction_of(m);

	return t.numbers + 2 * t.n * t.k + t.high.in + tower_scratch(&t.low) +
	    tower_scratch(&t.high);
}

/* Which z of its example an entry of `field` belongs to; SIZE_MAX: it has none, because its column
 * had no categories when the model was made. */
static size_t z_of_field(const struct model *m, const struct interaction *t, size_t field)
{
	const uint16_t *place = m->shape.place;

	if (place == NULL)
		return t->first + field;
	return place[field] == MODEL_NO_PLACE ? SIZE_MAX : t->first + place[field];
}

/* Sorts the entries of the batch into x and the sums of vectors. */
static void read_entries(const struct model *m, const struct interaction *t, const struct batch *b,
    const float *v)
{
	memset(t->x, 0, b->rows * t->numbers * sizeof *t->x);
	memset(t->z, 0, b->rows * t->n * t->k * sizeof *t->z);
	for (size_t r = 0; r < b->rows; r++) {
		struct entries x = entries_of(b, r);

		for (size_t i = 0; i < x.n; i++) {
			uint64_t id = b->id[x.col[i]];
			size_t z;

			if (id < t->numbers)
				t->x[r * t->numbers + id] += x.val[i];
			else if ((z = z_of_field(m, t, entries_field(&x, i))) != SIZE_MAX)
				entries_axpy(t->k, x.val[i], v + entries_at(&x, i, t->k),
				    t->z + (r * t->n + z) * t->k);
		}
	}
}

/* Backwards: adds to g, which has the layout of v. */
static void spread_entries(const struct model *m, const struct interaction *t,
    const struct batch *b, float *g)
{
	for (size_t r = 0; r < b->rows; r++) {
		struct entries x = entries_of(b, r);

		for (size_t i = 0; i < x.n; i++) {
			size_t z = b->id[x.col[i]] < t->numbers
			    ? SIZE_MAX
			    : z_of_field(m, t, entries_field(&x, i));

			if (z != SIZE_MAX)
				entries_axpy(t->k, x.val[i], t->back + (r * t->n + z) * t->k,
				    g + entries_at(&x, i, t->k));
		}
	}
}

/* Computes z and the input of the top. Returns the output of the bottom layers after the activation,
 * (rows, k). */
static float *run_below(const struct model *m, const struct interaction *t, const struct batch *b,
    const float *const params[])
{
	float *low = t->low_acts, *in = t->in;

	read_entries(m, t, b, params[VECTORS]);
	if (t->first) {
		low = tower_run(m, &t->low, b->rows, t->x, params + BOTTOM, t->low_acts, NULL);
		layer_activate(m->tanh, b->rows * t->k, low);
	}
	for (size_t r = 0; r < b->rows; r++) {
		float *z = t->z + r * t->n * t->k;

		if (t->first) {
			memcpy(z, low + r * t->k, t->k * sizeof *z);
			memcpy(in, z, t->k * sizeof *z);
			in += t->k;
		}
		for (size_t i = 0; i < t->n; i++)
			for (size_t j = i + 1; j < t->n; j++)
				*in++ = entries_dot(t->k, z + i * t->k, z + j * t->k);
	}
	return low;
}

/* From d loss / d input of the top, in t->in, to d loss / d z. */
static void back_pairs(const struct interaction *t, size_t rows)
{
	const float *in = t->in;

	memset(t->back, 0, rows * t->n * t->k * sizeof *t->back);
	for (size_t r = 0; r < rows; r++) {
		const float *z = t->z + r * t->n * t->k;
		float *back = t->back + r * t->n * t->k;

		if (t->first) {
			memcpy(back, in, t->k * sizeof *back);
			in += t->k;
		}
		for (size_t i = 0; i < t->n; i++)
			for (size_t j = i + 1; j < t->n; j++, in++) {
				entries_axpy(t->k, *in, z + j * t->k, back + i * t->k);
				entries_axpy(t->k, *in, z + i * t->k, back + j * t->k);
			}
	}
}

static double dlrm_grad(struct model *m, const struct batch *b, const float *const params[],
    float *const grads[])
{
	struct interaction t = interaction_of_batch(m, b->rows);
	float *low = run_below(m, &t, b, params),
	      *f = tower_run(m, &t.high, b->rows, t.in, params + t.top, t.high_acts, NULL);
	double loss = 0, n = (double)b->rows, slope;

	for (size_t r = 0; r < b->rows; r++) {
		double weight = (double)batch_weight(b, r);

		loss += loss_at(m->loss, (double)f[r], (double)b->y[r], &slope) * weight;
		f[r] = (float)(slope / n * weight);
	}
	tower_back(m, &t.high, b->rows, t.in, params + t.top, t.high_acts, grads + t.top, t.in);
	back_pairs(&t, b->rows);
	factors_clear(&m->tables[VECTORS], b, grads[VECTORS]);
	spread_entries(m, &t, b, grads[VECTORS]);
	if (!t.first)
		return loss_unscaled(m->loss, loss / n);
	/* The delta of the bottom's last layer takes the place of its output. */
	for (size_t r = 0; r < b->rows; r++)
		layer_activate_back(m->tanh, t.k, t.back + r * t.n * t.k, low + r * t.k);
	tower_back(m, &t.low, b->rows, t.x, params + BOTTOM, t.low_acts, grads + BOTTOM, NULL);
	return loss_unscaled(m->loss, loss / n);
}

static double dlrm_forward(struct model *m, const struct batch *b, const float *const params[],
    float *scores)
{
	struct interaction t = interaction_of_batch(m, b->rows);
	double loss = 0, slope;

	run_below(m, &t, b, params);
	tower_run(m, &t.high, b->rows, t.in, params + t.top, t.high_acts, scores);
	for (size_t r = 0; r < b->rows; r++) {
		double at = (double)scores[r];

		if (b->y != NULL)
			loss += loss_at(m->loss, at, (double)b->y[r], &slope) *
			    (double)batch_weight(b, r);
		scores[r] = (float)loss_score(m->loss, at);
	}
	return loss_unscaled(m->loss, loss);
}

/* The z of the fields, (N, places, k): the one of each entry by its field. A field without a place has
 * the number of places, which is none of them. */
static const char *fields_graph(const struct model *m, const struct graph *g,
    const struct interaction *t, const char *vectors)
{
	const char *z = g->field, *belongs;
	int64_t fields = (int64_t)m->shape.fields, *place;

	if (m->shape.place) {
		place = mem_array(m->shape.fields + 1, sizeof *place);
		for (size_t k = 0; k < m->shape.fields; k++)
			place[k] = m->shape.place[k] == MODEL_NO_PLACE ? (int64_t)m->shape.places
			                                               : (int64_t)m->shape.place[k];
		z = graph_join(g, "Gather", onnx_ints(g->onnx, place, 1, &fields), g->field);
		free(place);
	}
	belongs = onnx_op(g->onnx, "Transpose", graph_one_hot(g, z, t->n - t->first), NULL);
	onnx_set_ints(g->onnx, "perm", (const int64_t[]){ 0, 2, 1 }, 3);
	return graph_join(g, "MatMul", belongs, vectors);
}

/* The numbers among the entries, (N, numbers): each is the sum of the values of its feature. */
static const char *numbers_graph(const struct graph *g, const struct interaction *t)
{
	const char *is = graph_one_hot(g, g->id, t->numbers),
	           *x = graph_join(g, "Mul", is, graph_widen(g, g->value, 2));

	return graph_sum(g, x, 1, false);
}

/* The vectors of the entries, which are 0 for numbers. */
static const char *categories_graph(const struct model *m, const struct graph *g,
    const struct interaction *t)
{
	const char *vectors = graph_entries(g, m, VECTORS), *is;

	if (!t->first)
		return vectors;
	is = graph_join(g, "GreaterOrEqual", g->id,
	    onnx_ints(g->onnx, &(int64_t){ (int64_t)t->numbers }, 0, NULL));
	is = onnx_op(g->onnx, "Cast", is, NULL);
	onnx_set_int(g->onnx, "to", ONNX_FLOAT);
	return graph_join(g, "Mul", vectors, graph_widen(g, is, 2));
}

/* The products of z and its transpose have each pair twice; those with i < j are taken. */
static const char *products_graph(const struct graph *g, const struct interaction *t, const char *z)
{
	int64_t pairs = (int64_t)pairs_of(t->n), *at = mem_array((size_t)pairs + 1, sizeof *at);
	const char *turned = onnx_op(g->onnx, "Transpose", z, NULL), *all;
	size_t n = 0;

	onnx_set_ints(g->onnx, "perm", (const int64_t[]){ 0, 2, 1 }, 3);
	all = graph_reshape(g, graph_join(g, "MatMul", z, turned),
	    (const int64_t[]){ -1, (int64_t)(t->n * t->n) }, 2);
	for (size_t i = 0; i < t->n; i++)
		for (size_t j = i + 1; j < t->n; j++)
			at[n++] = (int64_t)(i * t->n + j);
	all = graph_join(g, "Gather", all, onnx_ints(g->onnx, at, 1, &pairs));
	onnx_set_int(g->onnx, "axis", 1);
	free(at);
	return all;
}

static const char *dlrm_graph(const struct model *m, const struct graph *g)
{
	struct interaction t = interaction_of(m);
	const char *z = fields_graph(m, g, &t, categories_graph(m, g, &t)), *low = NULL, *in;

	if (t.first) {
		low = graph_tower(g, m, &t.low, BOTTOM, numbers_graph(g, &t));
		low = graph_activate(g, m, low);
		z = graph_join(g, "Concat", graph_widen(g, low, 1), z);
		onnx_set_int(g->onnx, "axis", 1);
	}
	in = products_graph(g, &t, z);
	if (low) {
		in = graph_join(g, "Concat", low, in);
		onnx_set_int(g->onnx, "axis", 1);
	}
	return graph_tower(g, m, &t.high, t.top, in);
}

const struct model_kind model_kind_dlrm = {
	.hidden = true,
	.fields = true,
	.fits = dlrm_fits,
	.plan = dlrm_plan,
	.scratch = dlrm_scratch,
	.grad = dlrm_grad,
	.forward = dlrm_forward,
	.graph = dlrm_graph,
};
