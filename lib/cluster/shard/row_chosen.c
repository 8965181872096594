/* SPDX-License-Identifier: ISC */
#include "shard/row_chosen.h"

#include <stdlib.h>
#include <string.h>

#include "core/mem.h"

static int compare_chosen(const void *a, const void *b)
{
	const struct chosen_row *x = a, *y = b;

	return (x->id > y->id) - (x->id < y->id);
}

struct chosen_row *row_chosen_list(const struct rows *rows, rows_keeps_fn *wants, void *ctx,
    size_t *n)
{
	struct chosen_row *chosen = mem_try_array(rows_count(rows) + 1, sizeof *chosen), x;

	*n = 0;
	for (size_t i = 0; chosen && i < rows_count(rows); i++) {
		x.row = rows_at(rows, i, &x.id);
		if (!wants || wants(ctx, x.id, x.row))
			chosen[(*n)++] = x;
	}
	if (chosen)
		qsort(chosen, *n, sizeof *chosen, compare_chosen);
	return chosen;
}

bool row_chosen_copy(const struct chosen_row *chosen, size_t n, size_t bytes, uint64_t **ids,
    uint8_t **to)
{
	*ids = mem_try_array(n + 1, sizeof **ids);
	*to = mem_try_array(n + 1, bytes);
	if (!*ids || !*to) {
		free(*ids);
		free(*to);
		*ids = NULL;
		*to = NULL;
		return false;
	}
	for (size_t i = 0; i < n; i++) {
		(*ids)[i] = chosen[i].id;
		memcpy(*to + i * bytes, chosen[i].row, bytes);
	}
	return true;
}
