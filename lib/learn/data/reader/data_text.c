/* SPDX-License-Identifier: ISC */
#include <string.h>

#include "core/mem.h"
#include "data/data_kinds.h"
#include "data/reader/data_row.h"
#include "data/batch/data_words.h"
#include "data/shape/data_shape.h"

/* Plain text. Words are runs of letters, digits, bytes beyond ASCII, and apostrophes between them;
 * capitals count as small letters. An empty line ends a paragraph; words of different paragraphs
 * are not neighbours. */

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

/* All files of a path add to one vocabulary. */
static enum err_code begin_text(struct data_parser *p, struct err *e)
{
	struct data_build *b = p->build;
	struct reading *x = p->own;

	if (!data_label_wants_words(b->label))
		return err_set(e, ERR_CONFIG,
		    "%s: is read as plain text, which requires job.model word2vec",
		    stream_name(p->stream));
	if (!b->d->own) {
		b->d->shape = &data_shape_words;
		b->d->own = data_words_new(p->options, b->like ? dataset_words(b->like) : NULL,
		    b->extends);
	}
	if (!x) {
		p->own = x = mem_alloc(sizeof *x);
		*x = (struct reading){ .first = true, .empty = true };
	}
	x->words = b->d->own;
	return ERR_OK;
}

/* Reads byte by byte rather than by lines: a text may be a single line of any length. */
static enum err_code take_text(struct data_parser *p, const char *bytes, size_t n, struct err *e)
{
	enum err_code rc = ERR_OK;

	for (size_t i = 0; !rc && i < n; i++)
		rc = take_text_byte(p->own, (unsigned char)bytes[i], e);
	return rc;
}

static enum err_code end_text(struct data_parser *p, struct err *e)
{
	return end_word(p->own, e);
}

static void release_text(struct data_parser *p)
{
	free(p->own);
}

static const struct data_text_format plain_text = { .begin = begin_text,
	.bytes = take_text,
	.end = end_text,
	.release = release_text };

/* Word w is feature 2w as the given word, and 2w + 1 as a word to be predicted. */
static bool find_word(const struct dataset *d, size_t kind, const char *text, uint64_t *feature)
{
	const struct data_words *w = dataset_words(d);

	for (size_t i = 0; w && i < w->n; i++)
		if (strcmp(w->name[i], text) == 0) {
			*feature = 2 * i + kind;
			return true;
		}
	return false;
}

static const struct data_kinds kinds = { .n = 2,
	.name = { "word", "predicted" },
	.beside = { 0, 1 },
	.find = find_word };

const struct data_reader data_reader_text = { .text = &plain_text, .kinds = &kinds };
