/* SPDX-License-Identifier: ISC */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/keyed_hash.h"
#include "core/mem.h"
#include "core/num.h"
#include "data/shape/shape_gather.h"
#include "data/shape/shape_sparse.h"

/* Rows of entries, each with a feature, a value and perhaps a field. */

/* ---- ids ---- */

static enum err_code no_memory_for_ids(const struct data_build *b, struct err *e)
{
	return err_set(e, ERR_NOMEM, "no memory for the %llu values of %s",
	    (unsigned long long)b->nnz, b->first);
}

/* Subtracts the base. The blocks of fixed length become vector code at -O2. */
static void take_off(uint32_t *col, uint64_t n, uint32_t base)
{
	uint64_t k = 0;

	for (; k + 16 <= n; k += 16)
		for (unsigned i = 0; i < 16; i++)
			col[k + i] -= base;
	for (; k < n; k++)
		col[k] -= base;
}

/* Small ids: numbers those that occur by a direct table, and translates in place. */
static enum err_code compact_direct(struct data_build *b, struct err *e)
{
	struct dataset *d = b->d;
	uint32_t *number = mem_try_array(b->max_id + 1, sizeof(*number)),
	         base = (uint32_t)d->index_base;
	uint32_t *col = d->col;
	uint8_t *marked = b->seen ? NULL : data_build_mark_ids(b, b->max_id + 1);
	const uint8_t *seen = b->seen ? b->seen : marked;

	for (uint64_t i = base; seen && i <= b->max_id; i++)
		d->nids += seen[i];
	d->id = mem_try_array(d->nids + 1, sizeof(*d->id));
	if (!number || !seen || !d->id) {
		free(number);
		free(marked);
		return no_memory_for_ids(b, e);
	}
	d->nids = 0;
	for (uint64_t i = base; i <= b->max_id; i++) {
		if (!seen[i])
			continue;
		d->id[d->nids] = i - base;
		number[i] = (uint32_t)d->nids++;
	}
	/* Without gaps, each id is its own number. */
	if (d->nids == b->max_id + 1 - base)
		take_off(col, b->nnz, base);
	else
		for (uint64_t k = 0; k < b->nnz; k++)
			col[k] = number[col[k]];
	free(number);
	free(marked);
	return ERR_OK;
}

/* Large ids: an open hash table from an id to its number in order of first appearance. */
struct id_table {
	uint64_t *id; /* in order of appearance */
	uint32_t n, cap;
	uint32_t *slot; /* number + 1; 0 is free */
	uint64_t mask;
};

/* Doubles the table (open addressing with linear probing; at most half of the slots are used) and
 * inserts all ids again. A slot contains the index of its id plus 1, or 0 when it is free. False:
 * no memory, and the table is as it was. */
static bool grow_id_table(struct id_table *t)
{
	uint64_t slots = t->slot ? 2 * (t->mask + 1) : 1 << 12, at;
	uint32_t *slot = mem_try_array(slots, sizeof(*slot));
	uint64_t *id = slot ? realloc(t->id, slots / 2 * sizeof(*id)) : NULL;

	if (id)
		t->id = id;
	if (!slot || !id) {
		free(slot);
		return false;
	}
	free(t->slot);
	t->slot = slot;
	t->mask = slots - 1;
	t->cap = (uint32_t)(slots / 2);
	for (uint32_t i = 0; i < t->n; i++) {
		for (at = keyed_hash(id[i]) & t->mask; slot[at]; at = (at + 1) & t->mask)
			;
		slot[at] = i + 1;
	}
	return true;
}

/* The number of an id, which is added if new; UINT32_MAX without memory. */
static uint32_t number_of_id(struct id_table *t, uint64_t id)
{
	uint64_t at;

	if (t->n == t->cap && (t->cap >= UINT32_MAX / 2 || !grow_id_table(t)))
		return UINT32_MAX;
	for (at = keyed_hash(id) & t->mask; t->slot[at]; at = (at + 1) & t->mask)
		if (t->id[t->slot[at] - 1] == id)
			return t->slot[at] - 1;
	t->id[t->n] = id;
	t->slot[at] = ++t->n;
	return t->n - 1;
}

struct numbered_id {
	uint64_t id;
	uint32_t number;
};

static int compare_feature_ids(const void *a, const void *b)
{
	const struct numbered_id *x = a, *y = b;

	return (x->id > y->id) - (x->id < y->id);
}

/* Renumbers from order of appearance to ascending ids. */
static bool sort_hashed_ids(struct dataset *d, const struct id_table *t, uint64_t nnz)
{
	struct numbered_id *pairs = mem_try_array(t->n + 1, sizeof(*pairs));
	uint32_t *rank = mem_try_array(t->n + 1, sizeof(*rank));
	bool ok = pairs && rank;

	d->id = mem_try_array(t->n + 1, sizeof(*d->id));
	d->nids = t->n;
	for (uint32_t i = 0; ok && d->id && i < t->n; i++)
		pairs[i] = (struct numbered_id){ t->id[i], i };
	if (ok && d->id) {
		qsort(pairs, t->n, sizeof(*pairs), compare_feature_ids);
		for (uint32_t i = 0; i < t->n; i++) {
			d->id[i] = pairs[i].id;
			rank[pairs[i].number] = i;
		}
		for (uint64_t k = 0; k < nnz; k++)
			d->col[k] = rank[d->col[k]];
	}
	free(pairs);
	free(rank);
	return ok && d->id;
}

/* Large ids: numbers them with the hash table, then sorts. */
static enum err_code compact_hashed(struct data_build *b, struct err *e)
{
	uint64_t base = b->transient && !b->raw ? 0 : (uint64_t)b->d->index_base;
	struct dataset *d = b->d;
	struct id_table t = { 0 };
	bool good = true;

	keyed_hash_begin();
	if (b->raw)
		d->col = mem_try_array(b->nnz + 1, sizeof(*d->col));
	if (!d->col)
		return no_memory_for_ids(b, e);
	for (uint64_t k = 0; k < b->nnz && good; k++) {
		d->col[k] = number_of_id(&t, (b->raw ? b->raw[k] : d->col[k]) - base);
		good = d->col[k] != UINT32_MAX;
	}
	good = good && sort_hashed_ids(d, &t, b->nnz);
	free(t.id);
	free(t.slot);
	return good ? ERR_OK : no_memory_for_ids(b, e);
}

static bool has_id_zero(const struct data_build *b)
{
	return !b->transient && b->min_id == 0;
}

/* The index base: as requested, else that of the training data, else 0 if an id 0 occurs, else
 * 1. */
static int find_index_base(const struct data_build *b)
{
	if (b->index_base >= 0)
		return b->index_base;
	if (b->d->index_base >= 0)
		return b->d->index_base;
	return !has_id_zero(b);
}

/* Leaves ids as they are, whose base has been taken off. False: one is too large. */
static bool keep_ids(struct data_build *b)
{
	if (!b->transient || b->raw)
		return false;
	b->d->nids = b->nnz ? b->max_id - (uint64_t)b->d->index_base + 1 : 1;
	return b->d->nids <= UINT32_MAX;
}

/* Turns the ids of the files (in d->col or b->raw) into ids of the dataset: subtracts the index
 * base, lists the distinct ids ascending in d->id, makes d->col the entries' positions in that
 * list, and sets d->cols. Frees b->raw. */
static enum err_code finish_sparse(struct data_build *b, struct err *e)
{
	struct dataset *d = b->d;
	enum err_code rc;

	d->index_base = find_index_base(b);
	/* Files before the one with index_base=1 were read without the check for 0. */
	if (d->index_base == 1 && has_id_zero(b))
		return err_set(e, ERR_FORMAT,
		    "%s: index 0, but the option of one of the files is index_base=1", b->first);
	d->cols = b->nnz ? b->max_id - (uint64_t)d->index_base + 1 : 0;
	if (b->like && b->like->cols > d->cols)
		d->cols = b->like->cols;
	if (d->cols == 0)
		return err_set(e, ERR_FORMAT, "%s: no example has a feature", b->first);
	if (keep_ids(b))
		return ERR_OK;
	/* For few entries, a table of all possible ids would cost more than hashing. */
	rc = !b->transient && b->max_id < DATA_DIRECT && b->max_id / 64 <= b->nnz
	    ? compact_direct(b, e)
	    : compact_hashed(b, e);
	if (b->raw)
		b->room = b->nnz; /* of d->col, which has been made for these entries */
	free(b->raw);
	b->raw = NULL;
	return rc;
}

/* ---- appending ---- */

/* The feature that entry k of a dataset has. */
static uint64_t feature_at(const struct dataset *d, uint64_t k)
{
	return d->id ? d->id[d->col[k]] : d->col[k];
}

/* Puts the ids of a dataset after the ids of b, with the index base where it is taken off at the
 * end. */
static void append_ids(struct data_build *b, const struct dataset *d)
{
	uint64_t base = (uint64_t)d->index_base, n = d->start[d->rows],
	         added = base - data_build_base_taken_off(b);
	uint64_t most = !d->nids ? 0 : (d->id ? d->id[d->nids - 1] : d->nids - 1) + base;

	b->max_id = most > b->max_id ? most : b->max_id;
	if (d->nids && d->id && d->id[0] + base < b->min_id)
		b->min_id = d->id[0] + base;
	for (size_t i = 0; b->seen && i < d->nids; i++) {
		uint64_t id = d->id[i] + base;

		if (id < DATA_DIRECT)
			b->seen[id] = 1;
	}
	if (b->raw)
		for (uint64_t k = 0; k < n; k++)
			b->raw[b->nnz + k] = feature_at(d, k) + base;
	else if (!d->id && !added && n)
		memcpy(b->d->col + b->nnz, d->col, n * sizeof *d->col);
	else
		for (uint64_t k = 0; k < n; k++)
			b->d->col[b->nnz + k] = (uint32_t)(feature_at(d, k) + added);
}

enum err_code shape_sparse_append(struct data_build *b, const struct dataset *d, struct err *e)
{
	struct dataset *to = b->d;
	size_t n = d->start[d->rows];
	bool wide = d->nids && d->id && d->id[d->nids - 1] + (uint64_t)d->index_base > UINT32_MAX;

	to->sparse = true;
	to->index_base = d->index_base;
	if (d->field && !to->field && !b->nnz)
		to->field = calloc(b->room + 1, sizeof *to->field);
	if (!data_build_reserve(b, n, d->rows) || (d->field && !to->field) ||
	    (wide && !b->raw && !data_build_widen_ids(b)))
		return err_set(e, ERR_NOMEM, "no memory for the examples of %s", b->first);
	append_ids(b, d);
	if (n)
		memcpy(to->val + b->nnz, d->val, n * sizeof *d->val);
	if (n && d->field)
		memcpy(to->field + b->nnz, d->field, n * sizeof *d->field);
	for (size_t r = 1; r <= d->rows; r++)
		to->start[to->rows + r] = b->nnz + d->start[r];
	to->grouped_by_first = d->grouped_by_first;
	b->nnz += n;
	return ERR_OK;
}

/* ---- batches ---- */

/* Copies n values of 4 bytes. Examples such as ratings have two or three entries, for which a
 * call of memcpy costs more than the copy. */
static inline void copy_entries(void *restrict to, const void *restrict from, size_t n)
{
	char *y = to;
	const char *x = from;

	if (n > 7) {
		memcpy(y, x, n * 4);
		return;
	}
	/* The bits of n decide, because compilers replace a loop by a call of memcpy. */
	if (n & 4)
		memcpy(y, x, 16);
	if (n & 2)
		memcpy(y + (n & 4) * 4, x + (n & 4) * 4, 8);
	if (n & 1)
		memcpy(y + (n & 6) * 4, x + (n & 6) * 4, 4);
}

/* Copies the entries of the rows, then lists their distinct features. */
static bool gather_sparse(const struct dataset *d, const uint32_t *index, size_t n, struct batch *b)
{
	uint64_t nnz = 0, from, len, at = 0;

	for (size_t i = 0; i < n; i++)
		nnz += d->start[index[i] + 1] - d->start[index[i]];
	if (!shape_sparse_room(d, b, n, nnz))
		return false;
	b->start[0] = 0;
	for (size_t i = 0; i < n; i++) {
		if (i + SHAPE_AHEAD < n) {
			from = d->start[index[i + SHAPE_AHEAD]];
			len = d->start[index[i + SHAPE_AHEAD] + 1] - from;
			shape_prefetch(d->col + from, len * sizeof(*b->col));
			shape_prefetch(d->val + from, len * sizeof(*b->val));
		}
		from = d->start[index[i]];
		len = d->start[index[i] + 1] - from;
		b->start[i + 1] = (uint32_t)(at + len);
		/* Datasets without entries have no arrays of them. */
		if (!len)
			continue;
		copy_entries(b->col + at, d->col + from, len);
		copy_entries(b->val + at, d->val + from, len);
		if (d->field)
			memcpy(b->field + at, d->field + from, len * sizeof(*b->field));
		at += len;
	}
	shape_gather_ids(d, b, nnz);
	return true;
}

/* ---- storing ---- */

enum sparse_number { IDS, FIELDS, GROUPED_BY_FIRST };
enum sparse_array { START, COL, VAL, FIELD, ID };

static void store_sparse(const struct dataset *d, struct shape_stored *out)
{
	uint64_t nnz = d->start[d->rows];

	out->number[IDS] = d->nids;
	out->number[FIELDS] = d->fields;
	out->number[GROUPED_BY_FIRST] = d->grouped_by_first;
	out->array[START] = (struct shape_array){ d->start, d->rows + 1, sizeof *d->start };
	out->array[COL] = (struct shape_array){ d->col, nnz, sizeof *d->col };
	out->array[VAL] = (struct shape_array){ d->val, nnz, sizeof *d->val };
	out->array[FIELD] = (struct shape_array){ d->field, nnz, d->field ? sizeof *d->field : 0 };
	out->array[ID] = (struct shape_array){ d->id, d->nids, d->id ? sizeof *d->id : 0 };
}

/* Is it n elements of this size, or is it missing although it may be? */
static bool is_array(const struct shape_array *a, uint64_t n, size_t size, bool may_miss)
{
	return a->size == size ? a->n == n : may_miss && a->size == 0;
}

/* Do the entries name fields and features that exist, and do the features ascend? */
static bool entries_are_valid(const struct dataset *d, uint64_t nnz)
{
	uint32_t col = 0, field = 0;
	bool good = d->start[0] == 0 && d->start[d->rows] == nnz && (d->id || d->nids <= d->cols);

	for (size_t r = 0; r < d->rows; r++)
		good &= d->start[r] <= d->start[r + 1];
	for (uint64_t k = 0; k < nnz; k++)
		col = d->col[k] > col ? d->col[k] : col;
	good &= nnz == 0 || col < d->nids;
	for (uint64_t k = 0; d->field && k < nnz; k++)
		field = d->field[k] > field ? d->field[k] : field;
	good &= !d->field || field < d->fields;
	for (size_t i = 0; d->id && i < d->nids; i++)
		good &= d->id[i] < d->cols && (i == 0 || d->id[i - 1] < d->id[i]);
	return good;
}

static bool load_sparse(struct dataset *d, const struct shape_stored *s)
{
	const struct shape_array *a = s->array;
	uint64_t nnz = a[COL].n;

	d->sparse = true;
	d->nids = s->number[IDS];
	d->fields = s->number[FIELDS];
	d->grouped_by_first = s->number[GROUPED_BY_FIRST];
	if (d->nids > UINT32_MAX || d->fields > UINT16_MAX + 1 ||
	    !is_array(&a[START], (uint64_t)d->rows + 1, sizeof *d->start, false) ||
	    !is_array(&a[COL], nnz, sizeof *d->col, false) ||
	    !is_array(&a[VAL], nnz, sizeof *d->val, false) ||
	    !is_array(&a[FIELD], nnz, sizeof *d->field, true) ||
	    !is_array(&a[ID], d->nids, sizeof *d->id, true))
		return false;
	d->start = a[START].at;
	d->col = a[COL].at;
	d->val = a[VAL].at;
	d->field = a[FIELD].at;
	d->id = a[ID].at;
	return entries_are_valid(d, nnz);
}

/* ---- what they are ---- */

uint64_t shape_sparse_values(const struct dataset *d)
{
	return d->start[d->rows];
}

double shape_sparse_bytes(const struct dataset *d, double rows, double values)
{
	return values * (d->field ? 10 : 8) + rows * 12;
}

float *shape_sparse_row(const struct dataset *d, size_t r, size_t *n)
{
	*n = (size_t)(d->start[r + 1] - d->start[r]);
	return d->val + d->start[r];
}

void shape_sparse_describe(const struct dataset *d, char *out, size_t n)
{
	double mean = (double)d->start[d->rows] / (double)d->rows;

	if (d->fields)
		snprintf(out, n, "sparse (%.1f a row, %zu field%s)", mean, d->fields,
		    NUM_S(d->fields));
	else
		snprintf(out, n, "sparse (%.1f a row)", mean);
}

const struct data_shape data_shape_sparse = { .name = "sparse",
	.finish = finish_sparse,
	.append = shape_sparse_append,
	.gather = gather_sparse,
	.store = store_sparse,
	.load = load_sparse,
	.values = shape_sparse_values,
	.bytes = shape_sparse_bytes,
	.row = shape_sparse_row,
	.describe = shape_sparse_describe };
