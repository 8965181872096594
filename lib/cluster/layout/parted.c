/* SPDX-License-Identifier: ISC */
#include "layout/parted.h"

#include <stdlib.h>
#include <string.h>

#include "core/mem.h"

enum err_code parted_make(const struct table *t, const uint64_t *ids, const float *rows, size_t n,
    struct parted *out, struct err *e)
{
	uint16_t *part = mem_try_array(n + 1, sizeof *part);
	size_t cols = rows ? t->cols : 0, *at;

	*out = (struct parted){ .ids = mem_try_array(n + 1, sizeof *ids),
		.rows = mem_try_array(n * cols + 1, sizeof *rows),
		.first = mem_try_array(t->nparts + 2, sizeof *out->first) };
	if (!part || !out->ids || !out->rows || !out->first) {
		free(part);
		parted_release(out);
		return err_set(e, ERR_NOMEM, "no memory for %zu rows of table \"%s\"", n, t->name);
	}
	table_parts_of(t, ids, n, part);
	/* A counting sort. at[i] first counts partition i - 1, then is the place for the next row
	 * of partition i, and at the end is the end of partition i: that is first[i + 1]. */
	at = out->first + 1;
	for (size_t i = 0; i < n; i++)
		at[part[i] + 1]++;
	for (uint32_t p = 0; p < t->nparts; p++)
		at[p + 1] += at[p];
	for (size_t i = 0; i < n; i++) {
		size_t to = at[part[i]]++;

		out->ids[to] = ids[i];
		if (cols)
			memcpy(out->rows + to * cols, rows + i * cols, cols * sizeof *rows);
	}
	free(part);
	return ERR_OK;
}

void parted_release(struct parted *p)
{
	free(p->ids);
	free(p->rows);
	free(p->first);
	*p = (struct parted){ 0 };
}
