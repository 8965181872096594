/* SPDX-License-Identifier: ISC */
#include "init_data.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "conf/conf_data.h"
#include "conf/conf_rule.h"
#include "core/buf.h"
#include "core/json.h"
#include "core/mem.h"
#include "core/names.h"
#include "core/num.h"
#include "data/reader/data_ratings.h"
#include "data/table/data_schema.h"
#include "data/source/data_uri.h"
#include "init_columns.h"
#include "init_model.h"
#include "init_sample.h"
#include "model/model.h"

/* Labels with more different numbers than this are real numbers, and no classes. */
#define CLASSES_MOST 20u
/* A column of text with different values in more than this share of the rows names them. */
#define NAMES_SHARE 0.8
#define NAMES_ROWS  20u
/* A column with this few different whole numbers, each of which this many rows have on average, has
 * codes. */
#define CODES_LEAST 3u
#define CODES_MOST  12u
#define CODES_ROWS  30u
/* Different whole numbers from this one on may become the same float. */
#define CODES_LIMIT 0x1p24
#define BATCH       64u
/* Columns that are listed. */
#define COLUMNS_SHOWN 40u
/* Different whole numbers that counts have at least, and the share of the most frequent one that
 * the largest has. */
#define COUNTS_LEAST 5u
#define COUNTS_END   0.1
/* Fewer rows without names are not taken for ratings. */
#define RATINGS_ROWS 100u

/* The data and what a sample of them is. */
struct look {
	char *path; /* with options, to which those that are chosen are added */
	struct init_sample sample;
	struct column_looks columns;
	char **fate; /* by column: why its use is not what its cells suggest; NULL: it is */
	size_t nfates;
	struct dataset *d; /* the sample, without labels */
	double rows;       /* of all files, estimated */
	bool rates;        /* tables may be ratings: no option names the model */
};

/* ---- reading ---- */

/* Loads the sample with the options chosen so far. NULL, with an error: it has no examples of this
 * kind. */
static struct dataset *load_sample(struct look *l, const struct data_want *want, struct err *e)
{
	return init_sample_load(&l->sample, l->path, want, NULL, &l->rows, e);
}

/* ---- options of the path ---- */

/* Adds "key=value" to the path. */
static void add_option(struct look *l, const char *key, const char *value)
{
	char *path = conf_data_add_option(l->path, key, value);

	free(l->path);
	l->path = path;
}

/* The options that the path gives already. */
struct given {
	bool label, scale, categories, ignored, format, missing;
	bool split;   /* cells into words or parts */
	bool unrated; /* observations of a user and an item alone */
};

static struct given options_given(const char *path)
{
	struct data_options o;
	struct given g = { 0 };
	char *file;

	if (data_uri_parse(path, &file, &o, NULL))
		return g;
	g = (struct given){ o.label != NULL, o.scale != NULL, o.categories != NULL,
		o.ignore || o.id, o.format != NULL, o.missing != NULL, o.text || o.lists,
		o.user && o.item && !o.rating };
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

/* The column of labels: one of a usual name; y only at an end, because x and y may be places; else
 * the one that the reader takes, the last. */
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
	fprintf(stderr, "label: column \"%s\"%s; to choose another one, add --set label=NAME\n",
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

/* Does a column with a name of row numbers, or without a name, count the rows? A model would learn
 * the order of the file from it. */
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

/* Remembers how a column is used, for the list of columns, and says so at once. */
__attribute__((format(printf, 4, 5))) static void tell_fate(struct look *l, size_t i,
    const char *what, const char *fmt, ...)
{
	char why[160];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, sizeof why, fmt, ap);
	va_end(ap);
	fprintf(stderr, "%s: column \"%s\", which %s\n", what, l->d->schema->column[i].name, why);
	if (i < l->nfates) {
		free(l->fate[i]);
		l->fate[i] = mem_printf("%s: %s", what, why);
	}
}

/* Leaves out columns that name the rows, and makes categories of codes, where the path does not say
 * how to take columns. */
static void choose_columns(struct look *l, const struct given *g)
{
	const struct data_schema *s = l->d->schema;
	struct buf ignore = BUF_INIT, categories = BUF_INIT, text = BUF_INIT, lists = BUF_INIT;

	l->nfates = s->ncolumns;
	l->fate = mem_array(s->ncolumns + 1, sizeof *l->fate);
	for (size_t i = 0; i < s->ncolumns; i++) {
		const struct column_stats *look = column_looks_at(&l->columns, i);
		size_t codes = g->categories ? 0 : count_codes(l, &s->column[i]);

		if (!g->categories && s->column[i].kind == DATA_NUMBER &&
		    column_look_is_code(look)) {
			add_column(s, i, &categories);
			tell_fate(l, i, "categories", "has digits with leading zeros");
		} else if (codes) {
			add_column(s, i, &categories);
			tell_fate(l, i, "categories", "has %zu distinct integers", codes);
		} else if (s->column[i].kind == DATA_CATEGORY && !g->split &&
		    column_look_is_text(look)) {
			add_column(s, i, &text);
			tell_fate(l, i, "text", "has %.1f words in a cell",
			    (double)look->words / (double)(look->cells - look->missing));
		} else if (s->column[i].kind == DATA_CATEGORY && !g->split &&
		    column_look_list(look)) {
			add_column(s, i, &lists);
			tell_fate(l, i, "lists", "has parts between \"%c\"",
			    column_look_list(look));
		} else if (!g->ignored && names_rows(l, &s->column[i])) {
			add_column(s, i, &ignore);
			tell_fate(l, i, "ignored", "has a different text in almost every row");
		} else if (!g->ignored && counts_rows(l, &s->column[i])) {
			add_column(s, i, &ignore);
			tell_fate(l, i, "ignored", "counts the rows");
		}
	}
	if (categories.len)
		add_option(l, "categories", (char *)categories.data);
	if (ignore.len)
		add_option(l, "ignore", (char *)ignore.data);
	if (text.len)
		add_option(l, "text", (char *)text.data);
	if (lists.len)
		add_option(l, "lists", (char *)lists.data);
	buf_release(&text);
	buf_release(&lists);
	buf_release(&ignore);
	buf_release(&categories);
}

/* Is it a table of ratings, or of observations without ratings, which has columns of the usual
 * names, and at most one more, as the time? Then adds the options that make it one. */
static bool choose_ratings(struct look *l)
{
	static const char *const option[3] = { "user", "item", "rating" };
	const struct data_schema *s = l->d->schema;
	const char *name[4];
	size_t at[3];
	bool rated;

	for (size_t i = 0; s->ncolumns <= 4 && i < s->ncolumns; i++)
		name[i] = s->column[i].name;
	if (!s->named || s->ncolumns > 4)
		return false;
	rated = data_ratings_find(name, s->ncolumns, at);
	if (!rated && (at[0] == DATA_RATINGS_NONE || at[1] == DATA_RATINGS_NONE || s->ncolumns > 3))
		return false;
	if (rated)
		fprintf(stderr,
		    "ratings: columns \"%s\", \"%s\" and \"%s\"; to read a table "
		    "instead, add --set format=csv\n",
		    s->column[at[0]].name, s->column[at[1]].name, s->column[at[2]].name);
	else
		fprintf(stderr,
		    "observations without ratings: columns \"%s\" and \"%s\"; to read a table "
		    "instead, add --set format=csv\n",
		    s->column[at[0]].name, s->column[at[1]].name);
	for (int k = 0; k < (rated ? 3 : 2); k++)
		add_option(l, option[k], s->column[at[k]].name);
	return true;
}

/* Are four columns of numbers without names a user, an item, a rating and a time, as in
 * MovieLens? */
static bool looks_like_ratings(const struct look *l)
{
	const struct column_stats *c[4];
	size_t rows;

	if (l->d->schema->named || l->d->schema->ncolumns != 4)
		return false;
	for (size_t i = 0; i < 4; i++)
		c[i] = column_looks_at(&l->columns, i);
	rows = c[0]->cells;
	for (size_t i = 0; i < 4; i++)
		if (c[i]->numbers != rows || (i != 2 && c[i]->integers != rows) || c[i]->low < 0)
			return false;
	return rows >= RATINGS_ROWS && c[0]->distinct >= 10 && c[1]->distinct >= 10 &&
	    2 * c[0]->distinct < rows && 2 * c[1]->distinct < rows && c[2]->distinct >= 2 &&
	    c[2]->distinct <= 21 && c[2]->high <= 100 && c[3]->low >= 1e8;
}

static enum err_code look_at_ratings(struct look *l, struct err *e)
{
	static const struct data_want any = { .any = true };

	dataset_free(l->d);
	l->d = load_sample(l, &any, e);
	if (l->d && l->d->roles)
		fprintf(stderr, "%s\n", l->d->roles);
	return l->d ? ERR_OK : e->code;
}

/* Loads the sample as a table, and counts its cells. */
static enum err_code load_table(struct look *l, struct err *e)
{
	static const struct data_want any = { .any = true };
	/* Asking for the mean makes a table of mere numbers, too. */
	struct look with = { .path = mem_strdup(l->path) };
	struct dataset *d;

	if (!options_given(l->path).missing)
		add_option(&with, "missing", "mean");
	d = init_sample_load(&l->sample, with.path, &any, &l->columns, &l->rows, e);
	free(with.path);
	if (!d)
		return e->code;
	dataset_free(l->d);
	l->d = d;
	return ERR_OK;
}

/* Looks at the columns of a table of CSV or JSON Lines, and adds options to the path. */
static enum err_code look_at_columns(struct look *l, struct err *e)
{
	struct given g = options_given(l->path);
	bool csv;

	if (load_table(l, e))
		return e->code;
	csv = !strcmp(l->d->format, "CSV");
	if (l->rates && !g.label && !g.format && csv && choose_ratings(l))
		return look_at_ratings(l, e);
	if (l->rates && !g.label && !g.format && csv && looks_like_ratings(l)) {
		fprintf(stderr,
		    "ratings: four columns of numbers, the last one times; to read a table "
		    "instead, add --set format=csv\n");
		add_option(l, "format", "ratings");
		return look_at_ratings(l, e);
	}
	if (!g.label && csv)
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

/* The share as "12 %", and of nothing "0". */
static void format_share(size_t part, size_t of, char out[static 16])
{
	double share = of ? 100 * (double)part / (double)of : 0;

	snprintf(out, 16, part ? share < 1 ? "< 1 %%" : "%.0f %%" : "0", share);
}

/* Prints a line for each column: its kind, missing and distinct cells, and its use. */
static void print_columns(const struct look *l)
{
	static const char *const kind[] = { [DATA_NUMBER] = "number",
		[DATA_CATEGORY] = "categories",
		[DATA_LABEL] = "target",
		[DATA_WEIGHT] = "weight",
		[DATA_IGNORED] = "text",
		[DATA_ID] = "id" };
	const struct data_schema *s = l->d->schema;
	size_t rows = 0;

	for (size_t i = 0; i < s->ncolumns; i++)
		rows = column_looks_at(&l->columns, i)->cells > rows
		    ? column_looks_at(&l->columns, i)->cells
		    : rows;
	fprintf(stderr, "%-24s %-10s %8s %9s  %s\n", "column", "kind", "missing", "distinct",
	    "use");
	for (size_t i = 0; i < s->ncolumns && i < COLUMNS_SHOWN; i++) {
		const struct data_column *c = &s->column[i];
		const struct column_stats *look = column_looks_at(&l->columns, i);
		char missing[16], distinct[32];

		format_share(look->missing + (rows - look->cells), rows, missing);
		snprintf(distinct, sizeof distinct, "%s%zu",
		    look->distinct < COLUMN_DISTINCT_MOST ? "" : ">= ", look->distinct);
		fprintf(stderr, "%-24.40s %-10s %8s %9s  %s\n", c->name,
		    data_form_is_time(c->form) ? "time" : kind[c->kind], missing, distinct,
		    i < l->nfates && l->fate[i]         ? l->fate[i]
		        : c->kind == DATA_LABEL         ? "target"
		        : data_schema_gives_features(c) ? "feature"
		                                        : "as the options say");
	}
	if (s->ncolumns > COLUMNS_SHOWN)
		fprintf(stderr, "and %zu more columns\n", s->ncolumns - COLUMNS_SHOWN);
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

/* Are the numbers of classes counts rather than names: whole numbers from 0 or a little more, of
 * which larger ones become rarer and rarer, so that a larger one may come? Then they are no
 * classes. */
static bool are_counts(const struct dataset *d)
{
	size_t *n, mode = 0, k;
	bool counts = d->classes >= COUNTS_LEAST && has_numbers(d) && d->class_value[0] >= 0;

	if (!counts || !d->label)
		return false;
	n = mem_array(d->classes, sizeof *n);
	for (size_t r = 0; r < d->rows; r++)
		n[d->label[r]]++;
	for (k = 0; k < d->classes; k++) {
		counts = counts && d->class_value[k] == floor(d->class_value[k]);
		mode = n[k] > n[mode] ? k : mode;
	}
	/* One peak, up to what chance makes of it, and a small end. */
	for (k = 1; k < d->classes; k++) {
		double fall = k <= mode ? (double)n[k - 1] - (double)n[k]
		                        : (double)n[k] - (double)n[k - 1];

		counts = counts && fall <= 3 * sqrt((double)n[k] + (double)n[k - 1] + 1);
	}
	counts = counts && (double)n[d->classes - 1] < COUNTS_END * (double)n[mode];
	free(n);
	return counts;
}

/* Has the evaluation data a number as a label that the training data lack? It would be no class
 * there. */
static bool has_other_labels(const struct dataset *d, const struct look *eval)
{
	bool other = false;

	for (size_t i = 0; eval->d && i < eval->d->classes; i++) {
		size_t k = 0;

		while (k < d->classes && d->class_value[k] != eval->d->class_value[i])
			k++;
		other |= k == d->classes && !isnan(eval->d->class_value[i]);
	}
	return other;
}

/* Loads the sample of the evaluation data with the label's classes; without any data after an
 * error, which the job will report. */
static void look_at_eval(struct look *eval, const struct look *l)
{
	static const struct data_want classes = { .classes = true };
	struct given g = options_given(eval->path);
	const char *options = strrchr(l->path, '?');

	if (!g.label && !g.format && options && !strchr(eval->path, '?')) {
		char *path = mem_printf("%s%s", eval->path, options);

		free(eval->path);
		eval->path = path;
	}
	if (init_sample_read(eval->path, &eval->sample, NULL) == ERR_OK)
		eval->d = load_sample(eval, &classes, &(struct err){ 0 });
}

/* Have the users and items ratings? */
static bool have_ratings(struct look *l)
{
	static const struct data_want real = { 0 };
	struct dataset *d = options_given(l->path).unrated
	    ? NULL
	    : load_sample(l, &real, &(struct err){ 0 });
	bool rated = d != NULL;

	dataset_free(d);
	return rated;
}

/* Loads the sample with its labels, and finds the task: two classes, several, or real numbers.
 * INIT_NO_TASK, with an error: there is none. The error is that of the labels as classes, unless
 * they are real numbers. */
static enum init_task find_task(struct look *l, struct look *eval, struct err *e)
{
	static const struct data_want classes = { .classes = true }, real = { 0 };
	struct err why = { 0 };
	struct dataset *d;
	enum init_task task = INIT_REAL;

	if (!strcmp(l->d->format, "ratings"))
		return have_ratings(l) ? INIT_RATINGS : INIT_PAIRS;
	d = load_sample(l, &classes, e);
	if (!d && e->code != ERR_CONFIG)
		return INIT_NO_TASK;
	if (d && names_rows_by_label(d)) {
		err_set(e, ERR_FORMAT,
		    "%s: the labels are %zu different texts in %zu rows, too many for classes; if "
		    "another column is the label, add --set label=NAME",
		    l->d->source, d->classes, d->rows);
		dataset_free(d);
		return INIT_NO_TASK;
	}
	if (d)
		warn_of_spelling(d);
	if (d && (!has_numbers(d) || d->classes <= CLASSES_MOST))
		task = d->classes == 2 ? INIT_TWO : INIT_CLASSES;
	if (task != INIT_REAL && has_numbers(d) && is_tabular(l->d)) {
		look_at_eval(eval, l);
		if (are_counts(d) || (d->classes > 2 && has_other_labels(d, eval))) {
			fprintf(stderr,
			    "target: %zu distinct integers are taken for counts, not classes; for "
			    "classes use --model softmax\n",
			    d->classes);
			task = INIT_REAL;
		}
	}
	if (task == INIT_REAL) {
		dataset_free(d);
		d = load_sample(l, &real, &why);
		if (!d)
			*e = why;
	}
	if (d && d->reading.unlabelled)
		fprintf(stderr, "ignored: %zu row%s without a label\n", d->reading.unlabelled,
		    NUM_S(d->reading.unlabelled));
	dataset_free(l->d);
	l->d = d;
	return d ? task : INIT_NO_TASK;
}

/* Tells the target, the task, and how many examples of it there are. */
static void print_task(const struct look *l, const char *target, enum init_task task)
{
	static const char *const name[] = { [INIT_REAL] = "regression",
		[INIT_TWO] = "two classes",
		[INIT_CLASSES] = "classes",
		[INIT_RATINGS] = "ratings",
		[INIT_PAIRS] = "observations of users" };
	char rows[16];

	num_count(l->rows, rows);
	if (target)
		fprintf(stderr, "target: \"%s\", ", target);
	else
		fprintf(stderr, "target: ");
	if (task == INIT_CLASSES)
		fprintf(stderr, "%zu ", l->d->classes);
	fprintf(stderr, "%s; %s%s rows\n", name[task], l->sample.whole ? "" : "about ", rows);
}

/* Tells of lines that were passed over. Returns how many of all the data may be skipped, 0:
 * none. */
static uint64_t tell_bad_lines(const struct look *l)
{
	double all = l->sample.all_bytes > l->sample.bytes && !l->sample.whole
	    ? l->sample.all_bytes / l->sample.bytes
	    : 1;
	uint64_t most;

	if (!l->sample.bad)
		return 0;
	/* Some more than the sample lets expect. */
	most = (uint64_t)((double)l->sample.bad * all * 2) + 10;
	fprintf(stderr,
	    "bad lines: %llu of %zu passed over, the first one %s; the job skips up to %llu "
	    "(bad_lines)\n",
	    (unsigned long long)l->sample.bad, l->sample.lines, l->sample.bad_why,
	    (unsigned long long)most);
	return most;
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

/* Makes the cluster file's object. NULL, with an error: a setting does not suit it. */
static json_t *make_cluster(struct look *l, const struct init_request *r, enum init_task task,
    struct err *e)
{
	uint64_t bad = tell_bad_lines(l);
	json_t *job = json_pack("{s:s, s:s}", "model", "", "data", l->path), *cluster;

	if (r->eval)
		json_object_set_new(job, "eval", json_string(r->eval));
	set_batch(job, l);
	if (bad) {
		char *skip = mem_printf("skip:%llu", (unsigned long long)bad);

		json_object_set_new(job, "bad_lines", json_string(skip));
		free(skip);
	}
	cluster = json_pack("{s:i, s:i, s:o}", "servers", 1, "workers", 1, "job", job);
	if (init_model_choose(cluster, r, &l->sample, l->d, l->rows, task, e)) {
		json_decref(cluster);
		return NULL;
	}
	return cluster;
}

static void write_key(void *job, const char *key, const char *value)
{
	json_object_set_new(job, key, json_of_text(value));
}

/* The word for the label by which another table has it, too; NULL: its column has no name. */
static char *name_label(const struct dataset *d)
{
	const struct data_schema *s = d->schema;
	const struct data_column *c = s && s->named ? data_schema_label(s, 0) : NULL;
	char *word = c ? column_word(s, (size_t)(c - s->column)) : NULL;

	if (word && strcmp(word, c->name) == 0)
		return word;
	free(word);
	return NULL;
}

/* Writes the options of the data's path as keys of the job, so that they hold for other data, too, and
 * the label, unless it is NULL. */
static void write_options_as_keys(json_t *cluster, const char *label)
{
	json_t *job = json_object_get(cluster, "job"), *all = json_object();
	const char *path = json_str(job, "data", "");
	char *rest = conf_data_move_options(path, write_key, all, NULL);

	if (rest) {
		json_object_set_new(job, "data", json_of_text(rest));
		json_object_update(job, all);
	}
	if (label && !json_object_get(job, "label"))
		json_object_set_new(job, "label", json_of_text(label));
	json_decref(all);
	free(rest);
}

static void release_look(struct look *l)
{
	dataset_free(l->d);
	for (size_t i = 0; l->fate && i < l->nfates; i++)
		free(l->fate[i]);
	free(l->fate);
	column_looks_release(&l->columns);
	init_sample_release(&l->sample);
	free(l->path);
}

char *init_data_template(const struct init_request *r, struct err *e)
{
	const struct model_info *info = r->model ? model_info_find(r->model) : NULL;
	const struct data_want any = { .any = true, .tables = info ? info->reads : NULL };
	struct look l = { .path = mem_strdup(r->data), .rates = !r->model },
	            eval = { .path = mem_strdup(r->eval ? r->eval : "") };
	const struct data_column *label = NULL;
	enum init_task task = INIT_NO_TASK;
	char *text = NULL, *dump, *target = NULL, *word = NULL;
	json_t *cluster = NULL;

	*e = (struct err){ 0 };
	if (init_sample_read(l.path, &l.sample, e) == ERR_OK)
		l.d = load_sample(&l, &any, e);
	if (l.d && (!is_tabular(l.d) || look_at_columns(&l, e) == ERR_OK)) {
		label = l.d->schema ? data_schema_label(l.d->schema, 0) : NULL;
		target = label ? mem_strdup(label->name) : NULL;
		word = name_label(l.d);
		if (l.d->schema)
			print_columns(&l);
		task = find_task(&l, &eval, e);
	}
	if (task != INIT_NO_TASK) {
		print_task(&l, target, task);
		cluster = make_cluster(&l, r, task, e);
	}
	if (cluster) {
		write_options_as_keys(cluster, word);
		dump = json_dumps(cluster, JSON_INDENT(8) | JSON_REAL_PRECISION(6));
		text = mem_printf("%s\n", dump);
		free(dump);
	}
	json_decref(cluster);
	free(target);
	free(word);
	release_look(&l);
	release_look(&eval);
	return text;
}
