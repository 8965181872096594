/* SPDX-License-Identifier: ISC */
#include "shard/row_width.h"

#include "core/endian.h"
#include "shard/row_life.h"

void row_width_alloc(struct part *p, const struct optim_rule *rule)
{
	p->rest = row_width_rest_cols(p) ? rows_new(row_width_rest_cols(p) * (1 + rule->nslots))
	                                 : NULL;
}

void row_width_init_columns(const struct part *p, const uint8_t *ids, float *const *row,
    uint64_t made, uint32_t first, uint32_t cols)
{
	uint64_t base = init_base(p->table);

	for (; made; made &= made - 1) {
		uint32_t i = (uint32_t)__builtin_ctzll(made);

		init_fill_by(p->table, base,
		    init_row_place(p->table, get_le64(ids + (size_t)i * 8)) + first, cols, row[i]);
		part_init_state(p->by->rule, cols, row[i] + cols);
	}
}

bool row_width_count_updates(struct part *p, const uint8_t *ids, float *const *row, uint32_t n,
    uint32_t *place, uint32_t *wide, uint64_t *widened)
{
	uint64_t after = p->table->policy.widen_after, fresh[ROWS_BLOCK], made;
	float *rest[ROWS_BLOCK];
	uint32_t k = 0;

	*widened = 0;
	*wide = 0;
	for (uint32_t i = 0; i < n; i++) {
		uint32_t had = row_width_updates(p, row[i]);

		if (had >= after) {
			place[(*wide)++] = i;
			continue;
		}
		row_width_set_updates(p, row[i], had + 1);
		if (had + 1 < after)
			continue;
		*widened |= UINT64_C(1) << i;
		memcpy(&fresh[k++], ids + (size_t)i * 8, sizeof *fresh);
	}
	if (!k)
		return true;
	if (!rows_make(p->rest, (const uint8_t *)fresh, k, rest, &made))
		return false;
	row_width_init_columns(p, (const uint8_t *)fresh, rest, made, p->narrow,
	    row_width_rest_cols(p));
	p->life->count[LIFE_widened] += k;
	return true;
}

/* ---- values ---- */

void row_width_copy_rest(const struct part *p, uint64_t id, const float *row, float *out)
{
	uint32_t cols = row_width_rest_cols(p);

	if (row && row_width_is_wide(p, row))
		copy_floats(out, rows_get(p->rest, id), cols);
	else
		memset(out, 0, cols * sizeof *out);
}

void row_width_show_rest(const struct part *p, const uint8_t *ids, float *const *row, uint32_t n,
    float *out)
{
	uint32_t cols = row_width_rest_cols(p), place[ROWS_BLOCK], k = 0;
	uint64_t wide[ROWS_BLOCK];
	float *rest[ROWS_BLOCK];

	for (uint32_t i = 0; i < n; i++) {
		if (row[i] && row_width_is_wide(p, row[i])) {
			memcpy(&wide[k], ids + (size_t)i * 8, sizeof *wide);
			place[k++] = i;
		} else {
			memset(out + (size_t)i * p->table->cols + p->narrow, 0, cols * sizeof *out);
		}
	}
	if (!k)
		return;
	rows_find(p->rest, (const uint8_t *)wide, k, rest);
	for (uint32_t i = 0; i < k; i++)
		copy_floats(out + (size_t)place[i] * p->table->cols + p->narrow, rest[i], cols);
}

/* ---- both together ---- */

/* For rows_sift: is there still a row in p->rows? */
static bool has_row(void *ctx, uint64_t id, const float *row)
{
	const struct part *p = ctx;

	(void)row;
	return rows_get(p->rows, id) != NULL;
}

void row_width_sift(struct part *p)
{
	if (p->rest)
		rows_sift(p->rest, has_row, p);
}

size_t row_width_count(const struct part *p)
{
	uint64_t id;
	size_t n = 0;

	for (size_t i = 0; p->rest && i < rows_count(p->rows); i++)
		n += row_width_is_wide(p, rows_at(p->rows, i, &id));
	return n;
}

bool row_width_is_sound(const struct part *p)
{
	uint64_t id;
	bool good = !p->rest || rows_count(p->rest) == row_width_count(p);

	for (size_t i = 0; good && p->rest && i < rows_count(p->rest); i++) {
		const float *row;

		rows_at(p->rest, i, &id);
		row = rows_get(p->rows, id);
		good = row && row_width_is_wide(p, row);
	}
	return good;
}

size_t row_width_bytes(const struct part *p)
{
	return rows_bytes(p->rows) + (p->rest ? rows_bytes(p->rest) : 0);
}

size_t row_width_row_bytes(const struct part *p, const float *row)
{
	size_t narrow = p->stride * sizeof(float) + ROW_OVERHEAD;

	return narrow +
	    (row_width_is_wide(p, row) ? row_width_rest_stride(p) * sizeof(float) + ROW_OVERHEAD
	                               : 0);
}

uint64_t row_width_values(const struct part *p)
{
	return (uint64_t)rows_count(p->rows) * p->narrow +
	    (p->rest ? (uint64_t)rows_count(p->rest) * row_width_rest_cols(p) : 0);
}
