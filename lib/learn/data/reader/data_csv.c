/* SPDX-License-Identifier: ISC */
#include "data/reader/data_csv_shape.h"

#include <math.h>

#include "core/mem.h"
#include "core/num.h"
#include "data/reader/data_cells.h"
#include "data/reader/data_head.h"
#include "data/reader/data_num.h"
#include "data/reader/data_parser.h"
#include "data/reader/data_parts.h"
#include "data/table/data_schema.h"

/* Columns, one of them the label (by default the last), or several: RFC 4180 with comma, semicolon,
 * tab, bar, or blanks. data_csv_shape.h finds out from the first lines what the columns are.
 *
 * Files of mere numbers are read here, into dense rows. Where the first lines have text or missing
 * cells beside the label, or an option or the model asks for it, data_table.h takes the records; but rows of
 * plain numbers in a table of numbers are read here, too. */

#define NO_FEATURE DATA_TABLE_NO_FEATURE

static bool is_blank_line(const char *line)
{
	while (*line == ' ')
		line++;
	return *line == '\0';
}

static enum err_code check_text(const struct csv_table *t, const char *line, size_t len,
    struct err *e)
{
	if (memchr(line, '\0', len))
		return stream_fail(t->s, e,
		    "holds a NUL byte; if this is a text file, tr -d '\\000' removes it");
	return ERR_OK;
}

/* The record in t->record ends in its last cell, which is quoted. */
static enum err_code fail_unclosed(struct csv_table *t, struct err *e)
{
	buf_append(&t->record, "", 1);
	return stream_fail_at(t->s, data_cells_count((const char *)t->record.data, t->sep), e,
	    "a quoted cell does not end; remove its quote, or write a second one at its end");
}

/* Joins a line to the record that is open. *out: the record, when it is whole. */
static enum err_code continue_record(struct data_parser *p, const char *line, size_t len,
    char **out, struct err *e)
{
	struct csv_table *t = p->own;
	enum err_code rc = check_text(t, line, len, e);

	p->open = false;
	/* The record counts as one line. */
	t->b->left_out++;
	if (rc != ERR_OK)
		return rc;
	stream_record_began(t->s, t->began);
	if (t->record.len + len > STREAM_LINE_MAX) {
		p->fatal = true;
		return fail_unclosed(t, e);
	}
	buf_puts(&t->record, "\n");
	buf_append(&t->record, line, len);
	p->open = data_cells_open(line, t->sep, true);
	buf_reserve(&t->record, DATA_NUM_PAD);
	*out = p->open ? NULL : (char *)t->record.data;
	return ERR_OK;
}

/* *out: the record that ends with this line, as writable, padded text (data_num.h); NULL: the line is blank,
 * or the record goes on. */
static enum err_code take_record(struct data_parser *p, char *line, size_t len, char **out,
    struct err *e)
{
	struct csv_table *t = p->own;
	enum err_code rc;

	*out = NULL;
	if (p->open)
		return continue_record(p, line, len, out, e);
	rc = check_text(t, line, len, e);
	if (rc != ERR_OK)
		return rc;
	if (is_blank_line(line)) {
		t->b->left_out++;
		return ERR_OK;
	}
	if (!data_cells_open(line, t->sep, false)) {
		*out = line;
		return ERR_OK;
	}
	if (t->b->by_lines)
		return stream_fail(t->s, e,
		    "a quoted cell does not end in its line; in data in blocks each record must "
		    "be on one line (or raise job.data_memory, so that all data are in memory)");
	buf_clear(&t->record);
	buf_append(&t->record, line, len);
	t->began = stream_lineno(t->s);
	p->open = true;
	return ERR_OK;
}

/* Says why a cell is not a number. */
static enum err_code bad_cell(const struct csv_table *t, size_t column, const char *cell,
    struct err *e)
{
	char text[DATA_SHOWN];
	double v;

	column++;
	if (!cell)
		return stream_fail_at(t->s, column, e, DATA_CELLS_QUOTES);
	if (!*cell)
		return stream_fail_at(t->s, column, e,
		    "expected a number, got an empty cell; ?missing=mean allows them");
	data_shown(text, cell, strlen(cell));
	cell = data_num(cell, &v);
	if (cell && !*cell)
		return stream_fail_at(t->s, column, e,
		    "expected a finite float32 number, got \"%s\"; ?ignore=%zu leaves the column out",
		    text, column);
	return stream_fail_at(t->s, column, e,
	    "expected a number, got \"%s\"; if the column has categories, use ?categories=%zu",
	    text, column);
}

/* Watches the spread of a feature that is not centred, whose cell begins with a number. */
static inline void watch_feature(const struct csv_table *t, size_t column, const char *cell,
    float x)
{
	double v;

	if (!t->b->table && data_build_watches(t->b, x) && data_num(cell, &v))
		data_build_spread(t->b, t->feature[column], v);
}

/* Parses the feature at *p. Most cells are a bare number before a separator. */
static enum err_code parse_feature(const struct csv_table *t, char **p, size_t column, float *out,
    struct err *e)
{
	char *cell = *p, *end;
	double v;

	while (*cell == ' ')
		cell++;
	end = t->b->table ? (char *)data_num(cell, &v) : (char *)data_num_float(cell, out);
	if (end && t->b->table)
		*out = data_table_relate(t->b, column, isfinite((float)v) ? v : (double)INFINITY);
	if (end && t->sep != ' ' && (*end == t->sep || !*end) && isfinite(*out)) {
		watch_feature(t, column, cell, *out);
		*p = *end ? end + 1 : NULL;
		return ERR_OK;
	}
	cell = data_cells_next(p, t->sep);
	if (!cell || !data_num_all(cell, &v) || !isfinite((float)v))
		return bad_cell(t, column, cell, e);
	*out = t->b->table ? data_table_relate(t->b, column, v) : (float)v;
	watch_feature(t, column, cell, *out);
	return ERR_OK;
}

/* Parses a row cell by cell. */
static enum err_code parse_csv_row(const struct csv_table *t, char *p, struct err *e)
{
	char *label = NULL, *rest = p;
	size_t column = 0;
	enum err_code rc;
	float *x;

	rc = data_build_dense(t->b, t->s, t->features, 1, &x, e);
	for (; rc == ERR_OK && rest && column < t->width; column++) {
		char *cell;

		if (t->feature[column] != NO_FEATURE) {
			rc = parse_feature(t, &rest, column, &x[t->feature[column]], e);
			continue;
		}
		cell = data_cells_next(&rest, t->sep);
		if (!cell)
			rc = bad_cell(t, column, NULL, e);
		if (column == t->label)
			label = cell;
	}
	while (rest && data_cells_next(&rest, t->sep))
		column++;
	/* In a record of another width, a cell is not a number because it is in a wrong column. */
	if (rc != ERR_OK && (rest || column == t->width))
		return rc;
	if (column != t->width || rest)
		return stream_fail(t->s, e, DATA_CELLS_WIDTH, column, NUM_S(column), t->width,
		    data_cells_width_remedy(column, t->width, stream_lineno(t->s)));
	data_build_rows(t->b, 1);
	return label ? data_label_text(t->b->label, t->s, label, e)
	             : data_label_number(t->b->label, t->s, 0, e);
}

/* Parses rows of bare numbers, each before a separator or the end, which most rows are. Leaves
 * others untouched (*taken false). */
static enum err_code plain_row(const struct csv_table *t, const char *p, size_t len, bool *taken,
    struct err *e)
{
	const char *end = p + len, *q;
	double label = 0;
	float *x, y;

	*taken = false;
	if (data_build_dense(t->b, t->s, t->features, 1, &x, NULL) != ERR_OK)
		return ERR_OK;
	for (size_t column = 0; column < t->width; column++, p = q + 1) {
		while (*p == ' ')
			p++;
		if (column == t->label) {
			if (data_label_is_code(t->b->label, p))
				return ERR_OK;
			q = data_num_padded(p, &label);
			y = (float)label;
		} else {
			double v = 0;

			q = t->b->table ? data_num_padded(p, &v) : data_num_float(p, &y);
			if (t->b->table)
				y = (float)v;
			if (q && isfinite(y) && t->feature[column] != NO_FEATURE) {
				x[t->feature[column]] = t->b->table
				    ? data_table_relate(t->b, column, v)
				    : y;
				watch_feature(t, column, p, y);
			}
		}
		if (!q || !isfinite(y) || (column + 1 < t->width ? *q != t->sep : q != end))
			return ERR_OK;
	}
	*taken = true;
	data_build_rows(t->b, 1);
	return data_label_number(t->b->label, t->s, label, e);
}

static char *padded_copy(const char *text)
{
	size_t n = strlen(text);

	return memcpy(mem_alloc(n + 1 + DATA_NUM_PAD), text, n);
}

/* Has the first record, which is not a header, as many cells as the data before it or the training data have
 * columns? All records below it must have as many cells as it has, so that it must not be wrong. */
static bool fits_columns(const struct csv_table *t)
{
	const struct data_schema *m = data_table_schema(t->b);
	const struct dataset *like = t->b->like ? t->b->like : t->b->d;

	if (m)
		return t->width == m->ncolumns || t->width + data_schema_targets(m) == m->ncolumns;
	return like->sparse || like->rows == 0 || t->width == like->cols + 1;
}

static enum err_code take_row(const struct csv_table *t, char *record, struct err *e)
{
	return t->typed ? data_table_row(t->b, t->s, record, e) : parse_csv_row(t, record, e);
}

/* Decides by the first record how to read the others. above: it is the heading, which is above this text. The
 * next record decides where this one is bad, and does not fit. */
static enum err_code decide_shape(struct data_parser *p, char *first, bool above, struct err *e)
{
	struct csv_table *t = p->own;
	bool header = false, fits = true;
	enum err_code rc = data_csv_detect_shape(t, first, &header, e);

	if (rc == ERR_OK && header && t->commented && t->b->by_lines)
		rc = stream_fail(t->s, e,
		    "is a header below a comment, and data in blocks begin with the header; remove the "
		    "comment");
	if (!header)
		fits = fits_columns(t);
	t->b->d->reading.heading = header && !above ? stream_lineno(t->s) : 0;
	t->b->d->reading.separator = t->sep;
	t->b->left_out += header && !above;
	if (header)
		data_head_keep(t->b, first);
	/* The first line of a part, whose heading is known, decides nothing. */
	if (rc != ERR_OK && !header && t->o->decided.known)
		fits = false;
	p->fatal = rc != ERR_OK && fits;
	if (rc == ERR_OK && !header)
		rc = take_row(t, first, e);
	p->deciding = rc != ERR_OK && !fits;
	return rc;
}

/* Takes a record while it is not known how to read them. */
static enum err_code take_first_record(struct data_parser *p, char *record, struct err *e)
{
	struct csv_table *t = p->own;
	bool comment = false;
	enum err_code rc = data_csv_is_comment(t, record, &comment, e);

	p->fatal = rc != ERR_OK;
	t->commented |= comment;
	t->b->left_out += comment;
	return rc != ERR_OK || comment ? rc : decide_shape(p, record, false, e);
}

/* A line of plain numbers takes the fast path, which needs no cells. Other lines are joined to a
 * whole record, as long as a quoted cell is open, and then split. Empty lines are not rows. */
static enum err_code take_csv_line(struct data_parser *p, char *line, size_t len, struct err *e)
{
	struct csv_table *t = p->own;
	enum err_code rc = ERR_OK;
	bool taken = false;
	char *record;

	if (*line && t->plain && !p->open && !p->deciding)
		rc = plain_row(t, line, len, &taken, e);
	if (rc != ERR_OK || taken)
		return rc;
	rc = take_record(p, line, len, &record, e);
	/* A faulty first line of a part of data is as any other. */
	if (rc != ERR_OK && p->deciding)
		p->fatal = !t->o->decided.known;
	if (rc != ERR_OK || !record)
		return rc;
	return p->deciding ? take_first_record(p, record, e) : take_row(t, record, e);
}

/* A record that goes on stays when the text goes on for another build. */
static enum err_code begin_csv(struct data_parser *p, struct err *e)
{
	struct csv_table *t = p->own ? p->own : mem_alloc(sizeof *t);
	struct buf record = t->record;
	char *names;
	enum err_code rc;

	free(t->feature);
	free(t->labels);
	*t = (struct csv_table){ .b = p->build,
		.s = p->stream,
		.o = p->options,
		.record = record,
		.began = t->began };
	p->own = t;
	p->deciding = true;
	if (t->o->decided.heading != DATA_HEADING_ABOVE)
		return ERR_OK;
	names = padded_copy(t->o->decided.names);
	rc = decide_shape(p, names, true, e);
	free(names);
	return rc;
}

static enum err_code end_csv(struct data_parser *p, struct err *e)
{
	struct csv_table *t = p->own;
	enum err_code rc;

	if (!p->open)
		return ERR_OK;
	p->open = false;
	stream_record_began(t->s, t->began);
	rc = fail_unclosed(t, e);
	return p->deciding && t->o->decided.known ? data_build_bad_line(t->b, t->s, rc, e) : rc;
}

static void release_csv(struct data_parser *p)
{
	struct csv_table *t = p->own;

	if (!t)
		return;
	buf_release(&t->record);
	free(t->feature);
	free(t->labels);
	free(t);
}

/* Are the lines of the sample text? A later byte that is none makes its line a bad one, and not the
 * file. A file of one column is reported by the reader. */
static bool is_text(const struct data_sample *s)
{
	size_t lines = 0;

	for (size_t i = 0; i < s->n && lines < DATA_SAMPLE_LINES; i++) {
		uint8_t c = s->bytes[i];

		if (c < ' ' && c != '\t' && c != '\n' && c != '\r')
			return false;
		lines += c == '\n';
	}
	return true;
}

/* Scores the lines as records of cells between these separators: a record has the form of a table if
 * one beside it has as many cells. Text within quotes may have several lines, which are joined. */
static int score_records(const struct data_sample *s, char sep)
{
	int sum = 0, level = sep == ' ' ? DATA_SCORE_PERHAPS : DATA_SCORE_TABLE;
	size_t *width = mem_array(s->lines + 1, sizeof *width), n = 0;
	bool open = false;

	for (size_t i = 0; i < s->lines; i++) {
		if (!open)
			width[n++] = data_cells_count(s->line[i], sep);
		open = data_cells_open(s->line[i], sep, open);
	}
	for (size_t i = 0; i < n; i++) {
		bool same = (i > 0 && width[i] == width[i - 1]) ||
		    (i + 1 < n && width[i] == width[i + 1]) || (n == 1 && sep != ' ');

		sum += same && width[i] > 1 ? level : DATA_SCORE_TEXT;
	}
	free(width);
	return n ? sum / (int)n : DATA_SCORE_NONE;
}

/* The first lines may be a title or a heading, so that the last ones may tell the separator better. */
static int score_csv(const struct data_sample *s)
{
	size_t n = s->lines;
	int first, last;

	if (!n || !is_text(s))
		return DATA_SCORE_NONE;
	first = score_records(s, data_cells_separator(s->line[0], n > 1 ? s->line[1] : NULL));
	if (n < 3)
		return first;
	last = score_records(s, data_cells_separator(s->line[n - 2], s->line[n - 1]));
	return first > last ? first : last;
}

static const struct data_text_format csv_lines = { .begin = begin_csv,
	.line = take_csv_line,
	.end = end_csv,
	.release = release_csv,
	.ahead = DATA_PROBE };

const struct data_reader data_reader_csv = { .score = score_csv,
	.text = &csv_lines,
	.parts = &data_parts_lines,
	.to_ratings =
	    "name these columns by ?user=NAME&item=NAME&rating=NAME instead of options of tables, or give no "
	    "option if they are the first three" };
