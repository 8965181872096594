/* SPDX-License-Identifier: ISC */
#include "init_data.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "core/buf.h"
#include "core/json.h"
#include "core/mem.h"
#include "core/names.h"
#include "core/num.h"
#include "data/data_object.h"
#include "data/data_ratings.h"
#include "data/data_schema.h"
#include "data/data_uri.h"
#include "format/uri.h"
#include "model/model.h"

/* Bytes of the file that are looked at. */
#define LOOK (1u << 20)
/* Labels with more different numbers than this are real numbers, and no classes. */
#define CLASSES_MOST 20u
/* A column of text with different values in more than this share of the rows names them. */
#define NAMES_SHARE 0.8
#define NAMES_ROWS  20u
/* A column with so few different whole numbers, each of which so many rows have on average, has codes. */
#define CODES_LEAST 3u
#define CODES_MOST  12u
#define CODES_ROWS  30u
/* Different whole numbers from this one on may become the same float. */
#define CODES_LIMIT 0x1p24
#define BATCH       64u
/* Bytes that a byte of a compressed table becomes, about. */
#define COMPRESSED 5.0

/* The file and what its first lines are. */
struct look {
	char *path;        /* with options, to which those that are chosen are added */
	struct dataset *d; /* the first lines, without labels */
	double rows;       /* of the whole file, estimated */
	bool rates;        /* tables may be ratings: no option names the model */
};

/* ---- reading ---- */

/* Shows the first whole lines of a text file. *all: there are no others. */
static enum err_code peek_lines(struct stream *s, const uint8_t **p, size_t *n, bool *all,
    struct err *e)
{
	const uint8_t *nl;
	enum err_code rc = stream_peek(s, LOOK, p, n, e);

	*all = !rc && *n < LOOK;
	if (rc || *all)
		return rc;
	nl = memrchr(*p, '\n', *n);
	/* The last line may be cut off. A file that is no text has no lines. */
	if (nl)
		*n = (size_t)(nl - *p) + 1;
	else if (!memchr(*p, 0, *n))
		return err_set(e, ERR_LIMIT,
		    "%s:1: the line is longer than %u MiB, the limit of init", stream_name(s),
		    LOOK >> 20);
	return ERR_OK;
}

/* Bytes of a file's text; for a compressed file an estimate; 0: not known. */
static double text_bytes(const char *file)
{
	struct stat st;
	size_t n = strlen(file);
	bool packed = (n > 3 && strcmp(file + n - 3, ".gz") == 0) ||
	    (n > 4 && strcmp(file + n - 4, ".zst") == 0);

	if (uri_is(file) || stat(file, &st) != 0 || !S_ISREG(st.st_mode))
		return 0;
	return (double)st.st_size * (packed ? COMPRESSED : 1);
}

/* Can the file be read several times? */
static enum err_code check_rereadable(const char *file, struct err *e)
{
	struct stat st;

	if (strcmp(file, "-") == 0)
		return err_set(e, ERR_CONFIG,
		    "standard input can be read only once, and init reads data several times; save them to "
		    "a file");
	if (!uri_is(file) && stat(file, &st) == 0 && (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode)))
		return err_set(e, ERR_CONFIG,
		    "%s is a pipe, which can be read only once, and init reads data several times; "
		    "save them to a file",
		    file);
	return ERR_OK;
}

/* Loads these lines, which have been decompressed. NULL, with an error. */
static struct dataset *load_lines(const uint8_t *p, size_t n, const char *name,
    const struct data_options *o, const struct data_want *want, struct err *e)
{
	struct buf text = BUF_INIT;
	struct dataset *d = NULL;
	struct stream *s;

	buf_append(&text, p, n);
	buf_reserve(&text, STREAM_PAD);
	s = stream_text((char *)text.data, n, name);
	data_load_stream(s, o, want, NULL, &d, e);
	stream_close(s);
	buf_release(&text);
	return d;
}

/* Loads the first lines of the first file of a path, or all of binary files. *rows: the estimated number of
 * rows of all files. NULL, with an error: they are not examples of this kind. */
static struct dataset *load_first_lines(const char *path, const struct data_want *want,
    double *rows, struct err *e)
{
	struct data_options o;
	struct dataset *d = NULL;
	struct stream *s = NULL;
	const uint8_t *p = NULL;
	size_t n = 0, nfiles = 0;
	char *file, **files = NULL;
	double bytes = 0;
	bool all = false, binary = false;

	if (data_uri_parse(path, &file, &o, e))
		return NULL;
	if (!check_rereadable(file, e) && !data_uri_expand(file, NULL, &files, &nfiles, e) &&
	    !data_open(files[0], &s, e) && !peek_lines(s, &p, &n, &all, e)) {
		binary = memchr(p, 0, n);
		if (binary)
			data_load(&path, 1, NULL, want, NULL, &d, e);
		else
			d = load_lines(p, n, files[0], &o, want, e);
	}
	for (size_t i = 0; i < nfiles; i++)
		bytes += text_bytes(files[i]);
	if (d) {
		bool whole = binary || (all && nfiles == 1);

		*rows = (double)d->rows * (whole || bytes < (double)n ? 1 : bytes / (double)n);
	}
	stream_close(s);
	data_uri_free(files, nfiles);
	data_uri_release(&o);
	free(file);
	return d;
}

/* ---- options of the path ---- */

/* Adds "key=value" to the path. */
static void add_option(struct look *l, const char *key, const char *value)
{
	struct data_options o;
	struct buf out = BUF_INIT;
	char *file = NULL;
	bool has = data_uri_parse(l->path, &file, &o, NULL) == ERR_OK && strcmp(file, l->path) != 0;

	buf_printf(&out, "%s%c%s=", l->path, has ? '&' : '?', key);
	for (const char *p = value; *p; p++)
		buf_printf(&out, strchr("%&?#+ ", *p) ? "%%%02X" : "%c", (unsigned char)*p);
	free(file);
	data_uri_release(&o);
	free(l->path);
	l->path = (char *)out.data;
}

/* The options that the path gives already. */
struct given {
	bool label, scale, categories, ignored, format;
};

static struct given options_given(const char *path)
{
	struct data_options o;
	struct given g = { 0 };
	char *file;

	if (data_uri_parse(path, &file, &o, NULL))
		return g;
	g = (struct given){ o.label != NULL, o.scale != NULL, o.categories != NULL,
		o.ignore || o.id, o.format != NULL };
	free(file);
	data_uri_release(&o);
	return g;
}

/* ---- columns ---- */

/* How a list of options names column i: by its name, or by its number where the name has a comma or
 * another column has it, too. */
static char *column_word(const struct data_schema *s, size_t i)
{
	const char *name = s->column[i].name;
	bool clear = *name && !strchr(name, ',');

	for (size_t k = 0; k < s->ncolumns; k++)
		clear &= k == i || strcmp(s->column[k].name, name) != 0;
	return clear ? mem_strdup(name) : mem_printf("%zu", i + 1);
}

static void add_column(const struct data_schema *s, size_t i, struct buf *list)
{
	char *word = column_word(s, i);

	buf_printf(list, "%s%s", list->len ? "," : "", word);
	free(word);
}

/* The column of labels: one of a usual name; y only at an end, because x and y may be places; else the
 * one that the reader takes, the last. */
static size_t guess_label_column(const struct data_schema *s)
{
	static const char *const usual[] = { "label", "target", "class" };
	size_t last = 0;

	for (size_t k = 0; s->named && k < sizeof usual / sizeof usual[0]; k++)
		for (size_t i = 0; i < s->ncolumns; i++)
			if (strcasecmp(s->column[i].name, usual[k]) == 0)
				return i;
	if (s->named && s->ncolumns && strcasecmp(s->column[0].name, "y") == 0)
		return 0;
	while (last + 1 < s->ncolumns && s->column[last].kind != DATA_LABEL)
		last++;
	return last;
}

/* Chooses the label, where the path does not say it, and tells which one it is. */
static void choose_label(struct look *l)
{
	const struct data_schema *s = l->d->schema;
	size_t i = guess_label_column(s);
	bool last = s->column[i].kind == DATA_LABEL;

	if (!last) {
		char *word = column_word(s, i);

		add_option(l, "label", word);
		free(word);
	}
	fprintf(stderr,
	    "label: column \"%s\"%s; to choose another one, add ?label=NAME to the path\n",
	    s->column[i].name, last ? ", the last one" : "");
}

/* Has a column of text another value in almost every row? */
static bool names_rows(const struct look *l, const struct data_column *c)
{
	return c->kind == DATA_CATEGORY && l->d->rows >= NAMES_ROWS &&
	    (double)c->count > NAMES_SHARE * (double)l->d->rows;
}

/* The value of a feature in row r; NAN where a sparse row lacks it. */
static double value_at(const struct dataset *d, size_t r, uint32_t feature)
{
	if (!d->sparse)
		return (double)d->x[r * d->cols + feature];
	for (uint64_t k = d->start[r]; k < d->start[r + 1]; k++)
		if (d->id[d->col[k]] == feature)
			return (double)d->val[k];
	return (double)NAN;
}

/* Does a column with a name of row numbers, or without a name, count the rows? A model would learn the
 * order of the file from it. */
static bool counts_rows(const struct look *l, const struct data_column *c)
{
	static const char *const usual[] = { "", "id", "index", "row", "row_id", "rowid",
		"unnamed: 0" };
	bool named = false;

	for (size_t k = 0; k < sizeof usual / sizeof usual[0]; k++)
		named |= strcasecmp(c->name, usual[k]) == 0;
	if (!named || c->kind != DATA_NUMBER || l->d->rows < NAMES_ROWS)
		return false;
	for (size_t r = 1; r < l->d->rows; r++)
		if (value_at(l->d, r, c->first) != value_at(l->d, 0, c->first) + (double)r)
			return false;
	return true;
}

/* The number of different values of a column of numbers; 0: they are not few and whole. */
static size_t count_codes(const struct look *l, const struct data_column *c)
{
	double seen[CODES_MOST];
	size_t n = 0;

	if (c->kind != DATA_NUMBER || data_form_is_time(c->form) || c->words)
		return 0;
	for (size_t r = 0; r < l->d->rows; r++) {
		double v = value_at(l->d, r, c->first);
		size_t i = 0;

		while (i < n && seen[i] != v)
			i++;
		if (i < n)
			continue;
		if (n == CODES_MOST || v != floor(v) || fabs(v) >= CODES_LIMIT)
			return 0;
		seen[n++] = v;
	}
	return n >= CODES_LEAST && n * CODES_ROWS <= l->d->rows ? n : 0;
}

/* Leaves out columns that name the rows, and makes categories of codes, where the path does not say how to
 * take columns. */
static void choose_columns(struct look *l, const struct given *g)
{
	const struct data_schema *s = l->d->schema;
	struct buf ignore = BUF_INIT, categories = BUF_INIT;

	for (size_t i = 0; i < s->ncolumns; i++) {
		size_t codes = g->categories ? 0 : count_codes(l, &s->column[i]);

		if (codes) {
			add_column(s, i, &categories);
			fprintf(stderr,
			    "categories: column \"%s\", which has %zu distinct integers\n",
			    s->column[i].name, codes);
		} else if (!g->ignored && names_rows(l, &s->column[i])) {
			add_column(s, i, &ignore);
			fprintf(stderr,
			    "ignored: column \"%s\", which has a different text in almost every row\n",
			    s->column[i].name);
		} else if (!g->ignored && counts_rows(l, &s->column[i])) {
			add_column(s, i, &ignore);
			fprintf(stderr, "ignored: column \"%s\", which counts the rows\n",
			    s->column[i].name);
		}
	}
	if (categories.len)
		add_option(l, "categories", (char *)categories.data);
	if (ignore.len)
		add_option(l, "ignore", (char *)ignore.data);
	buf_release(&ignore);
	buf_release(&categories);
}

/* Is it a table of ratings, which has columns of the usual names, and at most one more, as the time?
 * Then adds the options that make it one. */
static bool choose_ratings(struct look *l)
{
	static const char *const option[3] = { "user", "item", "rating" };
	const struct data_schema *s = l->d->schema;
	const char *name[4];
	size_t at[3];

	for (size_t i = 0; s->ncolumns <= 4 && i < s->ncolumns; i++)
		name[i] = s->column[i].name;
	if (!s->named || s->ncolumns > 4 || !data_ratings_find(name, s->ncolumns, at))
		return false;
	fprintf(stderr,
	    "ratings: columns \"%s\", \"%s\" and \"%s\"; to read a table instead, add "
	    "?format=csv to the path\n",
	    s->column[at[0]].name, s->column[at[1]].name, s->column[at[2]].name);
	for (int k = 0; k < 3; k++)
		add_option(l, option[k], s->column[at[k]].name);
	return true;
}

static enum err_code look_at_ratings(struct look *l, struct err *e)
{
	static const struct data_want any = { .any = true };

	dataset_free(l->d);
	l->d = load_first_lines(l->path, &any, &l->rows, e);
	return l->d ? ERR_OK : e->code;
}

/* Looks at the columns of a table of CSV or JSON Lines, and adds options to the path. */
static enum err_code look_at_columns(struct look *l, struct err *e)
{
	static const struct data_want any = { .any = true };
	struct given g = options_given(l->path);
	/* Asking for the mean makes a table of mere numbers, too. */
	struct look with = { .path = mem_strdup(l->path) };

	add_option(&with, "missing", "mean");
	with.d = load_first_lines(with.path, &any, &l->rows, e);
	free(with.path);
	if (!with.d)
		return e->code;
	dataset_free(l->d);
	l->d = with.d;
	if (l->rates && !g.label && !g.format && !strcmp(l->d->format, "CSV") && choose_ratings(l))
		return look_at_ratings(l, e);
	if (!g.label && !strcmp(l->d->format, "CSV"))
		choose_label(l);
	if (g.label != options_given(l->path).label) {
		/* The column that was taken for the label is a feature. */
		g.label = true;
		return look_at_columns(l, e);
	}
	if (!l->d->schema->bits)
		choose_columns(l, &g);
	if (!g.scale)
		add_option(l, "scale", "standard");
	return ERR_OK;
}

static bool is_tabular(const struct dataset *d)
{
	return d->schema || !strcmp(d->format, "CSV") || !strcmp(d->format, "JSON Lines");
}

/* ---- the model ---- */

/* Are all labels numbers? */
static bool has_numbers(const struct dataset *d)
{
	for (size_t i = 0; i < d->classes; i++)
		if (isnan(d->class_value[i]))
			return false;
	return true;
}

/* Tells of two classes that differ in small and capital letters alone. */
static void warn_of_spelling(const struct dataset *d)
{
	for (size_t i = 0; i < d->classes; i++)
		for (size_t k = i + 1; d->classes <= CLASSES_MOST && k < d->classes; k++)
			if (strcasecmp(d->class_name[i], d->class_name[k]) == 0)
				fprintf(stderr,
				    "warning: the labels \"%s\" and \"%s\" are different classes; "
				    "correct the file if they should be the same\n",
				    d->class_name[i], d->class_name[k]);
}

/* Is there another text as the label in almost every row? */
static bool names_rows_by_label(const struct dataset *d)
{
	return d->schema && !has_numbers(d) && d->rows >= NAMES_ROWS &&
	    (double)d->classes > NAMES_SHARE * (double)d->rows;
}

/* The model for the labels of *d: two classes, several, or real numbers. NULL, with an error: there is
 * none. The error is that of the labels as classes, unless they are real numbers. */
static const char *choose_model(struct look *l, struct err *e)
{
	static const struct data_want classes = { .classes = true }, real = { 0 };
	struct err why = { 0 };
	struct dataset *d;
	const char *model = "linear";

	if (!strcmp(l->d->format, "ratings"))
		return "mf";
	d = load_first_lines(l->path, &classes, &l->rows, e);
	if (!d && e->code != ERR_CONFIG)
		return NULL;
	if (d && names_rows_by_label(d)) {
		err_set(e, ERR_FORMAT,
		    "%s: the labels are %zu different texts in %zu rows, too many for classes; if another column "
		    "is the label, add ?label=NAME to the path",
		    l->d->source, d->classes, d->rows);
		dataset_free(d);
		return NULL;
	}
	if (d)
		warn_of_spelling(d);
	if (d && (!has_numbers(d) || d->classes <= CLASSES_MOST))
		model = d->classes == 2 ? "logistic" : "softmax";
	if (strcmp(model, "linear") == 0) {
		dataset_free(d);
		d = load_first_lines(l->path, &real, &l->rows, &why);
		if (!d)
			*e = why;
	}
	if (d && d->unlabelled)
		fprintf(stderr, "ignored: %zu row%s without a label\n", d->unlabelled,
		    NUM_S(d->unlabelled));
	dataset_free(l->d);
	l->d = d;
	return d ? model : NULL;
}

/* Sets smaller batches for small data. */
static void set_batch(json_t *job, const struct look *l)
{
	size_t batch = BATCH;

	while (batch > 8 && (double)batch * 20 > l->rows)
		batch /= 2;
	if (batch < BATCH)
		json_object_set_new(job, "batch", json_integer((json_int_t)batch));
}

/* The path of evaluation data, to be freed. Files of ratings have no schema that tells their columns,
 * so the options that were added to the path of the training data are added here, too. */
static char *eval_path(const struct look *l, const char *data, const char *eval)
{
	const char *added = l->path + strlen(data);

	if (strcmp(l->d->format, "ratings") != 0 || !*added || strchr(eval, '?'))
		return mem_strdup(eval);
	return mem_printf("%s?%s", eval, added + 1);
}

char *init_data_template(const char *data, const char *eval, const char *model, struct err *e)
{
	const struct model_info *info = model ? model_info_find(model) : NULL;
	const struct data_want any = { .any = true, .tables = info ? info->reads : NULL };
	struct look l = { .path = mem_strdup(data), .rates = !model };
	const char *fits = NULL;
	char *text = NULL, *dump, *path;
	json_t *job;

	*e = (struct err){ 0 };
	l.d = load_first_lines(l.path, &any, &l.rows, e);
	if (l.d && (!is_tabular(l.d) || look_at_columns(&l, e) == ERR_OK))
		fits = choose_model(&l, e);
	if (fits) {
		fits = model ? model : fits;
		job = json_pack("{s:s, s:s}", "model", fits, "data", l.path);
		path = eval ? eval_path(&l, data, eval) : NULL;
		if (path)
			json_object_set_new(job, "eval", json_string(path));
		free(path);
		set_batch(job, &l);
		job = json_pack("{s:i, s:i, s:o}", "servers", 1, "workers", 2, "job", job);
		dump = json_dumps(job, JSON_INDENT(8) | JSON_REAL_PRECISION(6));
		text = mem_printf("%s\n", dump);
		free(dump);
		json_decref(job);
	}
	dataset_free(l.d);
	free(l.path);
	return text;
}
