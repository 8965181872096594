/* SPDX-License-Identifier: ISC */
#include "data/data_pairs.h"

#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "core/rng.h"

/* A user who has observed nearly all items may have none to draw: attempts before it is left out. */
#define ATTEMPTS 100

/* Pairs of a user and an item, user << 32 | item by their numbers in the dataset, ascending. */
struct pair_set {
	uint64_t *pair;
	size_t n;
};

struct data_pairs {
	uint32_t *item; /* that may be drawn */
	size_t nitems;
	struct pair_set observed; /* in a ranked set: there or in the training data */
	struct pair_set relevant; /* of a ranked set: those with the target 1 */
};

void data_pairs_free(struct data_pairs *p)
{
	if (!p)
		return;
	free(p->item);
	free(p->observed.pair);
	free(p->relevant.pair);
	free(p);
}

static uint64_t pair_of(uint32_t user, uint32_t item)
{
	return (uint64_t)user << 32 | item;
}

static int compare_pairs(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* Sorts the pairs, and drops those that come twice. */
static void sort_pairs(struct pair_set *s)
{
	size_t n = 0;

	qsort(s->pair, s->n, sizeof *s->pair, compare_pairs);
	for (size_t i = 0; i < s->n; i++)
		if (n == 0 || s->pair[i] != s->pair[n - 1])
			s->pair[n++] = s->pair[i];
	s->n = n;
}

/* The number of pairs below this one. */
static size_t count_below(const struct pair_set *s, uint64_t pair)
{
	size_t low = 0, high = s->n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (s->pair[mid] < pair)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static bool is_in(const struct pair_set *s, uint64_t pair)
{
	size_t at = count_below(s, pair);

	return at < s->n && s->pair[at] == pair;
}

/* ---- training data ---- */

/* The number of a feature in the data, of which the readers of ratings make an odd one for an item. */
static uint64_t feature_of(const struct dataset *d, size_t k)
{
	return d->id ? d->id[k] : k;
}

/* Appends the pairs of the examples, with the numbers that `to` gives to features; NULL: their own. */
static void append_pairs(struct pair_set *s, const struct dataset *d, const uint32_t *to)
{
	for (size_t r = 0; r < d->rows; r++) {
		const uint32_t *col = d->col + d->start[r];
		uint32_t user = to ? to[col[0]] : col[0], item = to ? to[col[1]] : col[1];

		s->pair[s->n++] = pair_of(user, item);
	}
}

/* Lists the items of the data, as append_pairs does. */
static void list_items(struct data_pairs *p, const struct dataset *d, const uint32_t *to)
{
	for (size_t k = 0; k < d->nids; k++)
		if (feature_of(d, k) % 2)
			p->item[p->nitems++] = to ? to[k] : (uint32_t)k;
}

/* A new set of these sizes; NULL: no memory. */
static struct data_pairs *new_pairs(size_t items, size_t observed, size_t relevant)
{
	struct data_pairs *p = mem_alloc(sizeof *p);

	p->item = mem_try_array(items + 1, sizeof *p->item);
	p->observed.pair = mem_try_array(observed + 1, sizeof *p->observed.pair);
	p->relevant.pair = mem_try_array(relevant + 1, sizeof *p->relevant.pair);
	if (p->item && p->observed.pair && p->relevant.pair)
		return p;
	data_pairs_free(p);
	return NULL;
}

static enum err_code fail_memory(size_t rows, struct err *e)
{
	return err_set(e, ERR_NOMEM, "no memory to rank the items of %zu observations", rows);
}

static enum err_code make_training(struct dataset *d, struct err *e)
{
	struct data_pairs *p = new_pairs(d->nids, d->rows, 0);

	if (!p)
		return fail_memory(d->rows, e);
	append_pairs(&p->observed, d, NULL);
	sort_pairs(&p->observed);
	list_items(p, d, NULL);
	d->pairs = p;
	d->fields = DATA_PAIRS_FIELDS;
	return ERR_OK;
}

/* ---- ranked sets ---- */

/* The features of two datasets together: their numbers there, and the features in ascending order. */
struct merged {
	uint32_t *first, *second;
	uint64_t *id;
	size_t n;
};

static void release_merged(struct merged *m)
{
	free(m->first);
	free(m->second);
	free(m->id);
}

static bool merge_features(const struct dataset *a, const struct dataset *b, struct merged *m)
{
	size_t i = 0, j = 0;

	*m = (struct merged){ .first = mem_try_array(a->nids + 1, sizeof *m->first),
		.second = mem_try_array(b->nids + 1, sizeof *m->second),
		.id = mem_try_array(a->nids + b->nids + 1, sizeof *m->id) };
	if (!m->first || !m->second || !m->id)
		return false;
	while (i < a->nids || j < b->nids) {
		uint64_t x = i < a->nids ? feature_of(a, i) : UINT64_MAX,
		         y = j < b->nids ? feature_of(b, j) : UINT64_MAX;

		if (x <= y)
			m->first[i++] = (uint32_t)m->n;
		if (y <= x)
			m->second[j++] = (uint32_t)m->n;
		m->id[m->n++] = x < y ? x : y;
	}
	return true;
}

static uint32_t user_of(uint64_t pair)
{
	return (uint32_t)(pair >> 32);
}

/* The end of the pairs that have the user of pair i. */
static size_t end_of_user(const struct pair_set *s, size_t i)
{
	size_t end = i;

	while (end < s->n && user_of(s->pair[end]) == user_of(s->pair[i]))
		end++;
	return end;
}

/* Is the user in the sample of the share 2^-thinned? */
static bool is_user_chosen(const uint64_t *id, uint32_t user, unsigned thinned)
{
	return thinned == 0 || rng_mix(id[user]) >> (64 - thinned) == 0;
}

/* The examples of the users in a sample, at most, and how many users these are. */
static size_t count_examples(const struct data_pairs *p, const uint64_t *id, unsigned thinned,
    size_t *users)
{
	size_t rows = 0;

	*users = 0;
	for (size_t i = 0, end; i < p->relevant.n; i = end) {
		end = end_of_user(&p->relevant, i);
		if (!is_user_chosen(id, user_of(p->relevant.pair[i]), thinned))
			continue;
		rows += end - i + p->nitems;
		++*users;
	}
	return rows;
}

/* Chooses the sample of users; *rows: the examples that it has at most. */
static unsigned choose_sample(const struct data_pairs *p, const uint64_t *id, size_t *rows)
{
	unsigned thinned = 0;
	size_t users, fewer;

	*rows = count_examples(p, id, 0, &users);
	while (*rows > DATA_PAIRS_RANKED && thinned < 63) {
		fewer = count_examples(p, id, thinned + 1, &users);
		if (users == 0)
			break;
		*rows = fewer;
		thinned++;
	}
	return thinned;
}

static void add_ranked(struct dataset *d, uint32_t user, uint32_t item, float y)
{
	uint64_t at = 2 * (uint64_t)d->rows;

	d->col[at] = user;
	d->col[at + 1] = item;
	d->val[at] = d->val[at + 1] = 1;
	d->field[at] = DATA_PAIRS_USER;
	d->field[at + 1] = DATA_PAIRS_ITEM;
	d->y[d->rows++] = y;
	d->start[d->rows] = at + 2;
}

/* Adds the examples of the user of pairs i .. end-1. */
static void add_user(struct dataset *d, size_t i, size_t end)
{
	const struct data_pairs *p = d->pairs;
	uint32_t user = user_of(p->relevant.pair[i]);

	for (; i < end; i++)
		add_ranked(d, user, (uint32_t)p->relevant.pair[i], 1);
	for (size_t k = 0; k < p->nitems; k++)
		if (!is_in(&p->observed, pair_of(user, p->item[k])))
			add_ranked(d, user, p->item[k], 0);
}

/* Gives the set memory for so many examples. */
static bool reserve_ranked(struct dataset *d, size_t rows)
{
	d->start = mem_try_array(rows + 1, sizeof *d->start);
	d->col = mem_try_array(2 * rows, sizeof *d->col);
	d->val = mem_try_array(2 * rows, sizeof *d->val);
	d->field = mem_try_array(2 * rows, sizeof *d->field);
	d->targets = 1;
	d->y = mem_try_array(rows, sizeof *d->y);
	return d->start && d->col && d->val && d->field && d->y;
}

/* Makes the ranked set of d, with the features of `m`, whose first are those of d. False: no memory. */
static bool rank_items(const struct dataset *d, const struct dataset *train, struct merged *m,
    struct dataset *out)
{
	struct data_pairs *p = new_pairs(train->nids, train->rows + d->rows, d->rows);
	unsigned thinned;
	size_t rows;

	if (!p)
		return false;
	out->pairs = p;
	append_pairs(&p->relevant, d, m->first);
	append_pairs(&p->observed, d, m->first);
	append_pairs(&p->observed, train, m->second);
	sort_pairs(&p->relevant);
	sort_pairs(&p->observed);
	list_items(p, train, m->second);
	thinned = choose_sample(p, m->id, &rows);
	if (!reserve_ranked(out, rows))
		return false;
	out->start[0] = 0;
	for (size_t i = 0, end; i < p->relevant.n; i = end) {
		end = end_of_user(&p->relevant, i);
		if (is_user_chosen(m->id, user_of(p->relevant.pair[i]), thinned))
			add_user(out, i, end);
	}
	out->id = m->id;
	out->nids = m->n;
	m->id = NULL;
	return true;
}

static enum err_code make_ranked(struct dataset **d, const struct dataset *train, struct err *e)
{
	struct dataset *out, *of = *d;
	struct merged m;
	bool good;

	if (train->rows == 0)
		return err_set(e, ERR_UNSUPPORTED,
		    "%s: items can be ranked only where the training data are read, which say what each "
		    "user knows",
		    of->source);
	out = mem_alloc(sizeof *out);
	out->sparse = true;
	out->grouped_by_first = true;
	out->fields = DATA_PAIRS_FIELDS;
	out->cols = of->cols > train->cols ? of->cols : train->cols;
	out->format = of->format;
	out->source = mem_strdup(of->source);
	good = merge_features(of, train, &m) && rank_items(of, train, &m, out);
	release_merged(&m);
	if (!good) {
		dataset_free(out);
		return fail_memory(of->rows, e);
	}
	dataset_free(of);
	*d = out;
	return ERR_OK;
}

enum err_code data_pairs_make(struct dataset **d, const struct dataset *train, struct err *e)
{
	if (!(*d)->grouped_by_first)
		return err_set(e, ERR_CONFIG,
		    "%s: is %s, but the model ranks the items of users: name their columns by "
		    "?format=ratings, user= and item=",
		    (*d)->source, (*d)->format);
	return train ? make_ranked(d, train, e) : make_training(*d, e);
}

/* ---- batches ---- */

/* Draws an item that is not observed for the user. False: none was found. */
static bool draw_unobserved(const struct data_pairs *p, uint32_t user, struct rng *r, uint32_t *out)
{
	for (int i = 0; p->nitems > 0 && i < ATTEMPTS; i++) {
		*out = p->item[rng_below(r, p->nitems)];
		if (!is_in(&p->observed, pair_of(user, *out)))
			return true;
	}
	return false;
}

/* Draws an item of a ranked set with the target 1, of which each of its users has one. */
static bool draw_relevant(const struct data_pairs *p, uint32_t user, struct rng *r, uint32_t *out)
{
	size_t first = count_below(&p->relevant, pair_of(user, 0)),
	       end = count_below(&p->relevant, pair_of(user + 1, 0));

	*out = (uint32_t)p->relevant.pair[first + rng_below(r, end - first)];
	return true;
}

static void put_pair_entry(struct batch *b, size_t *k, uint32_t col, enum data_pairs_field field)
{
	b->col[*k] = col;
	b->val[*k] = 1;
	b->field[(*k)++] = (uint16_t)field;
}

void data_pairs_gather(const struct dataset *d, const uint32_t *index, size_t n, struct batch *b)
{
	const struct data_pairs *p = d->pairs;
	size_t k = 0;

	b->start[0] = 0;
	for (size_t i = 0; i < n; i++) {
		const uint32_t *col = d->col + d->start[index[i]];
		uint32_t drawn = 0;
		struct rng r;

		rng_init(&r,
		    rng_mix(rng_mix(b->epoch) ^ feature_of(d, col[0])) ^
		        rng_mix(feature_of(d, col[1])));
		put_pair_entry(b, &k, col[0], DATA_PAIRS_USER);
		put_pair_entry(b, &k, col[1], DATA_PAIRS_ITEM);
		if ((d->y[index[i]] > 0.5f ? draw_unobserved : draw_relevant)(p, col[0], &r,
		        &drawn))
			put_pair_entry(b, &k, drawn, DATA_PAIRS_DRAWN);
		b->start[i + 1] = (uint32_t)k;
	}
}
