/* SPDX-License-Identifier: ISC */
#include "data/table/data_table_state.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>

#include "core/map.h"
#include "core/mem.h"
#include "core/num.h"
#include "data/reader/data_cells.h"
#include "data/reader/data_num.h"
#include "data/table/data_table_words.h"
#include "data/table/data_unseen.h"

/* Different values of all categories together; more are hashed. */
#define VALUES_MAX (1u << 20)
#define HASH_BITS  22

/* ---- values of categories ---- */

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
		t->value = mem_grow(t->value, &t->value_room, t->nvalues + 1, sizeof *t->value);
		t->value[t->nvalues] = (struct data_value){ (uint32_t)column, mem_strdup(text) };
		number = ++t->nvalues;
		map_put(t->numbers, key, (void *)number);
	}
	free(key);
	return number ? (uint32_t)(number - 1) : UINT32_MAX;
}

/* Hashes values from now on, and those so far, of which only the first keep their names. Takes a
 * moment, once, when a dictionary would become too large. */
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

/* ---- cells ---- */

static void put_cell(struct table_row *r, size_t id, float val, size_t column)
{
	if (r->n == r->room) {
		r->id = mem_grow(r->id, &r->room, r->n + 1, sizeof *r->id);
		r->val = mem_regrow(r->val, r->room, sizeof *r->val);
		r->field = mem_regrow(r->field, r->room, sizeof *r->field);
	}
	r->id[r->n] = (uint32_t)id;
	r->val[r->n] = val;
	r->field[r->n++] = (uint16_t)column;
}

/* Fills e with the place of a cell, by the number of its column where columns have one, and a
 * text. */
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
	if (!rc && id == SIZE_MAX && t->schema->column[k].split != DATA_SPLIT_WORDS)
		data_unseen_category(b->want.unseen, t->schema->column[k].name, text);
	return rc;
}

/* Takes the parts of a cell of a list as categories. A cell without parts is one that is missing. */
static enum err_code take_list(struct data_build *b, const struct stream *s, size_t k,
    const char *text, struct err *e)
{
	char sign[] = { b->table->schema->column[k].split, '\0' };
	enum err_code rc = ERR_OK;
	size_t taken = 0;

	for (const char *p = text; !rc && *p; p += *p != '\0') {
		size_t n = strcspn(p, sign), begin = strspn(p, " \t"), end = n;
		char *part;

		while (end > begin && (p[end - 1] == ' ' || p[end - 1] == '\t'))
			end--;
		if (end > begin) {
			part = mem_printf("%.*s", (int)(end - begin), p + begin);
			rc = take_category(b, s, k, part, e);
			free(part);
			taken++;
		}
		p += n;
	}
	return taken || rc ? rc : take_category(b, s, k, text, e);
}

struct text_cell {
	struct data_build *b;
	const struct stream *s;
	size_t column;
	enum err_code rc;
	struct err *e;
};

/* Takes a word, which is a category of its column, or a pair, which is hashed without a name. */
static void take_token(void *ctx, const char *token, bool pair)
{
	struct text_cell *c = ctx;
	const struct data_schema *m = c->b->table->schema;

	if (pair)
		put_cell(&c->b->table->row, data_schema_find(m, &m->column[c->column], token), 1,
		    c->column);
	else if (!c->rc)
		c->rc = take_category(c->b, c->s, c->column, token, c->e);
}

/* Takes the cell of a column of categories, however many it has. */
static enum err_code take_categories(struct data_build *b, const struct stream *s, size_t k,
    const char *text, struct err *e)
{
	const struct data_schema *m = b->table->schema;
	struct text_cell cell = { b, s, k, ERR_OK, e };

	if (!m->column[k].split || data_form_is_missing(text))
		return take_category(b, s, k, text, e);
	if (m->column[k].split != DATA_SPLIT_WORDS)
		return take_list(b, s, k, text, e);
	data_table_words(text, take_token, &cell);
	return cell.rc;
}

/* Gives the words of a text the length 1 together, so that long texts count as much as short ones.
 * Their weights by tf-idf depend on all rows: data_table_finish computes the weights of training
 * data. */
static void scale_texts(struct data_table *t)
{
	struct table_row *r = &t->row;
	const struct data_schema *m = t->schema;
	bool known = !t->own || t->extends;
	size_t n;

	for (size_t i = 0; i < r->n; i += n) {
		bool text = m->column[r->field[i]].split == DATA_SPLIT_WORDS;

		for (n = 1; i + n < r->n && r->field[i + n] == r->field[i]; n++)
			;
		for (size_t k = i; text && !m->tfidf && k < i + n; k++)
			r->val[k] = 1 / sqrtf((float)n);
		if (text && m->tfidf && known)
			data_tfidf_weigh(m->tfidf, m->numbers, n, r->id + i, r->val + i);
	}
}

/* The number of a cell as it is kept. A known column is scaled here, in double. A column whose
 * scaling is not known yet is kept relative to its first number, unless that is so small that the
 * column may stay unscaled (is_moderate): then the mean can be subtracted later without a loss. */
static float relate_number(struct data_build *b, size_t k, double v)
{
	struct data_table *t = b->table;
	struct data_column *c = &t->schema->column[k];
	double scaled;

	if (!t->own || t->extends) {
		scaled = (v - c->shift) * (double)c->factor;
		if (fabs(scaled) > DATA_UNSEEN_FAR && b->want.unseen && t->schema->scaled)
			data_unseen_number(b->want.unseen, c->name, v, c->mean);
		return (float)scaled;
	}
	if (t->scaling == SCALE_NONE) {
		data_build_spread(b, c->first, v);
		return (float)v;
	}
	if (isnan(c->origin) && !isnan(v))
		c->origin = fabs(v) > 1 ? v : 0;
	return (float)(v - (isnan(c->origin) ? 0 : c->origin));
}

static void take_cell_number(struct data_build *b, size_t k, double v)
{
	struct data_table *t = b->table;

	/* NAN: data_table_finish puts in what a missing cell stands for. */
	put_cell(&t->row, t->schema->column[k].first, relate_number(b, k, v), k);
	t->row.numbers++;
}

float data_table_relate(struct data_build *b, size_t place, double v)
{
	return relate_number(b, b->table->column[place], v);
}

static enum err_code take_missing(struct data_build *b, const struct stream *s, size_t k,
    struct err *e)
{
	struct data_table *t = b->table;

	if (t->schema->column[k].kind == DATA_NUMBER)
		take_cell_number(b, k, (double)NAN);
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
		take_cell_number(b, k, v);
	} else if (data_form_is_missing(text)) {
		return take_missing(b, s, k, e);
	} else if (c->words) {
		take_cell_number(b, k, (double)NAN);
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

/* Takes a cell that is a text, or that stands for its column as one. */
static enum err_code take_text(struct data_build *b, const struct stream *s, size_t place,
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
		return take_categories(b, s, k, text, e);
	case DATA_LABEL:
		return take_label(b, s, k, text, e);
	case DATA_WEIGHT:
		return take_weight(b, s, place, k, text, e);
	case DATA_ID:
		return data_build_name(b, s, text, e);
	default:
		return ERR_OK;
	}
}

static void show_cell(const struct data_build *b, size_t place, const char *text)
{
	if (b->want.watch && b->table->column[place] != NO_COLUMN)
		b->want.watch->cell(b->want.watch->ctx, b->table->column[place], text);
}

enum err_code data_table_text(struct data_build *b, const struct stream *s, size_t place,
    const char *text, struct err *e)
{
	show_cell(b, place, text);
	return take_text(b, s, place, text, e);
}

/* Takes a cell that is a number. */
static enum err_code take_number(struct data_build *b, const struct stream *s, size_t place,
    double v, struct err *e)
{
	struct data_table *t = b->table;
	size_t k = begin_cell(t, place);
	const struct data_column *c = k == NO_COLUMN ? NULL : &t->schema->column[k];
	enum err_code rc = ERR_OK;
	char text[32];

	if (!c)
		return ERR_OK;
	if (c->group || c->kind == DATA_CATEGORY || c->kind == DATA_WEIGHT || c->kind == DATA_ID)
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
		take_cell_number(b, k, v);
		return ERR_OK;
	case DATA_LABEL:
		return begin_label(b, k) ? data_label_number(b->label, s, v, e) : ERR_OK;
	case DATA_CATEGORY:
	case DATA_WEIGHT:
	case DATA_ID:
		return take_text(b, s, place, text, e);
	default:
		return ERR_OK;
	}
}

enum err_code data_table_number(struct data_build *b, const struct stream *s, size_t place,
    double v, struct err *e)
{
	char text[32];

	if (b->want.watch) {
		num_format(v, text);
		show_cell(b, place, text);
	}
	return take_number(b, s, place, v, e);
}

enum err_code data_table_integer(struct data_build *b, const struct stream *s, size_t place,
    int64_t v, struct err *e)
{
	struct data_table *t = b->table;
	size_t k = t->column[place];
	const struct data_column *c = k == NO_COLUMN ? NULL : &t->schema->column[k];
	bool number = c && c->kind == DATA_NUMBER && c->form == DATA_PLAIN && !c->unit && !c->group;
	char text[24];

	if (!number || b->want.watch)
		snprintf(text, sizeof text, "%" PRId64, v);
	if (b->want.watch)
		show_cell(b, place, text);
	if (number)
		return take_number(b, s, place, (double)v, e);
	return take_text(b, s, place, text, e);
}

static bool names_groups(const struct data_table *t, size_t place)
{
	return t->column[place] != NO_COLUMN && t->schema->column[t->column[place]].group;
}

bool data_table_uses(const struct data_build *b, size_t place)
{
	enum data_column_kind kind = data_table_kind(b->table, place);

	return (kind != DATA_IGNORED && kind != DATA_ID) || (kind == DATA_ID && b->want.names) ||
	    names_groups(b->table, place);
}

bool data_table_takes_several(const struct data_build *b, size_t place)
{
	return data_table_kind(b->table, place) == DATA_CATEGORY;
}

bool data_table_has(const struct data_build *b, size_t place)
{
	const struct data_table *t = b->table;

	return t->column[place] != NO_COLUMN && t->given[t->column[place]] == t->row.stamp;
}

/* ---- rows ---- */

void data_table_begin(struct data_build *b)
{
	struct table_row *r = &b->table->row;

	r->n = r->numbers = r->labels = 0;
	r->stamp++;
}

/* Columns of numbers that the row has not had are missing, as are columns of categories where this is
 * a category of its own. */
static enum err_code add_missing(struct data_build *b, const struct stream *s, struct err *e)
{
	const struct data_table *t = b->table;
	const struct data_schema *m = t->schema;
	bool all = m->missing == DATA_MISSING_CATEGORY;
	enum err_code rc = ERR_OK;

	for (size_t k = 0; !rc && (all || t->row.numbers < m->numbers) && k < m->ncolumns; k++)
		if (t->given[k] != t->row.stamp && data_schema_gives_features(&m->column[k]))
			rc = take_missing(b, s, k, e);
	return rc;
}

static int compare_ids(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

/* A text that a column has several times in a row counts once, unless words are weighted by how
 * often they come. The cells of a column stand side by side, and the cells of a column of
 * categories have the value 1; a column of numbers has its number first. */
static void drop_repeated(const struct data_schema *m, struct table_row *r)
{
	size_t left = 0, n;

	for (size_t i = 0; i < r->n; i += n) {
		bool counted = m->tfidf && m->column[r->field[i]].split == DATA_SPLIT_WORDS;

		for (n = 1; i + n < r->n && r->field[i + n] == r->field[i]; n++)
			;
		if (n > 1)
			qsort(r->id + i, n, sizeof *r->id, compare_ids);
		for (size_t k = i; k < i + n; k++) {
			if (k > i && r->id[k] == r->id[k - 1]) {
				r->val[left - 1] += counted ? 1 : 0;
				continue;
			}
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
	const struct table_row *r = &b->table->row;
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
	const struct table_row *r = &b->table->row;
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
		if (!t->dense || b->want.watch || !c ||
		    (c->kind != DATA_NUMBER && c->kind != DATA_LABEL) || c->form != DATA_PLAIN ||
		    c->unit || c->group)
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
	struct table_row *r = &t->row;
	enum err_code rc;

	if (r->labels < t->targets && !data_label_is_ignored(b->label)) {
		data_label_drop(b->label, b->d->rows);
		b->d->reading.unlabelled++;
		return ERR_OK;
	}
	drop_repeated(t->schema, r);
	scale_texts(t);
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
			rc = fail_cell(t, s, place, e, DATA_CELLS_QUOTES);
		if (!text)
			return rc;
		if (place < t->width && !rc)
			rc = data_table_text(b, s, place, text, e);
	}
	/* In a record of another width, a cell may be wrong because it is in a wrong column. */
	if (place != t->width && (!rc || rc == ERR_FORMAT))
		return stream_fail(s, e, DATA_CELLS_WIDTH, place, NUM_S(place), t->width,
		    data_cells_width_remedy(place, t->width, stream_lineno(s)));
	return rc ? rc : data_table_end(b, s, e);
}
