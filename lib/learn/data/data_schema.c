/* SPDX-License-Identifier: ISC */
#include "data/data_schema.h"

#include <math.h>
#include <string.h>

#include "core/fields.h"
#include "core/mem.h"

#define VALUES_MAX (1u << 24)

#define BEGIN(name)  struct name {
#define NUM(member)  double member;
#define FLAG(member) _Alignas(8) bool member;
#define TEXT(member) const char *member;
#define DOC(member)  const json_t *member;
#define LIST(member, name, longest) \
	struct name *member; \
	uint64_t n##member;
#define END(name) \
	} \
	;
#include "data/data_schema.def"

#define BEGIN(name)                 static const struct field fields_##name[] = {
#define NUM(member)                 FIELDS_OTHER(#member, FIELD_NUM, NULL, WRITE_IF_SET),
#define FLAG(member)                FIELDS_OTHER(#member, FIELD_FLAG, NULL, WRITE_VALUE),
#define TEXT(member)                FIELDS_OTHER(#member, FIELD_TEXT, NULL, WRITE_VALUE),
#define DOC(member)                 FIELDS_OTHER(#member, FIELD_DOC, NULL, WRITE_VALUE),
#define LIST(member, name, longest) FIELDS_LIST(#member, longest, fields_##name, WRITE_VALUE),
#define END(name) \
	FIELDS_OTHER(NULL, FIELD_DOC, NULL, WRITE_VALUE) \
	} \
	;
#include "data/data_schema.def"

static const char *const kind_name[DATA_COLUMN_KINDS] = { "label", "ignored", "id", "number",
	"category" };
/* By enum data_missing; the first one is meant where a document names none. */
static const char *const missing_name[] = { "mean", "zero" };

void data_schema_free(struct data_schema *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->ncolumns; i++)
		free(s->column[i].name);
	for (size_t i = 0; s->value && i < s->nvalues; i++)
		free(s->value[i]);
	free(s->column);
	free(s->value);
	free(s->feature_of);
	free(s->value_of);
	free(s);
}

size_t data_schema_features(const struct data_schema *s)
{
	return s->numbers + s->nvalues;
}

size_t data_schema_find(const struct data_schema *s, const struct data_column *c, const char *text)
{
	size_t low = c->first - s->numbers, high = low + c->count;

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

/* The column that has this feature. */
static const struct data_column *column_of(const struct data_schema *s, size_t feature)
{
	for (size_t i = 0; i < s->ncolumns; i++) {
		const struct data_column *c = &s->column[i];

		if ((c->kind == DATA_NUMBER && c->first == feature) ||
		    (c->kind == DATA_CATEGORY && feature >= c->first &&
		        feature < (size_t)c->first + c->count))
			return c;
	}
	abort();
}

char *data_schema_name(const struct data_schema *s, size_t feature)
{
	const struct data_column *c;

	if (s->value_of && feature >= s->numbers)
		feature = s->numbers + s->value_of[feature - s->numbers];
	c = column_of(s, feature);

	return c->kind == DATA_NUMBER
	    ? mem_strdup(c->name)
	    : mem_printf("%s=%s", c->name, s->value[feature - s->numbers]);
}

/* ---- as JSON ---- */

static json_t *copy_values(const struct data_schema *s, const struct data_column *c)
{
	json_t *values = json_array();

	for (size_t i = 0; i < c->count; i++)
		json_array_append_new(values, json_of_text(s->value[c->first - s->numbers + i]));
	return values;
}

static json_t *copy_places(const struct data_schema *s, const struct data_column *c)
{
	json_t *places = json_array();

	for (size_t i = 0; i < c->count; i++)
		json_array_append_new(places,
		    json_integer(s->feature_of[c->first - s->numbers + i]));
	return places;
}

json_t *data_schema_to_json(const struct data_schema *s)
{
	struct data_schema_document d = { .missing = missing_name[s->missing],
		.named = s->named,
		.dense = s->dense,
		.ncolumns = s->ncolumns };
	json_t *json;

	d.columns = mem_array(s->ncolumns + 1, sizeof *d.columns);
	for (size_t i = 0; i < s->ncolumns; i++) {
		const struct data_column *c = &s->column[i];
		bool number = c->kind == DATA_NUMBER;

		d.columns[i] = (struct data_schema_column){ .name = c->name,
			.kind = kind_name[c->kind],
			.mean = number ? c->mean : (double)NAN,
			.shift = number ? (double)c->shift : (double)NAN,
			.factor = number ? (double)c->factor : (double)NAN,
			.values = c->kind == DATA_CATEGORY ? copy_values(s, c) : NULL,
			.places = c->kind == DATA_CATEGORY && s->feature_of ? copy_places(s, c)
			                                                    : NULL };
	}
	json = fields_encode(fields_data_schema_document, &d);
	for (size_t i = 0; i < s->ncolumns; i++) {
		json_decref((json_t *)(uintptr_t)d.columns[i].values);
		json_decref((json_t *)(uintptr_t)d.columns[i].places);
	}
	free(d.columns);
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
		const char *text = json_string_value(v);

		if (!text || (i > 0 && strcmp(s->value[s->nvalues - 1], text) >= 0))
			return false;
		s->value[s->nvalues++] = mem_strdup(text);
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

static bool fill_column(struct data_schema *s, struct data_column *c,
    const struct data_schema_column *from)
{
	c->name = mem_strdup(from->name);
	c->kind = (enum data_column_kind)index_of(from->kind, kind_name, DATA_COLUMN_KINDS);
	c->factor = 1;
	if (c->kind == DATA_NUMBER) {
		c->mean = from->mean;
		c->shift = (float)from->shift;
		c->factor = (float)from->factor;
		c->first = (uint32_t)s->numbers++;
		s->scaled |= c->shift != 0 || c->factor != 1;
	}
	if (c->kind == DATA_COLUMN_KINDS || !isfinite(c->mean) || !isfinite(c->shift) ||
	    !isfinite(c->factor) || s->nvalues + json_array_size(from->values) > VALUES_MAX)
		return false;
	if (c->kind != DATA_CATEGORY)
		return true;
	/* Either all categories have places, or none has. */
	if (s->nvalues && !s->feature_of != !from->places)
		return false;
	return add_values(s, c, from->values) && (!from->places || add_places(s, c, from->places));
}

/* Fills in all but the places of the values. */
static bool fill_schema(struct data_schema *s, const struct data_schema_document *d)
{
	bool good = d->columns != NULL;

	s->column = mem_array(d->ncolumns + 1, sizeof *s->column);
	s->missing = (enum data_missing)index_of(*d->missing ? d->missing : missing_name[0],
	    missing_name, 2);
	s->named = d->named;
	s->dense = d->dense;
	good = good && s->missing <= DATA_MISSING_ZERO;
	for (size_t i = 0; good && i < d->ncolumns; i++) {
		s->ncolumns++;
		good = fill_column(s, &s->column[i], &d->columns[i]);
	}
	return good && (!s->feature_of || invert_places(s));
}

enum err_code data_schema_from_json(const json_t *o, struct data_schema **out, struct err *e)
{
	struct data_schema_document d = { .ncolumns = 0 };
	struct data_schema *s = mem_alloc(sizeof *s);
	bool good = !fields_decode(fields_data_schema_document, o, &d, NULL) && fill_schema(s, &d);
	size_t first = s->numbers;

	*out = NULL;
	fields_release(fields_data_schema_document, &d);
	if (!good) {
		data_schema_free(s);
		return err_set(e, ERR_FORMAT, "the schema of the data's columns is damaged");
	}
	/* The number of columns of numbers is known now: place the values behind them. */
	for (size_t i = 0; i < s->ncolumns; i++) {
		if (s->column[i].kind != DATA_CATEGORY)
			continue;
		s->column[i].first = (uint32_t)first;
		first += s->column[i].count;
	}
	*out = s;
	return ERR_OK;
}
