/* SPDX-License-Identifier: ISC */
#include "data/data_kinds.h"

#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "data/data_build.h"
#include "data/table/data_schema.h"

const struct data_kinds *data_kinds_of(const struct dataset *d)
{
	const struct data_format *f = data_formats();

	for (size_t i = 0; d->format && f[i].name; i++)
		if (strcmp(f[i].title, d->format) == 0)
			return data_readers[i]->kinds;
	return NULL;
}

size_t data_kinds_find(const struct data_kinds *k, const char *name)
{
	for (size_t i = 0; i < k->n; i++)
		if (strcmp(k->name[i], name) == 0)
			return i;
	return SIZE_MAX;
}

/* Finds "KIND=TEXT", or TEXT of the first kind. */
static bool find_of_kind(const struct dataset *d, const struct data_kinds *k, const char *name,
    uint64_t *feature)
{
	for (size_t i = 0; i < k->n; i++) {
		size_t n = strlen(k->name[i]);

		if (strncmp(name, k->name[i], n) == 0 && name[n] == '=' &&
		    k->find(d, i, name + n + 1, feature))
			return true;
	}
	return !k->numbered && k->find(d, 0, name, feature);
}

/* Finds "COLUMN=VALUE", or the name of a column of numbers. */
static bool find_in_schema(const struct data_schema *s, const char *name, uint64_t *feature)
{
	for (size_t i = 0; i < s->ncolumns; i++) {
		const struct data_column *c = &s->column[i];
		size_t n = strlen(c->name), at;

		if (!data_schema_gives_features(c) || strncmp(name, c->name, n) != 0)
			continue;
		if (c->kind == DATA_NUMBER && name[n] == '\0') {
			*feature = c->first;
			return true;
		}
		if (name[n] != '=' || !data_schema_gives_categories(s, c))
			continue;
		at = data_schema_find(s, c, name + n + 1);
		if (at != SIZE_MAX) {
			*feature = at;
			return true;
		}
	}
	return false;
}

bool data_kinds_feature(const struct dataset *d, const char *name, uint64_t *feature)
{
	const struct data_kinds *kinds = data_kinds_of(d);

	if (kinds)
		return find_of_kind(d, kinds, name, feature);
	if (d->schema)
		return find_in_schema(d->schema, name, feature);
	for (size_t i = 0; d->feature_name && i < d->cols; i++)
		if (strcmp(d->feature_name[i], name) == 0) {
			*feature = i;
			return true;
		}
	return false;
}

char *data_kinds_name(const struct dataset *d, uint64_t feature)
{
	const struct data_kinds *kinds = data_kinds_of(d);
	char *name = data_feature_name(d, feature);

	if (!name && kinds && kinds->numbered)
		name = mem_printf("%s=%llu", kinds->name[feature % kinds->n],
		    (unsigned long long)(feature / kinds->n));
	return name;
}
