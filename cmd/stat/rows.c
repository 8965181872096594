/* SPDX-License-Identifier: ISC */
#include "cmd/stat/rows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/stat/table.h"
#include "core/json.h"
#include "core/mem.h"

const json_t *rows_find_same(const json_t *rows, const json_t *row)
{
	const char *id = json_str(row, "id", "");
	const json_t *o;
	size_t i;

	json_array_foreach(rows, i, o)
		if (strcmp(json_str(o, "id", ""), id) == 0)
			return o;
	return NULL;
}

/* ---- order ---- */

struct launcher_env {
	json_t *row;
	const char *text; /* NULL: a number, and -inf for none */
	double v;
	size_t at;
};

/* For qsort. Equal rows keep their order. */
static int compare_ranks(const void *a, const void *b)
{
	const struct launcher_env *x = a, *y = b;
	int by_text = x->text && y->text ? strverscmp(x->text, y->text) : !x->text - !y->text;

	if (by_text)
		return by_text;
	if (!x->text && x->v != y->v)
		return x->v > y->v ? -1 : 1;
	return x->at < y->at ? -1 : 1;
}

void rows_sort(json_t *rows, const struct column *by, const json_t *before, double seconds)
{
	size_t n = json_array_size(rows);
	struct launcher_env *rank = mem_array(n + 1, sizeof *rank);

	for (size_t i = 0; i < n; i++) {
		json_t *row = json_array_get(rows, i);

		rank[i] = (struct launcher_env){ json_incref(row), NULL, 0, i };
		if (!table_column_value(by, row, rows_find_same(before, row), seconds, &rank[i].v,
		        &rank[i].text)) {
			rank[i].text = NULL;
			rank[i].v = (double)-INFINITY;
		}
	}
	qsort(rank, n, sizeof *rank, compare_ranks);
	for (size_t i = 0; i < n; i++)
		json_array_set_new(rows, i, rank[i].row);
	free(rank);
}

/* ---- totals ---- */

static enum column_total column_total_kind(const struct column *c)
{
	if (c->total != TOTAL_BY_KIND)
		return c->total;
	switch (c->kind) {
	case COL_COUNT:
	case COL_BYTES:
	case COL_RATE:
	case COL_BYTE_RATE:
	case COL_SHARE:
		return TOTAL_SUM;
	case COL_SECONDS:
		return TOTAL_MOST;
	default:
		return TOTAL_BY_KIND; /* the mean */
	}
}

/* Add a column's total to the row of totals. A column without numbers gets none. */
static void add_total(json_t *total, const json_t *rows, const struct column *c)
{
	double sum = 0, least = INFINITY, most = -INFINITY, v;
	enum column_total kind = column_total_kind(c);
	const json_t *row;
	size_t i, n = 0;

	json_array_foreach(rows, i, row) {
		const json_t *j = json_object_get(row, c->key);

		if (!json_is_number(j))
			continue;
		v = json_number_value(j);
		sum += v;
		least = fmin(least, v);
		most = fmax(most, v);
		n++;
	}
	if (!n || kind == TOTAL_NONE)
		return;
	v = kind == TOTAL_SUM     ? sum
	    : kind == TOTAL_LEAST ? least
	    : kind == TOTAL_MOST  ? most
	                          : sum / (double)n;
	json_object_set_new(total, c->key, json_real(v));
}

void rows_total(json_t *rows, const struct stat_view *v)
{
	json_t *total = json_event("total");

	json_object_set_new(total, "id", json_string("total"));
	for (size_t i = 0; i < v->ncolumns; i++)
		if (v->columns[i].kind != COL_TEXT && v->columns[i].kind != COL_TIME)
			add_total(total, rows, &v->columns[i]);
	/* All rows have the same age. */
	json_object_set(total, "seconds", json_object_get(json_array_get(rows, 0), "seconds"));
	json_array_append_new(rows, total);
}
