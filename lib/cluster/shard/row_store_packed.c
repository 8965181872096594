/* SPDX-License-Identifier: ISC */
#include "core/endian.h"
#include "core/mem.h"
#include "layout/values.h"
#include "math/element.h"
#include "shard/row_chosen.h"
#include "shard/row_store.h"

/* Rows in memory whose values have a type of their own, which is narrower than float32. A packed row
 * is the row's values in that type, up to a multiple of 4 bytes; then the update rule's state and
 * the row's words, as they are in the working form. Callers get copies in the working form. */

/* Copies that were handed out together. Before each lies the address of its packed row. */
struct copies {
	uint8_t *at;
	size_t room; /* bytes */
};

struct packed_store {
	struct row_store store;
	enum element_type type;
	uint64_t round_base; /* values_round_base of the table */
	struct rows *rows;   /* packed; NULL: closed */
	/* For get_many and make_many; for next, and of calls that go over all rows. */
	struct copies got, listed;
};

/* The form of packed rows, for a type and a layout. */
struct form {
	enum element_type type;
	uint32_t values;
	uint32_t packed; /* bytes of the packed values */
	uint32_t words;  /* where in the working form that begins which is kept as it is */
	uint32_t tail;   /* its bytes */
};

static struct form form_of(enum element_type type, const struct row_layout *l)
{
	struct form f = { .type = type,
		.values = l->values,
		.packed = (l->values * element_bytes(type) + 3) / 4 * 4,
		.words = l->values * (uint32_t)sizeof(float) };

	f.tail = l->bytes - f.words;
	return f;
}

static uint32_t packed_bytes(const struct form *f)
{
	return f->packed + f->tail;
}

static void unpack_row(const struct form *f, const void *packed, void *row)
{
	element_widen(f->type, f->values, packed, row);
	memcpy((uint8_t *)row + f->words, (const uint8_t *)packed + f->packed, f->tail);
}

static void pack_tail(const struct form *f, const void *row, void *packed)
{
	memcpy((uint8_t *)packed + f->packed, (const uint8_t *)row + f->words, f->tail);
}

/* ---- copies ---- */

/* Bytes of a copy with its address; a multiple of 8. */
static size_t copy_bytes(const struct row_layout *l)
{
	return sizeof(void *) + (l->bytes + 7) / 8 * 8;
}

/* Makes room for n copies; ends the process without memory. */
static void reserve_copies(struct copies *c, const struct row_layout *l, size_t n)
{
	if (c->room >= n * copy_bytes(l))
		return;
	free(c->at);
	c->room = n * copy_bytes(l);
	c->at = mem_array(c->room, 1);
}

static void free_copies(struct copies *c)
{
	free(c->at);
	*c = (struct copies){ 0 };
}

static void *copy_at(const struct copies *c, const struct row_layout *l, size_t i)
{
	return c->at + i * copy_bytes(l) + sizeof(void *);
}

static void *packed_of(const void *copy)
{
	void *packed;

	memcpy(&packed, (const uint8_t *)copy - sizeof packed, sizeof packed);
	return packed;
}

/* Makes copy i that of a packed row. */
static void *fill_copy(const struct packed_store *m, const struct copies *c, size_t i, void *packed)
{
	const struct form f = form_of(m->type, &m->store.layout);
	uint8_t *row = copy_at(c, &m->store.layout, i);

	memcpy(row - sizeof packed, &packed, sizeof packed);
	unpack_row(&f, packed, row);
	return row;
}

static struct packed_store *store_of(struct row_store *s)
{
	return (struct packed_store *)s;
}

static struct rows *rows_of(const struct row_store *s)
{
	return ((const struct packed_store *)s)->rows;
}

/* ---- the life of a store ---- */

static uint64_t row_bytes(const struct row_store *s, const struct row_layout *l)
{
	const struct form f = form_of(((const struct packed_store *)s)->type, l);

	return packed_bytes(&f) + ROW_OVERHEAD;
}

extern const struct row_store_ops row_store_packed;

static struct row_store *make_store(const struct table *t, struct spill *spill)
{
	struct packed_store *m = mem_alloc(sizeof *m);

	(void)spill;
	m->store.ops = &row_store_packed;
	m->type = t->policy.values;
	m->store.element_bytes = element_bytes(m->type);
	m->round_base = values_round_base(t);
	return &m->store;
}

static void close_store(struct row_store *s)
{
	struct packed_store *m = store_of(s);

	rows_free(m->rows);
	m->rows = NULL;
	free_copies(&m->got);
	free_copies(&m->listed);
}

static void free_store(struct row_store *s)
{
	close_store(s);
	free(s);
}

static void open_store(struct row_store *s, const struct row_layout *l)
{
	const struct form f = form_of(store_of(s)->type, l);

	close_store(s);
	s->layout = *l;
	store_of(s)->rows = rows_new(packed_bytes(&f));
}

/* ---- rows by id ---- */

static uint64_t find_many(const struct row_store *s, const uint8_t *ids, uint32_t n)
{
	void *row[ROWS_BLOCK];
	uint64_t found = 0;

	rows_find(rows_of(s), ids, n, row);
	for (uint32_t i = 0; i < n; i++)
		found |= (uint64_t)(row[i] != NULL) << i;
	return found;
}

/* Do the ids ascend, so that none is there twice? */
static bool ids_ascend(const uint8_t *ids, uint32_t n)
{
	bool good = true;

	for (uint32_t i = 1; i < n; i++)
		good &= get_le64(ids + (size_t)(i - 1) * 8) < get_le64(ids + (size_t)i * 8);
	return good;
}

/* The first of n packed rows that is the same as this one; n: there is none. */
static uint32_t find_same(void *const *packed, uint32_t n, const void *row)
{
	uint32_t i = 0;

	while (i < n && packed[i] != row)
		i++;
	return i;
}

/* Replaces packed rows by their copies, and a row that is there twice by one copy. */
static void hand_out(struct packed_store *m, const uint8_t *ids, uint32_t n, void **row)
{
	bool distinct = ids_ascend(ids, n);
	void *packed[ROWS_BLOCK];

	reserve_copies(&m->got, &m->store.layout, n);
	for (uint32_t i = 0; i < n; i++) {
		uint32_t same = distinct || !row[i] ? i : find_same(packed, i, row[i]);

		packed[i] = row[i];
		if (same < i)
			row[i] = row[same];
		else if (row[i])
			row[i] = fill_copy(m, &m->got, i, row[i]);
	}
}

static void get_many(struct row_store *s, const uint8_t *ids, uint32_t n, void **row)
{
	rows_find(rows_of(s), ids, n, row);
	hand_out(store_of(s), ids, n, row);
}

static bool make_many(struct row_store *s, const uint8_t *ids, uint32_t n, void **row,
    uint64_t *made)
{
	bool good = rows_make(rows_of(s), ids, n, row, made);

	/* Without memory only the rows that were made are known. */
	for (uint32_t i = 0; !good && i < n; i++)
		row[i] = *made >> i & 1 ? row[i] : NULL;
	hand_out(store_of(s), ids, n, row);
	return good;
}

static void put_many(struct row_store *s, uint64_t version, const uint8_t *ids, uint32_t n,
    void *const *row)
{
	const struct packed_store *m = store_of(s);
	const struct form f = form_of(m->type, &s->layout);

	for (uint32_t i = 0; i < n; i++) {
		void *packed = packed_of(row[i]);

		element_round(f.type, f.values,
		    values_row_key(m->round_base, version, get_le64(ids + (size_t)i * 8)), row[i],
		    packed);
		pack_tail(&f, row[i], packed);
	}
}

/* ---- all rows ---- */

static uint32_t next_rows(struct row_store *s, uint64_t *at, uint32_t most, uint64_t *ids,
    void **row)
{
	struct packed_store *m = store_of(s);
	uint32_t n = 0;

	reserve_copies(&m->listed, &s->layout, most);
	for (; n < most && *at < rows_count(m->rows); n++)
		row[n] = fill_copy(m, &m->listed, n, rows_at(m->rows, (size_t)(*at)++, &ids[n]));
	if (!n)
		free_copies(&m->listed);
	return n;
}

/* A question about rows in their working form. */
struct question {
	struct packed_store *m;
	rows_keeps_fn *asks;
	void *ctx;
};

/* Asks about a packed row. */
static bool ask_of_packed(void *ctx, uint64_t id, const void *packed)
{
	const struct question *q = ctx;

	return q->asks(q->ctx, id, fill_copy(q->m, &q->m->listed, 0, (void *)(uintptr_t)packed));
}

static size_t remove_rows(struct row_store *s, rows_keeps_fn *keeps, void *ctx)
{
	struct question q = { store_of(s), keeps, ctx };

	reserve_copies(&q.m->listed, &s->layout, 1);
	return rows_sift(rows_of(s), ask_of_packed, &q);
}

static bool convert_rows(struct row_store *s, const struct row_layout *l, row_convert_fn *fn,
    void *ctx)
{
	struct packed_store *m = store_of(s);
	const struct form f = form_of(m->type, l);
	struct rows *to = rows_new(packed_bytes(&f));
	void *new = mem_array(l->bytes, 1);
	bool good = true, made;
	uint64_t id;

	reserve_copies(&m->listed, &s->layout, 1);
	for (size_t i = 0; good && i < rows_count(m->rows); i++) {
		void *old = fill_copy(m, &m->listed, 0, rows_at(m->rows, i, &id));
		void *packed = rows_put(to, id, &made);

		good = packed != NULL;
		if (!good)
			break;
		memset(new, 0, l->bytes);
		fn(ctx, old, new);
		/* The values are those of the old row. */
		element_narrow(f.type, f.values, new, packed);
		pack_tail(&f, new, packed);
	}
	free(new);
	rows_free(good ? m->rows : to);
	if (!good)
		return false;
	m->rows = to;
	s->layout = *l;
	free_copies(&m->got);
	free_copies(&m->listed);
	return true;
}

/* ---- snapshots ---- */

/* Copies of packed rows, in ascending order of ids. */
struct packed_snapshot {
	struct row_snapshot snapshot;
	struct form form;
	size_t at;
	uint64_t *ids;
	uint8_t *rows;
	uint8_t *block; /* rows in their working form, which were handed out last */
	size_t row_bytes, room;
};

static void free_snapshot(struct row_snapshot *x)
{
	struct packed_snapshot *m = (struct packed_snapshot *)x;

	free(m->ids);
	free(m->rows);
	free(m->block);
	free(m);
}

static struct row_snapshot *take_snapshot(struct row_store *s, rows_keeps_fn *wants, void *ctx)
{
	struct packed_snapshot *m = mem_alloc(sizeof *m);
	struct question q = { store_of(s), wants, ctx };
	struct chosen_row *chosen;
	bool good;

	reserve_copies(&q.m->listed, &s->layout, 1);
	chosen = row_chosen_list(rows_of(s), wants ? ask_of_packed : NULL, &q, &m->snapshot.n);
	m->snapshot.ops = &row_store_packed;
	m->form = form_of(q.m->type, &s->layout);
	m->row_bytes = s->layout.bytes;
	good = chosen &&
	    row_chosen_copy(chosen, m->snapshot.n, packed_bytes(&m->form), &m->ids, &m->rows);
	free(chosen);
	if (good)
		return &m->snapshot;
	free_snapshot(&m->snapshot);
	return NULL;
}

static uint32_t next_of_snapshot(struct row_snapshot *x, uint32_t most, uint64_t *ids, void **row)
{
	struct packed_snapshot *m = (struct packed_snapshot *)x;
	uint32_t n = 0;

	if (m->room < most) {
		free(m->block);
		m->block = mem_array(most, m->row_bytes);
		m->room = most;
	}
	for (; n < most && m->at < x->n; n++, m->at++) {
		ids[n] = m->ids[m->at];
		row[n] = m->block + n * m->row_bytes;
		unpack_row(&m->form, m->rows + m->at * packed_bytes(&m->form), row[n]);
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

const struct row_store_ops row_store_packed = {
	.row_bytes = row_bytes,
	.make = make_store,
	.free = free_store,
	.open = open_store,
	.close = close_store,
	.find_many = find_many,
	.get_many = get_many,
	.make_many = make_many,
	.put_many = put_many,
	.next = next_rows,
	.remove = remove_rows,
	.convert = convert_rows,
	.snapshot = take_snapshot,
	.snapshot_next = next_of_snapshot,
	.snapshot_free = free_snapshot,
	.count = count_rows,
	.bytes = bytes_taken,
};
