/* SPDX-License-Identifier: ISC */
#ifndef TOOL_ONNX_INPUTS_H
#define TOOL_ONNX_INPUTS_H

#include "core/log.h"
#include "model/graph.h"
#include "worker/job.h"

/* The inputs of a model in ONNX, by the description of its training data:
 *
 *   tables of text   an input for each column, (N, 1), by its name: numbers as float, in the units of the
 *                    data, and as double where float loses too much; categories as texts. Scaling, missing
 *                    numbers and the numbers of categories are part of the graph. A list of categories is
 *                    (N, any number), padded with texts that are no category. Words among the numbers of a
 *                    column NAME are another input, NAME.word.
 *   dense data       x, (N, features)
 *   sparse data      ids and values, (N, K), padded with values of 0, and, where the model uses them,
 *                    fields, (N, K). Ids are as in the files, with their index base.
 *
 * Tables with texts of words, and those whose categories are hashed, have the inputs of dense or sparse
 * data: their features cannot be computed by ONNX. A warning in `log` says so.
 *
 * Adds the inputs, and sets all of *out but onnx, which is set already, and table. Pure. */
void onnx_inputs_add(const struct job *j, struct log *log, struct graph *out);

#endif
