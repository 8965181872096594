/* SPDX-License-Identifier: ISC */
#include <inttypes.h>
#include <math.h>
#include <strings.h>

#include "core/mem.h"
#include "core/num.h"
#include "core/suggest.h"
#include "data/data_build.h"
#include "data/data_cells.h"
#include "data/data_num.h"

/* Columns of numbers, one of them the label (by default the last): RFC 4180 with comma, semicolon
 * or tab. The first record is a header when a cell that is not a number stands above one that is,
 * or when ?label= names one of its cells. */

struct table {
	struct data_build *b;
	struct stream *s;
	const struct data_options *o;
	char sep;
	size_t width, label; /* number of columns; column of the label, from 0 */
	struct buf record;   /* a record of several lines */
};

static bool is_numeric_cell(const char *cell)
{
	double v;

	return data_num_all(cell, &v);
}

/* A cell that may stand in a header: not a number, and not a mark for a missing number, which must
 * be reported and not be taken for a name. */
static bool is_header_name(const char *cell)
{
	static const char *const missing[] = { "", "?", "-", "NA", "N/A", "nan", "null", "none",
		"inf", "-inf" };

	for (size_t i = 0; i < sizeof(missing) / sizeof(missing[0]); i++)
		if (strcasecmp(cell, missing[i]) == 0)
			return false;
	return !is_numeric_cell(cell);
}

static bool is_blank_line(const char *line)
{
	while (*line == ' ')
		line++;
	return *line == '\0';
}

static enum err_code check_text(const struct table *t, const char *line, size_t len, struct err *e)
{
	if (memchr(line, '\0', len))
		return stream_fail(t->s, e, "holds a NUL byte; is this a text file?");
	return ERR_OK;
}

/* The record that begins with this line, as writable, padded text (data_num.h); NULL for a blank
 * line. */
static enum err_code whole_record(struct table *t, char *line, size_t len, char **out,
    struct err *e)
{
	enum err_code rc = check_text(t, line, len, e);
	bool open;

	*out = is_blank_line(line) ? NULL : line;
	if (rc != ERR_OK || !*out || !data_cells_open(line))
		return rc;
	buf_clear(&t->record);
	buf_append(&t->record, line, len);
	for (open = true; open; open ^= data_cells_open(line)) {
		rc = stream_line(t->s, &line, &len, e);
		if (rc == ERR_OK && line)
			rc = check_text(t, line, len, e);
		if (rc != ERR_OK)
			return rc;
		if (!line || t->record.len + len > STREAM_LINE_MAX)
			return stream_fail(t->s, e, "a quoted cell does not end");
		buf_puts(&t->record, "\n");
		buf_append(&t->record, line, len);
	}
	buf_reserve(&t->record, DATA_NUM_PAD);
	*out = (char *)t->record.data;
	return ERR_OK;
}

/* Reads the first record; NULL when there is none. */
static enum err_code first_record(struct table *t, char **out, struct err *e)
{
	enum err_code rc;
	char *line;
	size_t len;

	*out = NULL;
	do {
		rc = stream_line(t->s, &line, &len, e);
		if (rc == ERR_OK && line)
			rc = whole_record(t, line, len, out, e);
	} while (rc == ERR_OK && line && !*out);
	return rc;
}

/* Says why a cell is not a number. */
static enum err_code bad_cell(const struct table *t, size_t column, const char *cell, struct err *e)
{
	char text[DATA_SHOWN];
	uint64_t line = stream_lineno(t->s);
	double v;

	if (!cell)
		return err_set(e, ERR_FORMAT,
		    "%s:%" PRIu64 ":%zu: the quotes of the cell do not match", stream_name(t->s),
		    line, column + 1);
	if (!*cell)
		return err_set(e, ERR_FORMAT,
		    "%s:%" PRIu64 ":%zu: expected a number, got an empty cell", stream_name(t->s),
		    line, column + 1);
	data_shown(text, cell, strlen(cell));
	cell = data_num(cell, &v);
	if (cell && !*cell)
		return err_set(e, ERR_FORMAT,
		    "%s:%" PRIu64 ":%zu: expected a finite float32 number, got \"%s\"",
		    stream_name(t->s), line, column + 1, text);
	return err_set(e, ERR_FORMAT,
	    "%s:%" PRIu64 ":%zu: expected a number, got \"%s\"; features must be "
	    "numbers",
	    stream_name(t->s), line, column + 1, text);
}

/* Parses the feature at *p. Most cells are a bare number before a separator. */
static enum err_code parse_feature(const struct table *t, char **p, size_t column, float *out,
    struct err *e)
{
	char *cell = *p, *end;
	double v;

	while (*cell == ' ')
		cell++;
	end = (char *)data_num_float(cell, out);
	if (end && (*end == t->sep || !*end) && isfinite(*out)) {
		*p = *end ? end + 1 : NULL;
		return ERR_OK;
	}
	cell = data_cells_next(p, t->sep);
	if (!cell || !data_num_all(cell, &v) || !isfinite((float)v))
		return bad_cell(t, column, cell, e);
	*out = (float)v;
	return ERR_OK;
}

/* Parses a row cell by cell. */
static enum err_code parse_csv_row(const struct table *t, char *p, struct err *e)
{
	char *label = NULL, *rest = p;
	size_t column = 0, at = 0;
	enum err_code rc;
	float *x;

	rc = data_build_dense(t->b, t->s, t->width - 1, 1, &x, e);
	for (; rc == ERR_OK && rest && column < t->width; column++) {
		if (column != t->label) {
			rc = parse_feature(t, &rest, column, &x[at++], e);
			continue;
		}
		label = data_cells_next(&rest, t->sep);
		if (!label)
			rc = bad_cell(t, column, NULL, e);
	}
	if (rc != ERR_OK)
		return rc;
	while (rest && data_cells_next(&rest, t->sep))
		column++;
	if (column != t->width || rest)
		return stream_fail(t->s, e, "has %zu column%s, the first line has %zu", column,
		    NUM_S(column), t->width);
	data_build_rows(t->b, 1);
	return data_label_text(t->b->label, t->s, label, e);
}

/* Parses rows of bare numbers, each before a separator or the end, which most rows are. Leaves
 * others untouched (*taken false). */
static enum err_code plain_row(const struct table *t, const char *p, size_t len, bool *taken,
    struct err *e)
{
	const char *end = p + len, *q;
	double label = 0;
	size_t at = 0;
	float *x, y;

	*taken = false;
	if (data_build_dense(t->b, t->s, t->width - 1, 1, &x, NULL) != ERR_OK)
		return ERR_OK;
	for (size_t column = 0; column < t->width; column++, p = q + 1) {
		while (*p == ' ')
			p++;
		if (column == t->label) {
			q = data_num_padded(p, &label);
			y = (float)label;
		} else {
			q = data_num_float(p, &y);
			x[at++] = y;
		}
		if (!q || !isfinite(y) || (column + 1 < t->width ? *q != t->sep : q != end))
			return ERR_OK;
	}
	*taken = true;
	data_build_rows(t->b, 1);
	return data_label_number(t->b->label, t->s, label, e);
}

static enum err_code read_csv_rows(struct table *t, struct err *e)
{
	enum err_code rc;
	bool taken;
	char *line;
	size_t len;

	for (;;) {
		rc = stream_line(t->s, &line, &len, e);
		if (rc != ERR_OK || !line)
			return rc;
		taken = false;
		if (*line)
			rc = plain_row(t, line, len, &taken, e);
		if (rc == ERR_OK && !taken)
			rc = whole_record(t, line, len, &line, e);
		if (rc == ERR_OK && !taken && line)
			rc = parse_csv_row(t, line, e);
		if (rc != ERR_OK)
			return rc;
	}
}

static size_t column_named(const char *name, char *const *cells, size_t n)
{
	size_t i = 0;

	while (i < n && strcmp(cells[i], name) != 0)
		i++;
	return i;
}

/* Does ?label= name a column, instead of giving its number? */
static bool names_column(const struct data_options *o)
{
	uint64_t number;

	return o->label && strcmp(o->label, "last") != 0 &&
	    !num_uint(o->label, UINT64_MAX, &number);
}

/* Finds the label column by its name or number. */
static enum err_code find_label(struct table *t, char *const *cells, bool header, struct err *e)
{
	const char *name = t->o->label, *near;
	int64_t number;

	t->label = t->width - 1;
	if (!name || strcmp(name, "last") == 0)
		return ERR_OK;
	if (!names_column(t->o)) {
		if (!num_int(name, 1, (int64_t)t->width, &number))
			return stream_fail(t->s, e, "label=%.60s, but the columns are 1 to %zu",
			    name, t->width);
		t->label = (size_t)number - 1;
		return ERR_OK;
	}
	if (!header)
		return stream_fail(t->s, e,
		    "label=%.60s, but the file has no header; give the column's number", name);
	t->label = column_named(name, cells, t->width);
	if (t->label < t->width)
		return ERR_OK;
	near = suggest(name, (const char *const *)cells, t->width);
	return near ? stream_fail(t->s, e, "no column is named \"%.60s\"; did you mean \"%.60s\"?",
	                  name, near)
	            : stream_fail(t->s, e, "no column is named \"%.60s\"", name);
}

static bool is_header(const struct table *t, char *const *first, size_t n, char *const *second,
    size_t m)
{
	if (names_column(t->o) && column_named(t->o->label, first, n) < n)
		return true;
	for (size_t i = 0; second && i < n && i < m; i++)
		if (is_header_name(first[i]) && is_numeric_cell(second[i]))
			return true;
	/* If this is the only line and it has only names, the data are missing. */
	for (size_t i = 0; !second && i < n; i++)
		if (is_numeric_cell(first[i]))
			return false;
	return !second;
}

static enum err_code set_column_names(struct table *t, char **cells, struct err *e)
{
	char **names = mem_array(t->width, sizeof(*names));
	enum err_code rc;
	size_t at = 0;

	for (size_t i = 0; i < t->width; i++)
		if (i != t->label)
			names[at++] = cells[i];
	rc = data_build_names(t->b, t->s, names, at, e);
	free(names);
	return rc;
}

/* The next record, as far as it has been read ahead, as a new string; NULL when there is none. */
static enum err_code peek_record(struct table *t, char **out, struct err *e)
{
	const uint8_t *p;
	size_t n, skip = 0;
	enum err_code rc = stream_peek(t->s, DATA_PROBE, &p, &n, e);

	*out = NULL;
	if (rc != ERR_OK)
		return rc;
	while (skip < n && (p[skip] == '\n' || p[skip] == '\r' || p[skip] == ' '))
		skip++;
	if (skip == n)
		return ERR_OK;
	n = data_cells_record((const char *)p + skip, n - skip);
	if (n > 0 && p[skip + n - 1] == '\r')
		n--;
	*out = mem_printf("%.*s", (int)n, (const char *)p + skip);
	return ERR_OK;
}

/* Finds separator, width, header and label column from the first two records. *header: the first
 * one has only names. */
static enum err_code detect_shape(struct table *t, const char *first, bool *header, struct err *e)
{
	char **a = NULL, **b = NULL, *copy = mem_strdup(first), *second;
	size_t m = 0;
	enum err_code rc = peek_record(t, &second, e);

	if (rc == ERR_OK) {
		t->sep = data_cells_separator(first, second);
		a = data_cells_split(copy, t->sep, &t->width);
		b = second ? data_cells_split(second, t->sep, &m) : NULL;
		if (!a)
			rc = bad_cell(t, t->width, NULL, e);
	}
	if (rc == ERR_OK) {
		*header = !t->o->no_heading && is_header(t, a, t->width, b, m);
		rc = find_label(t, a, *header, e);
	}
	if (rc == ERR_OK && *header && t->width > 1)
		rc = set_column_names(t, a, e);
	free(a);
	free(b);
	free(copy);
	free(second);
	return rc;
}

static char *padded_copy(const char *text)
{
	size_t n = strlen(text);

	return memcpy(mem_alloc(n + 1 + DATA_NUM_PAD), text, n);
}

static enum err_code read_csv(struct data_build *b, struct stream *s, const struct data_options *o,
    struct err *e)
{
	struct table t = { .b = b, .s = s, .o = o };
	bool header = false;
	char *p, *first;
	enum err_code rc;

	rc = first_record(&t, &p, e);
	if (rc == ERR_OK && p) {
		/* Spreadsheets write a byte order mark first. */
		first = padded_copy(strncmp(p, "\xef\xbb\xbf", 3) == 0 ? p + 3 : p);
		rc = detect_shape(&t, first, &header, e);
		if (rc == ERR_OK && !header)
			rc = parse_csv_row(&t, first, e);
		free(first);
	}
	if (rc == ERR_OK && p)
		rc = read_csv_rows(&t, e);
	buf_release(&t.record);
	return rc;
}

/* Text with a separator. */
static bool probe_csv(const uint8_t *p, size_t n)
{
	bool separated = false;

	for (size_t i = 0; i < n; i++) {
		if (p[i] < ' ' && p[i] != '\t' && p[i] != '\n' && p[i] != '\r')
			return false;
		separated |= p[i] == ',' || p[i] == ';' || p[i] == '\t';
	}
	return separated;
}

const struct data_reader data_reader_csv = { probe_csv, read_csv };
