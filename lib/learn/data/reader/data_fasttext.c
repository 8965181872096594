/* SPDX-License-Identifier: ISC */
#include "core/mem.h"
#include "core/rng.h"
#include "data/reader/data_parts.h"
#include "data/reader/data_row.h"

/* "__label__NAME word word ...", the format of fastText's classifier. Words are separated by blanks,
 * and words that begin with __label__ are labels, wherever they stand. Each word, and each sequence of
 * up to `ngrams` words, is one of 2^bits features, by its hash (not fastText's own hash); its value is
 * the number of times that it occurs in the line. The end of the line counts as a word, so that every
 * example has a feature.
 *
 * An example has one class. Of several labels one is drawn, by a hash of the line, so that every
 * reading draws the same one. */

#define BITS  20
#define LABEL "__label__"

struct fasttext {
	int shift;      /* right shift of a hash, for the wanted number of bits */
	size_t ngrams;  /* words in the longest sequence that is a feature */
	uint64_t *hash; /* of the line's words */
	size_t n, room;
};

static bool ends_word(char c)
{
	return data_is_blank(c) || c == '\r' || c == '\v' || c == '\f';
}

static char *skip_gap(char *p)
{
	while (ends_word(*p))
		p++;
	return p;
}

static void add_word(struct fasttext *f, const char *p, size_t n)
{
	f->hash = mem_grow(f->hash, &f->room, f->n + 1, sizeof(*f->hash));
	f->hash[f->n++] = data_hash(1, p, n);
}

/* Adds the features of the line's words: the words first, then the pairs of neighbours, and so on. */
static void add_features(struct data_row *r)
{
	const struct fasttext *f = r->own;

	for (size_t i = 0; i < f->n; i++)
		data_row_add(r, f->hash[i] >> f->shift, 1, 0);
	for (size_t k = 2; k <= f->ngrams; k++)
		for (size_t i = 0; i + k <= f->n; i++)
			data_row_add(r,
			    data_hash(k, (const char *)&f->hash[i], k * sizeof(*f->hash)) >>
			        f->shift,
			    1, 0);
	data_row_sum(r);
}

/* The i-th label of the line, from 1, takes the place of the ones before it with a probability of 1 / i, so
 * each has the same chance in the end. */
static bool draws_label(uint64_t line, uint64_t i)
{
	return rng_mix(line + i) % i == 0;
}

static enum err_code parse_fasttext_line(struct data_row *r, char *line, struct err *e)
{
	struct fasttext *f = r->own;
	uint64_t hash = data_hash(0, line, strlen(line)), labels = 0;
	char *label = NULL, *end = NULL, *q;
	enum err_code rc;

	f->n = 0;
	if (!*skip_gap(line)) {
		r->b->left_out++;
		return ERR_OK;
	}
	for (char *p = skip_gap(line); *p; p = skip_gap(q)) {
		for (q = p; *q && !ends_word(*q);)
			q++;
		if (strncmp(p, LABEL, strlen(LABEL)) != 0) {
			add_word(f, p, (size_t)(q - p));
		} else if (draws_label(hash, ++labels)) {
			label = p + strlen(LABEL);
			end = q;
		}
	}
	add_word(f, "\n", 1);
	if (label)
		*end = '\0';
	else if (!data_label_is_ignored(r->b->label))
		return stream_fail(r->s, e, "has no label: a word that begins with " LABEL);
	rc = data_label_text(r->b->label, r->s, label ? label : "", e);
	if (rc)
		return rc;
	add_features(r);
	return data_row_end(r, false, e);
}

static enum err_code begin_fasttext(struct data_parser *p, struct err *e)
{
	struct data_row *r = data_row_begin(p, sizeof(struct fasttext), parse_fasttext_line);
	struct fasttext *f = r->own;

	(void)e;
	f->shift = 64 - p->options->bits;
	f->ngrams = (size_t)p->options->ngrams;
	p->build->index_base = 0;
	return ERR_OK;
}

static void release_fasttext(struct data_parser *p)
{
	struct data_row *r = p->own;

	if (r)
		free(((struct fasttext *)r->own)->hash);
	data_row_release(p);
}

/* Has the line a label, wherever it stands? */
static int score_line(const char *line)
{
	struct data_word w;

	while (data_word_next(&line, &w))
		if (w.n >= strlen(LABEL) && memcmp(w.p, LABEL, strlen(LABEL)) == 0)
			return DATA_SCORE_SURE;
	return DATA_SCORE_NONE;
}

static int score_fasttext(const struct data_sample *s)
{
	return data_sample_score(s, score_line);
}

static const struct data_text_format fasttext_lines = { .begin = begin_fasttext,
	.line = data_row_line,
	.release = release_fasttext };

const struct data_reader data_reader_fasttext = { .score = score_fasttext,
	.text = &fasttext_lines,
	.parts = &data_parts_lines,
	.bits = BITS };
