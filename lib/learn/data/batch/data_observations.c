/* SPDX-License-Identifier: ISC */
#include "data/batch/data_observations.h"

#include <stdlib.h>

#include "core/mem.h"
#include "core/num.h"
#include "core/rng.h"

/* The filter has lines of 512 bits, one of which has all bits of a pair. */
#define LINE_WORDS 8u
#define LINE_BITS  (64u * LINE_WORDS)
#define PAIR_BITS  6u
/* With at most this many pairs for each line, one of 30 other pairs is found by mistake. */
#define PAIRS_PER_LINE 64u
/* The parts of the memory for the filter, and at most for the items. */
#define PART 4u
/* Bytes of an item in the list, and in two chunks that can draw it. */
#define ITEM_BYTES 40u

struct data_observations {
	struct data_pairs_share share;
	size_t draws;
	uint64_t (*line)[LINE_WORDS];
	uint64_t nlines;
	uint64_t pairs, read; /* in the filter; and with those that came again */
	uint64_t *item;       /* ascending */
	size_t nitems, items_most;
	/* held out, of the users in the sample `thinned`; room: for this many */
	struct data_pair *held_out;
	size_t nheld_out, room;
	unsigned thinned;
};

void data_observations_free(struct data_observations *o)
{
	if (!o)
		return;
	free(o->line);
	free(o->item);
	free(o->held_out);
	free(o);
}

/* ---- the filter ---- */

/* Finds the line of a pair, and sets its bits in *bits. */
static uint64_t *find_line(const struct data_observations *o, struct data_pair p,
    uint64_t bits[static LINE_WORDS])
{
	uint64_t place = rng_mix(rng_mix(p.user) + p.item), hash = rng_mix(place);

	for (unsigned i = 0; i < PAIR_BITS; i++, hash >>= 9)
		bits[hash % LINE_BITS / 64] |= UINT64_C(1) << hash % 64;
	return o->line[((place >> 32) * o->nlines) >> 32];
}

bool data_observations_have(const struct data_observations *o, struct data_pair p)
{
	uint64_t bits[LINE_WORDS] = { 0 };
	const uint64_t *line = find_line(o, p, bits);

	for (unsigned w = 0; w < LINE_WORDS; w++)
		if (bits[w] & ~line[w])
			return false;
	return true;
}

static void add_to_filter(struct data_observations *o, struct data_pair p)
{
	uint64_t bits[LINE_WORDS] = { 0 }, *line = find_line(o, p, bits);
	bool new = false;

	for (unsigned w = 0; w < LINE_WORDS; w++) {
		new |= bits[w] & ~line[w];
		line[w] |= bits[w];
	}
	o->pairs += new;
	o->read++;
}

/* ---- held-out observations ---- */

static int compare_held_out(const void *a, const void *b)
{
	const struct data_pair *x = a, *y = b;

	return x->user != y->user ? (x->user > y->user) - (x->user < y->user)
	                          : (x->item > y->item) - (x->item < y->item);
}

/* Drops pairs that come twice, and then, while there are too many, the pairs of half of the users.
 * More than DATA_PAIRS_RANKED pairs are more than a ranked set may have, which therefore has a
 * smaller sample. */
static void thin_held_out(struct data_observations *o)
{
	size_t n = 0;

	qsort(o->held_out, o->nheld_out, sizeof *o->held_out, compare_held_out);
	for (size_t i = 0; i < o->nheld_out; i++)
		if (n == 0 || compare_held_out(&o->held_out[i], &o->held_out[n - 1]) != 0)
			o->held_out[n++] = o->held_out[i];
	for (o->nheld_out = n; o->nheld_out > DATA_PAIRS_RANKED && o->thinned < 63;) {
		o->thinned++;
		n = 0;
		for (size_t i = 0; i < o->nheld_out; i++)
			if (data_pairs_is_sampled(o->held_out[i].user, o->thinned))
				o->held_out[n++] = o->held_out[i];
		o->nheld_out = n;
	}
}

static void hold_out(struct data_observations *o, struct data_pair p)
{
	if (o->nheld_out == o->room && o->room > DATA_PAIRS_RANKED)
		thin_held_out(o);
	if (!data_pairs_is_sampled(p.user, o->thinned))
		return;
	if (o->nheld_out == o->room) {
		o->room = 2 * o->room + 1024;
		o->held_out = mem_regrow(o->held_out, o->room, sizeof *o->held_out);
	}
	o->held_out[o->nheld_out++] = p;
}

/* ---- reading ---- */

/* Merges the items of a chunk, those features that are marked, into the list. */
static enum err_code merge_items(struct data_observations *o, const struct dataset *d,
    const bool *is_item, struct err *e)
{
	uint64_t *all = mem_try_array(o->nitems + d->nids + 1, sizeof *all);
	size_t n = 0, i = 0;

	if (!all)
		return err_set(e, ERR_NOMEM, "no memory for the items of %s", d->source);
	for (size_t k = 0; k < d->nids; k++) {
		uint64_t item = d->id ? d->id[k] : k;

		if (!is_item[k])
			continue;
		while (i < o->nitems && o->item[i] < item)
			all[n++] = o->item[i++];
		i += i < o->nitems && o->item[i] == item;
		all[n++] = item;
	}
	while (i < o->nitems)
		all[n++] = o->item[i++];
	free(o->item);
	o->item = all;
	o->nitems = n;
	return ERR_OK;
}

static enum err_code add_chunk(struct data_observations *o, const struct dataset *d, struct err *e)
{
	bool *is_item = mem_array(d->nids + 1, sizeof *is_item);
	enum err_code rc;

	for (size_t r = 0; r < d->rows; r++) {
		struct data_pair p = data_pairs_of(d, r);

		if (data_pairs_is_held_out(&o->share, p)) {
			hold_out(o, p);
			continue;
		}
		is_item[data_pairs_item(d, r)] = true;
		add_to_filter(o, p);
	}
	rc = merge_items(o, d, is_item, e);
	free(is_item);
	return rc;
}

/* A chunk does not know the features of items that are drawn from others. */
static enum err_code check_features(const struct dataset *d, struct err *e)
{
	if (d->start[d->rows] == 2 * (uint64_t)d->rows)
		return ERR_OK;
	return err_set(e, ERR_CONFIG,
	    "job.data_memory is too small: features of users and items (user_features=, "
	    "item_features=) can be used only if all data fit into memory; raise it");
}

static enum err_code check_bounds(const struct data_observations *o, struct err *e)
{
	if (o->pairs > o->nlines * PAIRS_PER_LINE)
		return err_set(e, ERR_CONFIG,
		    "job.data_memory: the data have more than %llu observations; raise it",
		    (unsigned long long)(o->nlines * PAIRS_PER_LINE));
	if (o->nitems > o->items_most)
		return err_set(e, ERR_CONFIG,
		    "job.data_memory: the data have more than %zu items; raise it", o->items_most);
	return ERR_OK;
}

static enum err_code read_chunks(struct data_observations *o, struct data_walk *chunks,
    struct err *e)
{
	enum err_code rc = ERR_OK;
	bool last = false;

	while (!rc && !last) {
		struct dataset *d;

		rc = data_walk_next(chunks, &d, &last, e);
		if (!rc && d)
			rc = check_features(d, e);
		if (!rc && d)
			rc = add_chunk(o, d, e);
		if (!rc)
			rc = check_bounds(o, e);
		data_walk_reuse(chunks, d);
	}
	return rc;
}

/* Is there an observation on each side? */
static enum err_code check_share(const struct data_observations *o, struct err *e)
{
	if (o->share.share == 0 || (o->read && o->nheld_out))
		return ERR_OK;
	return err_set(e, ERR_CONFIG, "job.validate: %s of the observations are held out",
	    o->read ? "none" : "all");
}

enum err_code data_observations_read(const struct data_blocks *b,
    const struct data_pairs_share *share, size_t draws, uint64_t memory,
    struct data_observations **out, struct err *e)
{
	struct data_observations *o = mem_alloc(sizeof *o);
	uint64_t part = memory / PART;
	size_t n = data_blocks_count(b);
	uint32_t *number = mem_array(n + 1, sizeof *number);
	struct data_walk *chunks;
	enum err_code rc = data_pairs_check(data_blocks_head(b), e);

	*out = NULL;
	o->share = *share;
	o->draws = draws;
	o->nlines = part / sizeof *o->line;
	o->nlines = o->nlines == 0 ? 1 : o->nlines > UINT32_MAX ? UINT32_MAX : o->nlines;
	o->line = mem_try_array((size_t)o->nlines, sizeof *o->line);
	o->items_most = (size_t)(part / ITEM_BYTES);
	for (size_t i = 0; i < n; i++)
		number[i] = (uint32_t)i;
	chunks = data_blocks_walk(b, number, n, part, part);
	if (!rc && !o->line)
		rc = err_set(e, ERR_NOMEM, "no memory to read the observations");
	if (!rc)
		rc = read_chunks(o, chunks, e);
	if (!rc)
		rc = check_share(o, e);
	data_walk_free(chunks);
	free(number);
	if (rc) {
		data_observations_free(o);
		return rc;
	}
	if (o->nheld_out)
		thin_held_out(o);
	*out = o;
	return ERR_OK;
}

const uint64_t *data_observations_items(const struct data_observations *o, size_t *n)
{
	*n = o->nitems;
	return o->item;
}

const struct data_pair *data_observations_held_out(const struct data_observations *o, size_t *n)
{
	*n = o->nheld_out;
	return o->held_out;
}

uint64_t data_observations_memory(const struct data_observations *o)
{
	return o ? o->nlines * sizeof *o->line + o->nitems * ITEM_BYTES : 0;
}

/* ---- chunks ---- */

/* Moves row r of the data to the place of row `to` before it. A row of ratings has two entries. */
static void move_row(struct dataset *d, size_t to, size_t r)
{
	uint64_t from = d->start[r], at = d->start[to];

	for (unsigned k = 0; k < 2; k++) {
		d->col[at + k] = d->col[from + k];
		d->val[at + k] = d->val[from + k];
		if (d->field)
			d->field[at + k] = d->field[from + k];
	}
	d->start[to + 1] = at + 2;
	d->y[to] = d->y[r];
	if (d->weight)
		d->weight[to] = d->weight[r];
}

static void drop_held_out(struct dataset *d, const struct data_pairs_share *share)
{
	size_t n = 0;

	for (size_t r = 0; r < d->rows; r++)
		if (!data_pairs_is_held_out(share, data_pairs_of(d, r)))
			move_row(d, n++, r);
	d->rows = n;
}

enum err_code data_observations_finish(const void *ctx, struct dataset *chunk, struct err *e)
{
	const struct data_observations *o = ctx;

	if (o->share.share > 0)
		drop_held_out(chunk, &o->share);
	return data_pairs_join(chunk, o, o->draws, e);
}
