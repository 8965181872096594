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

/* The gradients of n rows of the push, for one step of the rule. */
struct local_rows_gradient {
	const uint32_t *row; /* their numbers in the push; NULL: 0..n-1 */
	size_t n;
	const float *g; /* the mean gradients of these n rows, one after the other */
	uint64_t examples;
	/* How many of the examples touch each of the n rows; NULL: unknown. */
	const uint32_t *touching;
};
/* One step of the rule, update number t. w has the parameters of all rows of the push. */
void local_rows_step(struct local_rows *s, const struct optim_hyper *h, uint64_t t, bool decay,
    float *w, const struct local_rows_gradient *x);
/* Does what local_rows_step does, for row `row` of the push alone, whose parameters are at w,
 * with the gradient g of one example. */
void local_rows_step_one(struct local_rows *s, const struct optim_hyper *h, uint64_t t, bool decay,
    size_t row, float *w, const float *g);
/* Loads the state of row `row` of the push into the cache of the processor, in stages 0 and 1
 * (model_update.expect). */
void local_rows_expect(const struct local_rows *s, size_t row, unsigned stage);

#endif
