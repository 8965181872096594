/* SPDX-License-Identifier: ISC */
#include "data/batch/data_words.h"

#include <math.h>

#include "core/map.h"
#include "core/mem.h"
#include "core/rng.h"

/* While the text is read, `at` has numbers by first appearance, and the map finds words. */
struct building {
	struct data_words w; /* must be first: the public part */
	struct map *map;
	bool closed; /* accepts only the words of another text */
	size_t base; /* words of another text, whose numbers and counts stay */
	size_t room; /* words that there is room for */
	/* the first word of the paragraph was left out; the next one begins it */
	bool pending;
};

static void set_words(struct data_words *w, const char *const *name, const uint64_t *count,
    size_t n)
{
	w->n = n;
	w->name = mem_array(n, sizeof(*w->name));
	w->count = mem_array(n, sizeof(*w->count));
	memcpy(w->count, count, n * sizeof(*w->count));
	for (size_t i = 0; i < n; i++)
		w->name[i] = mem_strdup(name[i]);
}

struct data_words *data_words_of(const char *const *name, const uint64_t *count, size_t n)
{
	struct building *x = mem_alloc(sizeof(*x));

	set_words(&x->w, name, count, n);
	return &x->w;
}

/* The result is the first member of a struct building. With `like` the vocabulary is closed: words
 * are looked up, numbers and counts come from the training text, and unknown words are
 * dropped. */
struct data_words *data_words_new(const struct data_options *o, const struct data_words *like,
    bool extends)
{
	struct building *x = mem_alloc(sizeof(*x));

	x->w = (struct data_words){ .window = o->window,
		.negatives = o->negatives,
		.min_count = o->min_count,
		.sample = o->sample };
	x->map = map_new();
	if (!like)
		return &x->w;
	x->closed = !extends;
	x->base = x->room = like->n;
	set_words(&x->w, (const char *const *)like->name, like->count, like->n);
	for (size_t i = 0; i < like->n; i++)
		map_put(x->map, like->name[i], (void *)(uintptr_t)(i + 1));
	return &x->w;
}

void data_words_free(struct data_words *w)
{
	struct building *x = (struct building *)w;

	if (!w)
		return;
	for (size_t i = 0; i < w->n; i++)
		free(w->name[i]);
	map_free(x->map);
	free(w->name);
	free(w->count);
	free(w->at);
	free(w->keep);
	free(w->drawn);
	free(x);
}

/* The number of a word, which is added if new; UINT32_MAX: it does not count. */
static uint32_t word_number(struct building *x, const char *name)
{
	uintptr_t known = (uintptr_t)map_get(x->map, name);
	struct data_words *w = &x->w;

	if (known || x->closed)
		return (uint32_t)known - 1;
	if (w->n == x->room) {
		w->name = mem_grow(w->name, &x->room, w->n + 1, sizeof(*w->name));
		w->count = mem_regrow(w->count, x->room, sizeof(*w->count));
	}
	w->name[w->n] = mem_strdup(name);
	w->count[w->n] = 0;
	map_put(x->map, name, (void *)(uintptr_t)(w->n + 1));
	return (uint32_t)w->n++;
}

/* A paragraph's first word may be unknown and dropped: `pending` carries the beginning over to the
 * next word that is stored. Cutting a long word may split a UTF-8 character; it is the same cut
 * every time, so equal words stay equal. */
enum err_code data_words_add(struct data_words *w, const char *name, size_t n, bool first,
    struct err *e)
{
	struct building *x = (struct building *)w;
	char text[DATA_WORD_MAX + 1];
	uint32_t number;
	void *p;

	x->pending |= first;
	snprintf(text, sizeof(text), "%.*s", (int)(n < DATA_WORD_MAX ? n : DATA_WORD_MAX), name);
	number = word_number(x, text);
	if (number == UINT32_MAX)
		return ERR_OK;
	if (w->n >= DATA_WORDS_FIRST || w->length == UINT32_MAX)
		return err_set(e, ERR_LIMIT, "more than %u words", UINT32_MAX);
	if (w->length == w->room) {
		w->room = w->room ? 2 * w->room : 1 << 16;
		p = realloc(w->at, w->room * sizeof(*w->at));
		if (!p)
			return err_set(e, ERR_NOMEM, "no memory for a text of %zu words", w->room);
		w->at = p;
	}
	w->at[w->length++] = number | (x->pending ? DATA_WORDS_FIRST : 0);
	w->count[number] += number >= x->base;
	x->pending = false;
	return ERR_OK;
}

struct word {
	char *name;
	uint64_t count;
	uint32_t number;
};

static int by_count(const void *a, const void *b)
{
	const struct word *x = a, *y = b;

	return x->count != y->count ? (x->count < y->count) - (x->count > y->count)
	                            : strcmp(x->name, y->name);
}

/* Renumbers from order of appearance to frequency, and drops rare words from the text. The first
 * `base` words stay as they are. */
static void renumber_by_frequency(struct data_words *w, size_t base)
{
	struct word *all = mem_array(w->n + 1, sizeof(*all));
	uint32_t *rank = mem_array(w->n + 1, sizeof(*rank));
	size_t kept = 0, length = 0;
	uint32_t first = 0;

	for (size_t i = 0; i < w->n; i++)
		all[i] = (struct word){ w->name[i], w->count[i], (uint32_t)i };
	qsort(all + base, w->n - base, sizeof(*all), by_count);
	for (size_t i = 0; i < w->n; i++) {
		w->name[i] = all[i].name;
		w->count[i] = all[i].count;
		rank[all[i].number] = (uint32_t)i;
		kept += i < base || all[i].count >= (uint64_t)w->min_count;
	}
	for (size_t i = 0; i < w->length; i++) {
		uint32_t to = rank[w->at[i] & ~DATA_WORDS_FIRST];

		first |= w->at[i] & DATA_WORDS_FIRST;
		if (to >= kept)
			continue;
		w->at[length++] = to | first;
		first = 0;
	}
	for (size_t i = kept; i < w->n; i++)
		free(w->name[i]);
	w->length = length;
	w->n = kept;
	free(all);
	free(rank);
}

/* Keep probability as in the original word2vec program: (sqrt(f / t) + 1) t / f. */
static void set_chances(struct data_words *w)
{
	double sum = 0, all = 0;

	w->keep = mem_array(w->n, sizeof(*w->keep));
	w->drawn = mem_array(w->n, sizeof(*w->drawn));
	for (size_t i = 0; i < w->n; i++)
		all += (double)w->count[i];
	for (size_t i = 0; i < w->n; i++) {
		double f = (double)w->count[i] / all / w->sample;

		w->keep[i] = w->sample > 0 ? (float)fmin(1, (sqrt(f) + 1) / f) : 1;
		sum += pow((double)w->count[i], 0.75);
		w->drawn[i] = sum;
	}
}

enum err_code data_words_finish(struct data_words *w, const char *source, struct err *e)
{
	struct building *x = (struct building *)w;

	if (!x->closed)
		renumber_by_frequency(w, x->base);
	map_free(x->map);
	x->map = NULL;
	if (w->n == 0 || w->length == 0)
		return err_set(e, ERR_FORMAT, "%s: has no word that occurs %d times (min_count)",
		    source, w->min_count);
	set_chances(w);
	return ERR_OK;
}

/* ---- batches ---- */

size_t data_words_most(const struct data_words *w)
{
	return 1 + 2 * (size_t)w->window * (1 + (size_t)w->negatives);
}

/* Is the word at i kept in this pass? Its role does not matter: also as a neighbour of others. */
static bool word_stays(const struct data_words *w, uint64_t epoch, size_t i)
{
	float keep = w->keep[w->at[i] & ~DATA_WORDS_FIRST];
	double unit = (double)(rng_mix(rng_mix(epoch) ^ i) >> 11) * 0x1p-53;

	return keep >= 1 || unit < (double)keep;
}

static uint32_t draw_word(const struct data_words *w, struct rng *r)
{
	double x = rng_unit(r) * w->drawn[w->n - 1];
	size_t low = 0, high = w->n - 1;

	while (low < high) {
		size_t mid = (low + high) / 2;

		if (w->drawn[mid] > x)
			high = mid;
		else
			low = mid + 1;
	}
	return (uint32_t)low;
}

static void put_word_entry(struct batch *b, size_t *k, uint32_t feature,
    enum data_words_field field)
{
	b->col[*k] = feature;
	b->val[*k] = 1;
	b->field[(*k)++] = (uint16_t)field;
}

static void put_neighbour(const struct data_words *w, uint32_t word, struct rng *r, struct batch *b,
    size_t *k)
{
	put_word_entry(b, k, 2 * word + 1, DATA_WORDS_NEAR);
	for (int j = 0; j < w->negatives; j++) {
		uint32_t other = draw_word(w, r);

		if (other != word)
			put_word_entry(b, k, 2 * other + 1, DATA_WORDS_DRAWN);
	}
}

static void put_word(const struct data_words *w, size_t i, struct batch *b, size_t *k)
{
	struct rng r;
	int reach;

	if (!word_stays(w, b->epoch, i))
		return;
	rng_init(&r, rng_mix(b->epoch + 1) + i);
	reach = 1 + (int)rng_below(&r, (uint64_t)w->window);
	put_word_entry(b, k, 2 * (w->at[i] & ~DATA_WORDS_FIRST), DATA_WORDS_GIVEN);
	for (size_t j = i; i - j < (size_t)reach && j > 0 && !(w->at[j] & DATA_WORDS_FIRST); j--)
		if (word_stays(w, b->epoch, j - 1))
			put_neighbour(w, w->at[j - 1] & ~DATA_WORDS_FIRST, &r, b, k);
	for (size_t j = i + 1;
	     j - i <= (size_t)reach && j < w->length && !(w->at[j] & DATA_WORDS_FIRST); j++)
		if (word_stays(w, b->epoch, j))
			put_neighbour(w, w->at[j], &r, b, k);
}

void data_words_gather(const struct data_words *w, const uint32_t *index, size_t n, struct batch *b)
{
	size_t k = 0;

	b->start[0] = 0;
	for (size_t i = 0; i < n; i++) {
		put_word(w, index[i], b, &k);
		b->start[i + 1] = (uint32_t)k;
	}
}
