/* SPDX-License-Identifier: ISC */
#ifndef TOOL_ONNX_TABLES_H
#define TOOL_ONNX_TABLES_H

#include "model/graph.h"
#include "worker/params.h"

/* The tables of a model as tensors of ONNX, whose values are read from the source of parameters when the
 * file is written. A dense table is one tensor, (rows, cols). A sparse table has a row for each id, and
 * one more for all other ids: where most ids up to the largest one have rows, all of these, and else the
 * rows that there are, with a tensor of their ids, in which the graph searches. Rows that no example has
 * trained are zeroes, as in params_pull_scores.
 *
 * Memory: 8 bytes for each row of sparse tables, and a dense table of a living cluster. One thread, the
 * source's. */
struct onnx_tables;

/* Reads the ids of the rows, and adds all tables of the model to the graph: g->id is set, and g->table
 * becomes that of *out, in the order of the model. p is borrowed until onnx_tables_free. ERR_LIMIT: an
 * id is larger than int64 holds; ERR_NOMEM; errors of the source. */
enum err_code onnx_tables_add(struct params *p, struct graph *g, struct onnx_tables **out,
    struct err *e);
/* NULL is fine. */
void onnx_tables_free(struct onnx_tables *t);

#endif
