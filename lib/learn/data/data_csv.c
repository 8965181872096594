/* SPDX-License-Identifier: ISC */
#include <inttypes.h>
#include <math.h>
#include <strings.h>

#include "core/mem.h"
#include "core/names.h"
#include "core/num.h"
#include "core/suggest.h"
#include "data/data_build.h"
#include "data/data_cells.h"
#include "data/data_num.h"
#include "data/data_parts.h"
#include "data/data_schema.h"
#include "data/data_table.h"
#include "data/data_uri.h"

/* Columns, one of them the label (by default the last), or several: RFC 4180 with comma, semicolon,
 * tab, bar, or blanks. The first record is a header when a cell that is not a number stands above
 * numbers, when ?label= names one of its cells, or when it has mere text that no row below repeats.
 * Before it a line that begins with # or a bar, and has another number of cells, is a comment.
 *
 * Files of mere numbers are read here, into dense rows. Where the first lines have text or missing
 * cells beside the label, or an option or the model asks for it, data_table.h takes the records; but rows of
 * plain numbers in a table of numbers are read here, too. */

struct table {
	struct data_build *b;
	struct stream *s;
	const struct data_options *o;
	char sep; /* DATA_CELLS_ANY: not known yet */
	/* number of columns, and of those that are features; column of the label, from 0 (width:
	 * there is none), or of the first one */
	size_t width, features, label;
	size_t *labels, nlabels; /* the columns that ?label= names, in its order; none: `label` */
	size_t *feature; /* of mere numbers: the feature of each column; NO_FEATURE: it has none */
	bool typed;      /* data_table.h takes the records */
	bool plain;      /* but rows of plain numbers are appended here */
	bool commented;  /* the file begins with a comment */
	bool unclosed;   /* a quoted cell does not end: it may have swallowed any number of lines */
	struct buf record; /* a record of several lines */
};

#define NO_FEATURE DATA_TABLE_NO_FEATURE

static bool is_numeric_cell(const char *cell)
{
	double v;

	return data_num_all(cell, &v);
}

static bool is_number_in_any_form(const char *cell)
{
	double v;

	for (int f = 0; f < DATA_FORMS; f++)
		if (data_form_number((enum data_form)f, NULL, cell, &v))
			return true;
	return false;
}

/* A cell that may stand in a header: not a number, and not a mark for a missing number, which must
 * be reported and not be taken for a name. */
static bool is_header_name(const char *cell)
{
	return !data_form_is_missing(cell) && strcasecmp(cell, "inf") != 0 &&
	    strcasecmp(cell, "-inf") != 0 && !is_number_in_any_form(cell);
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
		return stream_fail(t->s, e,
		    "holds a NUL byte; if this is a text file, tr -d '\\000' removes it");
	return ERR_OK;
}

/* The record in t->record ends in its last cell, which is quoted. */
static enum err_code fail_unclosed(struct table *t, struct err *e)
{
	buf_append(&t->record, "", 1);
	return stream_fail_at(t->s, data_cells_count((const char *)t->record.data, t->sep), e,
	    "a quoted cell does not end; remove its quote, or write a second one at its end");
}

/* The record that begins with this line, as writable, padded text (data_num.h); NULL for a blank
 * line. */
static enum err_code whole_record(struct table *t, char *line, size_t len, char **out,
    struct err *e)
{
	enum err_code rc = check_text(t, line, len, e);
	uint64_t began = stream_lineno(t->s);
	bool open;

	*out = is_blank_line(line) ? NULL : line;
	if (rc != ERR_OK || !*out || !data_cells_open(line, t->sep, false))
		return rc;
	if (t->b->by_lines)
		return stream_fail(t->s, e,
		    "a quoted cell does not end in its line; in data in blocks each record must "
		    "be on one line (or raise job.data_memory, so that all data are in memory)");
	buf_clear(&t->record);
	buf_append(&t->record, line, len);
	for (open = true; open; open = data_cells_open(line, t->sep, open)) {
		rc = stream_line(t->s, &line, &len, e);
		if (rc == ERR_OK && line)
			rc = check_text(t, line, len, e);
		if (rc != ERR_OK)
			return rc;
		stream_record_began(t->s, began);
		t->unclosed = !line || t->record.len + len > STREAM_LINE_MAX;
		if (t->unclosed)
			return fail_unclosed(t, e);
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
	double v;

	column++;
	if (!cell)
		return stream_fail_at(t->s, column, e,
		    "the quotes of the cell do not match; write a quote within quotes twice");
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

/* Parses the feature at *p. Most cells are a bare number before a separator. */
static enum err_code parse_feature(const struct table *t, char **p, size_t column, float *out,
    struct err *e)
{
	char *cell = *p, *end;
	double v;

	while (*cell == ' ')
		cell++;
	end = (char *)data_num_float(cell, out);
	if (end && t->sep != ' ' && (*end == t->sep || !*end) && isfinite(*out)) {
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
	/* In a record of another width, a cell is no number because it stands in a wrong column. */
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
static enum err_code plain_row(const struct table *t, const char *p, size_t len, bool *taken,
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
			q = data_num_padded(p, &label);
			y = (float)label;
		} else {
			q = data_num_float(p, &y);
			if (t->feature[column] != NO_FEATURE)
				x[t->feature[column]] = y;
		}
		if (!q || !isfinite(y) || (column + 1 < t->width ? *q != t->sep : q != end))
			return ERR_OK;
	}
	*taken = true;
	data_build_rows(t->b, 1);
	return data_label_number(t->b->label, t->s, label, e);
}

/* A line of plain numbers takes the fast path, which needs no cells. Other lines are joined to a
 * whole record, as long as a quoted cell is open, and then split. Empty lines are no rows. */
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
		if (*line && t->plain)
			rc = plain_row(t, line, len, &taken, e);
		if (rc == ERR_OK && !taken)
			rc = whole_record(t, line, len, &line, e);
		if (rc == ERR_OK && !taken && line)
			rc = t->typed ? data_table_row(t->b, t->s, line, e)
			              : parse_csv_row(t, line, e);
		if (rc != ERR_OK && !t->unclosed)
			rc = data_build_bad_line(t->b, t->s, rc, e);
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

/* Is a word of ?label= the name of a column, instead of its number? */
static bool names_column(const char *word)
{
	uint64_t number;

	return strcmp(word, "last") != 0 && !num_uint(word, UINT64_MAX, &number);
}

/* The words of ?label=, as an array of new strings: one, where the whole text names a column, and
 * else the names between its commas. names: of the columns; NULL: they have none. */
static char **label_words(const struct data_options *o, char *const *names, size_t width, size_t *n)
{
	char **word = mem_array(strlen(o->label) + 1, sizeof *word);

	*n = 0;
	if (names && column_named(o->label, names, width) < width) {
		word[(*n)++] = mem_strdup(o->label);
		return word;
	}
	for (const char *at = names_first(o->label); at; at = names_next(at))
		word[(*n)++] = mem_printf("%.*s", (int)strcspn(at, ","), at);
	return word;
}

/* Does ?label= name a cell of the first record? */
static bool names_cell(const struct data_options *o, char *const *first, size_t width)
{
	bool found = false;
	char **word;
	size_t n;

	if (!o->label)
		return false;
	word = label_words(o, first, width, &n);
	for (size_t i = 0; i < n; i++)
		found |= names_column(word[i]) && column_named(word[i], first, width) < width;
	data_uri_free(word, n);
	return found;
}

/* ---- the first lines ---- */

/* The first examples of a file decide, and these are parts of files of which the head is known
 * (data_blocks.h): whether they have a header, and whether they are a table. So few records are
 * enough for the rest. */
static bool is_known(const struct table *t)
{
	return t->b->brief && t->b->like;
}
#define PROBE_KNOWN 4096u

/* The first records of a file, split into cells. */
struct sample {
	char **text; /* the records, whose cells `row` points to */
	char ***row;
	size_t n, room;
};

static void sample_free(struct sample *s)
{
	for (size_t i = 0; i < s->n; i++) {
		free(s->text[i]);
		free(s->row[i]);
	}
	free(s->text);
	free(s->row);
}

/* Adds a record; one that does not have `width` cells is left for the reader to report. */
static void sample_add(struct sample *s, const char *p, size_t n, char sep, size_t width)
{
	char *text = mem_printf("%.*s", (int)n, p), **cells;
	size_t m = 0;

	cells = data_cells_split(text, sep, &m);
	if (!cells || m != width) {
		free(cells);
		free(text);
		return;
	}
	if (s->n == s->room) {
		s->room = s->room ? 2 * s->room : 64;
		s->text = mem_regrow(s->text, s->room, sizeof *s->text);
		s->row = mem_regrow(s->row, s->room, sizeof *s->row);
	}
	s->text[s->n] = text;
	s->row[s->n++] = cells;
}

/* Takes `first` and the whole records behind it, as far as they have been read ahead. */
static enum err_code sample_take(struct table *t, const char *first, struct sample *s,
    struct err *e)
{
	const uint8_t *p;
	size_t most = is_known(t) ? PROBE_KNOWN : DATA_PROBE, n, at = 0, len;
	enum err_code rc = stream_peek(t->s, most, &p, &n, e);

	if (rc)
		return rc;
	sample_add(s, first, strlen(first), t->sep, t->width);
	while (at < n) {
		len = data_cells_record((const char *)p + at, n - at, t->sep);
		/* The last record may be cut off by the end of what was read ahead. */
		if (at + len == n && n >= most)
			break;
		if (len > 0)
			sample_add(s, (const char *)p + at, len - (p[at + len - 1] == '\r'), t->sep,
			    t->width);
		at += len + 1;
	}
	return ERR_OK;
}

/* Counts the cells of each column, in the rows from `from` on. A new array. */
static struct data_look *sample_look(const struct sample *s, size_t from, size_t width)
{
	struct data_look *look = mem_array(width + 1, sizeof *look);

	for (size_t i = from; i < s->n; i++)
		for (size_t k = 0; k < width; k++)
			data_look_add(&look[k], s->row[i][k]);
	return look;
}

/* Do the rows below the first repeat its cell in this column?  *varied: is another cell repeated? */
static bool is_repeated(const struct sample *s, size_t column, bool *others)
{
	for (size_t i = 1; i < s->n; i++) {
		if (strcmp(s->row[0][column], s->row[i][column]) == 0)
			return true;
		*others |= i > 1 && strcmp(s->row[1][column], s->row[i][column]) == 0;
	}
	return false;
}

/* A record of mere text above rows of mere text is a header when none of its cells comes again, though
 * others do. */
static bool is_text_header(const struct sample *s, size_t width)
{
	bool others = false;

	for (size_t k = 0; k < width; k++)
		if (s->n < 3 || !is_header_name(s->row[0][k]) || is_repeated(s, k, &others))
			return false;
	return others;
}

/* Decides what the columns hold. Where one has decimal commas, all have that could. */
static struct data_column_look *decide_columns(const struct table *t, const struct data_look *look)
{
	struct data_column_look *of = mem_array(t->width + 1, sizeof *of);
	bool comma = t->sep != ',', used = false;

	for (size_t k = 0; k < t->width; k++) {
		of[k] = data_look_decide(&look[k], comma);
		used |= of[k].form == DATA_COMMA;
	}
	for (size_t k = 0; used && k < t->width; k++)
		if (!of[k].text && of[k].form == DATA_PLAIN &&
		    look[k].numbers[DATA_COMMA] + look[k].measures[DATA_COMMA] ==
		        look[k].numbers[DATA_PLAIN] + look[k].measures[DATA_PLAIN])
			of[k].form = DATA_COMMA;
	return of;
}

/* Do the first rows have what only tables may have: text beside the label, missing cells, or numbers
 * that are not plain? */
static bool is_table(const struct table *t, const struct sample *s, size_t from,
    const struct data_look *look, const struct data_column_look *of)
{
	bool found = false;

	for (size_t k = 0; k < t->width; k++)
		if (t->feature[k] != NO_FEATURE)
			found |= of[k].text || of[k].words || look[k].missing || of[k].form ||
			    *of[k].unit;
		else if (k == t->label)
			found |= !of[k].text && (of[k].form || *of[k].unit);
	for (size_t i = from; t->label < t->width && i < s->n; i++)
		found |= data_table_lacks_label(s->row[i][t->label]);
	return found;
}

/* Begins a table when the options or the first rows ask for it. */
static enum err_code begin_typed(struct table *t, const struct sample *s, size_t from,
    const struct data_look *look, char *const *names, struct err *e)
{
	struct data_column_look *of = decide_columns(t, look);
	const struct data_table_shape shape = { .sep = t->sep,
		.width = t->width,
		.label = t->nlabels ? t->labels : &t->label,
		.nlabels = t->nlabels ? t->nlabels : 1,
		.name = names,
		.look = of };
	size_t label, *feature = mem_array(t->width + 1, sizeof *feature);
	enum err_code rc = ERR_OK;

	t->typed = t->b->table || t->nlabels > 1 || (t->b->like && t->b->like->schema) ||
	    data_table_is_wanted(t->b, t->o, t->width) ||
	    (!is_known(t) && is_table(t, s, from, look, of));
	if (t->typed)
		rc = data_table_open(t->b, t->s, t->o, &shape, e);
	t->plain = !t->typed;
	if (t->typed && !rc && data_table_takes_plain(t->b, &label, feature)) {
		t->plain = true;
		t->label = label;
		t->features = t->b->d->cols;
		memcpy(t->feature, feature, t->width * sizeof *feature);
	}
	free(feature);
	free(of);
	return rc;
}

/* Is the first record a header? */
static bool is_header(const struct table *t, char *const *first, const struct sample *s)
{
	struct data_look *look;
	bool found = false;

	if (names_cell(t->o, first, t->width))
		return true;
	look = sample_look(s, 1, t->width);
	for (size_t i = 0; i < t->width; i++)
		found |= is_header_name(first[i]) && look[i].cells > look[i].missing &&
		    !data_look_decide(&look[i], t->sep != ',').text;
	free(look);
	/* If this is the only line and it has only names, the data are missing. */
	for (size_t i = 0; s->n < 2 && i < t->width; i++)
		if (is_numeric_cell(first[i]))
			return found;
	return found || s->n < 2;
}

/* Finds the column that a word of ?label= means. names: of the columns; NULL: they have none. */
static enum err_code find_label_word(const struct table *t, const char *const *names,
    const char *word, size_t *out, struct err *e)
{
	const char *near;
	int64_t number;

	if (!names_column(word)) {
		if (strcmp(word, "last") == 0)
			number = (int64_t)t->width;
		else if (!num_int(word, 1, (int64_t)t->width, &number))
			return stream_fail(t->s, e, "label=%.60s: the columns are 1 to %zu", word,
			    t->width);
		*out = (size_t)number - 1;
		return ERR_OK;
	}
	if (!names)
		return stream_fail(t->s, e,
		    "label=%.60s: the file has no header; give the number of the column, or all "
		    "names by ?columns=",
		    word);
	*out = column_named(word, (char *const *)names, t->width);
	for (size_t i = *out + 1; i < t->width; i++)
		if (strcmp(names[i], word) == 0)
			return stream_fail_at(t->s, i + 1, e,
			    "is a second column named \"%.60s\"; give the label's number, as label=%zu",
			    word, *out + 1);
	if (*out < t->width)
		return ERR_OK;
	near = suggest(word, names, t->width);
	return near ? stream_fail(t->s, e, "there is no column \"%.60s\"; did you mean \"%.60s\"?",
	                  word, near)
	            : stream_fail(t->s, e, "there is no column \"%.60s\"", word);
}

/* Finds the columns of ?label=, each of which must be named once. */
static enum err_code find_label_words(struct table *t, const char *const *names, struct err *e)
{
	size_t n;
	char **word = label_words(t->o, (char *const *)names, t->width, &n);
	enum err_code rc = n ? ERR_OK : stream_fail(t->s, e, "label= names no column");

	free(t->labels);
	t->labels = mem_array(n + 1, sizeof *t->labels);
	for (size_t i = 0; !rc && i < n; i++) {
		rc = find_label_word(t, names, word[i], &t->labels[i], e);
		for (size_t k = 0; !rc && k < i; k++)
			if (t->labels[k] == t->labels[i])
				rc = stream_fail(t->s, e, "label=%.60s names column %zu twice",
				    t->o->label, t->labels[i] + 1);
	}
	t->nlabels = rc ? 0 : n;
	if (!rc)
		t->label = t->labels[0];
	data_uri_free(word, n);
	return rc;
}

/* Finds the label column by its name or number. name: of the columns; NULL: they have none. Where
 * labels do not matter, a file that is as wide as the training data has none. */
static enum err_code find_label(struct table *t, const char *const *names,
    const struct data_look *look, struct err *e)
{
	const char *name = t->o->label;

	t->nlabels = 0;
	t->features = t->width - 1;
	if (data_label_is_ignored(t->b->label) && t->b->like && t->b->like->cols == t->width) {
		t->label = t->features = t->width;
		return ERR_OK;
	}
	t->label = t->width - 1;
	/* A separator at the end of each line makes a column of nothing. A head with such a column, which is a
	 * feature of missing cells, has a schema, so parts of files without a schema have no such column,
	 * even if their first records lack the label. */
	while (!is_known(t) && t->label > 0 && look[t->label].missing == look[t->label].cells &&
	    (!names || !*names[t->label]))
		t->label--;
	return name && strcmp(name, "last") != 0 ? find_label_words(t, names, e) : ERR_OK;
}

/* Each column but the label's is a feature. */
static void number_features(struct table *t)
{
	size_t at = 0;

	for (size_t i = 0; i < t->width; i++)
		t->feature[i] = i == t->label ? NO_FEATURE : at++;
}

/* The label among columns that are no features: the one that ?label= names; else the only one, or the
 * last. */
static enum err_code find_unmatched_label(struct table *t, const char *const *names,
    const struct data_look *look, struct err *e)
{
	if (t->o->label)
		return find_label(t, names, look, e);
	t->label = t->width;
	for (size_t i = 0; i < t->width; i++)
		if (t->feature[i] == NO_FEATURE)
			t->label = i;
	return t->label < t->width || data_label_is_ignored(t->b->label)
	    ? ERR_OK
	    : stream_fail(t->s, e, "has no label column");
}

/* Finds the columns of mere numbers by their names, in any order; others are left out. */
static enum err_code match_columns(struct table *t, const char *const *names,
    const struct data_look *look, struct err *e)
{
	const struct dataset *like = t->b->like;
	enum err_code rc;

	for (size_t i = 0; i < t->width; i++)
		t->feature[i] = NO_FEATURE;
	for (size_t k = 0; k < like->cols; k++) {
		size_t i = 0;

		while (i < t->width &&
		    (t->feature[i] != NO_FEATURE || strcmp(names[i], like->feature_name[k]) != 0))
			i++;
		if (i == t->width)
			return data_table_fail_missing(t->s, names, t->width, like->feature_name[k],
			    e);
		t->feature[i] = k;
	}
	rc = find_unmatched_label(t, names, look, e);
	t->features = like->cols;
	return rc;
}

/* The label's column has no feature and is left out. The names are copied by data_build_names. */
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
	n = data_cells_record((const char *)p + skip, n - skip, t->sep);
	if (n > 0 && p[skip + n - 1] == '\r')
		n--;
	*out = mem_printf("%.*s", (int)n, (const char *)p + skip);
	return ERR_OK;
}

/* The names of ?columns=, as an array of new strings; NULL when there are not `width` of them. */
static char **split_names(const char *list, size_t width)
{
	char **names = mem_array(width + 1, sizeof *names);
	size_t n = 0;

	for (const char *at = list ? names_first(list) : NULL; at && n < width; at = names_next(at))
		names[n++] = mem_printf("%.*s", (int)strcspn(at, ","), at);
	if (n == width)
		return names;
	data_uri_free(names, n);
	return NULL;
}

/* Finds header and label column, and how to read the rows. first: the cells of the first record. */
static enum err_code detect_columns(struct table *t, char **first, const struct sample *s,
    bool *header, struct err *e)
{
	char **named = split_names(t->o->columns, t->width);
	struct data_look *look;
	const char *const *names;
	bool matched;
	enum err_code rc = ERR_OK;

	*header = !t->o->no_heading &&
	    (is_known(t) || is_header(t, first, s) || is_text_header(s, t->width));
	names = (const char *const *)(named ? named : *header ? first : NULL);
	look = sample_look(s, *header, t->width);
	matched = names && t->b->like && t->b->like->feature_name && !t->b->like->schema;
	free(t->feature);
	t->feature = mem_array(t->width + 1, sizeof *t->feature);
	/* The columns of evaluation data are those of the training data's schema. */
	if (t->b->like && t->b->like->schema)
		t->label = t->width;
	else if (matched)
		rc = match_columns(t, names, look, e);
	else
		rc = find_label(t, names, look, e);
	if (!matched)
		number_features(t);
	if (rc == ERR_OK)
		rc = begin_typed(t, s, *header, look, (char *const *)names, e);
	if (rc == ERR_OK && *header && t->features > 0 && !t->typed && !matched)
		rc = set_column_names(t, first, e);
	free(look);
	data_uri_free(named, named ? t->width : 0);
	return rc;
}

/* Finds separator, width, header and label column from the first records, and how to read the
 * others. *header: the first one has only names. */
static enum err_code detect_shape(struct table *t, const char *first, bool *header, struct err *e)
{
	char **cells = NULL, *copy = mem_strdup(first), *second;
	struct sample sample = { 0 };
	enum err_code rc = peek_record(t, &second, e);

	if (rc == ERR_OK) {
		t->sep = data_cells_separator(first, second);
		cells = data_cells_split(copy, t->sep, &t->width);
		if (!cells)
			rc = bad_cell(t, t->width, NULL, e);
	}
	if (rc == ERR_OK && t->width == 1 && !t->b->like)
		rc = stream_fail(t->s, e,
		    "has one column; a table needs a label and features, separated by commas, "
		    "semicolons, tabs, bars or blanks");
	if (rc == ERR_OK)
		rc = sample_take(t, first, &sample, e);
	if (rc == ERR_OK)
		rc = detect_columns(t, cells, &sample, header, e);
	sample_free(&sample);
	free(cells);
	free(copy);
	free(second);
	return rc;
}

static char *padded_copy(const char *text)
{
	size_t n = strlen(text);

	return memcpy(mem_alloc(n + 1 + DATA_NUM_PAD), text, n);
}

/* Is this the line "sep=;" that Excel writes and reads? */
static bool names_separator(const char *line)
{
	size_t quote = *line == '"';

	return strncasecmp(line + quote, "sep=", 4) == 0 && strlen(line) <= 5 + 2 * quote;
}

/* Is this line a comment before the table: one that begins with # or a bar, above a record with another
 * number of cells, a title of one cell above a record with several, or one that names the separator? */
static enum err_code is_comment(struct table *t, const char *line, bool *out, struct err *e)
{
	bool marked = *line == '#' || *line == '|';
	size_t cells, below;
	char *second, sep;
	enum err_code rc;

	*out = names_separator(line);
	if (*out || (!marked && (t->o->no_heading || !is_header_name(line))))
		return ERR_OK;
	rc = peek_record(t, &second, e);
	if (rc || !second)
		return rc;
	sep = data_cells_separator(second, NULL);
	cells = data_cells_count(line, sep);
	below = data_cells_count(second, sep);
	*out = marked ? cells != below : cells == 1 && below > 1 && sep != ' ';
	free(second);
	return ERR_OK;
}

/* Reads the first record behind comments as a new, padded text; NULL when there is none. */
static enum err_code first_row(struct table *t, char **out, struct err *e)
{
	enum err_code rc;
	bool comment = false;
	char *p;

	*out = NULL;
	do {
		rc = first_record(t, &p, e);
		/* Spreadsheets write a byte order mark first. */
		if (rc == ERR_OK && p && strncmp(p, "\xef\xbb\xbf", 3) == 0)
			p += 3;
		comment = false;
		if (rc == ERR_OK && p) {
			free(*out);
			*out = padded_copy(p);
			rc = is_comment(t, *out, &comment, e);
			t->commented |= comment;
		}
	} while (rc == ERR_OK && comment);
	return rc;
}

/* Has the first record, which is no header, as many cells as the data before it or the training data have
 * columns? All records below it must have as many cells as it has, so that it must not be wrong. */
static bool fits_columns(const struct table *t)
{
	const struct data_schema *m = data_table_schema(t->b);
	const struct dataset *like = t->b->like ? t->b->like : t->b->d;

	if (m)
		return t->width == m->ncolumns || t->width + data_schema_targets(m) == m->ncolumns;
	return like->sparse || like->rows == 0 || t->width == like->cols + 1;
}

/* Reads the records up to the first one that says how to read the others, and that one. *found: there is
 * one. */
static enum err_code begin_csv(struct table *t, bool *found, struct err *e)
{
	bool header = false, fits = true;
	char *first;
	enum err_code rc = first_row(t, &first, e);

	*found = rc == ERR_OK && first;
	if (!*found) {
		free(first);
		return rc;
	}
	rc = detect_shape(t, first, &header, e);
	if (rc == ERR_OK && header && t->commented && t->b->by_lines)
		rc = stream_fail(t->s, e,
		    "is a header below a comment, and data in blocks begin with the header; remove the "
		    "comment");
	if (!header)
		fits = fits_columns(t);
	t->b->d->heading = header;
	if (rc == ERR_OK && !header) {
		rc = t->typed ? data_table_row(t->b, t->s, first, e) : parse_csv_row(t, first, e);
		if (rc != ERR_OK && fits)
			rc = data_build_bad_line(t->b, t->s, rc, e);
	}
	free(first);
	if (rc != ERR_OK && !fits) {
		rc = data_build_bad_line(t->b, t->s, rc, e);
		return rc != ERR_OK ? rc : begin_csv(t, found, e);
	}
	return rc;
}

static enum err_code read_csv(struct data_build *b, struct stream *s, const struct data_options *o,
    struct err *e)
{
	struct table t = { .b = b, .s = s, .o = o };
	bool found;
	enum err_code rc = begin_csv(&t, &found, e);

	if (rc == ERR_OK && found)
		rc = read_csv_rows(&t, e);
	buf_release(&t.record);
	free(t.feature);
	free(t.labels);
	return rc;
}

/* Any text. A file of one column is reported by the reader. */
static bool probe_csv(const uint8_t *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (p[i] < ' ' && p[i] != '\t' && p[i] != '\n' && p[i] != '\r')
			return false;
	return true;
}

const struct data_reader data_reader_csv = { probe_csv, read_csv, &data_parts_lines };
