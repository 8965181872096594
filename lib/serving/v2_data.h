/* SPDX-License-Identifier: ISC */
#ifndef SERVING_V2_DATA_H
#define SERVING_V2_DATA_H

#include "core/json.h"
#include "data/data_build.h"
#include "serving/served.h"
#include "serving/v2_request.h"

/* Inputs of the Open Inference Protocol as examples of a model, by the form of its training data:
 *
 *   a table          an input for each column, by the column's name, [n] or [n, 1]: numbers or texts.
 *                    Columns that are missing are missing cells. Or, if all features are numbers, one
 *                    input [n, k] with a name of no column: the columns of features in their order.
 *   dense rows       one input [n, k]: the features
 *   sparse rows      "indices" [n, m]: the numbers of features, as in the data files; "values" [n, m]:
 *                    their values, 1 without it; "fields" [n, m], if the data have fields. An entry with
 *                    a negative index is padding.
 *   ratings          an input for each column, "user" and "item", as in a table of ratings
 *
 * Pure, but for the model's scratch memory: the model's thread. */

/* Appends the examples of a request. Errors as data_load; ERR_FORMAT: an input is unknown, is missing, or
 * has values of another kind. */
enum err_code v2_data_read(struct v2_request *r, const struct served_model *m, struct data_build *b,
    struct err *e);
/* The inputs and outputs of the model as metadata: {"inputs": [...], "outputs": [...]}, a new
 * reference. */
json_t *v2_data_describe(const struct served_model *m);

#endif
