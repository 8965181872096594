/* SPDX-License-Identifier: ISC */
#include <stdio.h>

#include "core/mem.h"
#include "core/num.h"
#include "data/batch/data_words.h"
#include "data/shape/data_shape.h"
#include "data/shape/shape_gather.h"

/* The words of a text, of which each is to be predicted by its neighbours (data_words.h). */

/* Turns a text into a dataset of words. */
static enum err_code finish_words(struct data_build *b, struct err *e)
{
	struct dataset *d = b->d;
	struct data_words *words = d->own;
	enum err_code rc = data_words_finish(words, b->first, e);

	if (rc)
		return rc;
	d->rows = words->length;
	d->sparse = true;
	d->nids = d->cols = 2 * words->n;
	d->fields = DATA_WORDS_DRAWN + 1;
	d->index_base = 0;
	d->id = mem_try_array(d->nids, sizeof(*d->id));
	if (!d->id)
		return err_set(e, ERR_NOMEM, "no memory for %zu words", words->n);
	for (size_t i = 0; i < d->nids; i++)
		d->id[i] = i;
	return ERR_OK;
}

/* Reserves for the most entries that n words can have; most words have fewer. */
static bool gather_words(const struct dataset *d, const uint32_t *index, size_t n, struct batch *b)
{
	size_t most;

	if (__builtin_mul_overflow(n, data_words_most(d->own), &most) ||
	    !shape_sparse_room(d, b, n, most))
		return false;
	data_words_gather(d->own, index, n, b);
	shape_gather_ids(d, b, b->start[n]);
	return true;
}

static void describe_words(const struct dataset *d, char *out, size_t n)
{
	const struct data_words *words = d->own;

	snprintf(out, n, "%zu word%s, %zu different one%s", d->rows, NUM_S(d->rows), words->n,
	    NUM_S(words->n));
}

static char *name_of_word(const struct dataset *d, uint64_t feature)
{
	const struct data_words *words = d->own;

	if (feature / 2 >= words->n)
		return NULL;
	return mem_printf("%s%s", words->name[feature / 2], feature % 2 ? " (predicted)" : "");
}

static void release_words(struct dataset *d)
{
	data_words_free(d->own);
}

const struct data_shape data_shape_words = { .name = "words",
	.own_targets = true,
	.finish = finish_words,
	.gather = gather_words,
	.describe = describe_words,
	.feature_name = name_of_word,
	.release = release_words };
