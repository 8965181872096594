/* SPDX-License-Identifier: ISC */
#include "shard/row_changes.h"

#include <stdlib.h>
#include <string.h>

static int compare_changes(const void *a, const void *b)
{
	const struct row_change *x = a, *y = b;

	return (x->step > y->step) - (x->step < y->step);
}

void row_changes_forget(struct row_changes *c)
{
	free(c->at);
	*c = (struct row_changes){ 0 };
}

void row_changes_begin(struct row_changes *c, uint64_t from, uint64_t removed,
    struct row_change *at, size_t n)
{
	row_changes_forget(c);
	if (n)
		qsort(at, n, sizeof *at, compare_changes);
	*c = (struct row_changes){ .at = at,
		.n = n,
		.cap = n,
		.from = from,
		.gone_from = removed,
		.on = true };
}

/* Some changes of the last step that is forgotten may be left. They are not all of that step. */
static void forget_older_half(struct row_changes *c)
{
	size_t half = (c->n + 1) / 2;

	c->from = c->at[half - 1].step + 1;
	if (c->gone_from < c->from)
		c->gone_from = c->from;
	memmove(c->at, c->at + half, (c->n - half) * sizeof *c->at);
	c->n -= half;
}

/* Makes room for one more change. False: no memory. */
static bool grow_changes(struct row_changes *c, size_t most)
{
	size_t cap = c->cap * 2 < most ? c->cap * 2 + 64 : most;
	struct row_change *at = realloc(c->at, cap * sizeof *at);

	if (!at)
		return false;
	c->at = at;
	c->cap = cap;
	return true;
}

void row_changes_note(struct row_changes *c, uint64_t id, uint64_t step, size_t most)
{
	if (!c->on)
		return;
	if (c->n >= most)
		forget_older_half(c);
	if (c->n == c->cap && !grow_changes(c, most)) {
		row_changes_forget(c);
		return;
	}
	c->at[c->n++] = (struct row_change){ id, step };
}

bool row_changes_reach(const struct row_changes *c, uint64_t since)
{
	return c->on && since >= c->from;
}

bool row_changes_reach_removals(const struct row_changes *c, uint64_t since)
{
	return c->on && since >= c->gone_from;
}

const struct row_change *row_changes_since(const struct row_changes *c, uint64_t since, size_t *n)
{
	size_t low = 0, high = c->n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (c->at[mid].step < since)
			low = mid + 1;
		else
			high = mid;
	}
	*n = c->n - low;
	return c->at + low;
}
