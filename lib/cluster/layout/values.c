/* SPDX-License-Identifier: ISC */
#include "layout/values.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "core/rng.h"
#include "math/vec.h"

/* ---- initial values ---- */

uint64_t values_round_base(const struct table *t)
{
	/* Another number than init_base of the table. */
	uint64_t h = rng_mix(t->seed ^ UINT64_C(0x726f756e64));

	for (const char *s = t->name; *s; s++)
		h = rng_mix(h ^ (uint8_t)*s);
	return h;
}

uint64_t init_base(const struct table *t)
{
	uint64_t h = rng_mix(t->seed);

	for (const char *s = t->name; *s && t->init == TABLE_UNIFORM; s++)
		h = rng_mix(h ^ (uint8_t)*s);
	return h;
}

/* Writes n values that are not rounded yet. */
static void fill_exactly(const struct table *t, uint64_t base, uint64_t first, size_t n, float *out)
{
	if (t->init == TABLE_CONSTANT) {
		for (size_t i = 0; i < n; i++)
			out[i] = t->init_limit;
		return;
	}
	if (t->init != TABLE_UNIFORM && n == 1) {
		*out = 0;
		return;
	}
	if (t->init != TABLE_UNIFORM) {
		memset(out, 0, n * sizeof *out);
		return;
	}
	for (size_t i = 0; i < n; i++) {
		/* 24 bits: every float in [0, 1) at this spacing is exact. */
		uint64_t bits = rng_mix(base + first + i) >> 40;

		out[i] = t->init_limit * ((float)bits * (2.0f / (1 << 24)) - 1.0f);
	}
}

void init_fill_by(const struct table *t, uint64_t base, uint64_t first, size_t n, float *out)
{
	fill_exactly(t, base, first, n, out);
	element_fit(t->policy.values, n, out);
}

void init_fill(const struct table *t, uint64_t first, size_t n, float *out)
{
	init_fill_by(t, init_base(t), first, n, out);
}

uint64_t init_row_place(const struct table *t, uint64_t id)
{
	return id * t->cols;
}

void init_clear_untrained(const struct table *t, const uint64_t *ids, size_t n, float *rows)
{
	uint64_t base = init_base(t);
	float *initial;

	if (t->init != TABLE_UNIFORM)
		return;
	initial = mem_array(t->cols, sizeof *initial);
	for (size_t i = 0; i < n; i++, rows += t->cols) {
		/* Most rows differ in their first value. */
		init_fill_by(t, base, init_row_place(t, ids[i]), 1, initial);
		if (memcmp(initial, rows, sizeof *rows) != 0)
			continue;
		init_fill_by(t, base, init_row_place(t, ids[i]), t->cols, initial);
		if (memcmp(initial, rows, t->cols * sizeof *rows) == 0)
			memset(rows, 0, t->cols * sizeof *rows);
	}
	free(initial);
}

/* ---- checks ---- */

static size_t find_nonfinite(const float *w, size_t n)
{
	size_t i = 0;

	while (i < n && isfinite(w[i]))
		i++;
	return i;
}

static enum err_code report_value(const char *table, uint64_t row, uint64_t col, float value,
    struct err *e)
{
	return err_set(e, ERR_NONFINITE, "table \"%s\" has the value %s in row %llu, column %llu",
	    table,
	    isnan(value)    ? "NaN"
	        : value < 0 ? "-infinity"
	                    : "infinity",
	    (unsigned long long)row, (unsigned long long)col);
}

enum err_code values_check_dense(const char *table, uint32_t cols, uint64_t first, const float *w,
    size_t n, struct err *e)
{
	size_t i;

	if (vec_all_finite(n, w))
		return ERR_OK;
	i = find_nonfinite(w, n);
	return report_value(table, (first + i) / cols, (first + i) % cols, w[i], e);
}

enum err_code values_check_rows(const char *table, uint32_t cols, const uint64_t *ids,
    const float *w, size_t n, struct err *e)
{
	size_t i;

	if (vec_all_finite(n * cols, w))
		return ERR_OK;
	i = find_nonfinite(w, n * cols);
	return report_value(table, ids[i / cols], i % cols, w[i], e);
}
