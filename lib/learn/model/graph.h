/* SPDX-License-Identifier: ISC */
#ifndef MODEL_GRAPH_H
#define MODEL_GRAPH_H

#include "format/onnx.h"
#include "model/model.h"

/* The arithmetic of models as a graph of ONNX operators, for programs that score without pskit. The
 * caller makes the inputs and the tables; a model adds the operators between them and its scores
 * (model_kind.graph), and a loss those after them (loss_ops.graph). Shapes are those of ONNX: N is the
 * number of examples, and K that of the entries of an example, which may differ from call to call. */

/* A table as the graph has it. */
struct graph_table {
	const char *values; /* (rows, cols) */
	/* Sparse tables: the row in `values` of each entry, (N, K). NULL: the table is dense. */
	const char *place;
};

struct graph {
	struct onnx *onnx;
	/* Dense data: the features, (N, features). NULL: the data are sparse. */
	const char *x;
	/* Sparse data: the features of the entries as int64, and their values, each (N, K). Entries with
	 * the value 0 are none. */
	const char *id, *value;
	/* The fields of the entries as int64, (N, K) or (1, K). NULL: the data have no fields. */
	const char *field;
	const struct graph_table *table; /* in the order of model_tables */
};

/* Can the model be a graph? */
bool model_has_graph(const struct model *m);
/* Names the kinds of models that can be a graph, "linear, logistic, ...", as a new string. */
char *model_graph_kinds(const struct model_kind *const *kinds);
/* Adds the model, and returns the scores that model_forward gives, (N, model_outputs): as float, or as
 * double where exact. Values are computed as float32. Only if model_has_graph. */
const char *model_graph(const struct model *m, const struct graph *g, bool exact);

#endif
