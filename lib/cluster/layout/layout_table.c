/* SPDX-License-Identifier: ISC */
#include "layout/layout.h"

#include "core/json.h"

/* How a table's shape cuts it into partitions. */

/* Even a small sparse table has several partitions, so that it is spread over the servers. The
 * upper bound limits what a server must loop over at each step. */
#define SPARSE_PARTS_MIN 16u
#define SPARSE_PARTS_MAX 4096u

uint64_t table_elements(const struct table *t)
{
	return t->rows * t->cols;
}

/* The piece that a partition belongs to. */
static struct table_piece find_table_piece(const struct table *t, uint32_t part)
{
	struct table_piece p = { 0, 0 };

	for (unsigned i = 0; i < t->npieces && part >= t->piece[i].part; i++)
		p = t->piece[i];
	return p;
}

uint64_t table_part_begin(const struct table *t, uint32_t part)
{
	struct table_piece p = find_table_piece(t, part);

	return p.element + (uint64_t)(part - p.part) * PART_ELEMENTS;
}

uint32_t table_part_elements(const struct table *t, uint32_t part)
{
	uint64_t begin = table_part_begin(t, part), end = table_elements(t);

	for (unsigned i = t->npieces; i-- > 0 && part < t->piece[i].part;)
		end = t->piece[i].element;
	return end - begin < PART_ELEMENTS ? (uint32_t)(end - begin) : PART_ELEMENTS;
}

uint32_t table_count_parts(const struct table *t)
{
	uint64_t want = (table_elements(t) + PART_ELEMENTS - 1) / PART_ELEMENTS;
	uint32_t n = SPARSE_PARTS_MIN;

	if (!t->sparse) {
		struct table_piece last = find_table_piece(t, UINT32_MAX);

		want = last.part +
		    (table_elements(t) - last.element + PART_ELEMENTS - 1) / PART_ELEMENTS;
		return want ? (uint32_t)want : 1;
	}
	while (n < want && n < SPARSE_PARTS_MAX)
		n *= 2;
	return n;
}

enum err_code layout_grow(struct layout *l, const char *name, uint64_t rows, uint64_t since,
    struct err *e)
{
	struct table *t = (struct table *)(uintptr_t)layout_find(l, name);

	if (!t)
		return err_set(e, ERR_NOTFOUND, "there is no table \"%s\"", name);
	if (t->sparse)
		return err_set(e, ERR_CONFIG,
		    "table \"%s\" is sparse: it grows with its rows, by itself", name);
	if (rows <= t->rows || rows > TABLE_ELEMENTS_MAX / t->cols)
		return err_set(e, ERR_CONFIG,
		    "rows: table \"%s\" has %llu rows, and can have %llu at most, got %llu", name,
		    (unsigned long long)t->rows, (unsigned long long)(TABLE_ELEMENTS_MAX / t->cols),
		    (unsigned long long)rows);
	/* A partition that is not full stays as it is, so that its server need not move its values;
	 * the new rows begin a new piece. */
	if (table_part_elements(t, t->nparts - 1) < PART_ELEMENTS) {
		if (t->npieces == TABLE_PIECES)
			return err_set(e, ERR_LIMIT,
			    "table \"%s\" has grown %u times: it takes a table that is larger from the start",
			    name, TABLE_PIECES);
		t->piece[t->npieces++] = (struct table_piece){ t->nparts, table_elements(t) };
	}
	t->rows = rows;
	t->nparts = table_count_parts(t);
	t->since = since;
	return ERR_OK;
}

/* ---- JSON ---- */

void table_past_to_json(const struct table *t, json_t *o)
{
	json_t *pieces;

	if (!t->added)
		return;
	json_object_set_new(o, "added", json_true());
	json_object_set_new(o, "since", json_integer((json_int_t)t->since));
	if (t->dropped)
		json_object_set_new(o, "dropped", json_true());
	if (!t->npieces)
		return;
	pieces = json_array();
	for (unsigned i = 0; i < t->npieces; i++)
		json_array_append_new(pieces,
		    json_pack("[I, I]", (json_int_t)t->piece[i].part,
		        (json_int_t)t->piece[i].element));
	json_object_set_new(o, "pieces", pieces);
}

/* Read one piece. It must begin after the previous one, where a short partition ends. */
static bool read_table_piece(const json_t *j, struct table *t)
{
	const json_t *part = json_array_get(j, 0), *element = json_array_get(j, 1);
	struct table_piece before = find_table_piece(t, UINT32_MAX), p;
	uint64_t full;

	if (json_array_size(j) != 2 || !json_is_integer(part) || !json_is_integer(element) ||
	    json_integer_value(part) <= before.part || json_integer_value(part) > UINT32_MAX ||
	    json_integer_value(element) <= (json_int_t)before.element ||
	    (uint64_t)json_integer_value(element) >= table_elements(t) ||
	    t->npieces == TABLE_PIECES)
		return false;
	p = (struct table_piece){ (uint32_t)json_integer_value(part),
		(uint64_t)json_integer_value(element) };
	full = (p.element - before.element + PART_ELEMENTS - 1) / PART_ELEMENTS;
	if (p.part - before.part != full)
		return false;
	t->piece[t->npieces++] = p;
	return true;
}

enum err_code table_past_from_json(const json_t *j, struct table *t, struct err *e)
{
	const json_t *piece, *pieces = json_object_get(j, "pieces");
	struct err why = { 0 };
	int64_t since = 0;
	size_t i;

	json_want_bool(j, "table", "added", &t->added, &why);
	json_want_bool(j, "table", "dropped", &t->dropped, &why);
	json_want_int(j, "table", "since", 0, INT64_MAX, &since, &why);
	t->since = (uint64_t)since;
	json_array_foreach(pieces, i, piece)
		if (!why.code && (t->sparse || !read_table_piece(piece, t)))
			err_set(&why, ERR_PROTO, "a piece that cannot be");
	if (!why.code && !t->added && (t->dropped || t->since || t->npieces))
		err_set(&why, ERR_PROTO, "only what was added changes");
	return why.code ? err_set(e, ERR_PROTO, "table \"%s\": %s", t->name, why.msg) : ERR_OK;
}
