/* SPDX-License-Identifier: ISC */
#include <math.h>

#include "data/reader/data_num.h"
#include "data/reader/data_parts.h"
#include "data/reader/data_row.h"

/* "label field:index:value field:index:value ...", the format of libffm: fields and indices count
 * from 0. The values of an index that comes several times in one field of a line, as hashed ones may, are
 * added. */

/* *p moves past the entry on success only, so that the message shows the whole entry. */
static enum err_code parse_ffm_entry(struct data_row *r, const char **p, struct err *e)
{
	const char *q = *p;
	uint64_t field, id;
	char text[DATA_SHOWN];
	float val;

	if (data_take_index(&q, &field) && *q++ == ':' && data_take_index(&q, &id) && *q++ == ':' &&
	    data_take_feature(r, &q, id, &val) && field < DATA_FIELDS) {
		data_row_add(r, id, val, (uint16_t)field);
		*p = q;
		return ERR_OK;
	}
	data_token(text, *p);
	return stream_fail(r->s, e,
	    "expected field:index:value, with a field below %d and an index below 10^18, got \"%s\"",
	    DATA_FIELDS, text);
}

/* Parses the label, and the weight that may stand after it. */
static enum err_code parse_ffm_label(struct data_row *r, const char **pp, double *label,
    struct err *e)
{
	const char *after;
	char text[DATA_SHOWN];

	*label = 0;
	if (*(const bool *)r->own) {
		after = data_num_padded(*pp, label);
		if (after && *after == ':' && isfinite((float)*label)) {
			*pp = after;
			return data_take_label_weight(r->b, r->s, pp, e);
		}
	} else if (data_label_is_ignored(r->b->label) && data_has_no_label(*pp)) {
		return ERR_OK;
	}
	if (data_take_number(pp, label))
		return ERR_OK;
	data_token(text, *pp);
	return stream_fail(r->s, e, "expected a number as label, got \"%s\"", text);
}

static enum err_code parse_ffm_line(struct data_row *r, char *line, struct err *e)
{
	const char *p = data_skip_blanks(line);
	enum err_code rc;
	double label;

	if (!*p) {
		r->b->left_out++;
		return ERR_OK;
	}
	rc = parse_ffm_label(r, &p, &label, e);
	if (!rc)
		rc = data_label_number(r->b->label, r->s, label, e);
	for (p = data_skip_blanks(p); !rc && *p; p = data_skip_blanks(p))
		rc = parse_ffm_entry(r, &p, e);
	if (!rc)
		data_row_sum(r);
	return rc ? rc : data_row_end(r, true, e);
}

static enum err_code begin_ffm(struct data_parser *p, struct err *e)
{
	struct data_row *r = data_row_begin(p, sizeof(bool), parse_ffm_line);

	p->build->index_base = 0;
	return data_has_label_weights(p->options, p->stream, r->own, e);
}

/* Is the word field:index:value? */
static bool is_ffm_entry(struct data_word w)
{
	size_t at = 0, colons;

	for (colons = 0; at < w.n && (data_is_digit(w.p[at]) || w.p[at] == ':') && colons < 2; at++)
		colons += w.p[at] == ':';
	return colons == 2 && data_is_digit(*w.p) && data_is_digit(w.p[at - 2]) &&
	    data_word_is_number((struct data_word){ w.p + at, w.n - at });
}

/* A label and nothing but entries; a time such as 12:30:00 may be something else. */
static int score_line(const char *line)
{
	struct data_word w;
	int sum = 0, entries = 0;
	bool sure;

	data_word_next(&line, &w);
	if (is_ffm_entry(w))
		line = w.p;
	else if (!data_word_is_number(w) && !data_word_is_pair(w))
		return DATA_SCORE_NONE;
	for (; data_word_next(&line, &w); entries++) {
		if (!is_ffm_entry(w))
			return DATA_SCORE_NONE;
		sum += !data_word_is_clock(w, &sure) ? DATA_SCORE_SURE
		    : sure                           ? DATA_SCORE_NONE
		                                     : DATA_SCORE_PERHAPS;
	}
	return entries               ? sum / entries
	    : data_word_is_number(w) ? DATA_SCORE_SKIPPED
	                             : DATA_SCORE_NONE;
}

static int score_ffm(const struct data_sample *s)
{
	return data_sample_score(s, score_line);
}

static const struct data_text_format ffm_lines = { .begin = begin_ffm,
	.line = data_row_line,
	.release = data_row_release };

const struct data_reader data_reader_ffm = { .score = score_ffm,
	.text = &ffm_lines,
	.parts = &data_parts_lines };
