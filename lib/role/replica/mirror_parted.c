/* SPDX-License-Identifier: ISC */
#include "core/mem.h"
#include "replica/mirror_state.h"

enum err_code mirror_parted_make(const struct table *t, const uint64_t *ids, const float *rows,
    size_t n, struct parted *out, struct err *e)
{
	uint16_t *part = mem_try_array(n + 1, sizeof *part);
	size_t cols = rows ? t->cols : 0, *at;

	*out = (struct parted){ .ids = mem_try_array(n + 1, sizeof *ids),
		.rows = mem_try_array(n * cols + 1, sizeof *rows),
		.first = mem_try_array(t->nparts + 2, sizeof *out->first) };
	if (!part || !out->ids || !out->rows || !out->first) {
		free(part);
		mirror_parted_release(out);
		return err_set(e, ERR_NOMEM, "no memory for %zu rows of table \"%s\"", n, t->name);
	}
	table_parts_of(t, ids, n, part);
	/* A counting sort.  at[i] first counts partition i - 1, then is the place for the next row
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

static bool has_other_columns(const float *rest, size_t n)
{
	size_t i = 0;

	while (i < n && rest[i] == 0)
		i++;
	return i < n;
}

/* Split row i.  *wide: the wide rows of its partition before it; at: those of all partitions
 * before. */
static void split_narrow_row(const struct table *t, struct parted *p, size_t i, size_t at,
    size_t *wide)
{
	size_t head = t->policy.narrow, rest = t->cols - head;
	const float *row = p->rows + i * t->cols;

	memcpy(p->narrow + i * head, row, head * sizeof *row);
	if (!has_other_columns(row + head, rest))
		return;
	p->width[i] = CKPT_WIDE | *wide;
	memcpy(p->rest + (at + *wide) * rest, row + head, rest * sizeof *row);
	++*wide;
}

enum err_code mirror_parted_narrow(const struct table *t, struct parted *p, struct err *e)
{
	size_t n = p->first[t->nparts], rest = t->cols - t->policy.narrow;

	p->narrow = mem_try_array(n * t->policy.narrow + 1, sizeof *p->narrow);
	p->rest = mem_try_array(n * rest + 1, sizeof *p->rest);
	p->width = mem_try_array(n + 1, sizeof *p->width);
	p->wide = mem_try_array(t->nparts + 1, sizeof *p->wide);
	if (!p->narrow || !p->rest || !p->width || !p->wide)
		return err_set(e, ERR_NOMEM, "no memory for %zu rows of table \"%s\"", n, t->name);
	for (uint32_t k = 0; k < t->nparts; k++) {
		size_t wide = 0;

		for (size_t i = p->first[k]; i < p->first[k + 1]; i++)
			split_narrow_row(t, p, i, p->wide[k], &wide);
		p->wide[k + 1] = p->wide[k] + wide;
	}
	return ERR_OK;
}

void mirror_parted_release(struct parted *p)
{
	free(p->narrow);
	free(p->rest);
	free(p->width);
	free(p->wide);
	free(p->ids);
	free(p->rows);
	free(p->first);
	*p = (struct parted){ 0 };
}
