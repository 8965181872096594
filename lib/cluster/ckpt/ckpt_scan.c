/* SPDX-License-Identifier: ISC */
#include <inttypes.h>

#include "ckpt/read.h"
#include "core/mem.h"

#define MEMORY    (UINT64_C(64) << 20)
#define PIECE_MAX 4096u

/* The reader of one partition; rows at .. n-1 of its buffer have not been returned yet. */
struct cursor {
	uint32_t part;
	uint64_t next, total; /* rows read so far; rows of the partition */
	uint32_t at, n;
	uint64_t *ids;
	float *rows;
};

/* Cursors with rows left form a heap with the lowest id on top. Two live cursors with the same
 * id mean that a row is in two partitions. */
struct ckpt_scan {
	const struct ckpt_reader *r;
	const struct ckpt_table *t;
	struct cursor *cursor; /* one for each partition */
	uint32_t *heap;
	uint32_t nheap, piece;
	bool begun;
	uint64_t last;
};

static uint64_t next_id_of(const struct ckpt_scan *s, uint32_t place)
{
	const struct cursor *c = &s->cursor[s->heap[place]];

	return c->ids[c->at];
}

static void sift_down(struct ckpt_scan *s, uint32_t i)
{
	for (;;) {
		uint32_t low = i, k = s->heap[i];

		for (uint32_t child = 2 * i + 1; child <= 2 * i + 2 && child < s->nheap; child++)
			if (next_id_of(s, child) < next_id_of(s, low))
				low = child;
		if (low == i)
			return;
		s->heap[i] = s->heap[low];
		s->heap[low] = k;
		i = low;
	}
}

static enum err_code refill_cursor(struct ckpt_scan *s, struct cursor *c, struct err *e)
{
	uint64_t left = c->total - c->next;
	enum err_code rc;

	c->at = 0;
	c->n = left < s->piece ? (uint32_t)left : s->piece;
	rc = ckpt_read_part(s->r, s->t, c->part, c->next, c->n, c->ids, c->rows, NULL, 0, e);
	c->next += c->n;
	return rc;
}

static enum err_code open_cursor(struct ckpt_scan *s, uint32_t part, struct err *e)
{
	struct cursor *c = &s->cursor[part];
	size_t n;

	c->part = part;
	c->total = ckpt_part_info(s->r, s->t, part).n;
	n = c->total < s->piece ? (size_t)c->total : s->piece;
	if (n == 0)
		return ERR_OK;
	c->ids = mem_try_array(n, sizeof *c->ids);
	c->rows = mem_try_array(n * s->t->cols, sizeof *c->rows);
	if (!c->ids || !c->rows)
		return err_set(e, ERR_NOMEM, "no memory to read table \"%s\"", s->t->name);
	s->heap[s->nheap++] = part;
	return refill_cursor(s, c, e);
}

enum err_code ckpt_scan_begin(const struct ckpt_reader *r, const struct ckpt_table *t,
    struct ckpt_scan **out, struct err *e)
{
	uint64_t rows = MEMORY / t->parts / (8 + 4 * (uint64_t)t->cols);
	struct ckpt_scan *s = mem_alloc(sizeof *s);
	enum err_code rc = ERR_OK;

	*out = NULL;
	s->r = r;
	s->t = t;
	s->piece = rows < 1 ? 1 : rows < PIECE_MAX ? (uint32_t)rows : PIECE_MAX;
	s->cursor = mem_try_array(t->parts, sizeof *s->cursor);
	s->heap = mem_try_array(t->parts, sizeof *s->heap);
	if (!s->cursor || !s->heap)
		rc = err_set(e, ERR_NOMEM, "no memory to read table \"%s\"", t->name);
	for (uint32_t k = 0; !rc && k < t->parts; k++)
		rc = open_cursor(s, k, e);
	if (rc) {
		ckpt_scan_end(s);
		return rc;
	}
	for (uint32_t i = s->nheap / 2; i-- > 0;)
		sift_down(s, i);
	*out = s;
	return ERR_OK;
}

/* Move past the row that was returned last. */
static enum err_code advance_scan(struct ckpt_scan *s, struct err *e)
{
	struct cursor *c = &s->cursor[s->heap[0]];
	enum err_code rc = ERR_OK;

	if (++c->at == c->n && c->next < c->total)
		rc = refill_cursor(s, c, e);
	else if (c->at == c->n)
		s->heap[0] = s->heap[--s->nheap];
	if (!rc && s->nheap > 0)
		sift_down(s, 0);
	return rc;
}

enum err_code ckpt_scan_next(struct ckpt_scan *s, uint64_t *id, const float **row, struct err *e)
{
	const struct cursor *c;
	enum err_code rc = s->begun ? advance_scan(s, e) : ERR_OK;

	*row = NULL;
	if (rc || s->nheap == 0) {
		s->begun = false;
		return rc;
	}
	c = &s->cursor[s->heap[0]];
	*id = c->ids[c->at];
	if (s->begun && *id <= s->last)
		return err_set(e, ERR_FORMAT,
		    "\"%s\" is damaged: row %" PRIu64 " of table \"%s\" is out of order or "
		    "duplicate",
		    ckpt_path(s->r), *id, s->t->name);
	*row = c->rows + (size_t)c->at * s->t->cols;
	s->last = *id;
	s->begun = true;
	return ERR_OK;
}

void ckpt_scan_end(struct ckpt_scan *s)
{
	if (!s)
		return;
	for (uint32_t k = 0; s->cursor && k < s->t->parts; k++) {
		free(s->cursor[k].ids);
		free(s->cursor[k].rows);
	}
	free(s->cursor);
	free(s->heap);
	free(s);
}
