/* SPDX-License-Identifier: ISC */
#include "data/data_row.h"
#include "data/data_words.h"

/* Plain text. Words are runs of letters, digits, bytes beyond ASCII, and apostrophes between them;
 * capitals count as small letters. An empty line ends a paragraph; words of different paragraphs
 * are not neighbours. */

#define BLOCK 65536

struct reading {
	struct data_words *words;
	char word[DATA_WORD_MAX];
	size_t n;
	bool first; /* the next word begins a paragraph */
	bool empty; /* the line has only blanks so far */
};

static bool is_part(const struct reading *x, unsigned char c)
{
	return c >= 0x80 || data_is_digit((char)c) || (unsigned char)((c | 0x20) - 'a') < 26 ||
	    (c == '\'' && x->n > 0);
}

/* Apostrophes at the end are quotes and no part of the word. */
static enum err_code end_word(struct reading *x, struct err *e)
{
	enum err_code rc;

	while (x->n > 0 && x->word[x->n - 1] == '\'')
		x->n--;
	if (x->n == 0)
		return ERR_OK;
	rc = data_words_add(x->words, x->word, x->n, x->first, e);
	x->first = false;
	x->n = 0;
	return rc;
}

/* Takes the next byte of the text; at the end of a word, adds the word. */
static enum err_code take_text_byte(struct reading *x, unsigned char c, struct err *e)
{
	if (is_part(x, c)) {
		if (x->n < sizeof(x->word))
			x->word[x->n++] = (char)(c >= 'A' && c <= 'Z' ? c | 0x20 : c);
		x->empty = false;
		return ERR_OK;
	}
	if (c == '\n') {
		x->first |= x->empty && x->n == 0;
		x->empty = true;
	} else if (!strchr(" \t\r", c)) {
		x->empty = false;
	}
	return end_word(x, e);
}

/* Reads byte by byte from blocks rather than by lines: a text may be a single line of any length.
 * All files of a path add to one vocabulary. */
static enum err_code read_plain_text(struct data_build *b, struct stream *s,
    const struct data_options *o, struct err *e)
{
	struct reading x = { .first = true, .empty = true };
	unsigned char block[BLOCK];
	enum err_code rc;
	size_t got;

	if (!data_label_wants_words(b->label))
		return err_set(e, ERR_CONFIG,
		    "%s: is read as plain text, which requires job.model word2vec", stream_name(s));
	if (!b->d->words)
		b->d->words = data_words_new(o, b->like ? b->like->words : NULL, b->extends);
	x.words = b->d->words;
	do {
		rc = stream_read(s, block, sizeof(block), &got, e);
		for (size_t i = 0; !rc && i < got; i++)
			rc = take_text_byte(&x, block[i], e);
	} while (!rc && got == sizeof(block));
	return rc ? rc : end_word(&x, e);
}

const struct data_reader data_reader_text = { NULL, read_plain_text, NULL, NULL, 0 };
