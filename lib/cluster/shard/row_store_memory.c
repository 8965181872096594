/* SPDX-License-Identifier: ISC */
#include "core/mem.h"
#include "shard/row_chosen.h"
#include "shard/row_store.h"

/* Rows in memory, in their working form: a hash table of rows (rows.h), which is handed out as it
 * is. */

struct memory_store {
	struct row_store store;
	struct rows *rows; /* NULL: closed */
};

static struct rows *rows_of(const struct row_store *s)
{
	return ((const struct memory_store *)s)->rows;
}

static uint64_t row_bytes(const struct row_store *s, const struct row_layout *l)
{
	(void)s;
	return l->bytes + ROW_OVERHEAD;
}

extern const struct row_store_ops row_store_memory;

static struct row_store *make_store(const struct table *t, struct spill *spill)
{
	struct memory_store *m = mem_alloc(sizeof *m);

	(void)t;
	(void)spill;
	m->store.ops = &row_store_memory;
	m->store.element_bytes = sizeof(float);
	return &m->store;
}

static void close_store(struct row_store *s)
{
	struct memory_store *m = (struct memory_store *)s;

	rows_free(m->rows);
	m->rows = NULL;
}

static void free_store(struct row_store *s)
{
	close_store(s);
	free(s);
}

static void open_store(struct row_store *s, const struct row_layout *l)
{
	close_store(s);
	s->layout = *l;
	((struct memory_store *)s)->rows = rows_new(l->bytes);
}

static uint64_t find_many(const struct row_store *s, const uint8_t *ids, uint32_t n)
{
	void *row[ROWS_BLOCK];
	uint64_t found = 0;

	rows_find(rows_of(s), ids, n, row);
	for (uint32_t i = 0; i < n; i++)
		found |= (uint64_t)(row[i] != NULL) << i;
	return found;
}

static void get_many(struct row_store *s, const uint8_t *ids, uint32_t n, void **row)
{
	rows_find(rows_of(s), ids, n, row);
}

static bool make_many(struct row_store *s, const uint8_t *ids, uint32_t n, void **row,
    uint64_t *made)
{
	return rows_make(rows_of(s), ids, n, row, made);
}

static uint32_t next_rows(struct row_store *s, uint64_t *at, uint32_t most, uint64_t *ids,
    void **row)
{
	struct rows *rows = rows_of(s);
	uint32_t n = 0;

	for (; n < most && *at < rows_count(rows); n++)
		row[n] = rows_at(rows, (size_t)(*at)++, &ids[n]);
	return n;
}

static size_t remove_rows(struct row_store *s, rows_keeps_fn *keeps, void *ctx)
{
	return rows_sift(rows_of(s), keeps, ctx);
}

static bool convert_rows(struct row_store *s, const struct row_layout *l, row_convert_fn *fn,
    void *ctx)
{
	struct rows *from = rows_of(s), *to = rows_new(l->bytes);
	uint64_t id;
	bool made;

	for (size_t i = 0; i < rows_count(from); i++) {
		void *old = rows_at(from, i, &id);
		void *new = rows_put(to, id, &made);

		if (!new) {
			rows_free(to);
			return false;
		}
		fn(ctx, old, new);
	}
	rows_free(from);
	((struct memory_store *)s)->rows = to;
	s->layout = *l;
	return true;
}

/* ---- snapshots ---- */

/* Copies of rows, in ascending order of ids. */
struct memory_snapshot {
	struct row_snapshot snapshot;
	size_t at, row_bytes;
	uint64_t *ids;
	uint8_t *rows;
};

static void free_snapshot(struct row_snapshot *x)
{
	struct memory_snapshot *m = (struct memory_snapshot *)x;

	free(m->ids);
	free(m->rows);
	free(m);
}

static struct row_snapshot *take_snapshot(struct row_store *s, rows_keeps_fn *wants, void *ctx)
{
	struct memory_snapshot *m = mem_alloc(sizeof *m);
	struct chosen_row *chosen = row_chosen_list(rows_of(s), wants, ctx, &m->snapshot.n);
	bool good;

	m->snapshot.ops = &row_store_memory;
	m->row_bytes = s->layout.bytes;
	good = chosen && row_chosen_copy(chosen, m->snapshot.n, m->row_bytes, &m->ids, &m->rows);
	free(chosen);
	if (good)
		return &m->snapshot;
	free_snapshot(&m->snapshot);
	return NULL;
}

static uint32_t next_of_snapshot(struct row_snapshot *x, uint32_t most, uint64_t *ids, void **row)
{
	struct memory_snapshot *m = (struct memory_snapshot *)x;
	uint32_t n = 0;

	for (; n < most && m->at < x->n; n++, m->at++) {
		ids[n] = m->ids[m->at];
		row[n] = m->rows + m->at * m->row_bytes;
	}
	return n;
}

/* ---- figures ---- */

static size_t count_rows(const struct row_store *s)
{
	return rows_of(s) ? rows_count(rows_of(s)) : 0;
}

static size_t bytes_taken(const struct row_store *s)
{
	return rows_of(s) ? rows_bytes(rows_of(s)) : 0;
}

const struct row_store_ops row_store_memory = {
	.row_bytes = row_bytes,
	.make = make_store,
	.free = free_store,
	.open = open_store,
	.close = close_store,
	.find_many = find_many,
	.get_many = get_many,
	.make_many = make_many,
	.next = next_rows,
	.remove = remove_rows,
	.convert = convert_rows,
	.snapshot = take_snapshot,
	.snapshot_next = next_of_snapshot,
	.snapshot_free = free_snapshot,
	.count = count_rows,
	.bytes = bytes_taken,
};
