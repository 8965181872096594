/* SPDX-License-Identifier: ISC */
#include "data/data_num.h"
#include "data/data_parts.h"
#include "data/data_row.h"

/* "user item rating [time ...]", separated by tabs, commas, "::" or blanks, as in MovieLens. User u
 * is feature 2u in field 0 and item i is feature 2i + 1 in field 1, so that both share one table, a
 * row's number says what it belongs to, and neither number needs a known limit. A user or an item whose
 * name is a word has a hash of it as its number. */

#define LARGEST (UINT64_C(1) << 62)

static const char *skip_separator(const char *p)
{
	if (p[0] == ':' && p[1] == ':')
		return p + 2;
	p = data_skip_blanks(p);
	return *p == ',' ? data_skip_blanks(p + 1) : p;
}

/* Hashes of words have this many bits: 10^6 words meet with a chance of 10^-7. */
#define WORD_BITS 61
enum { USER = 1, ITEM };

/* The number of a user or an item at *p, which moves behind it: a whole number below LARGEST, or a word up
 * to the next separator. */
static bool take_name(const char **p, uint64_t salt, uint64_t *out)
{
	const char *q = *p;
	size_t n = 0;

	if (data_take_index(&q, out) && (!*q || data_is_blank(*q) || *q == ',' || *q == ':')) {
		*p = q;
		return *out < LARGEST;
	}
	/* Numbers of another form (-1, 1.5, too many digits) are mistakes, and not words. */
	if (strspn(*p, "+-.0123456789") == strcspn(*p, " \t,:"))
		return false;
	while ((*p)[n] && !data_is_blank((*p)[n]) && (*p)[n] != ',' &&
	    !((*p)[n] == ':' && (*p)[n + 1] == ':'))
		n++;
	*out = data_hash(salt, *p, n) >> (64 - WORD_BITS);
	*p += n;
	return n > 0;
}

/* Is this the heading line of a CSV file? Its third word is no number. */
static bool is_heading(const struct data_row *r, const char *p)
{
	uint64_t ignored;
	double rating;

	return stream_lineno(r->s) == 1 && take_name(&p, USER, &ignored) &&
	    (p = skip_separator(p), take_name(&p, ITEM, &ignored)) && *(p = skip_separator(p)) &&
	    !data_num(p, &rating);
}

/* User u is feature 2u in field 0, item i is feature 2i + 1 in field 1: the two never collide, and
 * no count of users need be known. What follows the rating, such as a time stamp, is ignored. */
static enum err_code parse_rating_line(struct data_row *r, char *first, struct err *e)
{
	const char *line = data_skip_blanks(first), *p = line, *after;
	uint64_t user, item;
	char text[DATA_SHOWN];
	enum err_code rc;
	double rating;

	if (!*p || is_heading(r, p))
		return ERR_OK;
	if (take_name(&p, USER, &user) && (p = skip_separator(p), take_name(&p, ITEM, &item))) {
		after = data_num(skip_separator(p), &rating);
		if (after && after > p &&
		    (!*after || data_is_blank(*after) || *after == ',' || *after == ':')) {
			rc = data_label_number(r->b->label, r->s, rating, e);
			data_row_add(r, 2 * user, 1, 0);
			data_row_add(r, 2 * item + 1, 1, 1);
			return rc ? rc : data_row_end(r, true, e);
		}
	}
	data_shown(text, line, strlen(line));
	return stream_fail(r->s, e, "expected a user, an item and a rating, got \"%s\"", text);
}

static enum err_code read_ratings(struct data_build *b, struct stream *s,
    const struct data_options *o, struct err *e)
{
	b->index_base = 0;
	return data_row_each(b, s, o, NULL, parse_rating_line, e);
}

const struct data_reader data_reader_ratings = { data_probe_never, read_ratings,
	&data_parts_lines, false };
