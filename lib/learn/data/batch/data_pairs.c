/* SPDX-License-Identifier: ISC */
#include "data/batch/data_pairs.h"

#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "core/rng.h"
#include "data/batch/data_observations.h"
#include "data/shape/data_shape.h"
#include "data/shape/shape_gather.h"

/* A user who has observed nearly all items may have none to draw: attempts before it is left out. */
#define ATTEMPTS 100

/* Pairs of a user and an item, user << 32 | item by their numbers in the dataset, ascending. */
struct pair_set {
	uint64_t *pair;
	size_t n;
};

/* The entries of users and items that have features (data_features.h), by their numbers: number k has the
 * entries start[k] .. start[k+1]-1. A number without features has no entries. */
struct profiles {
	uint64_t *start; /* NULL: no number has any */
	uint32_t *col;
	float *val;
};

struct data_pairs {
	struct profiles profiles;
	uint32_t *item; /* that may be drawn */
	size_t nitems;
	size_t draws; /* items drawn for an example */
	/* A pair was observed if it is in one of these; in a ranked set: there or in the training
	 * data. */
	struct pair_set observed;
	const struct data_observations *elsewhere; /* of data in blocks; borrowed; NULL: none */
	struct pair_set relevant;                  /* of a ranked set: those with the target 1 */
};

void data_pairs_free(struct data_pairs *p)
{
	if (!p)
		return;
	free(p->item);
	free(p->observed.pair);
	free(p->relevant.pair);
	free(p->profiles.start);
	free(p->profiles.col);
	free(p->profiles.val);
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

/* Counts how many of n ascending numbers are below x. */
static size_t count_below(const uint64_t *number, size_t n, uint64_t x)
{
	size_t low = 0, high = n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (number[mid] < x)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static bool is_in(const struct pair_set *s, uint64_t pair)
{
	size_t at = count_below(s->pair, s->n, pair);

	return at < s->n && s->pair[at] == pair;
}

/* The number of a feature in the data, of which the readers of ratings make an odd one for an
 * item. */
static uint64_t feature_of(const struct dataset *d, size_t k)
{
	return d->id ? d->id[k] : k;
}

static bool is_observed(const struct dataset *d, uint32_t user, uint32_t item)
{
	const struct data_pairs *p = d->own;

	return is_in(&p->observed, pair_of(user, item)) ||
	    (p->elsewhere &&
	        data_observations_have(p->elsewhere,
	            (struct data_pair){ feature_of(d, user), feature_of(d, item) }));
}

/* The entry of the item of row r: the first one after those of the user. */
static uint64_t entry_of_item(const struct dataset *d, size_t r)
{
	uint64_t k = d->start[r] + 1;

	while (d->field && k + 1 < d->start[r + 1] && d->field[k] == DATA_PAIRS_USER)
		k++;
	return k;
}

uint32_t data_pairs_item(const struct dataset *d, size_t r)
{
	return d->col[entry_of_item(d, r)];
}

struct data_pair data_pairs_of(const struct dataset *d, size_t r)
{
	return (struct data_pair){ feature_of(d, d->col[d->start[r]]),
		feature_of(d, data_pairs_item(d, r)) };
}

bool data_pairs_is_held_out(const struct data_pairs_share *s, struct data_pair p)
{
	return data_split_holds_out(s->seed, s->share, rng_mix(p.user) ^ p.item);
}

/* ---- training data ---- */

/* Appends the pairs of n rows of d, NULL: of the first n. */
static void append_pairs(struct pair_set *s, const struct dataset *d, const uint32_t *row, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		size_t r = row ? row[i] : i;

		s->pair[s->n++] = pair_of(d->col[d->start[r]], data_pairs_item(d, r));
	}
}

/* A new set of these sizes; NULL: no memory. */
static struct data_pairs *new_pairs(size_t draws, size_t items, size_t observed, size_t relevant)
{
	struct data_pairs *p = mem_alloc(sizeof *p);

	p->draws = draws;
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

/* Lists the items of pairs. False: no memory. */
static bool list_items(struct data_pairs *p, size_t features)
{
	bool *is_item = mem_try_array(features + 1, sizeof *is_item);

	for (size_t i = 0; is_item && i < p->observed.n; i++)
		is_item[(uint32_t)p->observed.pair[i]] = true;
	for (size_t k = 0; is_item && k < features; k++)
		if (is_item[k])
			p->item[p->nitems++] = (uint32_t)k;
	free(is_item);
	return is_item != NULL;
}

/* ---- features of users and items ---- */

/* Calls fn for the two sides of each row of d: their first and last entries, first .. end-1. */
static void each_side(const struct dataset *d,
    void (*fn)(struct profiles *p, const struct dataset *d, uint64_t first, uint64_t end),
    struct profiles *p)
{
	for (size_t r = 0; r < d->rows; r++) {
		uint64_t item = entry_of_item(d, r);

		fn(p, d, d->start[r], item);
		fn(p, d, item, d->start[r + 1]);
	}
}

/* start[k + 1] is the number of entries of k until they are added up. */
static void count_side(struct profiles *p, const struct dataset *d, uint64_t first, uint64_t end)
{
	if (end - first > 1)
		p->start[d->col[first] + 1] = end - first;
}

static void copy_side(struct profiles *p, const struct dataset *d, uint64_t first, uint64_t end)
{
	uint64_t to = p->start[d->col[first]];

	if (p->start[d->col[first] + 1] - to != end - first)
		return;
	memcpy(p->col + to, d->col + first, (end - first) * sizeof *p->col);
	memcpy(p->val + to, d->val + first, (end - first) * sizeof *p->val);
}

/* Adds up the numbers of entries of n numbers, and gets memory for them. False: no memory. */
static bool lay_out_profiles(struct profiles *p, size_t n)
{
	for (size_t k = 0; k < n; k++)
		p->start[k + 1] += p->start[k];
	p->col = mem_try_array(p->start[n] + 1, sizeof *p->col);
	p->val = mem_try_array(p->start[n] + 1, sizeof *p->val);
	return p->col && p->val;
}

/* Collects the entries of the users and items of d. False: no memory. */
static bool make_profiles(struct profiles *p, const struct dataset *d)
{
	if (d->start[d->rows] == 2 * (uint64_t)d->rows)
		return true;
	p->start = mem_try_array(d->nids + 1, sizeof *p->start);
	if (!p->start)
		return false;
	each_side(d, count_side, p);
	if (!lay_out_profiles(p, d->nids))
		return false;
	each_side(d, copy_side, p);
	return true;
}

/* The entries of number k: *n of them; 0: it has no features. */
static uint64_t profile_of(const struct profiles *p, uint32_t k, uint64_t *n)
{
	*n = p->start ? p->start[k + 1] - p->start[k] : 0;
	return p->start ? p->start[k] : 0;
}

/* Copies the entries of number `of`, which are in `from`, to number k of p, with the numbers that `to` gives
 * to their features. */
static void copy_profile(struct profiles *p, uint32_t k, const struct profiles *from, uint32_t of,
    const uint32_t *to)
{
	uint64_t n, at = profile_of(from, of, &n);

	for (uint64_t i = 0; i < n; i++) {
		p->col[p->start[k] + i] = to[from->col[at + i]];
		p->val[p->start[k] + i] = from->val[at + i];
	}
}

/* Gives d the shape of pairs. Takes p. */
static void become_pairs(struct dataset *d, struct data_pairs *p)
{
	d->shape = &data_shape_pairs;
	d->own = p;
	d->fields = DATA_PAIRS_DRAWN + p->draws;
}

/* Has d draw as if these n rows, or NULL: the first n, were all its observations. */
static enum err_code make_training(struct dataset *d, size_t draws, const uint32_t *row, size_t n,
    struct err *e)
{
	struct data_pairs *p = new_pairs(draws, d->nids, n, 0);

	if (p) {
		append_pairs(&p->observed, d, row, n);
		sort_pairs(&p->observed);
	}
	if (!p || !list_items(p, d->nids) || !make_profiles(&p->profiles, d)) {
		data_pairs_free(p);
		return fail_memory(n, e);
	}
	data_pairs_free(dataset_pairs(d));
	become_pairs(d, p);
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

/* Merges the entries of two datasets with these features, a and b. If both have entries of a number, the
 * result has those of a. False: no memory. */
static bool merge_profiles(struct profiles *out, const struct merged *m, const struct profiles *a,
    size_t na, const struct profiles *b, size_t nb)
{
	uint64_t n;

	if (!a->start && !b->start)
		return true;
	out->start = mem_try_array(m->n + 1, sizeof *out->start);
	if (!out->start)
		return false;
	for (uint32_t k = 0; k < nb; k++) {
		profile_of(b, k, &n);
		out->start[m->second[k] + 1] = n;
	}
	for (uint32_t k = 0; k < na; k++) {
		profile_of(a, k, &n);
		if (n)
			out->start[m->first[k] + 1] = n;
	}
	if (!lay_out_profiles(out, m->n))
		return false;
	for (uint32_t k = 0; k < nb; k++) {
		profile_of(b, k, &n);
		if (out->start[m->second[k] + 1] - out->start[m->second[k]] == n)
			copy_profile(out, m->second[k], b, k, m->second);
	}
	for (uint32_t k = 0; k < na; k++)
		copy_profile(out, m->first[k], a, k, m->first);
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

bool data_pairs_is_sampled(uint64_t user, unsigned thinned)
{
	return thinned == 0 || rng_mix(user) >> (64 - thinned) == 0;
}

static bool is_user_chosen(const uint64_t *id, uint32_t user, unsigned thinned)
{
	return data_pairs_is_sampled(id[user], thinned);
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
	const struct data_pairs *p = d->own;
	uint32_t user = user_of(p->relevant.pair[i]);

	for (; i < end; i++)
		add_ranked(d, user, (uint32_t)p->relevant.pair[i], 1);
	for (size_t k = 0; k < p->nitems; k++)
		if (!is_observed(d, user, p->item[k]))
			add_ranked(d, user, p->item[k], 0);
}

/* Gives the set memory for this many examples. */
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

/* Takes over what is known of the training data, with the numbers that `to` gives to their
 * features. */
static void know_training(struct data_pairs *p, const struct data_pairs *train, const uint32_t *to)
{
	for (size_t i = 0; i < train->observed.n; i++) {
		uint64_t pair = train->observed.pair[i];

		p->observed.pair[p->observed.n++] = pair_of(to[user_of(pair)], to[(uint32_t)pair]);
	}
	for (size_t i = 0; i < train->nitems; i++)
		p->item[p->nitems++] = to[train->item[i]];
	p->elsewhere = train->elsewhere;
}

/* Makes the ranked set of d, with the features of `m`, whose first are the features of d. False: no
 * memory. */
static bool rank_items(const struct dataset *d, const struct dataset *train, struct merged *m,
    struct dataset *out)
{
	const struct data_pairs *known = train->own;
	struct data_pairs *p = new_pairs(1, known->nitems, known->observed.n + d->rows, d->rows);
	struct profiles own = { 0 };
	bool good;
	unsigned thinned;
	size_t rows;

	if (!p)
		return false;
	become_pairs(out, p);
	out->fields = train->fields;
	good = make_profiles(&own, d) &&
	    merge_profiles(&p->profiles, m, &own, d->nids, &known->profiles, train->nids);
	free(own.start);
	free(own.col);
	free(own.val);
	if (!good)
		return false;
	out->id = m->id;
	out->nids = m->n;
	m->id = NULL;
	append_pairs(&p->relevant, d, NULL, d->rows);
	for (size_t i = 0; i < d->rows; i++) {
		uint64_t pair = p->relevant.pair[i];

		p->relevant.pair[i] = p->observed.pair[p->observed.n++] =
		    pair_of(m->first[user_of(pair)], m->first[(uint32_t)pair]);
	}
	know_training(p, known, m->second);
	sort_pairs(&p->relevant);
	sort_pairs(&p->observed);
	thinned = choose_sample(p, out->id, &rows);
	if (!reserve_ranked(out, rows))
		return false;
	out->start[0] = 0;
	for (size_t i = 0, end; i < p->relevant.n; i = end) {
		end = end_of_user(&p->relevant, i);
		if (is_user_chosen(out->id, user_of(p->relevant.pair[i]), thinned))
			add_user(out, i, end);
	}
	return true;
}

static enum err_code make_ranked(struct dataset **d, const struct dataset *train, struct err *e)
{
	struct dataset *out, *of = *d;
	struct merged m;
	bool good;

	if (!dataset_pairs(train))
		return err_set(e, ERR_UNSUPPORTED,
		    "%s: items can be ranked only where the training data are read, which say what each "
		    "user knows",
		    of->source);
	out = mem_alloc(sizeof *out);
	out->sparse = true;
	out->grouped_by_first = true;
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

enum err_code data_pairs_check(const struct dataset *d, struct err *e)
{
	if (d->grouped_by_first)
		return ERR_OK;
	return err_set(e, ERR_CONFIG,
	    "%s: is %s, but the model ranks the items of users: name their columns by "
	    "?format=ratings, user= and item=",
	    d->source, d->format);
}

enum err_code data_pairs_make(struct dataset **d, const struct dataset *train, size_t draws,
    struct err *e)
{
	enum err_code rc = data_pairs_check(*d, e);

	if (rc)
		return rc;
	return train ? make_ranked(d, train, e) : make_training(*d, draws, NULL, (*d)->rows, e);
}

size_t data_pairs_items(const struct data_pairs *p)
{
	return p->nitems;
}

/* ---- held-out observations ---- */

/* The number of a feature among n ascending ones, of which it is one. */
static uint32_t find_feature(const uint64_t *id, size_t n, uint64_t feature)
{
	return (uint32_t)count_below(id, n, feature);
}

/* Observations as a dataset, which make_ranked reads. NULL: no memory. */
static struct dataset *dataset_of_pairs(const struct data_pair *pair, size_t n,
    const struct dataset *train)
{
	struct dataset *d = mem_alloc(sizeof *d);
	struct pair_set features = { mem_try_array(2 * n + 1, sizeof *features.pair), 2 * n };

	d->id = features.pair;
	d->start = mem_try_array(n + 1, sizeof *d->start);
	d->col = mem_try_array(2 * n + 1, sizeof *d->col);
	d->source = mem_strdup(train->source);
	d->format = train->format;
	if (!d->id || !d->start || !d->col) {
		dataset_free(d);
		return NULL;
	}
	for (size_t i = 0; i < n; i++) {
		d->id[2 * i] = pair[i].user;
		d->id[2 * i + 1] = pair[i].item;
	}
	sort_pairs(&features);
	d->nids = features.n;
	d->sparse = true;
	d->grouped_by_first = true;
	d->rows = n;
	for (size_t i = 0; i < n; i++) {
		d->col[2 * i] = find_feature(d->id, d->nids, pair[i].user);
		d->col[2 * i + 1] = find_feature(d->id, d->nids, pair[i].item);
		d->start[i + 1] = 2 * (i + 1);
	}
	return d;
}

enum err_code data_pairs_rank(const struct data_pair *pair, size_t n, const struct dataset *train,
    struct dataset **ranked, struct err *e)
{
	struct dataset *d = dataset_of_pairs(pair, n, train);
	enum err_code rc = d ? make_ranked(&d, train, e) : fail_memory(n, e);

	if (rc) {
		dataset_free(d);
		d = NULL;
	}
	*ranked = d;
	return rc;
}

/* Divides the rows of d. */
static void split_rows(const struct dataset *d, const struct data_pairs_share *s,
    struct data_split *out)
{
	*out = (struct data_split){ .train = mem_array(d->rows + 1, sizeof *out->train),
		.held_out = mem_array(d->rows + 1, sizeof *out->held_out) };
	for (size_t r = 0; r < d->rows; r++)
		if (data_pairs_is_held_out(s, data_pairs_of(d, r)))
			out->held_out[out->nheld_out++] = (uint32_t)r;
		else
			out->train[out->ntrain++] = (uint32_t)r;
}

enum err_code data_pairs_hold_out(struct dataset *d, const struct data_pairs_share *s,
    struct data_split *split, struct dataset **ranked, struct err *e)
{
	struct data_pair *held;
	enum err_code rc;

	*ranked = NULL;
	split_rows(d, s, split);
	if (split->ntrain == 0 || split->nheld_out == 0)
		return err_set(e, ERR_CONFIG, "%s of the %zu observations are held out",
		    split->ntrain ? "none" : "all", d->rows);
	rc = make_training(d, dataset_pairs(d)->draws, split->train, split->ntrain, e);
	if (rc)
		return rc;
	held = mem_array(split->nheld_out, sizeof *held);
	for (size_t i = 0; i < split->nheld_out; i++)
		held[i] = data_pairs_of(d, split->held_out[i]);
	rc = data_pairs_rank(held, split->nheld_out, d, ranked, e);
	free(held);
	return rc;
}

/* ---- chunks ---- */

enum err_code data_pairs_join(struct dataset *d, const struct data_observations *o, size_t draws,
    struct err *e)
{
	struct dataset items = { 0 };
	struct data_pairs *p;
	struct merged m = { 0 };
	enum err_code rc = data_pairs_check(d, e);

	if (rc)
		return rc;
	items.id = (uint64_t *)(uintptr_t)data_observations_items(o, &items.nids);
	p = new_pairs(draws, items.nids, 0, 0);
	if (!p || !merge_features(d, &items, &m)) {
		data_pairs_free(p);
		release_merged(&m);
		return fail_memory(d->rows, e);
	}
	for (size_t k = 0; k < d->start[d->rows]; k++)
		d->col[k] = m.first[d->col[k]];
	free(d->id);
	d->id = m.id;
	d->nids = m.n;
	m.id = NULL;
	for (; p->nitems < items.nids; p->nitems++)
		p->item[p->nitems] = m.second[p->nitems];
	if (items.nids && items.id[items.nids - 1] >= d->cols)
		d->cols = (size_t)items.id[items.nids - 1] + 1;
	p->elsewhere = o;
	become_pairs(d, p);
	release_merged(&m);
	return ERR_OK;
}

/* ---- batches ---- */

/* Draws an item that is not observed for the user. False: none was found. */
static bool draw_unobserved(const struct dataset *d, uint32_t user, struct rng *r, uint32_t *out)
{
	const struct data_pairs *p = d->own;

	for (int i = 0; p->nitems > 0 && i < ATTEMPTS; i++) {
		*out = p->item[rng_below(r, p->nitems)];
		if (!is_observed(d, user, *out))
			return true;
	}
	return false;
}

/* Draws an item of a ranked set with the target 1, of which each of its users has one. */
static bool draw_relevant(const struct dataset *d, uint32_t user, struct rng *r, uint32_t *out)
{
	const struct data_pairs *p = d->own;
	const struct pair_set *s = &p->relevant;
	size_t first = count_below(s->pair, s->n, pair_of(user, 0)),
	       end = count_below(s->pair, s->n, pair_of(user + 1, 0));

	*out = (uint32_t)p->relevant.pair[first + rng_below(r, end - first)];
	return true;
}

static void put_entry(struct batch *b, size_t *k, uint32_t col, float val, size_t field)
{
	b->col[*k] = col;
	b->val[*k] = val;
	b->field[(*k)++] = (uint16_t)field;
}

/* Puts the user or item of this number, with its features. */
static void put_side(const struct data_pairs *p, struct batch *b, size_t *k, uint32_t number,
    size_t field)
{
	uint64_t n, at = profile_of(&p->profiles, number, &n);

	if (n == 0)
		put_entry(b, k, number, 1, field);
	for (uint64_t i = at; i < at + n; i++)
		put_entry(b, k, p->profiles.col[i], p->profiles.val[i], field);
}

#define NONE_DRAWN UINT32_MAX

/* Draws items for example r: p->draws of them to `drawn`, NONE_DRAWN from the first one on for which there is
 * none to draw. */
static void draw_items(const struct dataset *d, size_t r, uint64_t epoch, uint32_t *drawn)
{
	const struct data_pairs *p = d->own;
	uint32_t user = d->col[d->start[r]];
	bool relevant = !(d->y[r] > 0.5f), more = true;
	struct rng rng;

	rng_init(&rng,
	    rng_mix(rng_mix(epoch) ^ feature_of(d, user)) ^
	        rng_mix(feature_of(d, data_pairs_item(d, r))));
	for (size_t j = 0; j < p->draws; j++) {
		more = more &&
		    (relevant ? draw_relevant : draw_unobserved)(d, user, &rng, &drawn[j]);
		if (!more)
			drawn[j] = NONE_DRAWN;
	}
}

/* The number of entries of a user or an item. */
static uint64_t count_entries(const struct data_pairs *p, uint32_t number)
{
	uint64_t n;

	profile_of(&p->profiles, number, &n);
	return n ? n : 1;
}

/* Counts the entries of the examples and of what was drawn for them. */
static uint64_t count_all(const struct dataset *d, const uint32_t *index, size_t n,
    const uint32_t *drawn)
{
	const struct data_pairs *p = d->own;
	uint64_t all = 0;

	for (size_t i = 0; i < n; i++) {
		all += count_entries(p, d->col[d->start[index[i]]]) +
		    count_entries(p, data_pairs_item(d, index[i]));
		for (size_t j = 0; j < p->draws && drawn[i * p->draws + j] != NONE_DRAWN; j++)
			all += count_entries(p, drawn[i * p->draws + j]);
	}
	return all;
}

bool data_pairs_gather(const struct dataset *d, const uint32_t *index, size_t n, struct batch *b)
{
	const struct data_pairs *p = d->own;
	uint32_t *drawn = mem_try_array(n * p->draws + 1, sizeof *drawn);
	size_t k = 0;

	for (size_t i = 0; drawn && i < n; i++)
		draw_items(d, index[i], b->epoch, drawn + i * p->draws);
	if (!drawn || !shape_sparse_room(d, b, n, count_all(d, index, n, drawn))) {
		free(drawn);
		return false;
	}
	b->start[0] = 0;
	for (size_t i = 0; i < n; i++) {
		const uint32_t *of = drawn + i * p->draws;

		put_side(p, b, &k, d->col[d->start[index[i]]], DATA_PAIRS_USER);
		put_side(p, b, &k, data_pairs_item(d, index[i]), DATA_PAIRS_ITEM);
		for (size_t j = 0; j < p->draws && of[j] != NONE_DRAWN; j++)
			put_side(p, b, &k, of[j], DATA_PAIRS_DRAWN + j);
		b->start[i + 1] = (uint32_t)k;
	}
	free(drawn);
	return true;
}
