/* SPDX-License-Identifier: ISC */
#include "data/data_table.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <strings.h>

#include "core/map.h"
#include "core/mem.h"
#include "core/names.h"
#include "core/num.h"
#include "core/suggest.h"
#include "data/data_cells.h"
#include "data/data_compact.h"
#include "data/data_num.h"
#include "data/data_schema.h"

/* Different values of all categories together; more are hashed. */
#define VALUES_MAX (1u << 20)
#define HASH_BITS  22
#define NO_COLUMN  SIZE_MAX

enum scaling { SCALE_NONE, SCALE_STANDARD, SCALE_MINMAX, SCALE_AUTO };
static const char *const scaling_name[] = { "none", "standard", "minmax", "auto", NULL };
/* A column is moderate, and not scaled, if it lies within -1 and 1, is at least MODERATE_RANGE
 * wide, and has whole numbers only, or a deviation of at least MODERATE_DEVIATION, or is more than
 * RARE_DEVIATIONS deviations wide: then nearly all rows have one value, and scaling would make the
 * rare values the largest features. */
#define MODERATE_RANGE     0.5
#define MODERATE_DEVIATION 0.25
#define RARE_DEVIATIONS    12
/* Wider tables are scaled only where the path says it: each column is an entry of the facts about the
 * data, which all workers get and each model has. */
#define UNASKED_COLUMNS 4096u

/* The features of the row being read, in arrays that are used again for the next one. */
struct row {
	uint32_t *id;
	float *val;
	uint16_t *field;
	size_t n, room;
	size_t numbers; /* how many cells of columns of numbers it has had */
	size_t labels;  /* how many targets it has had */
	uint64_t stamp; /* counts rows */
};

struct data_table {
	const struct data_schema *schema; /* `own`, or that of the training data */
	struct data_schema *own;          /* NULL for evaluation data */
	bool extends;                     /* new values are added to `schema` in the end */
	enum scaling scaling;
	/* The file's separator, and the column of the schema for each column of the file
	 * (NO_COLUMN: it is not used). */
	char sep;
	size_t width, *column;
	bool keyed;     /* the file's columns have no places */
	bool dense;     /* rows are built as dense rows (data_schema_is_numeric) */
	size_t targets; /* of each row */
	bool weighted;  /* and one of weights */
	struct row row;
	uint64_t *given; /* by column of the schema: the stamp of the last row that had it */
	/* Values so far, by "column\037text" (the number, plus 1). */
	struct map *numbers;
	struct data_value *value; /* in the order of appearance */
	uint32_t nvalues, value_room;
	uint32_t values_before; /* of these, the values of the rows that have ended */
};

void data_table_free(struct data_table *t)
{
	if (!t)
		return;
	for (uint32_t i = 0; i < t->nvalues; i++)
		free(t->value[i].text);
	free(t->value);
	map_free(t->numbers);
	data_schema_free(t->own);
	free(t->row.id);
	free(t->row.val);
	free(t->row.field);
	free(t->given);
	free(t->column);
	free(t);
}

bool data_table_lacks_label(const char *cell)
{
	static const char *const mark[] = { "", "?", "NA", "nan", "null" };

	for (size_t i = 0; i < sizeof mark / sizeof mark[0]; i++)
		if (strcasecmp(cell, mark[i]) == 0)
			return true;
	return false;
}

const struct data_schema *data_table_schema(const struct data_build *b)
{
	return b->table ? b->table->schema : b->like ? b->like->schema : NULL;
}

/* The index of a text in a list of an option's words; 0 for NULL. */
static int word_index(const char *text, const char *const *word)
{
	int i = 0;

	while (text && word[i] && strcmp(word[i], text) != 0)
		i++;
	return i;
}

/* How the numbers of a table with so many columns are scaled: as the path says, or else as the model wants
 * it. */
static enum scaling choose_scaling(const struct data_build *b, const struct data_options *o,
    size_t width)
{
	const char *wanted = o->norm || width > UNASKED_COLUMNS ? NULL : b->scale;

	return (enum scaling)word_index(o->scale ? o->scale : wanted, scaling_name);
}

bool data_table_is_wanted(const struct data_build *b, const struct data_options *o, size_t width)
{
	return o->categories || o->ignore || o->id || o->missing || o->columns || o->weight ||
	    o->group || o->bits || choose_scaling(b, o, width) != SCALE_NONE;
}

/* ---- the schema of training data ---- */

/* Finds the column that `at` names, by its name or its number from 1; `at` ends at a comma or a NUL. */
static enum err_code find_column(const struct data_schema *s, const struct stream *in,
    const char *option, const char *at, size_t *out, struct err *e)
{
	size_t n = strcspn(at, ",");
	char *word = mem_printf("%.*s", (int)n, at);
	const char **names = mem_array(s->ncolumns + 1, sizeof *names), *near;
	enum err_code rc = ERR_OK;
	int64_t number;

	*out = NO_COLUMN;
	for (size_t i = 0; i < s->ncolumns; i++) {
		names[i] = s->column[i].name;
		if (strcmp(names[i], word) == 0)
			*out = i;
	}
	if (*out == NO_COLUMN && num_int(word, 1, (int64_t)s->ncolumns, &number))
		*out = (size_t)number - 1;
	near = suggest(word, names, s->ncolumns);
	if (*out == NO_COLUMN)
		rc = err_set(e, ERR_CONFIG, "%s: %s=%.60s: there is no such column%s%.60s%s",
		    stream_name(in), option, word, near ? "; did you mean \"" : "",
		    near ? near : "", near ? "\"?" : "");
	free(names);
	free(word);
	return rc;
}

/* Gives the listed columns this kind. The label keeps its kind. */
static enum err_code set_kinds(struct data_schema *s, const struct stream *in, const char *option,
    const char *list, enum data_column_kind kind, struct err *e)
{
	enum err_code rc = ERR_OK;
	size_t i;

	for (const char *at = list ? names_first(list) : NULL; at && !rc; at = names_next(at)) {
		rc = find_column(s, in, option, at, &i, e);
		if (!rc && s->column[i].kind != DATA_LABEL)
			s->column[i].kind = kind;
	}
	return rc;
}

/* The name of column i: from ?columns=, from the header, or its number from 1. */
static char *name_column(const struct data_options *o, const struct data_table_shape *shape,
    size_t i)
{
	const char *at = o->columns ? names_first(o->columns) : NULL;

	for (size_t k = 0; at && k < i; k++)
		at = names_next(at);
	if (at)
		return mem_printf("%.*s", (int)strcspn(at, ","), at);
	return shape->name ? mem_strdup(shape->name[i]) : mem_printf("%zu", i + 1);
}

static enum err_code check_column_names(const struct data_options *o, const struct stream *s,
    size_t width, struct err *e)
{
	size_t n = 0;

	for (const char *at = o->columns ? names_first(o->columns) : NULL; at; at = names_next(at))
		n++;
	if (n && n != width)
		return err_set(e, ERR_CONFIG,
		    "%s: columns= names %zu columns, but the file has %zu", stream_name(s), n,
		    width);
	return ERR_OK;
}

/* Finds out from the first lines what column i holds. */
static struct data_column guess_column(const struct data_options *o,
    const struct data_table_shape *shape, size_t i)
{
	const struct data_column_look *look = &shape->look[i];
	size_t target = 0;
	bool label;

	while (target < shape->nlabels && shape->label[target] != i)
		target++;
	label = target < shape->nlabels;
	return (struct data_column){ .name = name_column(o, shape, i),
		.kind = label    ? DATA_LABEL
		    : look->text ? DATA_CATEGORY
		                 : DATA_NUMBER,
		.first = label ? (uint32_t)target : 0,
		.form = look->form,
		.unit = *look->unit ? mem_strdup(look->unit) : NULL,
		.words = look->words && !label,
		.factor = 1 };
}

static enum err_code set_all_kinds(struct data_schema *m, const struct stream *s,
    const struct data_options *o, struct err *e)
{
	const struct {
		const char *option, *list;
		enum data_column_kind kind;
	} given[] = { { "categories", o->categories, DATA_CATEGORY },
		{ "weight", o->weight, DATA_WEIGHT }, { "ignore", o->ignore, DATA_IGNORED },
		{ "id", o->id, DATA_ID } };
	enum err_code rc = ERR_OK;
	size_t group;

	for (size_t i = 0; !rc && i < sizeof given / sizeof given[0]; i++)
		rc = set_kinds(m, s, given[i].option, given[i].list, given[i].kind, e);
	if (!rc && o->group)
		rc = find_column(m, s, "group", o->group, &group, e);
	if (!rc && o->group)
		m->column[group].group = true;
	return rc;
}

static enum err_code make_schema(struct data_build *b, const struct stream *s,
    const struct data_options *o, const struct data_table_shape *shape, struct err *e)
{
	static const char *const missing[] = { "mean", "zero", "category", NULL };
	struct data_table *t = b->table;
	struct data_schema *m = t->own = mem_alloc(sizeof *m);
	enum err_code rc = check_column_names(o, s, shape->width, e);

	if (rc)
		return rc;
	if (o->bits > DATA_SCHEMA_BITS)
		return err_set(e, ERR_CONFIG, "%s: bits=%d: must be at most %d for a table",
		    stream_name(s), o->bits, DATA_SCHEMA_BITS);
	if (shape->nlabels > DATA_SCHEMA_TARGETS)
		return err_set(e, ERR_CONFIG,
		    "%s: label= names %zu columns; at most %u may be labels", stream_name(s),
		    shape->nlabels, DATA_SCHEMA_TARGETS);
	m->column = mem_array(shape->width, sizeof *m->column);
	m->ncolumns = shape->width;
	m->named = shape->name || o->columns;
	m->bits = (unsigned)o->bits;
	m->missing = (enum data_missing)word_index(o->missing, missing);
	t->scaling = choose_scaling(b, o, shape->width);
	for (size_t i = 0; i < m->ncolumns; i++)
		m->column[i] = guess_column(o, shape, i);
	rc = set_all_kinds(m, s, o, e);
	for (size_t i = 0; i < m->ncolumns; i++)
		if (m->column[i].kind == DATA_NUMBER)
			m->column[i].first = (uint32_t)m->numbers++;
	/* data_table_finish decides it where there are categories, which are not known yet. */
	m->dense = true;
	m->dense = data_schema_is_numeric(m);
	t->schema = m;
	t->numbers = map_new();
	return rc;
}

/* ---- the columns of a file ---- */

/* Does a column of this kind give features? */
static bool gives_features(const struct data_column *c)
{
	return c->kind == DATA_NUMBER || c->kind == DATA_CATEGORY;
}

enum err_code data_table_fail_missing(const struct stream *s, const char *const *names, size_t n,
    const char *missing, struct err *e)
{
	const char *near = suggest(missing, names, n);

	for (size_t i = 0; i < n; i++)
		if (strcasecmp(names[i], missing) == 0)
			near = names[i];
	return stream_fail(s, e, "has no column \"%.60s\", but the training data has one%s%.60s%s",
	    missing, near ? "; did you mean \"" : "", near ? near : "", near ? "\"?" : "");
}

/* Columns with names are found by name, in any order; those of one name in their order. Labels, weights of
 * evaluation data and unused columns may be missing. */
static enum err_code match_by_name(struct data_table *t, const struct stream *s,
    const struct data_table_shape *shape, struct err *e)
{
	const struct data_schema *m = t->schema;

	for (size_t i = 0; i < shape->width; i++)
		t->column[i] = NO_COLUMN;
	for (size_t k = 0; k < m->ncolumns; k++) {
		size_t i = 0;

		while (i < shape->width &&
		    (t->column[i] != NO_COLUMN || strcmp(shape->name[i], m->column[k].name) != 0))
			i++;
		if (i < shape->width)
			t->column[i] = k;
		else if (gives_features(&m->column[k]) ||
		    (t->own && m->column[k].kind == DATA_WEIGHT))
			return data_table_fail_missing(s, (const char *const *)shape->name,
			    shape->width, m->column[k].name, e);
	}
	return ERR_OK;
}

/* Matches columns without names by their place. A file that lacks as many columns as there are targets
 * has no labels. */
static enum err_code match_by_place(struct data_table *t, const struct stream *s,
    const struct data_table_shape *shape, struct err *e)
{
	const struct data_schema *m = t->schema;
	bool unlabelled = shape->width + t->targets == m->ncolumns;

	if (shape->width != m->ncolumns && !unlabelled)
		return stream_fail(s, e, "has %zu column%s, expected %zu", shape->width,
		    NUM_S(shape->width), m->ncolumns);
	for (size_t k = 0, i = 0; k < m->ncolumns; k++)
		if (!unlabelled || m->column[k].kind != DATA_LABEL)
			t->column[i++] = k;
	return ERR_OK;
}

/* The kind of a column of the file; DATA_IGNORED where the schema does not have it. */
static enum data_column_kind kind_of(const struct data_table *t, size_t place)
{
	size_t k = t->column[place];

	return k == NO_COLUMN ? DATA_IGNORED : t->schema->column[k].kind;
}

/* Checks that the file has a column for each target. */
static enum err_code check_labels(const struct data_table *t, const struct stream *s, struct err *e)
{
	size_t n = 0;

	for (size_t k = 0; k < t->targets; k++) {
		const struct data_column *c = data_schema_label(t->schema, k);
		size_t i = 0;

		while (i < t->width && t->column[i] != (size_t)(c - t->schema->column))
			i++;
		if (i < t->width)
			n++;
		else if (t->targets > 1)
			return stream_fail(s, e,
			    "has no column \"%.60s\", which is a target of the training data",
			    c->name);
	}
	return n ? ERR_OK : stream_fail(s, e, "has no label column");
}

enum err_code data_table_open(struct data_build *b, const struct stream *s,
    const struct data_options *o, const struct data_table_shape *shape, struct err *e)
{
	struct data_table *t = b->table;
	enum err_code rc = ERR_OK;

	if (o->norm)
		return err_set(e, ERR_CONFIG,
		    "%s: norm= requires rows of numbers only; use scale=", stream_name(s));
	if (shape->width > DATA_SCHEMA_COLUMNS)
		return stream_fail(s, e,
		    "has %zu columns; tables with text or missing cells have at most %u",
		    shape->width, DATA_SCHEMA_COLUMNS);
	if (b->d->rows > 0 && !t)
		return stream_fail(s, e, "has text or missing cells, but %s has none", b->first);
	if (b->like && !b->like->schema)
		return stream_fail(s, e,
		    "has text or missing cells, but the training data (%s) has none",
		    b->like->source);
	if (!t)
		t = b->table = mem_alloc(sizeof *t);
	if (!t->schema && b->like) {
		t->schema = b->like->schema;
		t->extends = b->extends;
		t->numbers = t->extends ? map_new() : NULL;
	} else if (!t->schema)
		rc = make_schema(b, s, o, shape, e);
	if (rc)
		return rc;
	t->targets = data_schema_targets(t->schema);
	rc = data_label_set_targets(b->label, s, t->targets ? t->targets : 1, e);
	if (rc)
		return rc;
	t->dense = data_schema_is_numeric(t->schema);
	if (t->dense)
		b->d->cols = t->schema->numbers;
	free(t->column);
	t->column = mem_array(shape->width + 1, sizeof *t->column);
	if (!t->given)
		t->given = mem_array(t->schema->ncolumns + 1, sizeof *t->given);
	t->width = shape->width;
	t->sep = shape->sep;
	t->keyed = shape->keyed;
	rc = shape->name && t->schema->named ? match_by_name(t, s, shape, e)
	                                     : match_by_place(t, s, shape, e);
	t->weighted = false;
	for (size_t i = 0; i < t->width; i++)
		t->weighted |= kind_of(t, i) == DATA_WEIGHT;
	return rc || data_label_is_ignored(b->label) ? rc : check_labels(t, s, e);
}

/* ---- rows ---- */

/* The name of a value in the map of their numbers, as a new string. */
static char *value_key(size_t column, const char *text)
{
	return mem_printf("%zu\037%s", column, text);
}

/* The number of a category's value in the order of appearance, which is added if it is new.
 * UINT32_MAX: there are too many. */
static uint32_t number_value(struct data_table *t, size_t column, const char *text)
{
	char *key = value_key(column, text);
	uintptr_t number = (uintptr_t)map_get(t->numbers, key);

	if (!number && t->nvalues < VALUES_MAX) {
		if (t->nvalues == t->value_room) {
			t->value_room = t->value_room ? 2 * t->value_room : 256;
			t->value = mem_regrow(t->value, t->value_room, sizeof *t->value);
		}
		t->value[t->nvalues] = (struct data_value){ (uint32_t)column, mem_strdup(text) };
		number = ++t->nvalues;
		map_put(t->numbers, key, (void *)number);
	}
	free(key);
	return number ? (uint32_t)(number - 1) : UINT32_MAX;
}

static void put_cell(struct row *r, size_t id, float val, size_t column)
{
	if (r->n == r->room) {
		r->room = r->room ? 2 * r->room : 64;
		r->id = mem_regrow(r->id, r->room, sizeof *r->id);
		r->val = mem_regrow(r->val, r->room, sizeof *r->val);
		r->field = mem_regrow(r->field, r->room, sizeof *r->field);
	}
	r->id[r->n] = (uint32_t)id;
	r->val[r->n] = val;
	r->field[r->n++] = (uint16_t)column;
}

/* Fills e with the place of a cell, by the number of its column where columns have one, and a text. */
__attribute__((format(printf, 5, 6))) static enum err_code fail_cell(const struct data_table *t,
    const struct stream *s, size_t place, struct err *e, const char *fmt, ...)
{
	char text[400];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	return stream_fail_at(s, t->keyed ? 0 : place + 1, e, "%s", text);
}

/* Hashes values from now on, and those so far, of which only the first keep their names. Takes a moment,
 * once, when a dictionary would become too large. */
static void begin_hashing(struct data_build *b)
{
	struct data_table *t = b->table;
	struct data_schema *m = t->own;
	uint32_t *place = mem_array(t->nvalues + 1, sizeof *place), *col = b->d->col;

	m->bits = HASH_BITS;
	for (uint32_t i = 0; i < t->nvalues; i++)
		place[i] = (uint32_t)data_schema_find(m, &m->column[t->value[i].column],
		    t->value[i].text);
	for (size_t i = 0; i < t->row.n; i++)
		if (t->row.id[i] >= m->numbers)
			t->row.id[i] = place[t->row.id[i] - m->numbers];
	if (b->seen)
		memset(b->seen, 0, DATA_DIRECT);
	b->min_id = UINT64_MAX;
	for (uint64_t k = 0; k < b->nnz; k++) {
		if (col[k] >= m->numbers)
			col[k] = place[col[k] - m->numbers];
		if (b->seen && col[k] < DATA_DIRECT)
			b->seen[col[k]] = 1;
		b->max_id = col[k] > b->max_id ? col[k] : b->max_id;
		b->min_id = col[k] < b->min_id ? col[k] : b->min_id;
	}
	for (uint32_t i = DATA_SCHEMA_NAMED; i < t->nvalues; i++)
		free(t->value[i].text);
	t->nvalues = t->nvalues < DATA_SCHEMA_NAMED ? t->nvalues : DATA_SCHEMA_NAMED;
	free(place);
}

/* Sets *id to the feature of a value that the model lacks. New features follow the known ones.
 * ERR_FORMAT: there are too many. */
static enum err_code take_new_value(struct data_table *t, const struct stream *s, size_t k,
    const char *text, size_t *id, struct err *e)
{
	uint32_t number = number_value(t, k, text);

	if (number == UINT32_MAX)
		return stream_fail(s, e,
		    "the categories have more than %u values that the model lacks; if column "
		    "\"%.60s\" is not a category, leave it out by ?ignore=",
		    VALUES_MAX, t->schema->column[k].name);
	*id = data_schema_features(t->schema) + number;
	return ERR_OK;
}

/* The feature of a value of training data. */
static size_t own_value(struct data_build *b, size_t k, const char *text)
{
	struct data_table *t = b->table;
	const struct data_schema *m = t->own;
	uint32_t number = 0;

	if (!m->bits || t->nvalues < DATA_SCHEMA_NAMED)
		number = number_value(t, k, text);
	if (number == UINT32_MAX)
		begin_hashing(b);
	return m->bits ? data_schema_find(m, &m->column[k], text) : m->numbers + number;
}

static enum err_code take_category(struct data_build *b, const struct stream *s, size_t k,
    const char *text, struct err *e)
{
	struct data_table *t = b->table;
	enum err_code rc = ERR_OK;
	size_t id;

	if (t->schema->missing == DATA_MISSING_CATEGORY && data_form_is_missing(text))
		text = DATA_MISSING_TEXT;
	id = t->own ? own_value(b, k, text)
	            : data_schema_find(t->schema, &t->schema->column[k], text);
	if (id == SIZE_MAX && t->extends)
		rc = take_new_value(t, s, k, text, &id, e);
	if (!rc && id != SIZE_MAX)
		put_cell(&t->row, id, 1, k);
	return rc;
}

static void take_cell_number(struct data_table *t, size_t k, double v)
{
	/* NAN: data_table_finish puts in what a missing cell stands for. */
	put_cell(&t->row, t->schema->column[k].first, (float)v, k);
	t->row.numbers++;
}

static enum err_code take_missing(struct data_build *b, const struct stream *s, size_t k,
    struct err *e)
{
	struct data_table *t = b->table;

	if (t->schema->column[k].kind == DATA_NUMBER)
		take_cell_number(t, k, (double)NAN);
	return t->schema->missing == DATA_MISSING_CATEGORY
	    ? take_category(b, s, k, DATA_MISSING_TEXT, e)
	    : ERR_OK;
}

static enum err_code take_number_text(struct data_build *b, const struct stream *s, size_t place,
    size_t k, const char *text, struct err *e)
{
	struct data_table *t = b->table;
	const struct data_column *c = &t->schema->column[k];
	char shown[DATA_SHOWN];
	double v;

	if (data_form_number(c->form, c->unit, text, &v) && isfinite((float)v)) {
		take_cell_number(t, k, v);
	} else if (data_form_is_missing(text)) {
		return take_missing(b, s, k, e);
	} else if (c->words) {
		take_cell_number(t, k, (double)NAN);
		return take_category(b, s, k, text, e);
	} else {
		data_shown(shown, text, strlen(text));
		return t->own
		    ? fail_cell(t, s, place, e,
		          "\"%s\" in the column of numbers \"%.60s\"; correct or empty the cell, "
		          "or, if the column has categories, use ?categories=%.60s",
		          shown, c->name, c->name)
		    : fail_cell(t, s, place, e,
		          "\"%s\" in the column of numbers \"%.60s\"; correct or empty the cell",
		          shown, c->name);
	}
	return ERR_OK;
}

static enum err_code take_weight(struct data_build *b, const struct stream *s, size_t place,
    size_t k, const char *text, struct err *e)
{
	const struct data_column *c = &b->table->schema->column[k];
	char shown[DATA_SHOWN];
	double v;

	if (data_form_number(c->form, c->unit, text, &v) && isfinite((float)v) && v >= 0)
		return data_build_weight(b, s, v, e);
	data_shown(shown, text, strlen(text));
	return fail_cell(b->table, s, place, e,
	    "\"%s\" in the column of weights \"%.60s\"; a weight must be a number of at least 0",
	    shown, c->name);
}

static enum err_code take_group(struct data_build *b, const struct stream *s, size_t k,
    const char *text, struct err *e)
{
	return b->table->schema->column[k].group && !data_form_is_missing(text)
	    ? data_build_group(b, s, text, e)
	    : ERR_OK;
}

/* Begins a cell of labels. False: labels do not matter, and the cell is left out. */
static bool begin_label(struct data_build *b, size_t k)
{
	if (data_label_is_ignored(b->label))
		return false;
	b->table->row.labels++;
	data_label_select(b->label, b->table->schema->column[k].first);
	return true;
}

static enum err_code take_label(struct data_build *b, const struct stream *s, size_t k,
    const char *text, struct err *e)
{
	const struct data_column *c = &b->table->schema->column[k];
	double v;

	if (data_table_lacks_label(text) || !begin_label(b, k))
		return ERR_OK;
	return (c->form || c->unit) && data_form_number(c->form, c->unit, text, &v)
	    ? data_label_number(b->label, s, v, e)
	    : data_label_text(b->label, s, text, e);
}

/* The schema's column of a place, which the row has now. NO_COLUMN: it is not used. */
static size_t begin_cell(struct data_table *t, size_t place)
{
	size_t k = t->column[place];

	if (k != NO_COLUMN)
		t->given[k] = t->row.stamp;
	return k;
}

enum err_code data_table_text(struct data_build *b, const struct stream *s, size_t place,
    const char *text, struct err *e)
{
	struct data_table *t = b->table;
	size_t k = begin_cell(t, place);
	enum err_code rc;

	if (k == NO_COLUMN)
		return ERR_OK;
	rc = take_group(b, s, k, text, e);
	if (rc)
		return rc;
	switch (t->schema->column[k].kind) {
	case DATA_NUMBER:
		return take_number_text(b, s, place, k, text, e);
	case DATA_CATEGORY:
		return take_category(b, s, k, text, e);
	case DATA_LABEL:
		return take_label(b, s, k, text, e);
	case DATA_WEIGHT:
		return take_weight(b, s, place, k, text, e);
	default:
		return ERR_OK;
	}
}

enum err_code data_table_number(struct data_build *b, const struct stream *s, size_t place,
    double v, struct err *e)
{
	struct data_table *t = b->table;
	size_t k = begin_cell(t, place);
	const struct data_column *c = k == NO_COLUMN ? NULL : &t->schema->column[k];
	enum err_code rc = ERR_OK;
	char text[32];

	if (!c)
		return ERR_OK;
	if (c->group || c->kind == DATA_CATEGORY || c->kind == DATA_WEIGHT)
		num_format(v, text);
	if (c->group)
		rc = take_group(b, s, k, text, e);
	if (rc)
		return rc;
	switch (c->kind) {
	case DATA_NUMBER:
		if (!isfinite((float)v))
			return fail_cell(t, s, place, e,
			    "%g in the column of numbers \"%.60s\" is not a finite float32 number",
			    v, c->name);
		take_cell_number(t, k, v);
		return ERR_OK;
	case DATA_LABEL:
		return begin_label(b, k) ? data_label_number(b->label, s, v, e) : ERR_OK;
	case DATA_CATEGORY:
	case DATA_WEIGHT:
		return data_table_text(b, s, place, text, e);
	default:
		return ERR_OK;
	}
}

enum err_code data_table_integer(struct data_build *b, const struct stream *s, size_t place,
    int64_t v, struct err *e)
{
	struct data_table *t = b->table;
	size_t k = t->column[place];
	const struct data_column *c = k == NO_COLUMN ? NULL : &t->schema->column[k];
	char text[24];

	if (c && c->kind == DATA_NUMBER && c->form == DATA_PLAIN && !c->unit && !c->group)
		return data_table_number(b, s, place, (double)v, e);
	snprintf(text, sizeof text, "%" PRId64, v);
	return data_table_text(b, s, place, text, e);
}

static bool names_groups(const struct data_table *t, size_t place)
{
	return t->column[place] != NO_COLUMN && t->schema->column[t->column[place]].group;
}

bool data_table_uses(const struct data_build *b, size_t place)
{
	enum data_column_kind kind = kind_of(b->table, place);

	return (kind != DATA_IGNORED && kind != DATA_ID) || names_groups(b->table, place);
}

bool data_table_takes_several(const struct data_build *b, size_t place)
{
	return kind_of(b->table, place) == DATA_CATEGORY;
}

bool data_table_has(const struct data_build *b, size_t place)
{
	const struct data_table *t = b->table;

	return t->column[place] != NO_COLUMN && t->given[t->column[place]] == t->row.stamp;
}

void data_table_begin(struct data_build *b)
{
	struct row *r = &b->table->row;

	r->n = r->numbers = r->labels = 0;
	r->stamp++;
}

/* Columns of numbers that the row has not had are missing, as are those of categories where this is a
 * category of its own. */
static enum err_code add_missing(struct data_build *b, const struct stream *s, struct err *e)
{
	const struct data_table *t = b->table;
	const struct data_schema *m = t->schema;
	bool all = m->missing == DATA_MISSING_CATEGORY;
	enum err_code rc = ERR_OK;

	for (size_t k = 0; !rc && (all || t->row.numbers < m->numbers) && k < m->ncolumns; k++)
		if (t->given[k] != t->row.stamp &&
		    (m->column[k].kind == DATA_NUMBER || m->column[k].kind == DATA_CATEGORY))
			rc = take_missing(b, s, k, e);
	return rc;
}

static int compare_ids(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

/* A text that a column has several times in a row counts once. The cells of a column stand side by
 * side, and those of a column of categories have the value 1; a column of numbers has its number first. */
static void drop_repeated(struct row *r)
{
	size_t left = 0, n;

	for (size_t i = 0; i < r->n; i += n) {
		for (n = 1; i + n < r->n && r->field[i + n] == r->field[i]; n++)
			;
		if (n > 1)
			qsort(r->id + i, n, sizeof *r->id, compare_ids);
		for (size_t k = i; k < i + n; k++) {
			if (k > i && r->id[k] == r->id[k - 1])
				continue;
			r->id[left] = r->id[k];
			r->val[left] = r->val[k];
			r->field[left++] = r->field[k];
		}
	}
	r->n = left;
}

/* Has the file a column of weights, and the row none? */
static enum err_code check_weight(const struct data_table *t, const struct stream *s, struct err *e)
{
	for (size_t i = 0; t->weighted && i < t->width; i++)
		if (t->column[i] != NO_COLUMN &&
		    t->schema->column[t->column[i]].kind == DATA_WEIGHT &&
		    t->given[t->column[i]] != t->row.stamp)
			return stream_fail(s, e, "has no weight in column \"%.60s\"",
			    t->schema->column[t->column[i]].name);
	return ERR_OK;
}

/* Appends the row's features as a sparse row. */
static enum err_code append_sparse_row(struct data_build *b, const struct stream *s, struct err *e)
{
	const struct row *r = &b->table->row;
	uint32_t *id;
	uint64_t *wide;
	float *val;
	uint16_t *field;
	enum err_code rc = data_build_sparse(b, s, r->n + 1, &id, &wide, &val, e);

	if (!rc)
		rc = data_build_fields(b, s, &field, e);
	if (rc)
		return rc;
	if (r->n) {
		memcpy(id, r->id, r->n * sizeof *id);
		memcpy(val, r->val, r->n * sizeof *val);
		memcpy(field, r->field, r->n * sizeof *field);
	}
	data_build_row(b, r->n);
	return ERR_OK;
}

/* Appends the row's features, all of which are columns of numbers, as a dense row. */
static enum err_code append_dense_row(struct data_build *b, const struct stream *s, struct err *e)
{
	const struct row *r = &b->table->row;
	float *x;
	enum err_code rc = data_build_dense(b, s, b->table->schema->numbers, 1, &x, e);

	if (rc)
		return rc;
	for (size_t i = 0; i < r->n; i++)
		x[r->id[i]] = r->val[i];
	data_build_rows(b, 1);
	return ERR_OK;
}

bool data_table_takes_plain(const struct data_build *b, size_t *label, size_t *feature)
{
	const struct data_table *t = b->table;

	*label = t->width;
	if (t->targets > 1)
		return false;
	for (size_t i = 0; i < t->width; i++) {
		const struct data_column *c = t->column[i] == NO_COLUMN
		    ? NULL
		    : &t->schema->column[t->column[i]];

		/* A cell that is not used may be any text. */
		if (!t->dense || !c || (c->kind != DATA_NUMBER && c->kind != DATA_LABEL) ||
		    c->form != DATA_PLAIN || c->unit || c->group)
			return false;
		feature[i] = c->kind == DATA_NUMBER ? c->first : DATA_TABLE_NO_FEATURE;
		if (c->kind == DATA_LABEL)
			*label = i;
	}
	return true;
}

enum err_code data_table_end(struct data_build *b, const struct stream *s, struct err *e)
{
	struct data_table *t = b->table;
	struct row *r = &t->row;
	enum err_code rc;

	if (r->labels < t->targets && !data_label_is_ignored(b->label)) {
		data_label_drop(b->label, b->d->rows);
		b->d->unlabelled++;
		return ERR_OK;
	}
	drop_repeated(r);
	rc = add_missing(b, s, e);
	if (!rc && data_label_is_ignored(b->label))
		rc = data_label_number(b->label, s, 0, e);
	if (!rc)
		rc = check_weight(t, s, e);
	if (!rc)
		rc = t->dense ? append_dense_row(b, s, e) : append_sparse_row(b, s, e);
	if (!rc)
		t->values_before = t->nvalues;
	return rc;
}

void data_table_drop(struct data_build *b)
{
	struct data_table *t = b->table;

	while (t->nvalues > t->values_before) {
		struct data_value *v = &t->value[--t->nvalues];
		char *key = value_key(v->column, v->text);

		map_put(t->numbers, key, NULL);
		free(key);
		free(v->text);
	}
}

enum err_code data_table_row(struct data_build *b, const struct stream *s, char *record,
    struct err *e)
{
	struct data_table *t = b->table;
	size_t place = 0;
	enum err_code rc = ERR_OK;

	data_table_begin(b);
	for (; record; place++) {
		const char *text = data_cells_next(&record, t->sep);

		if (!text && !rc)
			rc = fail_cell(t, s, place, e,
			    "the quotes of the cell do not match; write a quote within quotes "
			    "twice");
		if (!text)
			return rc;
		if (place < t->width && !rc)
			rc = data_table_text(b, s, place, text, e);
	}
	/* In a record of another width, a cell may be wrong because it stands in a wrong column. */
	if (place != t->width && (!rc || rc == ERR_FORMAT))
		return stream_fail(s, e, DATA_CELLS_WIDTH, place, NUM_S(place), t->width,
		    data_cells_width_remedy(place, t->width, stream_lineno(s)));
	return rc ? rc : data_table_end(b, s, e);
}

/* ---- the end ---- */

static int compare_values(const void *a, const void *b)
{
	const struct data_value *x = *(const struct data_value *const *)a,
	                        *y = *(const struct data_value *const *)b;

	return x->column != y->column ? (x->column > y->column) - (x->column < y->column)
	                              : strcmp(x->text, y->text);
}

/* Gives the entries the features of the sorted values. rank: the new number of each value. */
static void renumber_entries(struct data_build *b, const uint32_t *rank)
{
	size_t numbers = b->table->own->numbers;

	for (uint64_t k = 0; k < b->nnz; k++)
		if (b->d->col[k] >= numbers)
			b->d->col[k] = (uint32_t)numbers + rank[b->d->col[k] - numbers];
}

/* Sorts the values of categories into the schema, and gives the entries their final features. */
static void sort_values(struct data_build *b)
{
	struct data_table *t = b->table;
	struct data_schema *s = t->own;
	const struct data_value **order = mem_array(t->nvalues + 1, sizeof *order);
	uint32_t *rank = mem_array(t->nvalues + 1, sizeof *rank);

	for (uint32_t i = 0; i < t->nvalues; i++)
		order[i] = &t->value[i];
	qsort(order, t->nvalues, sizeof *order, compare_values);
	s->value = mem_array(t->nvalues + 1, sizeof *s->value);
	s->nvalues = t->nvalues;
	for (uint32_t i = 0; i < t->nvalues; i++) {
		struct data_column *c = &s->column[order[i]->column];

		if (c->count++ == 0)
			c->value = i;
		s->value[i] = mem_strdup(order[i]->text);
		rank[order[i] - t->value] = i;
	}
	if (s->bits)
		data_schema_name_values(s);
	else
		renumber_entries(b, rank);
	free(order);
	free(rank);
}

static int compare_new_values(const void *a, const void *b)
{
	return compare_values(&(const struct data_value *){ a }, &(const struct data_value *){ b });
}

/* Adds the new values to the schema of the data before, and gives the entries their final features. */
static void add_new_values(struct data_build *b)
{
	struct data_table *t = b->table;
	size_t known = data_schema_features(t->schema);
	uint32_t *rank = mem_array(t->nvalues + 1, sizeof *rank);
	struct data_value *sorted = mem_array(t->nvalues + 1, sizeof *sorted);

	if (t->nvalues)
		memcpy(sorted, t->value, t->nvalues * sizeof *sorted);
	qsort(sorted, t->nvalues, sizeof *sorted, compare_new_values);
	t->own = data_schema_extend(t->schema, sorted, t->nvalues);
	for (uint32_t i = 0; i < t->nvalues; i++)
		rank[i] = (uint32_t)data_schema_find(t->own, &t->own->column[t->value[i].column],
		    t->value[i].text);
	for (uint64_t k = 0; k < b->nnz; k++)
		if (b->d->col[k] >= known)
			b->d->col[k] = rank[b->d->col[k] - known];
	t->schema = t->own;
	free(sorted);
	free(rank);
}

/* Figures of a column of numbers, over the cells that are not missing. */
struct figures {
	uint64_t n, whole;                /* whole: those without a fraction */
	double sum, squares, least, most; /* squares: of the distances from the mean */
};

static bool is_moderate(const struct figures *f)
{
	double range = f->most - f->least, deviation = sqrt(f->squares / (double)f->n);

	return f->least >= -1 && f->most <= 1 && range >= MODERATE_RANGE &&
	    (f->whole == f->n || deviation >= MODERATE_DEVIATION ||
	        range > RARE_DEVIATIONS * deviation);
}

static void compute_scaling(const struct figures *f, enum scaling scaling, struct data_column *c)
{
	double spread = 0;

	c->mean = f->n ? f->sum / (double)f->n : 0;
	if (scaling == SCALE_AUTO)
		scaling = is_moderate(f) ? SCALE_NONE : SCALE_STANDARD;
	if (scaling == SCALE_STANDARD && f->n) {
		c->shift = (float)c->mean;
		spread = sqrt(f->squares / (double)f->n);
	} else if (scaling == SCALE_MINMAX && f->n) {
		c->shift = (float)f->least;
		spread = f->most - f->least;
	}
	/* A column with one value becomes 0 by its shift. */
	if (spread > 0 && isfinite((float)(1 / spread)))
		c->factor = (float)(1 / spread);
}

static void count_number(struct figures *f, double v)
{
	if (isnan(v))
		return;
	f->least = f->n == 0 || v < f->least ? v : f->least;
	f->most = f->n == 0 || v > f->most ? v : f->most;
	f->sum += v;
	f->whole += v == floor(v);
	f->n++;
}

static void count_distance(struct figures *f, double v)
{
	double far = v - f->sum / (double)f->n;

	if (!isnan(v))
		f->squares += far * far;
}

/* Calls visit for each cell with the figures of its column; values of categories go to f[numbers],
 * which nobody reads. */
static void visit_numbers(const struct data_build *b, struct figures *f,
    void (*visit)(struct figures *f, double v))
{
	size_t n = b->table->own->numbers;
	const struct dataset *d = b->d;

	for (size_t r = 0; b->table->dense && r < d->rows; r++)
		for (size_t i = 0; i < n; i++)
			visit(&f[i], (double)d->x[r * n + i]);
	for (uint64_t k = 0; k < b->nnz; k++)
		visit(&f[d->col[k] < n ? d->col[k] : n], (double)d->val[k]);
}

/* Computes means and scaling in two passes: the mean, then the distances from it, which stay exact
 * where the mean is large. */
static void measure_numbers(struct data_build *b)
{
	struct data_table *t = b->table;
	struct data_schema *s = t->own;
	struct figures *f = mem_array(s->numbers + 1, sizeof *f);

	visit_numbers(b, f, count_number);
	visit_numbers(b, f, count_distance);
	for (size_t i = 0; i < s->ncolumns; i++)
		if (s->column[i].kind == DATA_NUMBER)
			compute_scaling(&f[s->column[i].first], t->scaling, &s->column[i]);
	s->scaled = t->scaling != SCALE_NONE;
	free(f);
}

/* Scales a target of a regression (data_schema.h). The targets of the rows stay as they are. */
static void measure_target(const struct data_build *b, struct data_column *c)
{
	const struct dataset *d = b->d;
	const float *y = d->y + c->first;
	struct figures f = { 0 };

	for (size_t r = 0; r < d->rows; r++)
		count_number(&f, (double)y[r * d->targets]);
	for (size_t r = 0; r < d->rows; r++)
		count_distance(&f, (double)y[r * d->targets]);
	compute_scaling(&f, b->table->scaling, c);
}

static void measure_targets(struct data_build *b)
{
	struct data_schema *s = b->table->own;

	for (size_t i = 0; b->d->y && !b->d->classes && i < s->ncolumns; i++)
		if (s->column[i].kind == DATA_LABEL)
			measure_target(b, &s->column[i]);
}

/* Finds the factor that makes the mean weight 1. */
static enum err_code measure_table_weights(struct data_build *b, struct err *e)
{
	struct data_schema *s = b->table->own;
	const struct dataset *d = b->d;
	double sum = 0;

	for (size_t r = 0; d->weight && r < d->rows; r++)
		sum += (double)d->weight[r];
	for (size_t i = 0; i < s->ncolumns; i++) {
		if (s->column[i].kind != DATA_WEIGHT)
			continue;
		if (!(sum > 0) || !isfinite((float)((double)d->rows / sum)))
			return err_set(e, ERR_FORMAT,
			    "%s: all weights \"%.60s\" are 0 or too small; at least one must be "
			    "above 0",
			    b->first, s->column[i].name);
		s->column[i].factor = (float)((double)d->rows / sum);
	}
	return ERR_OK;
}

static void scale_table_weights(struct data_build *b)
{
	const struct data_schema *s = b->table->schema;
	struct dataset *d = b->d;
	float factor = 1;

	for (size_t i = 0; i < s->ncolumns; i++)
		if (s->column[i].kind == DATA_WEIGHT)
			factor = s->column[i].factor;
	for (size_t r = 0; d->weight && r < d->rows; r++)
		d->weight[r] *= factor;
}

/* Returns the feature of a cell of numbers, scaled; NAN, a missing cell, gives the feature of the value that
 * it stands for. */
static float scale_cell(const struct data_schema *s, const struct data_column *c, float v)
{
	if (isnan(v))
		v = s->missing == DATA_MISSING_ZERO ? 0 : (float)c->mean;
	return (v - c->shift) * c->factor;
}

static void scale_numbers(struct data_build *b)
{
	const struct data_schema *s = b->table->schema;
	const struct data_column **column = mem_array(s->numbers + 1, sizeof *column);
	struct dataset *d = b->d;

	for (size_t i = 0; i < s->ncolumns; i++)
		if (s->column[i].kind == DATA_NUMBER)
			column[s->column[i].first] = &s->column[i];
	for (size_t r = 0; b->table->dense && r < d->rows; r++)
		for (size_t i = 0; i < s->numbers; i++) {
			float *x = &d->x[r * s->numbers + i];

			*x = scale_cell(s, column[i], *x);
		}
	for (uint64_t k = 0; k < b->nnz; k++)
		if (d->col[k] < s->numbers)
			d->val[k] = scale_cell(s, column[d->col[k]], d->val[k]);
	free(column);
}

/* Makes the rows dense. Values that are hashed to one place add up, as in sparse rows. */
static enum err_code make_dense(struct dataset *d, size_t features, const char *source,
    struct err *e)
{
	float *x = mem_try_array(d->rows * features, sizeof *x);

	if (!x)
		return err_set(e, ERR_NOMEM, "no memory for the examples of %s", source);
	for (size_t r = 0; r < d->rows; r++)
		for (uint64_t k = d->start[r]; k < d->start[r + 1]; k++)
			x[r * features + d->col[k]] += d->val[k];
	free(d->start);
	free(d->col);
	free(d->val);
	free(d->field);
	d->start = NULL;
	d->col = NULL;
	d->val = NULL;
	d->field = NULL;
	d->sparse = false;
	d->x = x;
	d->cols = features;
	return ERR_OK;
}

static void name_features(struct dataset *d, const struct data_schema *s)
{
	d->feature_name = mem_array(d->cols + 1, sizeof *d->feature_name);
	for (size_t i = 0; i < d->cols; i++)
		d->feature_name[i] = data_schema_name(s, i);
}

enum err_code data_table_finish(struct data_build *b, struct err *e)
{
	struct data_table *t = b->table;
	struct dataset *d = b->d;
	size_t features;
	enum err_code rc;

	if (!t)
		return ERR_OK;
	if (t->own) {
		sort_values(b);
		measure_numbers(b);
		measure_targets(b);
		rc = measure_table_weights(b, e);
		if (rc)
			return rc;
	} else if (t->extends) {
		add_new_values(b);
	}
	features = data_schema_features(t->schema);
	if (features == 0)
		return err_set(e, ERR_FORMAT, "%s: has no columns of features", b->first);
	scale_numbers(b);
	scale_table_weights(b);
	if (t->own && !t->extends)
		t->own->dense = t->dense || features <= DATA_SCHEMA_DENSE;
	b->index_base = 0;
	rc = t->dense          ? ERR_OK
	    : t->schema->dense ? make_dense(d, features, b->first, e)
	                       : data_compact(b, e);
	if (rc)
		return rc;
	if (t->schema->dense)
		b->nnz = 0;
	d->index_base = 0;
	d->cols = features;
	if (!t->own)
		return ERR_OK;
	if (!t->own->bits)
		name_features(d, t->own);
	d->schema = t->own;
	t->own = NULL;
	return ERR_OK;
}
