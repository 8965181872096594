/* SPDX-License-Identifier: ISC */
#ifndef TESTS_LAYOUT_FIXTURE_H
#define TESTS_LAYOUT_FIXTURE_H

/* Tables of some shape, and where they lie. */
#include <stdlib.h>
#include <string.h>

#include "core/json.h"
#include "layout/layout.h"
#include "tap.h"

static inline struct table dense(const char *name, uint64_t rows, uint32_t cols)
{
	struct table t = { .rows = rows, .cols = cols };

	snprintf(t.name, sizeof t.name, "%s", name);
	return t;
}

static inline struct table sparse(const char *name, uint64_t rows, uint32_t cols)
{
	struct table t = dense(name, rows, cols);

	t.sparse = true;
	return t;
}

static inline struct table *add(struct layout *l, struct table shape)
{
	struct table *t = NULL;

	layout_add(l, &shape, &t, NULL);
	return t;
}

static inline bool covers(const struct table *t)
{
	uint64_t at = 0;

	for (uint32_t p = 0; p < t->nparts; p++) {
		if (table_part_begin(t, p) != at || table_part_elements(t, p) == 0 ||
		    table_part_elements(t, p) > PART_ELEMENTS)
			return false;
		at += table_part_elements(t, p);
	}
	return at == table_elements(t);
}

static inline void place(struct layout *l, unsigned n)
{
	uint16_t server[64];

	for (unsigned i = 0; i < n; i++)
		server[i] = (uint16_t)i;
	layout_place(l, server, n, 1);
}

#endif
