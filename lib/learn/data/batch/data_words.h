/* SPDX-License-Identifier: ISC */
#ifndef DATA_WORDS_H
#define DATA_WORDS_H

#include "data/data.h"

/* The words of a text as training data for word vectors. Each word is an example: a batch has the
 * word, its neighbours, and words drawn at random (Mikolov et al., "Distributed Representations of
 * Words and Phrases", 2013). Words are numbered by frequency, the most frequent is 0 (equal ones in
 * bytewise order). Features: word w is 2w as the given word, and 2w + 1 as a word to be predicted.
 *
 * Life: data_words_new -> data_words_add for each word -> data_words_finish; from then on it is
 * read-only, and any thread may gather. */
struct data_words {
	size_t n;        /* number of different words */
	char **name;     /* n words, owned */
	uint64_t *count; /* n numbers of occurrences in the text, before any is thinned out */
	/* the text: numbers of words, with DATA_WORDS_FIRST where a paragraph begins */
	uint32_t *at;
	size_t length, room;              /* words in `at`; words that it has room for */
	int window, negatives, min_count; /* as in struct data_options */
	double sample;
	float *keep;   /* for each word, the probability that an occurrence is kept */
	double *drawn; /* running sums of count^(3/4), for drawing */
};

#define DATA_WORDS_FIRST (UINT32_C(1) << 31)
#define DATA_WORD_MAX    255 /* bytes of a word; longer words are cut */
/* The fields of a batch's entries. */
enum data_words_field { DATA_WORDS_GIVEN, DATA_WORDS_NEAR, DATA_WORDS_DRAWN };

/* A new text. like: the words of that text keep their numbers and counts, and with extends others are
 * added after them, else only they count; NULL: all words count. */
struct data_words *data_words_new(const struct data_options *o, const struct data_words *like,
    bool extends);
/* The n words of a text that was read before, in the order of their numbers, with their counts, which
 * are above 0: for data_words_new(.., like). The names are copied. The text itself is empty. */
struct data_words *data_words_of(const char *const *name, const uint64_t *count, size_t n);
void data_words_free(struct data_words *w);
/* Adds the next word of the text, n bytes; first: it begins a paragraph. ERR_NOMEM, ERR_LIMIT. */
enum err_code data_words_add(struct data_words *w, const char *name, size_t n, bool first,
    struct err *e);
/* Removes rare words and numbers the others. ERR_FORMAT when none are left; ERR_NOMEM. */
enum err_code data_words_finish(struct data_words *w, const char *source, struct err *e);

/* Makes the batch's entries for the n words at index, in pass b->epoch: for each word its own
 * entry, then each neighbour's, followed by the words drawn for that neighbour. Words that are
 * thinned out have no entries. `col` gets feature numbers. The result depends only on position and
 * pass. Room needed: n times data_words_most(w) entries. */
size_t data_words_most(const struct data_words *w);
void data_words_gather(const struct data_words *w, const uint32_t *index, size_t n,
    struct batch *b);

#endif
