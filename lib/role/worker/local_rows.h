/* SPDX-License-Identifier: ISC */
#ifndef WORKER_LOCAL_ROWS_H
#define WORKER_LOCAL_ROWS_H

#include "core/err.h"
#include "optim/optim.h"

/* The optimizer state of the rows of one sparse table, for local steps: a row has state from the first
 * push that it is in, for as long as this worker and the rule last.
 *
 * Order of calls: local_rows_find for the rows of each push, then local_rows_step any number of times.
 * One thread; no locks. */
struct local_rows;

/* cols: values of a row. */
struct local_rows *local_rows_new(const struct optim_rule *rule, uint32_t cols);
void local_rows_free(struct local_rows *s);

/* Finds the state of these rows, or makes it. Row k of the steps that follow is id[k]. ERR_NOMEM. */
enum err_code local_rows_find(struct local_rows *s, const uint64_t *id, size_t n, struct err *e);

/* One step of the rule, update number t, for n rows of the push: row[0..n-1], or 0..n-1 where row
 * is NULL. w has the parameters of all rows of the push. g has the mean gradients, over so many
 * examples, of these n rows, one after the other. touching: how many of the examples touch each of
 * the n; NULL: unknown. */
void local_rows_step(struct local_rows *s, const struct optim_hyper *h, uint64_t t, bool decay,
    const uint32_t *row, size_t n, float *w, const float *g, uint64_t examples,
    const uint32_t *touching);

#endif
