/* SPDX-License-Identifier: ISC */
#include "data/reader/data_features.h"

#include <stdlib.h>
#include <string.h>

#include "core/buf.h"
#include "core/file.h"
#include "core/mem.h"
#include "core/num.h"
#include "data/data_build.h"
#include "data/reader/data_cells.h"
#include "data/reader/data_ratings.h"
#include "data/reader/data_row.h"
#include "data/source/data_object.h"

/* Hashes of features, below this bit of their numbers. */
#define FEATURE_BIT  61
#define FEATURE_SALT 16 /* after the salts of data_ratings.c */

/* A user or item has a feature. text: of the feature, its place in data_features.texts. */
struct occurrence {
	uint64_t owner, feature;
	size_t text;
};

/* A feature with a name. */
struct named {
	uint64_t feature;
	size_t text;
};

struct data_features {
	enum data_features_kind kind;
	char *path;
	/* The owners, ascending; owner i has the features start[i] .. start[i+1]-1. */
	uint64_t *owner;
	size_t nowners, *start;
	uint64_t *feature;
	struct named *named; /* of all features, ascending */
	size_t nnamed, left_out;
	struct buf texts; /* "column=text" of each occurrence, with NULs */
};

/* The table while it is read. */
struct reading {
	struct data_features *f;
	struct stream *s;
	char sep;
	char **column; /* names */
	size_t width;
	struct occurrence *at;
	size_t n, room, owners_room;
};

static const char *const kind_name[] = { "user", "item" },
                         *const a_kind[] = { "a user", "an item" };

void data_features_free(struct data_features *f)
{
	if (!f)
		return;
	free(f->path);
	free(f->owner);
	free(f->start);
	free(f->feature);
	free(f->named);
	buf_release(&f->texts);
	free(f);
}

bool data_features_is_number(uint64_t number)
{
	return number >> FEATURE_BIT;
}

/* ---- lines ---- */

static void add_feature(struct reading *t, size_t column, uint64_t owner, const char *text)
{
	struct data_features *f = t->f;
	size_t at = f->texts.len;

	buf_printf(&f->texts, "%s=%s", t->column[column], text);
	t->at = mem_grow(t->at, &t->room, t->n + 1, sizeof *t->at);
	t->at[t->n++] = (struct occurrence){ owner,
		UINT64_C(1) << FEATURE_BIT |
		    data_hash(FEATURE_SALT + f->kind, (char *)f->texts.data + at,
		        f->texts.len - at) >>
		        (64 - FEATURE_BIT),
		at };
	buf_append(&f->texts, "", 1);
}

/* Adds the texts of a cell, which bars separate unless they separate the cells. */
static void add_cell(struct reading *t, size_t column, uint64_t owner, char *cell)
{
	char *rest = cell;

	while (rest) {
		char *text = t->sep == '|' ? rest : strsep(&rest, "|");

		if (t->sep == '|')
			rest = NULL;
		text += strspn(text, " ");
		if (*text && strcmp(text, "0") != 0)
			add_feature(t, column, owner, text);
	}
}

static bool is_number(const char *cell)
{
	return *cell && cell[strspn(cell, "0123456789")] == '\0';
}

/* Takes the names of the columns, or numbers them. */
static void name_columns(struct reading *t, char *const *cell, size_t n)
{
	bool names = !is_number(cell[0]);

	t->width = n;
	t->column = mem_array(n, sizeof *t->column);
	for (size_t i = 0; i < n; i++)
		t->column[i] = names ? mem_strdup(cell[i]) : mem_printf("%zu", i + 1);
}

static enum err_code take_cells(struct reading *t, char **cell, size_t n, struct err *e)
{
	struct data_features *f = t->f;
	uint64_t owner;
	bool first = !t->column, word;
	char shown[DATA_SHOWN];

	if (first)
		name_columns(t, cell, n);
	if (n != t->width)
		return stream_fail(t->s, e, DATA_CELLS_WIDTH, n, NUM_S(n), t->width,
		    data_cells_width_remedy(n, t->width, stream_lineno(t->s)));
	if (n < 2)
		return stream_fail(t->s, e,
		    "has one column; a table of features has the %s first, and then its features",
		    kind_name[f->kind]);
	if (first && !is_number(cell[0]))
		return ERR_OK;
	if (!data_ratings_number(cell[0], f->kind == DATA_FEATURES_ITEMS, &owner, &word)) {
		data_shown(shown, cell[0], strlen(cell[0]));
		return stream_fail(t->s, e, "expected %s in the first column, got \"%s\"",
		    a_kind[f->kind], shown);
	}
	f->owner = mem_grow(f->owner, &t->owners_room, f->nowners + 1, sizeof *f->owner);
	f->owner[f->nowners++] = owner;
	for (size_t i = 1; i < n; i++)
		add_cell(t, i, owner, cell[i]);
	return ERR_OK;
}

/* Splits a line of MovieLens, whose cells are between "::". */
static char **split_movielens(char *line, size_t *n)
{
	char **cell = mem_array(strlen(line) / 2 + 2, sizeof *cell);

	*n = 0;
	for (char *end; line; line = end) {
		end = strstr(line, "::");
		if (end) {
			*end = '\0';
			end += 2;
		}
		cell[(*n)++] = line;
	}
	return cell;
}

static enum err_code take_line(struct reading *t, char *line, size_t len, struct err *e)
{
	char **cell;
	size_t n;
	enum err_code rc;

	if (memchr(line, '\0', len))
		return stream_fail(t->s, e, "holds a NUL byte; is this a text file?");
	if (line[strspn(line, " \t")] == '\0')
		return ERR_OK;
	if (!t->sep)
		t->sep = strstr(line, "::") ? ':' : data_cells_separator(line, NULL);
	cell = t->sep == ':' ? split_movielens(line, &n) : data_cells_split(line, t->sep, &n);
	if (!cell)
		return stream_fail(t->s, e, DATA_CELLS_QUOTES);
	rc = take_cells(t, cell, n, e);
	free(cell);
	return rc;
}

/* ---- what is kept ---- */

static int compare_features(const void *a, const void *b)
{
	const struct occurrence *x = a, *y = b;

	if (x->feature != y->feature)
		return x->feature < y->feature ? -1 : 1;
	return (x->owner > y->owner) - (x->owner < y->owner);
}

static int compare_owners(const void *a, const void *b)
{
	const struct occurrence *x = a, *y = b;

	if (x->owner != y->owner)
		return x->owner < y->owner ? -1 : 1;
	return (x->feature > y->feature) - (x->feature < y->feature);
}

static int compare_numbers(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* Keeps the features that several have, once each, and lists them. */
static void keep_shared(struct reading *t)
{
	struct data_features *f = t->f;
	size_t kept = 0, room = 0;

	if (t->n)
		qsort(t->at, t->n, sizeof *t->at, compare_features);
	for (size_t i = 0, end; i < t->n; i = end) {
		for (end = i + 1; end < t->n && t->at[end].feature == t->at[i].feature; end++)
			;
		if (t->at[end - 1].owner == t->at[i].owner) {
			f->left_out++;
			continue;
		}
		f->named = mem_grow(f->named, &room, f->nnamed + 1, sizeof *f->named);
		f->named[f->nnamed++] = (struct named){ t->at[i].feature, t->at[i].text };
		for (size_t k = i; k < end; k++)
			if (k == i || t->at[k].owner != t->at[k - 1].owner)
				t->at[kept++] = t->at[k];
	}
	t->n = kept;
}

/* Lists what is kept by owners. ERR_FORMAT: one has two lines. */
static enum err_code list_by_owner(struct reading *t, struct err *e)
{
	struct data_features *f = t->f;
	size_t at = 0;

	if (t->n)
		qsort(t->at, t->n, sizeof *t->at, compare_owners);
	if (f->nowners)
		qsort(f->owner, f->nowners, sizeof *f->owner, compare_numbers);
	f->start = mem_array(f->nowners + 1, sizeof *f->start);
	f->feature = mem_array(t->n + 1, sizeof *f->feature);
	for (size_t i = 0; i < f->nowners; i++) {
		if (i && f->owner[i] == f->owner[i - 1])
			return err_set(e, ERR_FORMAT,
			    "%s: two lines are of the same %s, whose number is %llu; remove one",
			    stream_name(t->s), kind_name[f->kind], (unsigned long long)f->owner[i]);
		for (; at < t->n && t->at[at].owner == f->owner[i]; at++)
			f->feature[at] = t->at[at].feature;
		f->start[i + 1] = at;
	}
	return ERR_OK;
}

enum err_code data_features_read(const char *path, enum data_features_kind kind,
    struct data_features **out, struct err *e)
{
	struct reading t = { .f = mem_alloc(sizeof *t.f) };
	enum err_code rc = data_open(path, &t.s, e);
	char *line = NULL;
	size_t len;

	*out = NULL;
	t.f->kind = kind;
	t.f->path = mem_strdup(path);
	while (!rc && !(rc = stream_line(t.s, &line, &len, e)) && line)
		rc = take_line(&t, line, len, e);
	if (!rc && !t.f->nowners)
		rc = stream_fail(t.s, e, "has no line with %s and features", a_kind[kind]);
	if (!rc) {
		keep_shared(&t);
		rc = list_by_owner(&t, e);
	}
	stream_close(t.s);
	for (size_t i = 0; i < t.width; i++)
		free(t.column[i]);
	free(t.column);
	free(t.at);
	if (rc) {
		data_features_free(t.f);
		return rc;
	}
	*out = t.f;
	return ERR_OK;
}

const uint64_t *data_features_of(const struct data_features *f, uint64_t number, size_t *n)
{
	const uint64_t *at = bsearch(&number, f->owner, f->nowners, sizeof number, compare_numbers);
	size_t i = at ? (size_t)(at - f->owner) : 0;

	*n = at ? f->start[i + 1] - f->start[i] : 0;
	return at ? f->feature + f->start[i] : NULL;
}

void data_features_name(const struct data_features *f, struct data_names *names)
{
	for (size_t i = 0; i < f->nnamed; i++) {
		const char *text = (const char *)f->texts.data + f->named[i].text,
		           *value = strchr(text, '=');
		char *column = mem_printf("%s.%.*s", kind_name[f->kind], (int)(value - text), text);

		data_names_add(names, data_names_column(names, column), value + 1,
		    2 * f->named[i].feature + f->kind);
		free(column);
	}
}

char *data_features_describe(const struct data_features *f)
{
	const char *kind = kind_name[f->kind];
	struct buf text = BUF_INIT;

	buf_printf(&text, "%zu feature%s of %ss from %s", f->nnamed, NUM_S(f->nnamed), kind,
	    path_basename(f->path));
	if (f->left_out)
		buf_printf(&text, ", without %zu that only one %s has", f->left_out, kind);
	return (char *)text.data;
}
