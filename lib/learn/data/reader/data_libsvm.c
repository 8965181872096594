/* SPDX-License-Identifier: ISC */
#include <math.h>

#include "core/keyed_hash.h"
#include "core/mem.h"
#include "data/reader/data_num.h"
#include "data/reader/data_parser.h"
#include "data/reader/data_parts.h"
#include "data/reader/data_row.h"

/* "label index:value index:value ... # comment", the format of LIBSVM and
 * SVMlight. Indices need not ascend; the values of one that comes several times in a line are added.
 * "qid:N" is skipped. Indices begin at 1, or at 0 if any line has a 0. */

static inline bool is_end(char c)
{
	return data_is_blank(c) || c == '\0' || c == '#';
}

struct ids {
	struct data_build *b;
	struct stream *s;
	int base;       /* index base as far as it is known yet */
	bool weighted;  /* weights may stand after the labels */
	bool empty;     /* the line has no example: it is blank, or a comment */
	uint32_t *slot; /* hash table for finding an index that comes again */
	size_t slots;
};

/* The slow path of an error: it parses the entry again to find out which of the usual mistakes was
 * made. */
static enum err_code bad_entry(const struct ids *f, const char *p, struct err *e)
{
	const char *q = p;
	char text[DATA_SHOWN];
	double v;

	data_token(text, p);
	if (*p == '-' && data_has_no_label(p + 1))
		return stream_fail(f->s, e, "expected an index of at least 0, got \"%s\"", text);
	while (data_is_digit(*q))
		q++;
	if (q > p && *q == ':') {
		p = data_num(q + 1, &v);
		if (p && *p == ':')
			return stream_fail(f->s, e,
			    "expected index:value, got \"%s\", which looks like libffm's "
			    "field:index:value",
			    text);
		if (p && is_end(*p))
			return stream_fail(f->s, e,
			    "expected an index below 10^18 and a finite float32 value, "
			    "got \"%s\"",
			    text);
		return stream_fail(f->s, e, "expected a finite number as value, got \"%s\"", text);
	}
	if ((q > p && is_end(*q)) || strcmp(text, "qid") == 0)
		return stream_fail(f->s, e,
		    "expected index:value, got \"%s\"; the number of a query is written as qid:%.*s",
		    text, q > p ? (int)(q - p) : 1, q > p ? p : "1");
	return stream_fail(f->s, e, "expected index:value, got \"%s\"%s", text,
	    strchr(text, ':') ? "; features with names need format=vw and a bar after the label"
	                      : "");
}

/* Adds the values of entries with the same id, in place, and puts them where the first one is. Returns the
 * number of entries left; SIZE_MAX without memory. An open hash table of at least twice as many slots
 * finds them. */
static size_t sum_repeated(struct ids *f, uint32_t *id, uint64_t *wide, float *val, size_t n)
{
	unsigned bits = 64 - (unsigned)__builtin_clzll(2 * n);
	size_t slots = (size_t)1 << bits, at, left = 0;

	if (slots > f->slots) {
		free(f->slot);
		f->slot = mem_try_array(slots, sizeof(*f->slot));
		f->slots = f->slot ? slots : 0;
		if (!f->slot)
			return SIZE_MAX;
	}
	memset(f->slot, 0, slots * sizeof(*f->slot));
	for (size_t i = 0; i < n; i++) {
		uint64_t x = wide ? wide[i] : id[i], y;

		at = keyed_hash(x) >> (64 - bits);
		for (; f->slot[at]; at = (at + 1) & (slots - 1)) {
			y = wide ? wide[f->slot[at] - 1] : id[f->slot[at] - 1];
			if (x == y)
				break;
		}
		if (f->slot[at]) {
			val[f->slot[at] - 1] += val[i];
			continue;
		}
		if (wide)
			wide[left] = x;
		else
			id[left] = (uint32_t)x;
		val[left] = val[i];
		f->slot[at] = (uint32_t)++left;
	}
	return left;
}

/* Parses an index of eight digits or more, up to its colon; NULL when there is none. */
static const char *long_index(const char *p, uint64_t *out)
{
	const char *first = p;
	uint64_t i = 0;

	for (; data_is_digit(*p); p++)
		i = i * 10 + (uint64_t)(*p - '0');
	*out = i;
	/* 18 digits cannot overflow; a longer index is refused. */
	return p - first <= 18 && *p == ':' ? p : NULL;
}

/* Parses "index:value" at *pp, which must be followed by a blank or the end. *pp moves past it,
 * or stays when it is malformed. Plain digits are converted here; up to seven of them make an exact
 * float, as data_num would. */
static inline bool parse_libsvm_entry(const char **pp, uint64_t *id, float *val)
{
	const char *p = *pp;
	uint64_t w = data_num_load(p), others = data_num_others(w), rest = others & (others - 1);
	unsigned n = others ? (unsigned)__builtin_ctzll(others) / 8 : 8, m;

	if (n < 8) {
		*id = data_num_digits(w, n);
		p += n;
		if (n == 0 || *p != ':')
			return false;
		/* The whole value is in the eight bytes already loaded. */
		m = rest ? (unsigned)__builtin_ctzll(rest) / 8 : n + 1;
		if (m > n + 1 && is_end((*pp)[m])) {
			*val = (float)(int64_t)data_num_digits(w >> (8 * n + 8), m - n - 1);
			*pp += m;
			return true;
		}
	} else {
		p = long_index(p, id);
		if (!p)
			return false;
	}
	w = data_num_load(++p);
	n = data_num_run(w);
	if (n > 0 && n < 8 && is_end(p[n])) {
		*val = (float)(int64_t)data_num_digits(w, n);
		*pp = p + n;
		return true;
	}
	p = data_num_float(p, val);
	if (!p || !is_end(*p) || !isfinite(*val))
		return false;
	*pp = p;
	return true;
}

/* Watches the value of an entry that was parsed, when it is large. */
static inline void watch_entry(const struct ids *f, const char *entry, uint64_t id, float val)
{
	double v;

	if (data_build_watches(f->b, val) && data_num(strchr(entry, ':') + 1, &v))
		data_build_spread(f->b, id, v);
}

static const char *skip_qid(const char *p)
{
	if (strncmp(p, "qid:", 4) != 0)
		return NULL;
	while (!is_end(*p))
		p++;
	return p;
}

static enum err_code index_zero(const struct ids *f, struct err *e)
{
	const struct data_build *b = f->b;

	/* The first examples of the training data have decided. */
	if (b->index_base < 0 && b->by_lines && b->options.decided.known)
		return stream_fail(f->s, e,
		    "index 0, but the examples that were read first have none, so that indices begin at 1; "
		    "add ?index_base=0 to the path");
	return stream_fail(f->s, e, "index 0, but indices begin at 1 (%s)",
	    b->index_base == 1 ? "index_base=1" : "as in the training data");
}

/* Parses the entries at p, len bytes with perhaps a comment; *end is where they end. */
static enum err_code parse_entries(struct ids *f, const char *p, size_t len, const char **end,
    struct err *e)
{
	const char *begin = p, *entry, *q;
	uint64_t *wide, i, last = 0;
	bool ascending = true;
	uint32_t *id;
	float *val;
	size_t n = 0;
	enum err_code rc;

	/* An entry needs at least four bytes: a blank, and three for itself. */
	rc = data_build_sparse(f->b, f->s, len / 4 + 1, &id, &wide, &val, e);
	if (rc != ERR_OK)
		return rc;
	for (;;) {
		entry = p = data_skip_blanks(p);
		if (!*p || *p == '#')
			break;
		if (!parse_libsvm_entry(&p, &i, &val[n])) {
			q = skip_qid(p);
			if (!q)
				return bad_entry(f, p, e);
			p = q;
			continue;
		}
		if (i == 0 && f->base == 1)
			return index_zero(f, e);
		if (!wide && i > UINT32_MAX) {
			rc = data_build_widen(f->b, f->s, e);
			return rc != ERR_OK ? rc : parse_entries(f, begin, len, end, e);
		}
		watch_entry(f, entry, i, val[n]);
		if (wide)
			wide[n] = i;
		else
			id[n] = (uint32_t)i;
		ascending &= n == 0 || i > last;
		last = i;
		n++;
	}
	*end = p;
	if (!ascending)
		n = sum_repeated(f, id, wide, val, n);
	if (n == SIZE_MAX)
		return err_set(e, ERR_NOMEM, "no memory for a line of %s", stream_name(f->s));
	/* The values are finite, but sums of them may not be. */
	if (!ascending)
		rc = data_row_check(f->s, val, n, e);
	if (rc == ERR_OK)
		data_build_row(f->b, n);
	return rc;
}

/* Takes the token at p as a label that names a class. */
static enum err_code take_class_name(const struct ids *f, const char *p, const char **after,
    struct err *e)
{
	const char *end = p;
	char *name;
	enum err_code rc;

	while (!is_end(*end))
		end++;
	*after = end;
	name = mem_printf("%.*s", (int)(end - p), p);
	rc = data_label_text(f->b->label, f->s, name, e);
	free(name);
	return rc;
}

/* Does a label at p name a class? A token that begins as a number is a faulty one, and one with a colon is
 * an entry. */
static bool is_class_name(const char *p)
{
	double v;

	if (data_num(p, &v))
		return false;
	while (!is_end(*p) && *p != ':')
		p++;
	return is_end(*p);
}

/* Parses the label and the entries of a line. *end: how far it got. */
static enum err_code parse_libsvm_row(struct ids *f, const char *p, size_t len, const char **end,
    struct err *e)
{
	const char *line = p, *after;
	char text[DATA_SHOWN];
	enum err_code rc;
	double v;

	*end = line;
	p = data_skip_blanks(p);
	if (!*p || *p == '#') {
		*end = p;
		f->empty = true;
		return ERR_OK;
	}
	if (!f->weighted && data_label_is_ignored(f->b->label) && data_has_no_label(p)) {
		after = p;
		v = 0;
	} else {
		after = data_num_padded(p, &v);
	}
	if (after && *after == ',')
		return stream_fail(f->s, e, "has several labels, expected one");
	if (after && after != p && *after == ':' && f->weighted &&
	    (rc = data_take_label_weight(f->b, f->s, &after, e)) != ERR_OK)
		return rc;
	if (after ? is_end(*after) && data_label_is_code(f->b->label, p) : is_class_name(p)) {
		rc = take_class_name(f, p, &after, e);
	} else if (!after || (after != p && !is_end(*after))) {
		data_token(text, p);
		return stream_fail(f->s, e, "expected a number as label, got \"%s\"", text);
	} else {
		rc = data_label_number(f->b->label, f->s, v, e);
	}
	if (rc == ERR_OK)
		rc = parse_entries(f, after, len - (size_t)(after - line), end, e);
	return rc;
}

/* A NUL would end the text of a line early. It is searched for only then, and reported before all
 * other errors. */
static enum err_code parse_libsvm_line(struct data_parser *p, char *line, size_t len, struct err *e)
{
	struct ids *f = p->own;
	const char *end;
	enum err_code rc;

	f->empty = false;
	rc = parse_libsvm_row(f, line, len, &end, e);
	if ((rc != ERR_OK || end != line + len) && memchr(line, '\0', len))
		return stream_fail(f->s, e, "holds a NUL byte; is this a text file?");
	f->b->left_out += rc == ERR_OK && f->empty;
	return rc;
}

/* Which index base holds: the one that the path states, else that of an earlier file, else that of
 * the training data; -1 leaves it to the shape of sparse rows, which has seen all ids. Two
 * statements that differ are an error rather than a silent shift by one feature. */
static enum err_code begin_libsvm(struct data_parser *p, struct err *e)
{
	struct data_build *b = p->build;
	struct ids *f = p->own ? p->own : mem_alloc(sizeof *f);
	int stated = p->options->index_base;

	p->own = f;
	f->b = b;
	f->s = p->stream;
	f->base = b->d->index_base;
	if (stated >= 0) {
		if (f->base >= 0 && f->base != stated)
			return stream_fail(f->s, e, "index_base=%d, but %d in the training data",
			    stated, f->base);
		if (b->index_base >= 0 && b->index_base != stated)
			return stream_fail(f->s, e, "index_base=%d, but %d in files before it",
			    stated, b->index_base);
		b->index_base = stated;
	}
	if (b->index_base >= 0)
		f->base = b->index_base;
	keyed_hash_begin();
	return data_has_label_weights(p->options, f->s, &f->weighted, e);
}

static void release_libsvm(struct data_parser *p)
{
	struct ids *f = p->own;

	if (f)
		free(f->slot);
	free(f);
}

/* Is the word a label, or several with commas between them, which the reader refuses? */
static bool is_label(struct data_word w)
{
	size_t n = 0;

	for (;; w.p += n + 1, w.n -= n + 1) {
		for (n = 0; n < w.n && w.p[n] != ',';)
			n++;
		if (!data_word_is_number((struct data_word){ w.p, n }))
			return false;
		if (n == w.n)
			return true;
	}
}

/* Does the word begin as an entry does, with an index or qid and a colon? */
static bool begins_entry(struct data_word w)
{
	size_t n = 0;

	while (n < w.n && data_is_digit(w.p[n]))
		n++;
	return (n > 0 && n < w.n && w.p[n] == ':') || (w.n > 4 && memcmp(w.p, "qid:", 4) == 0);
}

/* The entries of a line that were looked at. */
struct entries {
	size_t n, faulty;
	uint64_t last; /* index */
	int sum;       /* of their scores */
	bool named;    /* the label is a name */
	bool tabs;
};

/* Scores a word that may be an entry. A time, and an index that is not above the one before it, may
 * stand in a table, but not where an index is the number of the entry. Names of features need another
 * format, which the error of the reader tells. */
static int score_entry(const struct entries *l, struct data_word w)
{
	uint64_t index;
	bool sure;

	if (!data_word_is_pair(w))
		return begins_entry(w) ? DATA_SCORE_TEXT : DATA_SCORE_NONE;
	if (!begins_entry(w))
		return l->tabs ? DATA_SCORE_PERHAPS : DATA_SCORE_TABLE;
	if (*w.p == 'q')
		return DATA_SCORE_SURE;
	index = strtoull(w.p, NULL, 10);
	if (data_word_is_clock(w, &sure) && index != l->n && index != l->n + 1)
		return sure ? DATA_SCORE_NONE : DATA_SCORE_PERHAPS;
	return l->n && index <= l->last ? DATA_SCORE_TABLE : DATA_SCORE_SURE;
}

/* Begins with the label, if there is one. False: the line cannot have one. */
static bool skip_label(const char **p, struct entries *l)
{
	const char *first = *p;
	struct data_word w;

	l->tabs = strchr(first, '\t') != NULL;
	data_word_next(p, &w);
	if (begins_entry(w)) {
		*p = first;
		return true;
	}
	/* A weight may follow the label, as in -1:2.5. */
	if (is_label(w) || (data_word_is_pair(w) && (*w.p == '-' || *w.p == '+')))
		return true;
	l->named = true;
	return !memchr(w.p, ':', w.n);
}

/* Scores a line. A label alone says nothing. */
static int score_line(const char *line)
{
	struct entries l = { 0 };
	struct data_word w;
	int mean;

	if (*data_skip_blanks(line) == '#')
		return DATA_SCORE_SKIPPED;
	if (!skip_label(&line, &l))
		return DATA_SCORE_NONE;
	while (data_word_next(&line, &w) && *w.p != '#') {
		int one = score_entry(&l, w);

		l.sum += one;
		l.faulty += one == DATA_SCORE_NONE;
		l.last = strtoull(w.p, NULL, 10);
		l.n++;
	}
	if (!l.n)
		return l.named ? DATA_SCORE_NONE : DATA_SCORE_SKIPPED;
	mean = l.sum / (int)l.n / (l.faulty ? 2 : 1);
	return l.named && l.tabs && mean > DATA_SCORE_TABLE ? DATA_SCORE_TABLE : mean;
}

static int score_libsvm(const struct data_sample *s)
{
	return data_sample_score(s, score_line);
}

static const struct data_text_format libsvm_lines = { .begin = begin_libsvm,
	.line = parse_libsvm_line,
	.release = release_libsvm };

const struct data_reader data_reader_libsvm = { .score = score_libsvm,
	.text = &libsvm_lines,
	.parts = &data_parts_lines };
