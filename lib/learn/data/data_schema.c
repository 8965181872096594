/* SPDX-License-Identifier: ISC */
#include "data/data_schema.h"

#include <math.h>
#include <string.h>

#include "core/mem.h"

#define COLUMNS_MAX 65536
#define VALUES_MAX  (1u << 24)

static const char *const kind_name[DATA_COLUMN_KINDS] = { "label", "ignored", "id", "number",
	"category" };
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
			return s->numbers + middle;
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
	const struct data_column *c = column_of(s, feature);

	return c->kind == DATA_NUMBER
	    ? mem_strdup(c->name)
	    : mem_printf("%s=%s", c->name, s->value[feature - s->numbers]);
}

static json_t *column_to_json(const struct data_schema *s, const struct data_column *c)
{
	json_t *o = json_pack("{s:s, s:s}", "name", c->name, "kind", kind_name[c->kind]), *values;

	if (c->kind == DATA_NUMBER) {
		json_object_set_new(o, "mean", json_real(c->mean));
		json_object_set_new(o, "shift", json_real((double)c->shift));
		json_object_set_new(o, "factor", json_real((double)c->factor));
	} else if (c->kind == DATA_CATEGORY) {
		values = json_array();
		for (size_t i = 0; i < c->count; i++)
			json_array_append_new(values,
			    json_string(s->value[c->first - s->numbers + i]));
		json_object_set_new(o, "values", values);
	}
	return o;
}

json_t *data_schema_to_json(const struct data_schema *s)
{
	json_t *columns = json_array();

	for (size_t i = 0; i < s->ncolumns; i++)
		json_array_append_new(columns, column_to_json(s, &s->column[i]));
	return json_pack("{s:o, s:s, s:b, s:b}", "columns", columns, "missing",
	    missing_name[s->missing], "named", s->named, "dense", s->dense);
}

static int index_of(const char *text, const char *const *names, int n)
{
	int i = 0;

	while (i < n && strcmp(text, names[i]) != 0)
		i++;
	return i;
}

static bool column_from_json(struct data_schema *s, struct data_column *c, const json_t *o)
{
	const json_t *values = json_object_get(o, "values"), *v;
	size_t i;

	c->name = mem_strdup(json_str(o, "name", ""));
	c->kind = (enum data_column_kind)index_of(json_str(o, "kind", ""), kind_name,
	    DATA_COLUMN_KINDS);
	c->mean = json_num(o, "mean", 0);
	c->shift = (float)json_num(o, "shift", 0);
	c->factor = (float)json_num(o, "factor", 1);
	if (c->kind == DATA_COLUMN_KINDS || !isfinite(c->mean) || !isfinite(c->shift) ||
	    !isfinite(c->factor) || s->nvalues + json_array_size(values) > VALUES_MAX)
		return false;
	if (c->kind == DATA_NUMBER) {
		c->first = (uint32_t)s->numbers++;
		s->scaled |= c->shift != 0 || c->factor != 1;
	}
	if (c->kind != DATA_CATEGORY)
		return true;
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

enum err_code data_schema_from_json(const json_t *o, struct data_schema **out, struct err *e)
{
	const json_t *columns = json_object_get(o, "columns"), *v;
	struct data_schema *s = mem_alloc(sizeof *s);
	bool good = json_is_array(columns) && json_array_size(columns) <= COLUMNS_MAX;
	size_t i, first;

	*out = NULL;
	s->column = mem_array(json_array_size(columns) + 1, sizeof *s->column);
	s->missing = (enum data_missing)index_of(json_str(o, "missing", "mean"), missing_name, 2);
	s->named = json_flag(o, "named");
	s->dense = json_flag(o, "dense");
	good = good && s->missing <= DATA_MISSING_ZERO;
	json_array_foreach(columns, i, v) {
		if (!good)
			break;
		s->ncolumns++;
		good = column_from_json(s, &s->column[i], v);
	}
	if (!good) {
		data_schema_free(s);
		return err_set(e, ERR_FORMAT, "the schema of the data's columns is damaged");
	}
	/* The number of columns of numbers is known now: place the values behind them. */
	first = s->numbers;
	for (i = 0; i < s->ncolumns; i++) {
		if (s->column[i].kind != DATA_CATEGORY)
			continue;
		s->column[i].first = (uint32_t)first;
		first += s->column[i].count;
	}
	*out = s;
	return ERR_OK;
}
