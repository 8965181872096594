/* SPDX-License-Identifier: ISC */
#include "data/table/data_alike.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/map.h"
#include "core/mem.h"
#include "data/table/data_schema.h"

/* Blanks of Unicode in UTF-8, besides the blanks of ASCII. */
static const char *const blanks[] = { "\xc2\xa0", "\xe2\x80\x82", "\xe2\x80\x83", "\xe2\x80\x87",
	"\xe2\x80\x89", "\xe2\x80\x8a", "\xe2\x80\x8b", "\xe2\x80\xaf", "\xe3\x80\x80",
	"\xef\xbb\xbf", " ", "\t", "\r", "\n" };

/* The length of the blank with which the n bytes at p begin, or end; 0: with none. */
static size_t find_blank(const char *p, size_t n, bool at_end)
{
	for (size_t i = 0; i < sizeof blanks / sizeof *blanks; i++) {
		size_t m = strlen(blanks[i]);

		if (m <= n && memcmp(at_end ? p + n - m : p, blanks[i], m) == 0)
			return m;
	}
	return 0;
}

/* A name without the blanks at its ends, in a new string. */
static char *strip_blanks(const char *name)
{
	size_t n = strlen(name), m;

	while ((m = find_blank(name, n, false)) != 0) {
		name += m;
		n -= m;
	}
	while ((m = find_blank(name, n, true)) != 0)
		n -= m;
	return mem_printf("%.*s", (int)n, name);
}

static bool has_blanks(const char *name)
{
	size_t n = strlen(name);

	return find_blank(name, n, false) || find_blank(name, n, true);
}

/* Names are different, so that one of a pair has blanks: most lists need no map. */
static bool find_pair(char *const *name, size_t n, struct data_alike *out)
{
	struct map *seen;
	bool found = false;
	size_t first = 0;

	while (first < n && !has_blanks(name[first]))
		first++;
	if (first == n)
		return false;
	seen = map_new();
	for (size_t i = 0; !found && i < n; i++) {
		char *bare = strip_blanks(name[i]);
		const char *before = map_get(seen, bare);

		if (before) {
			out->a = before;
			out->b = name[i];
			found = true;
		} else {
			map_put(seen, bare, (void *)(uintptr_t)name[i]);
		}
		free(bare);
	}
	map_free(seen);
	return found;
}

bool data_alike_find(const struct dataset *d, struct data_alike *out)
{
	const struct data_schema *s = d->schema;

	*out = (struct data_alike){ 0 };
	if (find_pair(d->class_name, d->class_name ? d->classes : 0, out))
		return true;
	for (size_t i = 0; s && i < s->ncolumns; i++) {
		const struct data_column *c = &s->column[i];

		if (c->count && find_pair(s->value + c->value, c->count, out)) {
			out->column = c->name;
			return true;
		}
	}
	return false;
}
