/* SPDX-License-Identifier: ISC */
#include "data/table/data_schema.h"

#include <math.h>
#include <string.h>

#include "core/buf.h"
#include "core/fields.h"
#include "core/mem.h"
#include "core/utf8_bytes.h"
#include "data/reader/data_row.h"

#define VALUES_MAX (1u << 24)

#define BEGIN(name)                       struct name {
#define NUM(member)                       double member;
#define INT(member, least, most, missing) int64_t member;
#define FLAG(member)                      _Alignas(8) bool member;
#define MARK(member)                      _Alignas(8) bool member;
#define TEXT(member)                      const char *member;
#define SOME(member)                      const char *member;
#define DOC(member)                       const json_t *member;
#define LIST(member, name, longest) \
	struct name *member; \
	uint64_t n##member;
#define END(name) \
	} \
	;
#include "data/table/data_schema.def"

#define BEGIN(name)                       static const struct field fields_##name[] = {
#define NUM(member)                       FIELDS_OTHER(#member, FIELD_NUM, NULL, WRITE_IF_SET),
#define INT(member, least, most, missing) FIELDS_INT(member, least, most, missing, WRITE_IF_SET),
#define FLAG(member)                      FIELDS_OTHER(#member, FIELD_FLAG, NULL, WRITE_VALUE),
#define MARK(member)                      FIELDS_OTHER(#member, FIELD_FLAG, NULL, WRITE_IF_SET),
#define TEXT(member)                      FIELDS_OTHER(#member, FIELD_TEXT, NULL, WRITE_VALUE),
#define SOME(member)                      FIELDS_OTHER(#member, FIELD_TEXT, NULL, WRITE_IF_SET),
#define DOC(member)                       FIELDS_OTHER(#member, FIELD_DOC, NULL, WRITE_VALUE),
#define LIST(member, name, longest)       FIELDS_LIST(#member, longest, fields_##name, WRITE_VALUE),
#define END(name) \
	FIELDS_OTHER(NULL, FIELD_DOC, NULL, WRITE_VALUE) \
	} \
	;
#include "data/table/data_schema.def"

static const char *const kind_name[DATA_COLUMN_KINDS] = { "label", "ignored", "id", "number",
	"category", "weight" };
/* By enum data_missing; the first one is meant where a document names none. */
static const char *const missing_name[DATA_MISSINGS] = { "mean", "zero", "category" };

const char *data_column_kind_name(enum data_column_kind kind)
{
	return kind_name[kind];
}

void data_schema_free(struct data_schema *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->ncolumns; i++) {
		free(s->column[i].name);
		free(s->column[i].unit);
	}
	for (size_t i = 0; s->value && i < s->nvalues; i++)
		free(s->value[i]);
	free(s->column);
	free(s->value);
	free(s->feature_of);
	free(s->value_of);
	data_names_free(s->names);
	data_tfidf_free(s->tfidf);
	free(s);
}

size_t data_schema_features(const struct data_schema *s)
{
	return s->numbers + (s->bits ? (size_t)1 << s->bits : s->nvalues);
}

/* The feature that a value is hashed to. */
static size_t hashed_feature(const struct data_schema *s, const struct data_column *c,
    const char *text)
{
	uint64_t hash = data_hash((uint64_t)(c - s->column), text, strlen(text));

	return s->numbers + (size_t)(hash >> (64 - s->bits));
}

size_t data_schema_find(const struct data_schema *s, const struct data_column *c, const char *text)
{
	size_t low = c->value, high = low + c->count;

	if (s->bits)
		return hashed_feature(s, c, text);
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int order = strcmp(text, s->value[middle]);

		if (order == 0)
			return s->numbers + (s->feature_of ? s->feature_of[middle] : middle);
		if (order < 0)
			high = middle;
		else
			low = middle + 1;
	}
	return SIZE_MAX;
}

/* The column of numbers that has this feature; NULL: it is a value, or unknown. */
static const struct data_column *find_number_column(const struct data_schema *s, size_t feature)
{
	for (size_t i = 0; feature < s->numbers && i < s->ncolumns; i++)
		if (s->column[i].kind == DATA_NUMBER && s->column[i].first == feature)
			return &s->column[i];
	return NULL;
}

const struct data_column *data_schema_label(const struct data_schema *s, size_t k)
{
	for (size_t i = 0; i < s->ncolumns; i++)
		if (s->column[i].kind == DATA_LABEL && s->column[i].first == k)
			return &s->column[i];
	return NULL;
}

size_t data_schema_targets(const struct data_schema *s)
{
	size_t n = 0;

	for (size_t i = 0; i < s->ncolumns; i++)
		n += s->column[i].kind == DATA_LABEL;
	return n;
}

bool data_schema_is_scaled(const struct data_schema *s)
{
	bool scaled = s->scaled;

	for (size_t i = 0; i < s->ncolumns; i++)
		scaled |= s->column[i].kind == DATA_LABEL &&
		    (s->column[i].shift != 0 || s->column[i].factor != 1);
	return scaled;
}

bool data_schema_is_numeric(const struct data_schema *s)
{
	bool numeric = s->dense && !s->bits && s->missing != DATA_MISSING_CATEGORY;

	for (size_t i = 0; numeric && i < s->ncolumns; i++)
		numeric = s->column[i].kind != DATA_CATEGORY && !s->column[i].words;
	return numeric;
}

/* ---- names ---- */

/* The column that has this value. */
static const struct data_column *column_of_value(const struct data_schema *s, size_t value)
{
	size_t i = 0;

	while (
	    value < s->column[i].value || value >= (size_t)s->column[i].value + s->column[i].count)
		i++;
	return &s->column[i];
}

void data_schema_name_values(struct data_schema *s)
{
	data_names_free(s->names);
	s->names = data_names_new();
	for (uint32_t i = 0; i < s->nvalues; i++) {
		const struct data_column *c = column_of_value(s, i);

		data_names_add(s->names, data_names_column(s->names, c->name), s->value[i],
		    hashed_feature(s, c, s->value[i]));
	}
}

/* The name of a feature that values are hashed to. */
static char *name_hashed(const struct data_schema *s, size_t feature)
{
	char *name = data_names_find(s->names, feature);

	return name ? name : mem_printf("#%zu", feature);
}

char *data_schema_name(const struct data_schema *s, size_t feature)
{
	const struct data_column *c = find_number_column(s, feature);
	size_t value = feature - s->numbers;

	if (c)
		return mem_strdup(c->name);
	if (s->bits)
		return name_hashed(s, feature);
	value = s->value_of ? s->value_of[value] : value;
	return mem_printf("%s=%s", column_of_value(s, value)->name, s->value[value]);
}

/* ---- as JSON ---- */

static json_t *copy_values(const struct data_schema *s, const struct data_column *c)
{
	json_t *values = json_array();

	for (size_t i = 0; i < c->count; i++) {
		char *text = utf8_escape_bytes(s->value[c->value + i]);

		json_array_append_new(values, json_of_text(text));
		free(text);
	}
	return values;
}

static json_t *copy_places(const struct data_schema *s, const struct data_column *c)
{
	json_t *places = json_array();

	for (size_t i = 0; i < c->count; i++)
		json_array_append_new(places, json_integer(s->feature_of[c->value + i]));
	return places;
}

/* Is this a column whose cells are scaled? */
static bool has_scaling(const struct data_column *c)
{
	return c->kind == DATA_NUMBER || c->kind == DATA_WEIGHT ||
	    (c->kind == DATA_LABEL && (c->shift != 0 || c->factor != 1));
}

/* The text that stands for a split in a document; NULL: there is no such split. */
static const char *split_name(char split)
{
	static const char *const name[] = { "|", ";", ",", "w" };

	for (size_t i = 0; i < sizeof name / sizeof name[0]; i++)
		if (*name[i] == split)
			return name[i];
	return NULL;
}

/* Names are new strings, and values and places new references. */
static struct data_schema_column column_document(const struct data_schema *s,
    const struct data_column *c)
{
	bool scaling = has_scaling(c);

	return (struct data_schema_column){ .name = utf8_escape_bytes(c->name),
		.kind = kind_name[c->kind],
		.mean = c->kind == DATA_NUMBER ? c->mean : (double)NAN,
		.shift = scaling ? c->shift : (double)NAN,
		.factor = scaling ? (double)c->factor : (double)NAN,
		.origin = c->kind == DATA_LABEL && c->origin != 0 ? c->origin : (double)NAN,
		.form = c->form ? data_form_name[c->form] : NULL,
		.unit = utf8_escape_bytes(c->unit),
		.words = c->words,
		.split = c->split ? split_name(c->split) : NULL,
		.group = c->group,
		.target = c->kind == DATA_LABEL ? c->first : 0,
		.values = c->kind == DATA_CATEGORY || c->count ? copy_values(s, c) : NULL,
		.places = s->feature_of && (c->kind == DATA_CATEGORY || c->count)
		    ? copy_places(s, c)
		    : NULL };
}

json_t *data_schema_to_json(const struct data_schema *s)
{
	struct data_schema_document d = { .missing = missing_name[s->missing],
		.named = s->named,
		.dense = s->dense,
		.bits = s->bits,
		.documents = s->tfidf ? (int64_t)s->tfidf->rows : 0,
		.frequencies = s->tfidf ? data_tfidf_to_json(s->tfidf) : NULL,
		.ncolumns = s->ncolumns };
	json_t *json;

	d.columns = mem_array(s->ncolumns + 1, sizeof *d.columns);
	for (size_t i = 0; i < s->ncolumns; i++)
		d.columns[i] = column_document(s, &s->column[i]);
	json = fields_encode(fields_data_schema_document, &d);
	for (size_t i = 0; i < s->ncolumns; i++) {
		free((char *)(uintptr_t)d.columns[i].name);
		free((char *)(uintptr_t)d.columns[i].unit);
		json_decref((json_t *)(uintptr_t)d.columns[i].values);
		json_decref((json_t *)(uintptr_t)d.columns[i].places);
	}
	free(d.columns);
	json_decref((json_t *)(uintptr_t)d.frequencies);
	return json;
}

static int index_of(const char *text, const char *const *names, int n)
{
	int i = 0;

	while (i < n && strcmp(text, names[i]) != 0)
		i++;
	return i;
}

/* Appends the values of a category. False: they are not texts, or not sorted. */
static bool add_values(struct data_schema *s, struct data_column *c, const json_t *values)
{
	const json_t *v;
	size_t i;

	c->count = (uint32_t)json_array_size(values);
	s->value = mem_regrow(s->value, s->nvalues + c->count + 1, sizeof *s->value);
	json_array_foreach(values, i, v) {
		char *text = utf8_unescape_bytes(json_string_value(v));

		if (!text || (i > 0 && strcmp(s->value[s->nvalues - 1], text) >= 0)) {
			free(text);
			return false;
		}
		s->value[s->nvalues++] = text;
	}
	return true;
}

/* Takes the places of a category's values over. False: a place is none of the first VALUES_MAX. */
static bool add_places(struct data_schema *s, const struct data_column *c, const json_t *places)
{
	size_t first = s->nvalues - c->count;

	s->feature_of = mem_regrow(s->feature_of, s->nvalues + 1, sizeof *s->feature_of);
	for (size_t i = 0; i < c->count; i++) {
		const json_t *v = json_array_get(places, i);

		if (!json_is_integer(v) || json_integer_value(v) < 0 ||
		    json_integer_value(v) >= VALUES_MAX)
			return false;
		s->feature_of[first + i] = (uint32_t)json_integer_value(v);
	}
	return json_array_size(places) == c->count;
}

/* Finds the value of each place. False: a place is missing or comes twice. */
static bool invert_places(struct data_schema *s)
{
	s->value_of = mem_array(s->nvalues + 1, sizeof *s->value_of);
	memset(s->value_of, 0xff, s->nvalues * sizeof *s->value_of);
	for (uint32_t i = 0; i < s->nvalues; i++) {
		if (s->feature_of[i] >= s->nvalues || s->value_of[s->feature_of[i]] != UINT32_MAX)
			return false;
		s->value_of[s->feature_of[i]] = i;
	}
	return true;
}

/* Takes the scaling over; columns that need none may have none. */
static bool fill_scaling(struct data_column *c, const struct data_schema_column *from)
{
	bool needed = c->kind == DATA_NUMBER;

	c->shift = 0;
	c->factor = 1;
	if (isfinite(from->factor)) {
		c->shift = from->shift;
		c->factor = (float)from->factor;
	}
	c->mean = needed ? from->mean : 0;
	c->origin = c->kind == DATA_LABEL && isfinite(from->origin) ? from->origin : 0;
	return isfinite((float)c->mean) && isfinite(c->shift) && isfinite(c->factor) &&
	    c->factor != 0 && (!needed || isfinite(from->factor));
}

static bool fill_column(struct data_schema *s, struct data_column *c,
    const struct data_schema_column *from)
{
	c->name = utf8_unescape_bytes(from->name);
	c->kind = (enum data_column_kind)index_of(from->kind, kind_name, DATA_COLUMN_KINDS);
	c->form = from->form ? (enum data_form)index_of(from->form, data_form_name, DATA_FORMS)
	                     : DATA_PLAIN;
	c->unit = utf8_unescape_bytes(from->unit);
	c->words = from->words;
	c->split = from->split ? *from->split : '\0';
	c->group = from->group;
	c->value = (uint32_t)s->nvalues;
	c->first = (uint32_t)from->target;
	if (c->split && (!split_name(c->split) || from->split[1]))
		return false;
	if (c->kind == DATA_COLUMN_KINDS || c->form == DATA_FORMS || !fill_scaling(c, from) ||
	    s->nvalues + json_array_size(from->values) > VALUES_MAX)
		return false;
	if (c->kind == DATA_NUMBER) {
		c->first = (uint32_t)s->numbers++;
		s->scaled |= c->shift != 0 || c->factor != 1;
	}
	if (!data_schema_gives_features(c))
		return json_array_size(from->values) == 0;
	/* Either all values have places, or none has. */
	if (json_array_size(from->values) && s->nvalues && !s->feature_of != !from->places)
		return false;
	return add_values(s, c, from->values) &&
	    (!c->count || !from->places || add_places(s, c, from->places));
}

/* Do columns and rows fit each other: a column for each target, and rows that are dense only with
 * few features? Values that were added may make more, but hashed ones are as many as they were. */
static bool is_sound(const struct data_schema *s)
{
	size_t targets = data_schema_targets(s);

	if (targets > DATA_SCHEMA_TARGETS)
		return false;
	for (size_t k = 0; k < targets; k++)
		if (!data_schema_label(s, k))
			return false;
	return !(s->dense && s->bits && data_schema_features(s) > DATA_SCHEMA_DENSE);
}

/* Takes the weights of texts over. False: there are no hashed words, or the frequencies are damaged. */
static bool fill_tfidf(struct data_schema *s, const struct data_schema_document *d)
{
	if (!d->frequencies)
		return true;
	if (s->bits < 1 || s->bits > DATA_TFIDF_BITS)
		return false;
	s->tfidf = data_tfidf_from_json(d->frequencies, (uint64_t)d->documents,
	    (size_t)1 << s->bits);
	return s->tfidf != NULL;
}

static bool fill_schema(struct data_schema *s, const struct data_schema_document *d)
{
	bool good = d->columns != NULL;

	s->column = mem_array(d->ncolumns + 1, sizeof *s->column);
	s->missing = (enum data_missing)index_of(*d->missing ? d->missing : missing_name[0],
	    missing_name, DATA_MISSINGS);
	s->named = d->named;
	s->dense = d->dense;
	s->bits = (unsigned)d->bits;
	good = good && s->missing < DATA_MISSINGS;
	for (size_t i = 0; good && i < d->ncolumns; i++) {
		s->ncolumns++;
		good = fill_column(s, &s->column[i], &d->columns[i]);
	}
	good = good && fill_tfidf(s, d);
	if (good && s->bits)
		data_schema_name_values(s);
	return good && is_sound(s) && (!s->feature_of || invert_places(s));
}

enum err_code data_schema_from_json(const json_t *o, struct data_schema **out, struct err *e)
{
	struct data_schema_document d = { .ncolumns = 0 };
	struct data_schema *s = mem_alloc(sizeof *s);
	bool good = !fields_decode(fields_data_schema_document, o, &d, NULL) && fill_schema(s, &d);

	*out = NULL;
	fields_release(fields_data_schema_document, &d);
	if (!good) {
		data_schema_free(s);
		return err_set(e, ERR_FORMAT, "the schema of the data's columns is damaged");
	}
	*out = s;
	return ERR_OK;
}
