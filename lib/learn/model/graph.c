/* SPDX-License-Identifier: ISC */
#include "model/graph.h"

#include <assert.h>

#include "core/buf.h"
#include "core/mem.h"
#include "model/graph_parts.h"

/* ---- parts ---- */

static const char *one_int(const struct graph *g, int64_t v)
{
	return onnx_ints(g->onnx, &v, 1, &(int64_t){ 1 });
}

const char *graph_sum(const struct graph *g, const char *x, int64_t axis, bool stays)
{
	const char *axes = one_int(g, axis), *out = graph_join(g, "ReduceSum", x, axes);

	onnx_set_int(g->onnx, "keepdims", stays);
	return out;
}

const char *graph_reshape(const struct graph *g, const char *x, const int64_t *dims, size_t rank)
{
	int64_t n = (int64_t)rank;

	return graph_join(g, "Reshape", x, onnx_ints(g->onnx, dims, 1, &n));
}

const char *graph_widen(const struct graph *g, const char *x, int64_t axis)
{
	return graph_join(g, "Unsqueeze", x, one_int(g, axis));
}

const char *graph_columns(const struct graph *g, const char *x, size_t rank, size_t first, size_t n)
{
	return onnx_op(g->onnx, "Slice", x, one_int(g, (int64_t)first),
	    one_int(g, (int64_t)(first + n)), one_int(g, (int64_t)rank - 1), NULL);
}

const char *graph_first_numbers(const struct graph *g, size_t n)
{
	int64_t *number = mem_array(n + 1, sizeof *number), dims[] = { 1, (int64_t)n };
	const char *out;

	for (size_t i = 0; i < n; i++)
		number[i] = (int64_t)i;
	out = onnx_ints(g->onnx, number, 2, dims);
	free(number);
	return out;
}

static const char *cast(const struct graph *g, const char *x, enum onnx_type type)
{
	const char *out = onnx_op(g->onnx, "Cast", x, NULL);

	onnx_set_int(g->onnx, "to", type);
	return out;
}

const char *graph_one_hot(const struct graph *g, const char *x, size_t n)
{
	const char *equal = graph_join(g, "Equal", graph_widen(g, x, 2), graph_first_numbers(g, n));

	return cast(g, equal, ONNX_FLOAT);
}

const char *graph_entry_values(const struct graph *g)
{
	return g->x ? g->x : g->value;
}

/* A dense example has all features as its entries. */
const char *graph_entries(const struct graph *g, const struct model *m, size_t table)
{
	const struct graph_table *t = &g->table[table];
	const char *rows = m->shape.sparse ? graph_join(g, "Gather", t->values, t->place)
	                                   : graph_widen(g, t->values, 0);

	return graph_join(g, "Mul", rows, graph_widen(g, graph_entry_values(g), 2));
}

const char *graph_linear(const struct graph *g, const struct model *m, size_t table)
{
	return m->shape.sparse ? graph_sum(g, graph_entries(g, m, table), 1, false)
	                       : graph_join(g, "MatMul", g->x, g->table[table].values);
}

const char *graph_by_field(const struct graph *g, const struct model *m, const char *vectors,
    size_t width)
{
	size_t fields = m->shape.fields ? m->shape.fields : 1;
	const char *sums = vectors;

	if (!m->shape.fields) {
		sums = graph_sum(g, vectors, 1, false);
	} else if (m->shape.sparse) {
		const char *belongs = onnx_op(g->onnx, "Transpose",
		    graph_one_hot(g, g->field, fields), NULL);

		onnx_set_ints(g->onnx, "perm", (const int64_t[]){ 0, 2, 1 }, 3);
		sums = graph_join(g, "MatMul", belongs, vectors);
	}
	return graph_reshape(g, sums, (const int64_t[]){ -1, (int64_t)(fields * width) }, 2);
}

const char *graph_pairs(const struct graph *g, const char *vectors)
{
	const char *sum = graph_sum(g, vectors, 1, false),
	           *squares = graph_sum(g, graph_join(g, "Mul", vectors, vectors), 1, false),
	           *both = graph_join(g, "Sub", graph_join(g, "Mul", sum, sum), squares),
	           *half = onnx_floats(g->onnx, &(float){ 0.5f }, 0, NULL);

	return graph_join(g, "Mul", graph_sum(g, both, 1, true), half);
}

const char *graph_activate(const struct graph *g, const struct model *m, const char *x)
{
	return onnx_op(g->onnx, m->tanh ? "Tanh" : "Relu", x, NULL);
}

const char *graph_tower(const struct graph *g, const struct model *m, const struct tower *t,
    size_t table, const char *in)
{
	for (size_t l = 0; l <= t->nhidden; l++, table += 2) {
		const char *z = in ? graph_join(g, "MatMul", in, g->table[table].values)
		                   : graph_linear(g, m, table);

		in = graph_join(g, "Add", z, g->table[table + 1].values);
		if (l < t->nhidden)
			in = graph_activate(g, m, in);
	}
	return in;
}

/* ---- whole models ---- */

bool model_has_graph(const struct model *m)
{
	return m->kind->graph != NULL;
}

char *model_graph_kinds(const struct model_kind *const *kinds)
{
	struct buf names = BUF_INIT;

	for (size_t i = 0; model_info_at(i); i++)
		if (kinds[i] && kinds[i]->graph)
			buf_printf(&names, "%s%s", names.len ? ", " : "", model_info_at(i)->name);
	buf_puts(&names, "");
	return (char *)names.data;
}

/* Replaces scores of scaled targets by scores of the targets, as doubles. */
static const char *unscale(const struct model *m, const struct graph *g, const char *scores)
{
	int64_t dims[] = { 1, (int64_t)m->outputs };
	double *factor = mem_array(m->outputs, sizeof *factor),
	       *shift = mem_array(m->outputs, sizeof *shift);
	const char *out = cast(g, scores, ONNX_DOUBLE);

	for (size_t k = 0; k < m->outputs; k++) {
		factor[k] = m->scaling[k].factor;
		shift[k] = m->scaling[k].shift;
	}
	out = graph_join(g, "Div", out, onnx_doubles(g->onnx, factor, 2, dims));
	out = graph_join(g, "Add", out, onnx_doubles(g->onnx, shift, 2, dims));
	free(factor);
	free(shift);
	return out;
}

const char *model_graph(const struct model *m, const struct graph *g, bool exact)
{
	const struct loss_ops *loss = m->loss->ops;
	const char *f = m->kind->graph(m, g);

	assert(!(loss->score || loss->score_rows) == !loss->graph);
	if (loss->graph)
		f = loss->graph(g->onnx, f);
	if (m->scaling) {
		f = unscale(m, g, f);
		return exact ? f : cast(g, f, ONNX_FLOAT);
	}
	return exact ? cast(g, f, ONNX_DOUBLE) : f;
}
