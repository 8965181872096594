/* SPDX-License-Identifier: ISC */
#include "data/reader/data_features.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/buf.h"
#include "core/file.h"
#include "core/lock.h"
#include "core/mem.h"
#include "core/num.h"
#include "data/data_build.h"
#include "data/reader/data_cells.h"
#include "data/reader/data_ratings.h"
#include "data/reader/data_row.h"
#include "data/source/data_object.h"
#include "format/uri.h"

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
	bool shared;
};

/* A user or item with its line. */
struct owner {
	uint64_t number, line;
};

/* The file as it was read; zeroes for a URI. */
struct file_state {
	dev_t device;
	ino_t inode;
	off_t size;
	struct timespec modified, changed;
};

struct data_features {
	enum data_features_kind kind;
	char *path;
	struct file_state file;
	unsigned users; /* by the lock of `kept` */
	/* The owners, ascending; owner i has the features start[i] .. start[i+1]-1. */
	struct owner *owner;
	size_t nowners, *start;
	uint64_t *feature;
	struct named *named; /* of all features, ascending */
	size_t nnamed, nshared;
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

static void free_table(struct data_features *f)
{
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
		text += strspn(text, " \t");
		for (size_t n = strlen(text); n && strchr(" \t", text[n - 1]); n--)
			text[n - 1] = '\0';
		if (*text && strcmp(text, "0") != 0)
			add_feature(t, column, owner, text);
	}
}

static bool is_number(const char *cell)
{
	return *cell && cell[strspn(cell, "0123456789")] == '\0';
}

/* Takes the names of the columns, or numbers them. ERR_FORMAT: two have the same name. */
static enum err_code name_columns(struct reading *t, char *const *cell, size_t n, struct err *e)
{
	bool names = !is_number(cell[0]);

	t->width = n;
	t->column = mem_array(n, sizeof *t->column);
	for (size_t i = 0; i < n; i++)
		t->column[i] = names ? mem_strdup(cell[i]) : mem_printf("%zu", i + 1);
	for (size_t i = 1; i < n; i++)
		for (size_t k = 0; k < i; k++)
			if (strcmp(t->column[i], t->column[k]) == 0)
				return stream_fail(t->s, e,
				    "columns %zu and %zu have the same name \"%.60s\"; rename one",
				    k + 1, i + 1, t->column[i]);
	return ERR_OK;
}

static enum err_code take_cells(struct reading *t, char **cell, size_t n, struct err *e)
{
	struct data_features *f = t->f;
	uint64_t owner;
	bool first = !t->column, word;
	char shown[DATA_SHOWN];

	if (first && name_columns(t, cell, n, e))
		return ERR_FORMAT;
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
	if (data_features_is_number(owner))
		return stream_fail(t->s, e,
		    "users and items with features must be words, or numbers below 2^%d, got \"%.40s\"",
		    FEATURE_BIT, cell[0]);
	f->owner = mem_grow(f->owner, &t->owners_room, f->nowners + 1, sizeof *f->owner);
	f->owner[f->nowners++] = (struct owner){ owner, stream_lineno(t->s) };
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

/* Finds what separates the cells. A cell may have many bars, so bars separate the cells only if no other
 * sign comes before the first of them. */
static char find_separator(const char *line)
{
	const char *bar = strchr(line, '|');
	char sep = strstr(line, "::") ? ':' : data_cells_separator(line, NULL);

	for (const char *p = line; sep == '|' && p < bar; p++)
		if (*p == '\t' || *p == ';' || *p == ',')
			sep = *p;
	return sep;
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
		t->sep = find_separator(line);
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
	const struct owner *x = a, *y = b;

	if (x->number != y->number)
		return x->number < y->number ? -1 : 1;
	return (x->line > y->line) - (x->line < y->line);
}

static int compare_named(const void *a, const void *b)
{
	const struct named *x = a, *y = b;

	return (x->feature > y->feature) - (x->feature < y->feature);
}

/* Lists the features, and keeps one occurrence of each for an owner. */
static void list_features(struct reading *t)
{
	struct data_features *f = t->f;
	size_t kept = 0, room = 0;

	if (t->n)
		qsort(t->at, t->n, sizeof *t->at, compare_features);
	for (size_t i = 0, end; i < t->n; i = end) {
		bool shared;

		for (end = i + 1; end < t->n && t->at[end].feature == t->at[i].feature; end++)
			;
		shared = t->at[end - 1].owner != t->at[i].owner;
		f->nshared += shared;
		f->named = mem_grow(f->named, &room, f->nnamed + 1, sizeof *f->named);
		f->named[f->nnamed++] = (struct named){ t->at[i].feature, t->at[i].text, shared };
		for (size_t k = i; k < end; k++)
			if (k == i || t->at[k].owner != t->at[k - 1].owner)
				t->at[kept++] = t->at[k];
	}
	t->n = kept;
}

/* Lists the features of each owner. ERR_FORMAT: an owner has two lines. */
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
		if (i && f->owner[i].number == f->owner[i - 1].number)
			return err_set(e, ERR_FORMAT,
			    "%s: the lines %llu and %llu are of the same %s; remove one",
			    stream_name(t->s), (unsigned long long)f->owner[i - 1].line,
			    (unsigned long long)f->owner[i].line, kind_name[f->kind]);
		for (; at < t->n && t->at[at].owner == f->owner[i].number; at++)
			f->feature[at] = t->at[at].feature;
		f->start[i + 1] = at;
	}
	return ERR_OK;
}

static struct file_state state_of(const char *path)
{
	struct stat st;

	if (uri_is(path) || stat(path, &st))
		return (struct file_state){ 0 };
	return (struct file_state){ st.st_dev, st.st_ino, st.st_size, st.st_mtim, st.st_ctim };
}

static bool is_same_time(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

static bool is_same_state(const struct file_state *a, const struct file_state *b)
{
	return a->device == b->device && a->inode == b->inode && a->size == b->size &&
	    is_same_time(&a->modified, &b->modified) && is_same_time(&a->changed, &b->changed);
}

/* Reads a table. */
static enum err_code read_table(const char *path, enum data_features_kind kind,
    struct data_features **out, struct err *e)
{
	struct reading t = { .f = mem_alloc(sizeof *t.f) };
	enum err_code rc;
	char *line = NULL;
	size_t len;

	t.f->kind = kind;
	t.f->path = mem_strdup(path);
	t.f->file = state_of(path);
	t.f->users = 1;
	rc = data_open(path, &t.s, e);
	/* ERR_NOTFOUND would mean that the data are missing. */
	if (rc == ERR_NOTFOUND && e)
		e->code = ERR_IO;
	rc = rc == ERR_NOTFOUND ? ERR_IO : rc;
	while (!rc && !(rc = stream_line(t.s, &line, &len, e)) && line)
		rc = take_line(&t, line, len, e);
	if (!rc && !t.f->nowners)
		rc = stream_fail(t.s, e, "has no line with %s and features", a_kind[kind]);
	if (!rc) {
		list_features(&t);
		rc = list_by_owner(&t, e);
	}
	stream_close(t.s);
	for (size_t i = 0; i < t.width; i++)
		free(t.column[i]);
	free(t.column);
	free(t.at);
	if (rc)
		free_table(t.f);
	else
		*out = t.f;
	return rc;
}

/* ---- tables that are kept ---- */

/* A job has two, and a process that serves models those of two models while they change places. */
#define KEPT 4

/* The tables that were used last, the newest one first. */
static struct {
	struct mutex lock;
	struct data_features *at[KEPT];
} kept;
static pthread_once_t kept_once = PTHREAD_ONCE_INIT;

static void init_kept(void)
{
	mutex_init(&kept.lock, LOCK_FEATURES);
}

/* Ends a use. The caller holds the lock. */
static void release_use(struct data_features *f)
{
	mutex_assert_held(&kept.lock);
	if (f && --f->users == 0)
		free_table(f);
}

void data_features_free(struct data_features *f)
{
	if (!f)
		return;
	mutex_lock(&kept.lock);
	release_use(f);
	mutex_unlock(&kept.lock);
}

/* Puts a table, of which this takes a use, at the first place. */
static void keep_first(struct data_features *f, size_t from)
{
	mutex_assert_held(&kept.lock);
	for (; from > 0; from--)
		kept.at[from] = kept.at[from - 1];
	kept.at[0] = f;
}

/* Finds the table as its file is now. NULL: it is not there. */
static struct data_features *find_kept(const char *path, enum data_features_kind kind)
{
	struct file_state now = state_of(path);
	struct data_features *f = NULL;

	mutex_lock(&kept.lock);
	for (size_t i = 0; !f && i < KEPT; i++) {
		struct data_features *at = kept.at[i];

		if (!at || at->kind != kind || strcmp(at->path, path) != 0)
			continue;
		if (!is_same_state(&at->file, &now))
			continue;
		f = at;
		f->users++;
		keep_first(f, i);
	}
	mutex_unlock(&kept.lock);
	return f;
}

enum err_code data_features_read(const char *path, enum data_features_kind kind,
    struct data_features **out, struct err *e)
{
	enum err_code rc;

	pthread_once(&kept_once, init_kept);
	*out = find_kept(path, kind);
	if (*out)
		return ERR_OK;
	rc = read_table(path, kind, out, e);
	if (rc)
		return rc;
	mutex_lock(&kept.lock);
	release_use(kept.at[KEPT - 1]);
	(*out)->users++;
	keep_first(*out, KEPT - 1);
	mutex_unlock(&kept.lock);
	return ERR_OK;
}

bool data_features_has_changed(const struct data_features *f)
{
	struct file_state now = state_of(f->path);

	return !is_same_state(&f->file, &now);
}

/* ---- what it has ---- */

/* Compares a number with an owner. */
static int compare_with_owner(const void *number, const void *owner)
{
	uint64_t x = *(const uint64_t *)number, y = ((const struct owner *)owner)->number;

	return (x > y) - (x < y);
}

const uint64_t *data_features_of(const struct data_features *f, uint64_t number, size_t *n)
{
	const struct owner *at = bsearch(&number, f->owner, f->nowners, sizeof *f->owner,
	    compare_with_owner);
	size_t i = at ? (size_t)(at - f->owner) : 0;

	*n = at ? f->start[i + 1] - f->start[i] : 0;
	return at ? f->feature + f->start[i] : NULL;
}

static const struct named *find_named(const struct data_features *f, uint64_t feature)
{
	const struct named key = { .feature = feature };

	return f->nnamed ? bsearch(&key, f->named, f->nnamed, sizeof key, compare_named) : NULL;
}

bool data_features_is_shared(const struct data_features *f, uint64_t feature)
{
	const struct named *at = find_named(f, feature);

	return at && at->shared;
}

/* Returns the column of a feature and what it belongs to, "item.genre", as a new string; *text: the
 * feature's text. */
static char *split_name(const struct data_features *f, const struct named *x, const char **text)
{
	const char *name = (const char *)f->texts.data + x->text, *value = strchr(name, '=');

	*text = value + 1;
	return mem_printf("%s.%.*s", kind_name[f->kind], (int)(value - name), name);
}

char *data_features_find_name(const struct data_features *f, uint64_t feature)
{
	const struct named *at = find_named(f, feature);
	const char *text;
	char *column = at ? split_name(f, at, &text) : NULL,
	     *name = column ? mem_printf("%s=%s", column, text) : NULL;

	free(column);
	return name;
}

void data_features_name(const struct data_features *f, struct data_names *names)
{
	for (size_t i = 0; i < f->nnamed; i++) {
		const char *text;
		char *column;

		if (!f->named[i].shared)
			continue;
		column = split_name(f, &f->named[i], &text);
		data_names_add(names, data_names_column(names, column), text,
		    2 * f->named[i].feature + f->kind);
		free(column);
	}
}

char *data_features_describe(const struct data_features *f)
{
	const char *kind = kind_name[f->kind];
	char *shown = uri_shown(f->path);
	struct buf text = BUF_INIT;

	buf_printf(&text, "%zu feature%s of %ss from %s", f->nshared, NUM_S(f->nshared), kind,
	    path_basename(shown));
	free(shown);
	if (f->nnamed > f->nshared)
		buf_printf(&text, ", without %zu that only one %s has", f->nnamed - f->nshared,
		    kind);
	return (char *)text.data;
}
