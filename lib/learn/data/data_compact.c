/* SPDX-License-Identifier: ISC */
#include "data/data_compact.h"

#include "core/keyed_hash.h"
#include "core/mem.h"

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
struct table {
	uint64_t *id; /* in order of appearance */
	uint32_t n, cap;
	uint32_t *slot; /* number + 1; 0 is free */
	uint64_t mask;
};

/* Doubles the table (open addressing with linear probing; at most half of the slots are used) and
 * inserts all ids again. A slot contains the index of its id plus 1, or 0 when it is free. False:
 * no memory, and the table is as it was. */
static bool table_grow(struct table *t)
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
static uint32_t table_number(struct table *t, uint64_t id)
{
	uint64_t at;

	if (t->n == t->cap && (t->cap >= UINT32_MAX / 2 || !table_grow(t)))
		return UINT32_MAX;
	for (at = keyed_hash(id) & t->mask; t->slot[at]; at = (at + 1) & t->mask)
		if (t->id[t->slot[at] - 1] == id)
			return t->slot[at] - 1;
	t->id[t->n] = id;
	t->slot[at] = ++t->n;
	return t->n - 1;
}

struct pair {
	uint64_t id;
	uint32_t number;
};

static int compare_feature_ids(const void *a, const void *b)
{
	const struct pair *x = a, *y = b;

	return (x->id > y->id) - (x->id < y->id);
}

/* Renumbers from order of appearance to ascending ids. */
static bool sort_hashed_ids(struct dataset *d, const struct table *t, uint64_t nnz)
{
	struct pair *pairs = mem_try_array(t->n + 1, sizeof(*pairs));
	uint32_t *rank = mem_try_array(t->n + 1, sizeof(*rank));
	bool ok = pairs && rank;

	d->id = mem_try_array(t->n + 1, sizeof(*d->id));
	d->nids = t->n;
	for (uint32_t i = 0; ok && d->id && i < t->n; i++)
		pairs[i] = (struct pair){ t->id[i], i };
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
	uint64_t base = b->brief && !b->raw ? 0 : (uint64_t)b->d->index_base;
	struct dataset *d = b->d;
	struct table t = { 0 };
	bool good = true;

	keyed_hash_begin();
	if (b->raw)
		d->col = mem_try_array(b->nnz + 1, sizeof(*d->col));
	if (!d->col)
		return no_memory_for_ids(b, e);
	for (uint64_t k = 0; k < b->nnz && good; k++) {
		d->col[k] = table_number(&t, (b->raw ? b->raw[k] : d->col[k]) - base);
		good = d->col[k] != UINT32_MAX;
	}
	good = good && sort_hashed_ids(d, &t, b->nnz);
	free(t.id);
	free(t.slot);
	return good ? ERR_OK : no_memory_for_ids(b, e);
}

static bool has_id_zero(const struct data_build *b)
{
	return !b->brief && b->min_id == 0;
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
	if (!b->brief || b->raw)
		return false;
	b->d->nids = b->nnz ? b->max_id - (uint64_t)b->d->index_base + 1 : 1;
	return b->d->nids <= UINT32_MAX;
}

enum err_code data_compact(struct data_build *b, struct err *e)
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
	rc = !b->brief && b->max_id < DATA_DIRECT && b->max_id / 64 <= b->nnz
	    ? compact_direct(b, e)
	    : compact_hashed(b, e);
	if (b->raw)
		b->room = b->nnz; /* of d->col, which has been made for these entries */
	free(b->raw);
	b->raw = NULL;
	return rc;
}
