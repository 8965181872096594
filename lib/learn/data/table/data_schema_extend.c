/* SPDX-License-Identifier: ISC */
#include <string.h>

#include "core/mem.h"
#include "data/table/data_schema.h"

/* Adds values to a schema. Lists of values stay sorted, so that they can be searched; the features of
 * the new ones follow all others. */

struct merging {
	const struct data_schema *from;
	struct data_schema *to;
	const struct data_value *value; /* the new ones, of which `at` have been taken */
	size_t n, at;
};

static void merge_value(struct merging *m, const char *text, size_t place)
{
	struct data_schema *s = m->to;

	s->value[s->nvalues] = mem_strdup(text);
	s->feature_of[s->nvalues] = (uint32_t)place;
	s->value_of[place] = (uint32_t)s->nvalues++;
}

/* Takes value i of the schema. */
static void take_old_value(struct merging *m, size_t i)
{
	const struct data_schema *s = m->from;

	merge_value(m, s->value[i], s->feature_of ? s->feature_of[i] : i);
}

static void append_new_value(struct merging *m)
{
	merge_value(m, m->value[m->at].text, m->from->nvalues + m->at);
	m->at++;
}

/* Is the next new value of this column, and before the text (NULL: after all texts)? */
static bool comes_new_value(const struct merging *m, size_t column, const char *text)
{
	return m->at < m->n && m->value[m->at].column == column &&
	    (!text || strcmp(m->value[m->at].text, text) < 0);
}

/* Merges the values of a column. */
static void merge_column(struct merging *m, size_t column)
{
	const struct data_column *c = &m->from->column[column];
	size_t first = c->value, before = m->to->nvalues;

	for (size_t i = first; i < first + c->count; i++) {
		while (comes_new_value(m, column, m->from->value[i]))
			append_new_value(m);
		take_old_value(m, i);
	}
	while (comes_new_value(m, column, NULL))
		append_new_value(m);
	m->to->column[column].value = (uint32_t)before;
	m->to->column[column].count = (uint32_t)(m->to->nvalues - before);
}

struct data_schema *data_schema_extend(const struct data_schema *s, const struct data_value *value,
    size_t n)
{
	struct data_schema *to = mem_alloc(sizeof *to);
	struct merging m = { s, to, value, n, 0 };

	*to = *s;
	to->nvalues = 0;
	to->column = mem_array(s->ncolumns + 1, sizeof *to->column);
	to->value = mem_array(s->nvalues + n + 1, sizeof *to->value);
	to->feature_of = mem_array(s->nvalues + n + 1, sizeof *to->feature_of);
	to->value_of = mem_array(s->nvalues + n + 1, sizeof *to->value_of);
	for (size_t i = 0; i < s->ncolumns; i++) {
		to->column[i] = s->column[i];
		to->column[i].name = mem_strdup(s->column[i].name);
		to->column[i].unit = s->column[i].unit ? mem_strdup(s->column[i].unit) : NULL;
		if (data_schema_gives_features(&s->column[i]))
			merge_column(&m, i);
	}
	to->names = NULL;
	to->tfidf = data_tfidf_copy(s->tfidf);
	if (s->bits)
		data_schema_name_values(to);
	return to;
}
