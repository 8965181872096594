/* SPDX-License-Identifier: ISC */
#include "tool/dense_table.h"

#include <stdlib.h>

#include "core/mem.h"

/* Elements of the partitions that are in memory at once, unless one partition has more. */
#define WINDOW (UINT64_C(4) << 20)

static enum err_code check_shape(const struct table *t, uint64_t rows, struct err *e)
{
	if (!t->dropped && t->rows == rows)
		return ERR_OK;
	return err_set(e, ERR_STALE, "table \"%s\" was %s meanwhile: export it again", t->name,
	    t->dropped ? "dropped" : "extended");
}

/* The number of partitions from `first` on that fit into a window, at least one. *n: their
 * elements. */
static uint32_t choose_window(const struct table *t, uint32_t first, size_t *n)
{
	uint32_t count = 1;

	*n = table_part_elements(t, first);
	while (first + count < t->nparts && *n + table_part_elements(t, first + count) <= WINDOW) {
		*n += table_part_elements(t, first + count);
		count++;
	}
	return count;
}

enum err_code dense_table_read(struct client *c, const struct table *t, uint64_t rows,
    enum err_code (*fn)(void *ctx, uint64_t first, const float *w, size_t n, struct err *e),
    void *ctx, struct err *e)
{
	enum err_code rc = check_shape(t, rows, e);
	size_t n, room = 0;
	float *w = NULL;

	for (uint32_t first = 0, count; !rc && first < t->nparts; first += count) {
		count = choose_window(t, first, &n);
		if (n > room) {
			free(w);
			w = mem_try_array(n, sizeof *w);
			room = n;
		}
		if (!w) {
			rc = err_set(e, ERR_NOMEM, "no memory for %zu values of table \"%s\"", n,
			    t->name);
			break;
		}
		rc = client_want_window(c, t, first, count, w, e);
		if (!rc)
			rc = client_wait(c, CLIENT_NOW, e);
		if (!rc)
			rc = check_shape(t, rows, e);
		if (!rc)
			rc = fn(ctx, table_part_begin(t, first), w, n, e);
	}
	free(w);
	return rc;
}
