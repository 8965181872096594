/* SPDX-License-Identifier: ISC */
#include <inttypes.h>

#include "ckpt/stored.h"
#include "core/mem.h"

/* Merges the rows of a base checkpoint with the rows that a delta checkpoint has changed. */

static enum err_code report_no_memory(const struct ckpt_reader *r, struct err *e)
{
	return err_set(e, ERR_NOMEM, "no memory for the rows of \"%s\"", r->path);
}

/* ---- which rows there are ---- */

struct sides {
	uint64_t nbase, nown, nlive;
	uint64_t *base, *own, *live; /* live: ids of all living rows; NULL: no row was removed */
};

/* Merge the two ascending lists of ids; a row in both is taken from the delta. */
static uint64_t merge_all(const struct sides *x, uint64_t *pick)
{
	uint64_t n = 0;

	for (uint64_t b = 0, o = 0; b < x->nbase || o < x->nown;) {
		bool own = o < x->nown && (b == x->nbase || x->own[o] <= x->base[b]);

		b += !own || (b < x->nbase && x->base[b] == x->own[o]);
		pick[n++] = own ? o++ | CKPT_PICK_OWN : b - 1;
	}
	return n;
}

/* Pick the living rows only. False: one is in neither list. */
static bool merge_live(const struct sides *x, uint64_t *pick)
{
	uint64_t b = 0, o = 0;

	for (uint64_t i = 0; i < x->nlive; i++) {
		while (b < x->nbase && x->base[b] < x->live[i])
			b++;
		while (o < x->nown && x->own[o] < x->live[i])
			o++;
		if (o < x->nown && x->own[o] == x->live[i])
			pick[i] = o | CKPT_PICK_OWN;
		else if (b < x->nbase && x->base[b] == x->live[i])
			pick[i] = b;
		else
			return false;
	}
	return true;
}

static enum err_code read_sides(const struct ckpt_reader *r, struct place *p, struct sides *x,
    struct err *e)
{
	enum err_code rc;

	*x = (struct sides){ p->base->n, p->n, p->live ? p->live->count : 0, NULL, NULL, NULL };
	x->base = mem_try_array(x->nbase + 1, sizeof *x->base);
	x->own = mem_try_array(x->nown + 1, sizeof *x->own);
	x->live = p->live ? mem_try_array(x->nlive + 1, sizeof *x->live) : NULL;
	if (!x->base || !x->own || (p->live && !x->live))
		return report_no_memory(r, e);
	rc = safetensors_read_ids(r->file[p->base->file].st, p->base->ids, 0, x->nbase, x->base, e);
	if (!rc)
		rc = safetensors_read_ids(r->file[p->file].st, p->ids, 0, x->nown, x->own, e);
	if (!rc && p->live)
		rc = safetensors_read_ids(r->file[p->file].st, p->live, 0, x->nlive, x->live, e);
	return rc;
}

enum err_code ckpt_merge(const struct ckpt_reader *r, const struct ckpt_table *t, struct place *p,
    struct err *e)
{
	struct sides x;
	enum err_code rc = read_sides(r, p, &x, e);

	p->nown = p->n;
	if (!rc) {
		p->pick = mem_try_array((p->live ? x.nlive : x.nbase + x.nown) + 1,
		    sizeof *p->pick);
		rc = p->pick ? ERR_OK : report_no_memory(r, e);
	}
	if (!rc && p->live && !merge_live(&x, p->pick))
		rc = err_set(e, ERR_FORMAT,
		    "\"%s/%s\" is damaged: a row of table \"%s\" is missing from both the file "
		    "and its base",
		    r->path, r->file[p->file].name, t->name);
	if (!rc)
		p->n = p->live ? x.nlive : merge_all(&x, p->pick);
	free(x.base);
	free(x.own);
	free(x.live);
	return rc;
}

/* ---- their values ---- */

/* Find the rows of one side among rows first .. first + n - 1. Both sides ascend, so these rows
 * lie within one range of that side: its begin and its length. */
static void find_range(const struct place *p, bool own, uint64_t first, uint64_t n, uint64_t *begin,
    uint64_t *count)
{
	uint64_t low = UINT64_MAX, high = 0;

	for (uint64_t i = first; i < first + n; i++) {
		uint64_t at = p->pick[i] & ~CKPT_PICK_OWN;

		if (!(p->pick[i] & CKPT_PICK_OWN) == own)
			continue;
		low = at < low ? at : low;
		high = at + 1;
	}
	*begin = high ? low : 0;
	*count = high ? high - low : 0;
}

static const struct safetensors_tensor *tensor_of_words(const struct place *p, enum words what)
{
	return what == WORDS_IDS ? p->ids : p->seen;
}

/* The values to read of each row: `width` words of `size` bytes. */
struct reading {
	bool words; /* integers; otherwise floats */
	enum words what;
	int vector;
	uint64_t width;
	size_t size;
};

static enum err_code read_side(const struct ckpt_reader *r, const struct place *p,
    const struct reading *x, uint64_t begin, uint64_t count, void *out, struct err *e)
{
	const struct safetensors_tensor *t = x->words ? tensor_of_words(p, x->what) : p->w;

	if (!t)
		return err_set(e, ERR_FORMAT, "\"%s/%s\" is damaged: it lacks rows of a partition",
		    r->path, r->file[p->file].name);
	return x->words ? safetensors_read_ids(r->file[p->file].st, t, begin, count, out, e)
	                : ckpt_own_floats(r, p, x->vector, x->width, begin, count, out, e);
}

static enum err_code read_merged(const struct ckpt_reader *r, const struct place *p,
    const struct reading *x, uint64_t first, uint64_t n, uint8_t *out, struct err *e)
{
	size_t each = x->width * x->size;
	uint64_t begin[2], count[2];
	uint8_t *side[2];
	enum err_code rc = ERR_OK;

	for (int own = 0; own < 2; own++) {
		find_range(p, own, first, n, &begin[own], &count[own]);
		side[own] = mem_try_array(count[own] + 1, each);
		if (!rc)
			rc = !side[own] ? report_no_memory(r, e)
			                : read_side(r, own ? p : p->base, x, begin[own], count[own],
			                      side[own], e);
	}
	for (uint64_t i = 0; !rc && i < n; i++) {
		int own = (p->pick[first + i] & CKPT_PICK_OWN) != 0;

		memcpy(out + i * each,
		    side[own] + ((p->pick[first + i] & ~CKPT_PICK_OWN) - begin[own]) * each, each);
	}
	free(side[0]);
	free(side[1]);
	return rc;
}

enum err_code ckpt_merged_words(const struct ckpt_reader *r, const struct place *p, enum words what,
    uint64_t first, uint64_t n, uint64_t *out, struct err *e)
{
	const struct reading x = { .words = true, .what = what, .width = 1, .size = sizeof *out };

	return read_merged(r, p, &x, first, n, (uint8_t *)out, e);
}

enum err_code ckpt_merged_floats(const struct ckpt_reader *r, const struct place *p, int vector,
    uint64_t width, uint64_t first, uint64_t n, float *out, struct err *e)
{
	const struct reading x = { .vector = vector, .width = width, .size = sizeof *out };

	return read_merged(r, p, &x, first, n, (uint8_t *)out, e);
}
