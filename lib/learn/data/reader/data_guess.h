/* SPDX-License-Identifier: ISC */
#ifndef DATA_GUESS_H
#define DATA_GUESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"

/* Guesses the format of a file by its first lines. Each reader scores them: it tells how many of them
 * it reads without guessing. The best score wins. Where two readers are close, the file is refused, and
 * both are named.
 *
 *   first bytes --> data_sample --> data_reader.score of each reader --> the best, or a refusal
 *
 * What was guessed for the first file holds for those after it, and for evaluation data, unless another
 * format reads them clearly better. Everything but data_guess_reader is pure. */

struct data_options;
struct data_reader;
struct data_want;
struct dataset;
struct stream;

/* The first lines of a file that are not blank, without their ends, as texts. A last line that the end of
 * `bytes` may have cut is missing, unless it is the only one; then its last word is. */
struct data_sample {
	const uint8_t *bytes;
	size_t n;
	bool cut; /* the file has more bytes */
	char **line;
	size_t lines;
};
#define DATA_SAMPLE_LINES 64u

/* The score of a line, and of a sample, whose score is the mean of its lines. */
enum data_score {
	DATA_SCORE_NONE = 0,     /* it cannot be read */
	DATA_SCORE_TEXT = 25,    /* it is text, as anything is */
	DATA_SCORE_PERHAPS = 40, /* it can be read, but looks like other formats, too */
	DATA_SCORE_TABLE = 75,   /* it can be read, and other lines have the same form */
	DATA_SCORE_SURE = 100,   /* it has what only this format has */
	DATA_SCORE_SKIPPED = -1, /* it says nothing, as a label alone; it is left out of the mean */
};

/* Returns the mean of the scores that `score` gives to the lines. When it skips all of them, they are nearly
 * DATA_SCORE_TEXT; a sample without lines is DATA_SCORE_NONE. */
int data_sample_score(const struct data_sample *s, int (*score)(const char *line));

/* A word of a line, up to a blank, or the end. */
struct data_word {
	const char *p;
	size_t n;
};
/* Takes the next word at *p; false: none is left. */
bool data_word_next(const char **p, struct data_word *out);
/* Is the word a finite number? */
bool data_word_is_number(struct data_word w);
/* Is the word a name, a colon and a number? */
bool data_word_is_pair(struct data_word w);
/* Is the word a time such as 12:30 or 7:05:10? *sure: it begins with a zero as 07:05 does, or its minutes do,
 * which neither indices nor values have. */
bool data_word_is_clock(struct data_word w, bool *sure);

/* Chooses the reader of a stream: by the options, or by its first bytes, of which no more than a
 * byte order mark is consumed, and by what is wanted. before: the reader of the files before, or
 * NULL. like: the training data, or NULL. ERR_FORMAT: it is none of the formats, or two are close.
 * ERR_CONFIG: the model cannot use its examples. Errors as stream_peek. */
enum err_code data_guess_reader(struct stream *s, const struct data_options *o,
    const struct data_want *want, const struct data_reader *before, const struct dataset *like,
    const struct data_reader **out, struct err *e);

#endif
