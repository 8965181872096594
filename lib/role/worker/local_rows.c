/* SPDX-License-Identifier: ISC */
#include "worker/local_rows.h"

#include <stdlib.h>

#include "core/mem.h"
#include "shard/part.h"
#include "shard/rows.h"

/* How many rows ahead parameters and state are prefetched. */
#define AHEAD 4u

struct local_rows {
	const struct optim_rule *rule;
	uint32_t cols;
	struct rows *rows; /* NULL: the rule has no state */
	void **state;      /* by row of the push */
	size_t cap;
};

struct local_rows *local_rows_new(const struct optim_rule *rule, uint32_t cols)
{
	struct local_rows *s = mem_alloc(sizeof *s);
	size_t floats = optim_state_floats(rule, cols, cols);

	s->rule = rule;
	s->cols = cols;
	s->rows = floats ? rows_new((uint32_t)(floats * sizeof(float))) : NULL;
	return s;
}

void local_rows_free(struct local_rows *s)
{
	if (!s)
		return;
	rows_free(s->rows);
	free((void *)s->state);
	free(s);
}

static enum err_code set_memory_error(const struct local_rows *s, size_t n, struct err *e)
{
	return err_set(e, ERR_NOMEM, "no memory for %s of %zu rows", s->rule->name, n);
}

enum err_code local_rows_find(struct local_rows *s, const uint64_t *id, size_t n, struct err *e)
{
	if (!s->rows)
		return ERR_OK;
	if (n > s->cap) {
		free((void *)s->state);
		s->cap = n + n / 4;
		s->state = mem_try_array(s->cap, sizeof *s->state);
		if (!s->state) {
			s->cap = 0;
			return set_memory_error(s, n, e);
		}
	}
	for (size_t at = 0; at < n; at += ROWS_BLOCK) {
		uint32_t some = n - at < ROWS_BLOCK ? (uint32_t)(n - at) : ROWS_BLOCK;
		uint64_t made;
		bool good = rows_make(s->rows, (const uint8_t *)(id + at), some, s->state + at,
		    &made);

		for (; made; made &= made - 1)
			part_init_state(s->rule, s->cols, s->cols,
			    s->state[at + (size_t)__builtin_ctzll(made)]);
		if (!good)
			return set_memory_error(s, n, e);
	}
	return ERR_OK;
}

void local_rows_step(struct local_rows *s, const struct optim_hyper *h, uint64_t t, bool decay,
    float *w, const struct local_rows_gradient *x)
{
	const uint32_t *row = x->row;
	size_t n = x->n;
	float *vector[OPTIM_VECTORS_MAX] = { NULL };

	for (size_t k = 0; k < n; k++) {
		size_t at = row ? row[k] : k;
		struct optim_gradient mean = { x->g + k * s->cols, 1, x->examples,
			x->touching ? x->touching[k] : 0, s->cols };

		if (row && k + AHEAD < n) {
			__builtin_prefetch(w + (size_t)row[k + AHEAD] * s->cols);
			if (s->rows)
				__builtin_prefetch(s->state[row[k + AHEAD]]);
		}
		if (s->rows)
			part_state_vectors(s->state[at], s->cols, s->cols, s->rule, vector);
		s->rule->step(h, t, decay, s->cols, w + at * s->cols, vector, &mean);
	}
}

void local_rows_step_one(struct local_rows *s, const struct optim_hyper *h, uint64_t t, bool decay,
    size_t row, float *w, const float *g)
{
	struct optim_gradient of_one = { g, 1, 1, 1, s->cols };
	float *vector[OPTIM_VECTORS_MAX] = { NULL };

	if (s->rows)
		part_state_vectors(s->state[row], s->cols, s->cols, s->rule, vector);
	s->rule->step(h, t, decay, s->cols, w, vector, &of_one);
}

void local_rows_expect(const struct local_rows *s, size_t row, unsigned stage)
{
	if (!s->rows)
		return;
	if (stage)
		__builtin_prefetch(s->state[row], 1);
	else
		__builtin_prefetch(&s->state[row]);
}
