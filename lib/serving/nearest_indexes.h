/* SPDX-License-Identifier: ISC */
#ifndef SERVING_NEAREST_INDEXES_H
#define SERVING_NEAREST_INDEXES_H

#include "conf/conf.h"
#include "serving/nearest_request.h"
#include "serving/served.h"

/* Answers POST /nearest from indexes of tables of the served model (tool/neighbours.h). An index is made
 * by the first request that needs it, and kept: NEAREST_INDEXES of them, those that were used last. If
 * the values of the model change, an index is made again once it is older than a second, and than ten
 * times what it took to make it.
 *
 * One thread, the model's. */
#define NEAREST_INDEXES 4

struct nearest_indexes;

/* rated: paths of ratings, of which an index of items leaves out the items of the user who asks
 * (neighbours_rated). They are copied, and read for each index that is made. */
struct nearest_indexes *nearest_indexes_new(const struct conf_strs *rated);
void nearest_indexes_free(struct nearest_indexes *x); /* NULL is fine */
/* The model is the present one: frees the indexes of an earlier one. */
void nearest_indexes_follow(struct nearest_indexes *x, const struct served_model *m);
/* Appends the answer, {"nearest": [[{"id", "name", "score"}, ...], ...]}, with a list for each query.
 * *age: of the values in ns; -1: not known. Errors of neighbours_open, neighbours_exclude and
 * neighbours_ask; then nothing is appended. */
enum err_code nearest_indexes_answer(struct nearest_indexes *x, struct served_model *m,
    const struct nearest_request *r, struct buf *out, int64_t *age, struct err *e);

#endif
