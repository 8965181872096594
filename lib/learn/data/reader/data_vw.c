/* SPDX-License-Identifier: ISC */
#include "core/mem.h"
#include "data/reader/data_num.h"
#include "data/reader/data_parts.h"
#include "data/reader/data_row.h"

/* "label [importance] ['tag]|namespace[:scale] feature[:value] ... |namespace ...", the text format
 * of Vowpal Wabbit, whose features have names. Each feature is one of 2^bits, by a hash of its
 * namespace and name (not Vowpal Wabbit's own hash). pairs=ab crosses the features of namespaces
 * that begin with a with those that begin with b, as -q does; ":" stands for any. Namespaces do not
 * become fields: they have names, not numbers. */

#define BITS 18

struct vw {
	int shift; /* right shift of a hash, for the wanted number of bits */
	const char *pairs;
	char *initial; /* first letter of each entry's namespace */
	size_t room;
};

static enum err_code check_pairs(const char *pairs, const struct stream *s, struct err *e)
{
	for (const char *p = pairs; *p; p += p[2] ? 3 : 2)
		if (!p[0] || !p[1] || p[0] == ',' || p[1] == ',' ||
		    (p[2] && (p[2] != ',' || !p[3])))
			return err_set(e, ERR_CONFIG,
			    "%s: pairs=%s: must be pairs of letters, separated by commas, such "
			    "as ab,ac",
			    stream_name(s), pairs);
	return ERR_OK;
}

static void add_vw_feature(struct data_row *r, uint64_t id, float val, char initial)
{
	struct vw *v = r->own;

	v->initial = mem_grow(v->initial, &v->room, r->n + 1, 1);
	v->initial[r->n] = initial;
	data_row_add(r, id, val, 0);
}

static bool matches_initial(char initial, char wanted)
{
	return wanted == ':' || initial == wanted;
}

/* Lists the first n entries whose namespace begins with this letter. */
static size_t list_entries(const struct vw *v, size_t n, char wanted, uint32_t *out)
{
	size_t found = 0;

	for (size_t i = 0; i < n; i++)
		if (matches_initial(v->initial[i], wanted))
			out[found++] = (uint32_t)i;
	return found;
}

/* Crosses the entries of one list with the entries of the other: the product of the values under a
 * hash of both ids. Within one namespace each pair is made once. */
static void cross_entries(struct data_row *r, const uint32_t *a, size_t na, const uint32_t *b,
    size_t nb, bool same)
{
	const struct vw *v = r->own;

	for (size_t i = 0; i < na; i++)
		for (size_t k = same ? i + 1 : 0; k < nb; k++) {
			uint64_t both[2] = { r->id[a[i]], r->id[b[k]] };

			data_row_add(r, data_hash(2, (const char *)both, sizeof(both)) >> v->shift,
			    r->val[a[i]] * r->val[b[k]], 0);
		}
}

/* Crosses the features of two namespaces, which are named by their first letters. Only the n
 * entries that were there before are crossed. ERR_FORMAT: they would be too many. */
static enum err_code add_pairs(struct data_row *r, struct err *e)
{
	const struct vw *v = r->own;
	size_t n = r->n, na, nb, most;
	uint32_t *a = v->pairs ? mem_array(2 * n + 1, sizeof *a) : NULL, *b = a ? a + n : NULL;
	enum err_code rc = ERR_OK;

	for (const char *p = v->pairs; !rc && p && *p; p += p[2] ? 3 : 2) {
		bool same = p[0] == p[1];

		na = list_entries(v, n, p[0], a);
		nb = list_entries(v, n, p[1], b);
		most = same ? na * (na - (na > 0)) / 2 : na * nb;
		if (most > DATA_ROW_ENTRIES - r->n)
			rc = stream_fail(r->s, e,
			    "pairs=%c%c makes more than %zu features of %zu and %zu", p[0], p[1],
			    DATA_ROW_ENTRIES, na, nb);
		else
			cross_entries(r, a, na, b, nb, same);
	}
	free(a);
	return rc;
}

/* Number of bytes up to a blank, a colon or the end of the namespace. */
static size_t name_length(const char *p)
{
	return strcspn(p, " \t:|");
}

/* Parses ":value" at *p; without it the value is 1. */
static bool take_scale(const char **p, double *out)
{
	double v;
	const char *q;

	*out = 1;
	if (**p != ':')
		return true;
	q = data_num(*p + 1, &v);
	if (!q || (*q && !data_is_blank(*q) && *q != '|'))
		return false;
	*out = v;
	*p = q;
	return true;
}

static enum err_code fail_vw(const struct data_row *r, const char *p, const char *what,
    struct err *e)
{
	char text[DATA_SHOWN];

	data_token(text, p);
	return stream_fail(r->s, e, "expected %s, got \"%s\"", what, text);
}

/* Parses what follows a "|", up to the next one. */
static enum err_code parse_namespace(struct data_row *r, const char **pp, struct err *e)
{
	const struct vw *v = r->own;
	const char *p = *pp, *first = p;
	size_t n = name_length(p);
	uint64_t space = data_hash(1, p, n);
	char initial = n ? *p : ' ';
	double scale, value;
	uint64_t id;

	p += n;
	if (!take_scale(&p, &scale))
		return fail_vw(r, first, "namespace or namespace:scale", e);
	for (p = data_skip_blanks(p); *p && *p != '|'; p = data_skip_blanks(p)) {
		first = p;
		n = name_length(p);
		p += n;
		if (n == 0 || !take_scale(&p, &value))
			return fail_vw(r, first, "feature or feature:value", e);
		id = data_hash(space, first, n) >> v->shift;
		if (data_build_watches(r->b, (float)(scale * value)))
			data_build_spread(r->b, id, scale * value);
		add_vw_feature(r, id, (float)scale * (float)value, initial);
	}
	*pp = p;
	return ERR_OK;
}

/* Parses the label and what may stand between it and the first "|". */
static enum err_code parse_label(struct data_row *r, const char **pp, struct err *e)
{
	const char *p = data_skip_blanks(*pp);
	double label = 0;
	float weight = 1;
	enum err_code rc;

	if (!(data_label_is_ignored(r->b->label) && *p == '|') && !data_take_number(&p, &label))
		return fail_vw(r, p, "a number as label", e);
	rc = data_label_number(r->b->label, r->s, label, e);
	p = data_skip_blanks(p);
	if (!rc && data_is_digit(*p) && data_take_value(&p, &weight))
		rc = data_build_weight(r->b, r->s, (double)weight, e);
	p = data_skip_blanks(p);
	if (!rc && *p && *p != '|' && !strchr(p, '|'))
		return stream_fail(r->s, e, "has no | before the features");
	*pp = p + strcspn(p, "|");
	return rc;
}

static enum err_code parse_vw_line(struct data_row *r, char *line, struct err *e)
{
	const char *p = data_skip_blanks(line);
	enum err_code rc = ERR_OK;

	if (!*p) {
		r->b->left_out++;
		return ERR_OK;
	}
	rc = parse_label(r, &p, e);
	while (!rc && *p == '|') {
		p++;
		rc = parse_namespace(r, &p, e);
	}
	if (rc)
		return rc;
	rc = add_pairs(r, e);
	return rc ? rc : data_row_end(r, false, e);
}

static enum err_code begin_vw(struct data_parser *p, struct err *e)
{
	struct data_row *r = data_row_begin(p, sizeof(struct vw), parse_vw_line);
	struct vw *v = r->own;

	v->shift = 64 - p->options->bits;
	v->pairs = p->options->pairs;
	p->build->index_base = 0;
	return v->pairs ? check_pairs(v->pairs, p->stream, e) : ERR_OK;
}

static void release_vw(struct data_parser *p)
{
	struct data_row *r = p->own;

	if (r)
		free(((struct vw *)r->own)->initial);
	data_row_release(p);
}

/* Is the word a label of one of several actions, as action:cost:probability? */
static bool is_action(struct data_word w)
{
	const char *colon = memchr(w.p, ':', w.n);

	return colon && data_word_is_number((struct data_word){ w.p, (size_t)(colon - w.p) });
}

/* Looks at the words before the first bar: numbers, and a tag that begins with a quote or touches
 * the bar, or the name of a class alone, which the reader refuses. Returns DATA_SCORE_NONE where
 * others stand there, and DATA_SCORE_PERHAPS for a tag that may be anything. */
static int score_label(const char *line, const char *bar)
{
	struct data_word w;
	size_t numbers = 0;
	bool name = false;

	while (data_word_next(&line, &w) && w.p < bar) {
		if (*w.p == '\'')
			return name ? DATA_SCORE_NONE : DATA_SCORE_SURE;
		if (w.p + w.n > bar)
			return numbers && !name ? DATA_SCORE_PERHAPS : DATA_SCORE_NONE;
		if (name || (numbers && !data_word_is_number(w)))
			return DATA_SCORE_NONE;
		name = !data_word_is_number(w) && !is_action(w);
		numbers++;
	}
	return numbers > 3 ? DATA_SCORE_NONE : name ? DATA_SCORE_TABLE : DATA_SCORE_SURE;
}

/* Looks at the features of the namespace at *p, and moves *p past them. *values: one has a value.
 * False: they are none. */
static bool has_features(const char **p, bool *values)
{
	const char *end = *p + strcspn(*p, "|"), *at = *p;
	struct data_word w;

	while (data_word_next(&at, &w) && w.p < end) {
		size_t n = w.p + w.n > end ? (size_t)(end - w.p) : w.n;
		const char *colon = memchr(w.p, ':', n);

		if (colon &&
		    !data_word_is_number(
		        (struct data_word){ colon + 1, n - (size_t)(colon + 1 - w.p) }))
			return false;
		*values |= colon != NULL;
		at = w.p + n;
	}
	*p = end;
	return true;
}

/* A line with several bars, none of which has a name after it, belongs to a table. */
static int score_line(const char *line)
{
	const char *p = strchr(line, '|'), *bar = p;
	size_t bars = 0, named = 0;
	bool values = false;
	int label;

	if (!bar)
		return DATA_SCORE_NONE;
	while (*p == '|') {
		bars++;
		named += p[1] && !data_is_blank(p[1]);
		p++;
		if (!has_features(&p, &values))
			return DATA_SCORE_NONE;
	}
	label = score_label(line, bar);
	if (bars > 1 && !named && !values && label > DATA_SCORE_TEXT)
		return DATA_SCORE_TEXT;
	return label == DATA_SCORE_PERHAPS && values ? DATA_SCORE_SURE : label;
}

static int score_vw(const struct data_sample *s)
{
	return data_sample_score(s, score_line);
}

static const struct data_text_format vw_lines = { .begin = begin_vw,
	.line = data_row_line,
	.release = release_vw };

const struct data_reader data_reader_vw = { .score = score_vw,
	.text = &vw_lines,
	.parts = &data_parts_lines,
	.bits = BITS };
