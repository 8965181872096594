/* SPDX-License-Identifier: ISC */
#include "data/reader/data_csv_shape.h"

#include <strings.h>

#include "core/mem.h"
#include "core/names.h"
#include "core/num.h"
#include "core/suggest.h"
#include "data/reader/data_cells.h"
#include "data/reader/data_head.h"
#include "data/reader/data_heading.h"
#include "data/reader/data_num.h"
#include "data/table/data_schema.h"
#include "data/source/data_uri.h"

#define NO_FEATURE DATA_TABLE_NO_FEATURE
/* The number of columns that an error names, at most. */
#define COLUMNS_NAMED 8u

/* ---- the first record ---- */

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

/* ---- the words of ?label= ---- */

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

/* Is this a part of data whose head is known (data_head.h)? The head has decided whether there is a
 * header and whether this is a table, and `like` has its columns, so that nothing is left to be
 * seen in the first lines. */
static bool is_known(const struct csv_table *t)
{
	return t->o->decided.known && t->o->decided.heading != DATA_HEADING_GUESSED && t->b->like;
}

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
		s->text = mem_grow(s->text, &s->room, s->n + 1, sizeof *s->text);
		s->row = mem_regrow(s->row, s->room, sizeof *s->row);
	}
	s->text[s->n] = text;
	s->row[s->n++] = cells;
}

/* Takes `first` and the whole records after it, as far as they have been read ahead. */
static enum err_code sample_take(struct csv_table *t, const char *first, struct sample *s,
    struct err *e)
{
	const uint8_t *p;
	size_t n, at = 0, len;
	enum err_code rc = stream_peek(t->s, DATA_PROBE, &p, &n, e);

	if (rc)
		return rc;
	sample_add(s, first, strlen(first), t->sep, t->width);
	while (at < n) {
		len = data_cells_record((const char *)p + at, n - at, t->sep);
		/* The last record may be cut off by the end of what was read ahead. */
		if (at + len == n && n >= DATA_PROBE)
			break;
		if (len > 0)
			sample_add(s, (const char *)p + at, len - (p[at + len - 1] == '\r'), t->sep,
			    t->width);
		at += len + 1;
	}
	return ERR_OK;
}

/* Counts the cells of each column, in the rows from `from` on. A new array. */
static struct data_column_stats *sample_stats(const struct sample *s, size_t from, size_t width)
{
	struct data_column_stats *stats = mem_array(width + 1, sizeof *stats);

	for (size_t i = from; i < s->n; i++)
		for (size_t k = 0; k < width; k++)
			data_column_stats_add(&stats[k], s->row[i][k]);
	return stats;
}

/* Do the rows below the first repeat its cell in this column? *varied: is another cell
 * repeated? */
static bool is_repeated(const struct sample *s, size_t column, bool *others)
{
	for (size_t i = 1; i < s->n; i++) {
		if (strcmp(s->row[0][column], s->row[i][column]) == 0)
			return true;
		*others |= i > 1 && strcmp(s->row[1][column], s->row[i][column]) == 0;
	}
	return false;
}

/* A record of mere text above rows of mere text is a header when none of its cells comes again,
 * though others do. */
static bool is_text_header(const struct sample *s, size_t width)
{
	bool others = false;

	for (size_t k = 0; k < width; k++)
		if (s->n < 3 || !is_header_name(s->row[0][k]) || is_repeated(s, k, &others))
			return false;
	return others;
}

/* Decides what the columns hold. Where one has decimal commas, all have that could. */
static struct data_column_decision *decide_columns(const struct csv_table *t,
    const struct data_column_stats *stats)
{
	struct data_column_decision *of = mem_array(t->width + 1, sizeof *of);
	bool comma = t->sep != ',', used = false;

	for (size_t k = 0; k < t->width; k++) {
		of[k] = data_column_stats_decide(&stats[k], comma);
		used |= of[k].form == DATA_COMMA;
	}
	for (size_t k = 0; used && k < t->width; k++)
		if (!of[k].text && of[k].form == DATA_PLAIN &&
		    stats[k].numbers[DATA_COMMA] + stats[k].measures[DATA_COMMA] ==
		        stats[k].numbers[DATA_PLAIN] + stats[k].measures[DATA_PLAIN])
			of[k].form = DATA_COMMA;
	return of;
}

/* Do the first rows have what only tables may have: text beside the label, missing cells, or
 * numbers that are not plain? */
static bool is_table(const struct csv_table *t, const struct sample *s, size_t from,
    const struct data_column_stats *stats, const struct data_column_decision *of)
{
	bool found = false;

	for (size_t k = 0; k < t->width; k++)
		if (t->feature[k] != NO_FEATURE)
			found |= of[k].text || of[k].words || stats[k].missing || of[k].form ||
			    *of[k].unit;
		else if (k == t->label)
			found |= !of[k].text && (of[k].form || *of[k].unit);
	for (size_t i = from; t->label < t->width && i < s->n; i++)
		found |= data_table_lacks_label(s->row[i][t->label]);
	return found;
}

/* Begins a table when the options or the first rows ask for it. stats: NULL if the columns are
 * known. */
static enum err_code begin_typed(struct csv_table *t, const struct sample *s, size_t from,
    const struct data_column_stats *stats, char *const *names, struct err *e)
{
	struct data_column_decision *of = stats ? decide_columns(t, stats) : NULL;
	const struct data_table_shape shape = { .sep = t->sep,
		.width = t->width,
		.label = t->nlabels ? t->labels : &t->label,
		.nlabels = t->nlabels ? t->nlabels : 1,
		.name = names,
		.decision = of };
	size_t label, *feature = mem_array(t->width + 1, sizeof *feature);
	enum err_code rc = ERR_OK;

	t->typed = t->b->table || t->nlabels > 1 || (t->b->like && t->b->like->schema) ||
	    data_table_is_wanted(t->b, t->o, t->width) ||
	    (stats && is_table(t, s, from, stats, of));
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

/* The name of column i of the training data, or of the files before; NULL: there is no such column,
 * or it has no name. */
static const char *known_name(const struct csv_table *t, size_t i)
{
	const struct dataset *like = t->b->like ? t->b->like : t->b->d;
	const struct data_schema *m = like->schema ? like->schema : data_table_schema(t->b);

	if (m)
		return i < m->ncolumns ? m->column[i].name : NULL;
	return like->feature_name && i < like->cols ? like->feature_name[i] : NULL;
}

/* Counts the cells of the first record that are names of columns of the training data. */
static size_t count_known_names(const struct csv_table *t, char *const *first)
{
	size_t n = 0;

	for (size_t i = 0; i < t->width; i++)
		for (size_t k = 0; known_name(t, k); k++)
			if (!is_numeric_cell(first[i]) && strcmp(first[i], known_name(t, k)) == 0) {
				n++;
				break;
			}
	return n;
}

/* Is the first record a header? */
static bool is_header(const struct csv_table *t, char *const *first, const struct sample *s)
{
	size_t known = count_known_names(t, first);
	struct data_column_stats *stats;
	bool found = false;

	if (names_cell(t->o, first, t->width) || 2 * known > t->width)
		return true;
	/* A single record is an example of the training data's columns, unless it names one. */
	if (s->n < 2 && known_name(t, 0))
		return known > 0;
	stats = sample_stats(s, 1, t->width);
	for (size_t i = 0; i < t->width; i++)
		found |= is_header_name(first[i]) && stats[i].cells > stats[i].missing &&
		    !data_column_stats_decide(&stats[i], t->sep != ',').text;
	free(stats);
	/* If this is the only line and it has only names, the data are missing. */
	for (size_t i = 0; s->n < 2 && i < t->width; i++)
		if (is_numeric_cell(first[i]))
			return found;
	return found || s->n < 2;
}

/* No column has the name that ?label= gives: suggests one, or lists the columns. */
static enum err_code fail_unknown_label(const struct csv_table *t, const char *const *names,
    const char *word, struct err *e)
{
	const char *near = suggest(word, names, t->width);
	char shown[DATA_SHOWN];
	struct buf list = BUF_INIT;
	enum err_code rc;
	unsigned n = 0;

	if (near)
		return stream_fail(t->s, e, "there is no column \"%.60s\"; did you mean \"%.60s\"?",
		    word, near);
	for (size_t i = 0; i < t->width; i++) {
		data_shown(shown, names[i], strlen(names[i]));
		names_put(&list, &n, COLUMNS_NAMED, shown);
	}
	names_put_rest(&list, n, COLUMNS_NAMED);
	rc = stream_fail(t->s, e, "there is no column \"%.60s\"; the columns are %s", word,
	    (char *)list.data);
	buf_release(&list);
	return rc;
}

/* Finds the column that a word of ?label= means. names: of the columns; NULL: they have none. */
static enum err_code find_label_word(const struct csv_table *t, const char *const *names,
    const char *word, size_t *out, struct err *e)
{
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
			    "is a second column named \"%.60s\"; give the number of the label, and leave "
			    "the other column out, as label=%zu&ignore=%zu",
			    word, *out + 1, i + 1);
	if (*out < t->width)
		return ERR_OK;
	return fail_unknown_label(t, names, word, e);
}

/* Finds the columns of ?label=, each of which must be named once. */
static enum err_code find_label_words(struct csv_table *t, const char *const *names, struct err *e)
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
static enum err_code find_label(struct csv_table *t, const char *const *names,
    const struct data_column_stats *stats, struct err *e)
{
	const char *name = t->o->label;

	t->nlabels = 0;
	t->features = t->width - 1;
	if (data_label_is_ignored(t->b->label) && t->b->like && t->b->like->cols == t->width) {
		t->label = t->features = t->width;
		return ERR_OK;
	}
	t->label = t->width - 1;
	/* A separator at the end of each line makes a column of nothing. A head with such a column,
	 * which is a feature of missing cells, has a schema, so parts of files without a schema
	 * have no such column, even if their first records lack the label. */
	while (stats && t->label > 0 && stats[t->label].missing == stats[t->label].cells &&
	    (!names || !*names[t->label]))
		t->label--;
	return name && strcmp(name, "last") != 0 ? find_label_words(t, names, e) : ERR_OK;
}

/* Each column but the label's is a feature. */
static void number_features(struct csv_table *t)
{
	size_t at = 0;

	for (size_t i = 0; i < t->width; i++)
		t->feature[i] = i == t->label ? NO_FEATURE : at++;
}

/* The label among columns that are not features: the one that ?label= names; else the only one, or
 * the last. */
static enum err_code find_unmatched_label(struct csv_table *t, const char *const *names,
    const struct data_column_stats *stats, struct err *e)
{
	if (t->o->label)
		return find_label(t, names, stats, e);
	t->label = t->width;
	for (size_t i = 0; i < t->width; i++)
		if (t->feature[i] == NO_FEATURE)
			t->label = i;
	for (size_t i = 0; t->label < t->width && i < t->label; i++)
		if (*names[i] && strcmp(names[i], names[t->label]) == 0)
			return stream_fail_at(t->s, t->label + 1, e,
			    "is a second column named \"%.60s\" beside column %zu, and the label would "
			    "be one of them; rename one of them, or name the label by ?label=",
			    names[i], i + 1);
	return t->label < t->width || data_label_is_ignored(t->b->label)
	    ? ERR_OK
	    : stream_fail(t->s, e, "has no label column");
}

/* Finds the columns of mere numbers by their names, in any order; others are left out. */
static enum err_code match_columns(struct csv_table *t, const char *const *names,
    const struct data_column_stats *stats, struct err *e)
{
	const struct dataset *like = t->b->like;
	enum err_code rc = data_heading_check_known(t->s, names, t->width,
	    (const char *const *)like->feature_name, like->cols, e);

	if (rc)
		return rc;
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
	rc = find_unmatched_label(t, names, stats, e);
	t->features = like->cols;
	return rc;
}

/* The label's column has no feature and is left out. The names are copied by data_build_names. */
static enum err_code set_column_names(struct csv_table *t, char **cells, struct err *e)
{
	char **names = mem_array(t->width, sizeof(*names));
	enum data_heading_use *use = mem_array(t->width, sizeof *use);
	enum err_code rc;
	size_t at = 0;

	for (size_t i = 0; i < t->width; i++) {
		use[i] = i == t->label ? DATA_HEADING_LABEL : DATA_HEADING_FEATURE;
		if (i != t->label)
			names[at++] = cells[i];
	}
	rc = data_heading_check(t->s, (const char *const *)cells, use, t->width, e);
	if (!rc)
		rc = data_build_names(t->b, t->s, names, at, e);
	free(use);
	free(names);
	return rc;
}

/* The next record, as far as it has been read ahead, as a new string; NULL when there is none. */
static enum err_code peek_record(struct csv_table *t, char **out, struct err *e)
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

/* The names in the heading of the files before, for a file that has none, as an array of new
 * strings; NULL: the file has another width. */
static char **names_before(const struct csv_table *t)
{
	char *copy = mem_strdup(t->b->heading);
	size_t n = 0;
	char **cell = data_cells_split(copy, t->b->separator, &n), **names = NULL;

	if (cell && n == t->width) {
		names = mem_array(n + 1, sizeof *names);
		for (size_t i = 0; i < n; i++)
			names[i] = mem_strdup(cell[i]);
	}
	free(cell);
	free(copy);
	return names;
}

/* Finds header and label column, and how to read the rows. first: the cells of the first record;
 * bare: the file lacks the header of the files before. */
static enum err_code detect_columns(struct csv_table *t, char **first, bool bare,
    const struct sample *s, bool *header, struct err *e)
{
	char **named = split_names(t->o->columns, t->width);
	struct data_column_stats *stats;
	const char *const *names;
	bool matched;
	enum err_code rc = ERR_OK;

	*header = t->o->decided.heading == DATA_HEADING_GUESSED
	    ? is_header(t, first, s) || is_text_header(s, t->width)
	    : t->o->decided.heading != DATA_HEADING_NONE;
	if (bare && !*header && !named)
		named = names_before(t);
	names = (const char *const *)(named ? named : *header ? first : NULL);
	stats = is_known(t) ? NULL : sample_stats(s, *header, t->width);
	matched = names && t->b->like && t->b->like->feature_name && !t->b->like->schema;
	free(t->feature);
	t->feature = mem_array(t->width + 1, sizeof *t->feature);
	/* Evaluation data have the columns of the training data's schema. */
	if (t->b->like && t->b->like->schema)
		t->label = t->width;
	else if (matched)
		rc = match_columns(t, names, stats, e);
	else
		rc = find_label(t, names, stats, e);
	if (!matched)
		number_features(t);
	if (rc == ERR_OK)
		rc = begin_typed(t, s, *header, stats, (char *const *)names, e);
	if (rc == ERR_OK && *header && t->features > 0 && !t->typed && !matched)
		rc = set_column_names(t, first, e);
	free(stats);
	data_uri_free(named, named ? t->width : 0);
	return rc;
}

enum err_code data_csv_detect_shape(struct csv_table *t, const char *first, bool *header,
    struct err *e)
{
	char **cells = NULL, *copy = mem_strdup(first), *second = NULL;
	struct sample sample = { 0 };
	enum err_code rc = ERR_OK;

	t->sep = t->o->decided.separator;
	if (!t->sep) {
		rc = peek_record(t, &second, e);
		t->sep = rc == ERR_OK ? data_cells_separator(first, second) : t->sep;
	}
	if (rc == ERR_OK) {
		cells = data_cells_split(copy, t->sep, &t->width);
		if (!cells)
			rc = stream_fail_at(t->s, t->width + 1, e, DATA_CELLS_QUOTES);
	}
	if (rc == ERR_OK && t->width == 1 && !t->b->like)
		rc = stream_fail(t->s, e,
		    "has one column; a table needs a label and features, separated by commas, "
		    "semicolons, tabs, bars or blanks");
	if (rc == ERR_OK && !is_known(t))
		rc = sample_take(t, first, &sample, e);
	if (rc == ERR_OK)
		rc = detect_columns(t, cells, data_head_is_bare(t->b, t->o, first), &sample, header,
		    e);
	sample_free(&sample);
	free(cells);
	free(copy);
	free(second);
	return rc;
}

/* Is this the line "sep=;" that Excel writes and reads? */
static bool names_separator(const char *line)
{
	size_t quote = *line == '"';

	return strncasecmp(line + quote, "sep=", 4) == 0 && strlen(line) <= 5 + 2 * quote;
}

/* Does a separator divide both records into the same number of cells? Decimal commas may be more
 * frequent than the separator in the second one. */
static bool have_same_cells(const char *first, const char *second)
{
	char sep = data_cells_separator(first, second);
	size_t n = data_cells_count(first, sep);

	return sep != ' ' && n > 1 && n == data_cells_count(second, sep);
}

enum err_code data_csv_is_comment(struct csv_table *t, const char *line, bool *out, struct err *e)
{
	bool marked = *line == '#' || *line == '|';
	size_t cells, below;
	char *second, sep;
	enum err_code rc;

	*out = !t->o->decided.known && names_separator(line);
	if (*out || t->o->decided.known ||
	    (!marked && (t->o->decided.heading == DATA_HEADING_NONE || !is_header_name(line))))
		return ERR_OK;
	rc = peek_record(t, &second, e);
	if (rc || !second)
		return rc;
	sep = data_cells_separator(second, NULL);
	cells = data_cells_count(line, sep);
	below = data_cells_count(second, sep);
	*out = marked ? cells != below
	              : cells == 1 && below > 1 && sep != ' ' && !have_same_cells(line, second);
	free(second);
	return ERR_OK;
}
