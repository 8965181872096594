#ifndef DATA_WORDS_H
#define DATA_WORDS_H

#include "data/data.h"

/* The words of a text, each an example: a batch has the word, its neighbours and words drawn at
 * random (Mikolov et al., "Distributed Representations of Words and Phrases", 2013).  A word
 * is a number by how frequent it is, the most frequent 0 (of equals in order of their bytes).
 * As features: word w is 2w as the one that is given, and 2w + 1 as one that is to be foretold. */
struct data_words {
	size_t n;               /* different words */
	char **name;
	uint64_t *count;
	uint32_t *at;           /* the text: a word's number, and DATA_WORDS_FIRST where a paragraph begins */
	size_t length, room;
	int window, negatives, min_count;
	double sample;
	float *keep;            /* chance to stay, of each word */
	double *drawn;          /* sums of count^(3/4), to draw by */
};

#define DATA_WORDS_FIRST (UINT32_C(1) << 31)
#define DATA_WORD_MAX 255       /* bytes of a word; longer ones are cut */
/* The fields of a batch's entries. */
enum data_words_field { DATA_WORDS_GIVEN, DATA_WORDS_NEAR, DATA_WORDS_DRAWN };

/* A text of which nothing is known; like: whose words alone count, or NULL. */
struct data_words *data_words_new(const struct data_options *o, const struct data_words *like);
void data_words_free(struct data_words *w);
/* The next word of the text, n bytes; first: of a paragraph.  ERR_NOMEM, ERR_LIMIT. */
enum err_code data_words_add(struct data_words *w, const char *name, size_t n, bool first, struct err *e);
/* Rare words go, all others get their numbers.  ERR_FORMAT when none are left; ERR_NOMEM. */
enum err_code data_words_finish(struct data_words *w, const char *source, struct err *e);

/* A batch's entries for the n words at index, in pass b->epoch: for each word its own, then each
 * neighbour's, followed by those that were drawn beside it.  What is thinned out has none.  `col`
 * gets numbers of features.  By position and pass alone, whoever asks.
 * Room: n times data_words_most(w). */
size_t data_words_most(const struct data_words *w);
void data_words_gather(const struct data_words *w, const uint32_t *index, size_t n, struct batch *b);

#endif
