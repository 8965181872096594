#include "base/mem.h"
#include "mirror/mirror_state.h"

enum err_code parted_make(const struct table *t, const uint64_t *ids, const float *rows, size_t n, struct parted *out, struct err *e)
{
	uint16_t *part = mem_try_array(n + 1, sizeof *part);
	size_t cols = rows ? t->cols : 0, *at;

	*out = (struct parted){ .ids = mem_try_array(n + 1, sizeof *ids), .rows = mem_try_array(n * cols + 1, sizeof *rows),
		.first = mem_try_array(t->nparts + 2, sizeof *out->first) };
	if (!part || !out->ids || !out->rows || !out->first) {
		free(part);
		parted_release(out);
		return err_set(e, ERR_NOMEM, "no memory for %zu rows of table \"%s\"", n, t->name);
	}
	table_parts_of(t, ids, n, part);
	/* Counted one place further, a partition's end is its beginning until it is filled. */
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

static bool is_wide(const float *rest, size_t n)
{
	size_t i = 0;

	while (i < n && rest[i] == 0)
		i++;
	return i < n;
}

/* Row i goes to its place; *wide: how many of its partition were wide before it. */
static void split_row(const struct table *t, struct parted *p, size_t i, size_t at, size_t *wide)
{
	size_t head = t->policy.narrow, rest = t->cols - head;
	const float *row = p->rows + i * t->cols;

	memcpy(p->narrow + i * head, row, head * sizeof *row);
	if (!is_wide(row + head, rest))
		return;
	p->width[i] = CKPT_WIDE | *wide;
	memcpy(p->rest + (at + *wide) * rest, row + head, rest * sizeof *row);
	++*wide;
}

enum err_code parted_narrow(const struct table *t, struct parted *p, struct err *e)
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
			split_row(t, p, i, p->wide[k], &wide);
		p->wide[k + 1] = p->wide[k] + wide;
	}
	return ERR_OK;
}

void parted_release(struct parted *p)
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
