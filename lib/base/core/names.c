/* SPDX-License-Identifier: ISC */
#include "core/names.h"

#include <string.h>

#include "core/buf.h"

const char *names_first(const char *list)
{
	return strcmp(list, "none") ? list : NULL;
}

const char *names_next(const char *at)
{
	const char *comma = strchr(at, ',');

	return comma ? comma + 1 : NULL;
}

bool names_is(const char *at, const char *name)
{
	size_t n = strlen(name);

	return strcspn(at, ",") == n && strncmp(at, name, n) == 0;
}

bool names_has(const char *list, const char *name)
{
	for (const char *at = names_first(list); at; at = names_next(at))
		if (names_is(at, name))
			return true;
	return false;
}

void names_put(struct buf *out, unsigned *n, unsigned most, const char *name)
{
	if (*n < most)
		buf_printf(out, "%s%s", *n ? ", " : "", name);
	++*n;
}

void names_put_rest(struct buf *out, unsigned n, unsigned most)
{
	if (n > most)
		buf_printf(out, " and %u more", n - most);
}
