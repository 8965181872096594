/* SPDX-License-Identifier: ISC */
#include "data/batch/batch_slice.h"

#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "math/clones.h"

/* Makes room for a set of this many words, for entries and for examples. Each array has at least one
 * element. */
static bool make_room(struct batch_slice *s, size_t words, size_t entries, size_t examples)
{
	if (words > s->words) {
		free(s->set);
		free(s->before);
		s->set = mem_try_array(words, sizeof *s->set);
		s->before = mem_try_array(words, sizeof *s->before);
		s->words = s->set && s->before ? words : 0;
	}
	if (entries > s->entries) {
		free(s->col);
		free(s->row);
		free(s->id);
		entries += entries / 4;
		s->col = mem_try_array(entries, sizeof *s->col);
		s->row = mem_try_array(entries, sizeof *s->row);
		s->id = mem_try_array(entries, sizeof *s->id);
		s->entries = s->col && s->row && s->id ? entries : 0;
	}
	if (examples > s->examples) {
		free(s->start);
		s->start = mem_try_array(examples, sizeof *s->start);
		s->examples = s->start ? examples : 0;
	}
	return s->words && s->entries && s->examples;
}

/* Lists the distinct features of n entries by a set, as data_gather does for the whole batch, and
 * numbers the entries by this list. Returns its length. */
KERN_CLONES static size_t list_features(struct batch_slice *s, size_t words, const uint32_t *col,
    size_t n)
{
	uint32_t count = 0;

	memset(s->set, 0, words * sizeof *s->set);
	for (size_t k = 0; k < n; k++)
		s->set[col[k] / 64] |= UINT64_C(1) << col[k] % 64;
	for (size_t w = 0; w < words; w++) {
		s->before[w] = count;
		for (uint64_t bits = s->set[w]; bits; bits &= bits - 1)
			s->row[count++] = (uint32_t)(w * 64 + (unsigned)__builtin_ctzll(bits));
	}
	for (size_t k = 0; k < n; k++) {
		uint64_t lower = s->set[col[k] / 64] & ((UINT64_C(1) << col[k] % 64) - 1);

		s->col[k] = s->before[col[k] / 64] + (uint32_t)__builtin_popcountll(lower);
	}
	return count;
}

enum err_code batch_slice_cut(struct batch_slice *s, const struct batch *b, size_t first, size_t n,
    struct err *e)
{
	size_t from = b->start[first], entries = b->start[first + n] - from;
	size_t words = b->nids / 64 + 1;

	s->b = (struct batch){ 0 };
	if (!make_room(s, words, entries + 1, n + 1))
		return err_set(e, ERR_NOMEM, "no memory for %zu examples of a batch", n);
	s->b = batch_borrow(b, first, n);
	for (size_t r = 0; r <= n; r++)
		s->start[r] = b->start[first + r] - (uint32_t)from;
	s->b.nids = list_features(s, words, b->col + from, entries);
	for (size_t i = 0; i < s->b.nids; i++)
		s->id[i] = b->id[s->row[i]];
	s->b.start = s->start;
	s->b.col = s->col;
	s->b.id = s->id;
	s->b.val = b->val + from;
	s->b.field = b->field ? b->field + from : NULL;
	return ERR_OK;
}

void batch_slice_release(struct batch_slice *s)
{
	free(s->set);
	free(s->before);
	free(s->col);
	free(s->row);
	free(s->id);
	free(s->start);
	*s = (struct batch_slice){ 0 };
}
