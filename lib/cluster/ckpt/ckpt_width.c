/* SPDX-License-Identifier: ISC */
#include "core/mem.h"
#include "ckpt/stored.h"

/* Tables whose rows may be narrow: one tensor has the first columns of all rows, another one the
 * other columns of the wide rows. */

/* ---- shapes ---- */

/* Is x a tensor for a partition of t, with n elements, or n rows of so many columns? */
static bool tensor_fits(const struct ckpt_table *t, const struct safetensors_tensor *x, uint64_t n,
    uint64_t cols)
{
	return x && x->type == SAFETENSORS_F32 && x->rank == (t->sparse ? 2 : 1) &&
	    x->shape[0] == n && (!t->sparse || x->shape[1] == cols);
}

uint32_t ckpt_first_cols(const struct ckpt_table *t, const struct place *p)
{
	return p->width ? (uint32_t)p->w->shape[1] : t->cols;
}

bool ckpt_fits(const struct ckpt_table *t, const struct place *p,
    const struct safetensors_tensor *x, const struct safetensors_tensor *rest)
{
	uint32_t first = ckpt_first_cols(t, p);

	if (p->width &&
	    (!first || first >= t->cols ||
	        !tensor_fits(t, rest, p->rest->shape[0], t->cols - first)))
		return false;
	return tensor_fits(t, x, p->n, first);
}

/* ---- values ---- */

static enum err_code no_memory_for_rows(const struct ckpt_reader *r, struct err *e)
{
	return err_set(e, ERR_NOMEM, "no memory for the rows of \"%s\"", r->path);
}

/* Find the wide ones among rows first .. first + n - 1, which are consecutive in the other tensor:
 * the first of them and their number. *count must be 0 before. */
static enum err_code find_wide(const struct ckpt_reader *r, const struct place *p, uint64_t *word,
    uint64_t first, uint64_t n, uint64_t *begin, uint64_t *count, struct err *e)
{
	enum err_code rc = safetensors_read_ids(r->file[p->file].st, p->width, first, n, word, e);

	for (uint64_t i = 0; !rc && i < n; i++) {
		uint64_t at = word[i] & ~CKPT_WIDE;

		if (!(word[i] & CKPT_WIDE))
			continue;
		*begin = *count ? *begin : at;
		if (at != *begin + *count || at >= p->rest->shape[0])
			return err_set(e, ERR_FORMAT,
			    "\"%s/%s\" is damaged: the wide rows of \"%s\" are not in order",
			    r->path, r->file[p->file].name, p->w->name);
		++*count;
	}
	return rc;
}

struct columns {
	uint64_t width, narrow;
	const uint64_t *word;
	const float *first, *rest;
};

static void join_columns(const struct columns *x, uint64_t n, float *out)
{
	const float *rest = x->rest;
	uint64_t more = x->width - x->narrow;

	for (uint64_t i = 0; i < n; i++, out += x->width) {
		memcpy(out, x->first + i * x->narrow, x->narrow * sizeof *out);
		if (x->word[i] & CKPT_WIDE) {
			memcpy(out + x->narrow, rest, more * sizeof *out);
			rest += more;
		} else {
			memset(out + x->narrow, 0, more * sizeof *out);
		}
	}
}

static enum err_code read_wide_and_narrow(const struct ckpt_reader *r, const struct place *p,
    int slot, uint64_t width, uint64_t first, uint64_t n, float *out, struct err *e)
{
	const struct safetensors *st = r->file[slot < 0 ? p->file : p->state].st;
	uint64_t narrow = p->w->shape[1], more = width - narrow, begin = 0, count = 0,
	         *word = mem_try_array(n + 1, sizeof *word);
	float *some = mem_try_array(n * narrow + 1, sizeof *some), *rest = NULL;
	enum err_code rc = word && some ? find_wide(r, p, word, first, n, &begin, &count, e)
	                                : no_memory_for_rows(r, e);

	if (!rc) {
		rest = mem_try_array(count * more + 1, sizeof *rest);
		rc = rest ? safetensors_read(st, slot < 0 ? p->w : p->slot[slot], first * narrow,
		                n * narrow, some, e)
		          : no_memory_for_rows(r, e);
	}
	if (!rc)
		rc = safetensors_read(st, slot < 0 ? p->rest : p->rest_slot[slot], begin * more,
		    count * more, rest, e);
	if (!rc)
		join_columns(&(struct columns){ width, narrow, word, some, rest }, n, out);
	free(word);
	free(some);
	free(rest);
	return rc;
}

enum err_code ckpt_own_floats(const struct ckpt_reader *r, const struct place *p, int slot,
    uint64_t width, uint64_t first, uint64_t n, float *out, struct err *e)
{
	if (p->width)
		return read_wide_and_narrow(r, p, slot, width, first, n, out, e);
	return safetensors_read(r->file[slot < 0 ? p->file : p->state].st,
	    slot < 0 ? p->w : p->slot[slot], first * width, n * width, out, e);
}

enum err_code ckpt_read_width(const struct ckpt_reader *r, const struct ckpt_table *t,
    uint32_t part, uint64_t *width, struct err *e)
{
	const struct place *p = ckpt_place_of(t, part);

	if (p->pick && p->width)
		return ckpt_merged_words(r, p, WORDS_WIDTH, 0, p->n, width, e);
	if (p->width)
		return safetensors_read_ids(r->file[p->file].st, p->width, 0, p->n, width, e);
	for (uint64_t i = 0; i < p->n; i++)
		width[i] = CKPT_WIDE;
	return ERR_OK;
}
