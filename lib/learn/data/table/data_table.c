/* SPDX-License-Identifier: ISC */
#include "data/table/data_table_state.h"

#include <math.h>
#include <strings.h>

#include "core/map.h"
#include "core/mem.h"
#include "core/names.h"
#include "core/num.h"
#include "core/suggest.h"
#include "data/reader/data_heading.h"

static const char *const scaling_name[] = { "none", "standard", "minmax", "auto", NULL };
/* Wider tables are scaled only where the path or job.scale says it: each column is an entry of the
 * facts about the data, which all workers get and each model has. */
#define UNASKED_COLUMNS 4096u
/* Words of columns of text, and with them all categories, are hashed to this many bits by default. */
#define TEXT_BITS 18u

void data_table_free(struct data_table *t)
{
	if (!t)
		return;
	for (uint32_t i = 0; i < t->nvalues; i++)
		free(t->value[i].text);
	free(t->value);
	map_free(t->numbers);
	data_schema_free(t->own);
	free(t->row.id);
	free(t->row.val);
	free(t->row.field);
	free(t->given);
	free(t->column);
	free(t);
}

bool data_table_lacks_label(const char *cell)
{
	static const char *const mark[] = { "", "?", "NA", "nan", "null" };

	for (size_t i = 0; i < sizeof mark / sizeof mark[0]; i++)
		if (strcasecmp(cell, mark[i]) == 0)
			return true;
	return false;
}

const struct data_schema *data_table_schema(const struct data_build *b)
{
	return b->table ? b->table->schema : b->like ? b->like->schema : NULL;
}

/* The index of a text in a list of an option's words; 0 for NULL. */
static int word_index(const char *text, const char *const *word)
{
	int i = 0;

	while (text && word[i] && strcmp(word[i], text) != 0)
		i++;
	return i;
}

/* How the numbers of a table with this many columns are scaled: as the path says, or else as the
 * model wants it. */
static enum table_scaling choose_scaling(const struct data_build *b, const struct data_options *o,
    size_t width)
{
	bool asked = b->scale && strcmp(b->scale, "auto") != 0;
	const char *wanted = o->norm || (width > UNASKED_COLUMNS && !asked) ? NULL : b->scale;

	return (enum table_scaling)word_index(o->scale ? o->scale : wanted, scaling_name);
}

bool data_table_is_wanted(const struct data_build *b, const struct data_options *o, size_t width)
{
	return o->categories || o->text || o->text_weight || o->lists || o->ignore || o->id ||
	    o->missing || o->columns || o->weight || o->group || o->bits ||
	    choose_scaling(b, o, width) != SCALE_NONE;
}

/* ---- the schema of training data ---- */

/* Finds the column that `at` names, by its name or its number from 1; `at` ends at a comma or a
 * NUL. */
static enum err_code find_column(const struct data_schema *s, const struct stream *in,
    const char *option, const char *at, size_t *out, struct err *e)
{
	size_t n = strcspn(at, ",");
	char *word = mem_printf("%.*s", (int)n, at);
	const char **names = mem_array(s->ncolumns + 1, sizeof *names), *near;
	enum err_code rc = ERR_OK;
	int64_t number;

	*out = NO_COLUMN;
	for (size_t i = 0; i < s->ncolumns; i++) {
		names[i] = s->column[i].name;
		if (!rc && strcmp(names[i], word) == 0 && *out != NO_COLUMN)
			rc = err_set(e, ERR_CONFIG,
			    "%s: %s=%.60s: columns %zu and %zu have this name; give the number of the "
			    "one that is meant, as %s=%zu",
			    stream_name(in), option, word, *out + 1, i + 1, option, i + 1);
		else if (!rc && strcmp(names[i], word) == 0)
			*out = i;
	}
	if (*out == NO_COLUMN && num_int(word, 1, (int64_t)s->ncolumns, &number))
		*out = (size_t)number - 1;
	near = suggest(word, names, s->ncolumns);
	if (*out == NO_COLUMN)
		rc = err_set(e, ERR_CONFIG, "%s: %s=%.60s: there is no such column%s%.60s%s",
		    stream_name(in), option, word, near ? "; did you mean \"" : "",
		    near ? near : "", near ? "\"?" : "");
	free(names);
	free(word);
	return rc;
}

/* Gives the listed columns this kind. The label keeps its kind. */
static enum err_code set_kinds(struct data_schema *s, const struct stream *in, const char *option,
    const char *list, enum data_column_kind kind, struct err *e)
{
	enum err_code rc = ERR_OK;
	size_t i;

	for (const char *at = list ? names_first(list) : NULL; at && !rc; at = names_next(at)) {
		rc = find_column(s, in, option, at, &i, e);
		if (!rc && s->column[i].kind != DATA_LABEL)
			s->column[i].kind = kind;
	}
	return rc;
}

/* The name of column i: from ?columns=, from the header, or its number from 1. */
static char *name_column(const struct data_options *o, const struct data_table_shape *shape,
    size_t i)
{
	const char *at = o->columns ? names_first(o->columns) : NULL;

	for (size_t k = 0; at && k < i; k++)
		at = names_next(at);
	if (at)
		return mem_printf("%.*s", (int)strcspn(at, ","), at);
	return shape->name ? mem_strdup(shape->name[i]) : mem_printf("%zu", i + 1);
}

static enum err_code check_column_names(const struct data_options *o, const struct stream *s,
    size_t width, struct err *e)
{
	size_t n = 0;

	for (const char *at = o->columns ? names_first(o->columns) : NULL; at; at = names_next(at))
		n++;
	if (n && n != width)
		return err_set(e, ERR_CONFIG,
		    "%s: columns= names %zu columns, but the file has %zu", stream_name(s), n,
		    width);
	return ERR_OK;
}

/* Finds out from the first lines what column i holds. */
static struct data_column guess_column(const struct data_options *o,
    const struct data_table_shape *shape, size_t i)
{
	const struct data_column_decision *decision = &shape->decision[i];
	size_t target = 0;
	bool label;

	while (target < shape->nlabels && shape->label[target] != i)
		target++;
	label = target < shape->nlabels;
	return (struct data_column){ .name = name_column(o, shape, i),
		.kind = label        ? DATA_LABEL
		    : decision->text ? DATA_CATEGORY
		                     : DATA_NUMBER,
		.first = label ? (uint32_t)target : 0,
		.form = decision->form,
		.unit = *decision->unit ? mem_strdup(decision->unit) : NULL,
		.words = decision->words && !label,
		.origin = label ? 0 : (double)NAN,
		.factor = 1 };
}

static enum err_code set_all_kinds(struct data_schema *m, const struct stream *s,
    const struct data_options *o, struct err *e)
{
	const struct {
		const char *option, *list;
		enum data_column_kind kind;
	} given[] = { { "categories", o->categories, DATA_CATEGORY },
		{ "weight", o->weight, DATA_WEIGHT }, { "ignore", o->ignore, DATA_IGNORED },
		{ "id", o->id, DATA_ID } };
	enum err_code rc = ERR_OK;
	size_t group;

	for (size_t i = 0; !rc && i < sizeof given / sizeof given[0]; i++)
		rc = set_kinds(m, s, given[i].option, given[i].list, given[i].kind, e);
	if (!rc && o->group)
		rc = find_column(m, s, "group", o->group, &group, e);
	if (!rc && o->group)
		m->column[group].group = true;
	return rc;
}

/* May one column have both roles? */
static bool roles_agree(const char *a, const char *b)
{
	static const char *const pair[][2] = { { "ignore", "id" }, { "categories", "lists" } };

	for (size_t i = 0; i < sizeof pair / sizeof pair[0]; i++)
		if (strcmp(pair[i][0], a) == 0 && strcmp(pair[i][1], b) == 0)
			return true;
	return strcmp(a, b) == 0;
}

/* Refuses options that make two things of one column. labelled: the labels matter, also that of the
 * column that is the label by default. */
static enum err_code check_roles(const struct data_schema *m, const struct stream *s,
    const struct data_options *o, bool labelled, struct err *e)
{
	const struct {
		const char *option, *list;
	} given[] = { { "weight", o->weight }, { "ignore", o->ignore }, { "id", o->id },
		{ "categories", o->categories }, { "lists", o->lists }, { "text", o->text } };
	const char **role = mem_array(m->ncolumns + 1, sizeof *role);
	enum err_code rc = ERR_OK;
	size_t i;

	for (i = 0; i < m->ncolumns; i++)
		role[i] = m->column[i].kind == DATA_LABEL && (o->label || labelled) ? "label"
		                                                                    : NULL;
	for (size_t k = 0; k < sizeof given / sizeof given[0]; k++) {
		const char *list = given[k].list, *option = given[k].option;

		for (const char *at = list ? names_first(list) : NULL; at && !rc;
		     at = names_next(at)) {
			rc = find_column(m, s, option, at, &i, e);
			if (rc)
				break;
			if (!role[i] || roles_agree(role[i], option)) {
				role[i] = option;
				continue;
			}
			rc = strcmp(role[i], "label") == 0 && !o->label
			    ? err_set(e, ERR_CONFIG,
			          "%s: %s= names the column \"%.60s\", which is the label, because label= "
			          "names no other column; name the label by label=, or remove the column "
			          "from %s=",
			          stream_name(s), option, m->column[i].name, option)
			    : err_set(e, ERR_CONFIG,
			          "%s: %s= and %s= name the same column \"%.60s\"; remove it from one "
			          "of them",
			          stream_name(s), role[i], option, m->column[i].name);
		}
	}
	free(role);
	return rc;
}

/* Refuses two columns of one name that are both used. */
static enum err_code check_names_differ(const struct data_schema *m, const struct stream *s,
    struct err *e)
{
	enum data_heading_use *use = mem_array(m->ncolumns + 1, sizeof *use);
	const char **names = mem_array(m->ncolumns + 1, sizeof *names);
	enum err_code rc;

	for (size_t i = 0; i < m->ncolumns; i++) {
		names[i] = m->column[i].name;
		use[i] = m->column[i].kind == DATA_LABEL ? DATA_HEADING_LABEL
		    : data_schema_uses(&m->column[i])    ? DATA_HEADING_FEATURE
		                                         : DATA_HEADING_UNUSED;
	}
	rc = data_heading_check(s, names, use, m->ncolumns, e);
	free(names);
	free(use);
	return rc;
}

/* Refuses a file that has the name of a column that is used more often than the training data. */
static enum err_code check_names_known(const struct data_schema *m, const struct stream *s,
    const struct data_table_shape *shape, struct err *e)
{
	const char **known = mem_array(m->ncolumns + 1, sizeof *known);
	enum err_code rc;

	/* Unused columns count where a used one has their name, because columns of one name keep
	 * their order. */
	for (size_t k = 0; k < m->ncolumns; k++) {
		if (data_schema_uses(&m->column[k]))
			known[k] = m->column[k].name;
		for (size_t i = 0; !known[k] && i < m->ncolumns; i++)
			if (data_schema_uses(&m->column[i]) &&
			    strcmp(m->column[i].name, m->column[k].name) == 0)
				known[k] = m->column[k].name;
	}
	rc = data_heading_check_known(s, (const char *const *)shape->name, shape->width, known,
	    m->ncolumns, e);
	free(known);
	return rc;
}

/* Has the cells of the listed columns split: at the sign that most of the first ones have, or into
 * words. */
static enum err_code set_splits(struct data_schema *m, const struct stream *s, const char *option,
    const char *list, const struct data_table_shape *shape, struct err *e)
{
	bool words = strcmp(option, "text") == 0;
	enum err_code rc = set_kinds(m, s, option, list, DATA_CATEGORY, e);
	size_t i;

	for (const char *at = list ? names_first(list) : NULL; at && !rc; at = names_next(at)) {
		rc = find_column(m, s, option, at, &i, e);
		if (rc || m->column[i].kind != DATA_CATEGORY)
			continue;
		m->column[i].words = false;
		m->column[i].split = words    ? DATA_SPLIT_WORDS
		    : shape->decision[i].list ? shape->decision[i].list
		                              : '|';
	}
	return rc;
}

/* Weights words as the path says. */
static enum err_code set_text_weight(struct data_schema *m, const struct stream *s,
    const struct data_options *o, struct err *e)
{
	if (!o->text_weight || strcmp(o->text_weight, "tfidf") != 0)
		return ERR_OK;
	if (!o->text)
		return err_set(e, ERR_CONFIG,
		    "%s: text_weight=tfidf weights the words of a column of text: name it by text=",
		    stream_name(s));
	if (m->bits > DATA_TFIDF_BITS)
		return err_set(e, ERR_CONFIG,
		    "%s: bits=%u: must be at most %d with text_weight=tfidf", stream_name(s),
		    m->bits, DATA_TFIDF_BITS);
	m->tfidf = data_tfidf_new((size_t)1 << m->bits);
	return ERR_OK;
}

static enum err_code make_schema(struct data_build *b, const struct stream *s,
    const struct data_options *o, const struct data_table_shape *shape, struct err *e)
{
	static const char *const missing[] = { "mean", "zero", "category", NULL };
	struct data_table *t = b->table;
	struct data_schema *m = t->own = mem_alloc(sizeof *m);
	enum err_code rc = check_column_names(o, s, shape->width, e);

	if (rc)
		return rc;
	if (o->bits > DATA_SCHEMA_BITS)
		return err_set(e, ERR_CONFIG, "%s: bits=%d: must be at most %d for a table",
		    stream_name(s), o->bits, DATA_SCHEMA_BITS);
	if (shape->nlabels > DATA_SCHEMA_TARGETS)
		return err_set(e, ERR_CONFIG,
		    "%s: label= names %zu columns; at most %u may be labels", stream_name(s),
		    shape->nlabels, DATA_SCHEMA_TARGETS);
	m->column = mem_array(shape->width, sizeof *m->column);
	m->ncolumns = shape->width;
	m->named = shape->name || o->columns;
	m->bits = (unsigned)o->bits;
	m->missing = (enum data_missing)word_index(o->missing, missing);
	t->scaling = choose_scaling(b, o, shape->width);
	for (size_t i = 0; i < m->ncolumns; i++)
		m->column[i] = guess_column(o, shape, i);
	rc = set_all_kinds(m, s, o, e);
	if (!rc)
		rc = set_splits(m, s, "lists", o->lists, shape, e);
	if (!rc)
		rc = set_splits(m, s, "text", o->text, shape, e);
	if (!rc)
		rc = check_roles(m, s, o, !data_label_is_ignored(b->label), e);
	if (!rc)
		rc = check_names_differ(m, s, e);
	if (o->text && !m->bits)
		m->bits = TEXT_BITS;
	if (!rc)
		rc = set_text_weight(m, s, o, e);
	for (size_t i = 0; i < m->ncolumns; i++)
		if (m->column[i].kind == DATA_NUMBER)
			m->column[i].first = (uint32_t)m->numbers++;
	/* data_table_finish decides it where there are categories, which are not known yet. */
	m->dense = true;
	m->dense = data_schema_is_numeric(m);
	t->schema = m;
	t->numbers = map_new();
	return rc;
}

/* ---- the columns of a file ---- */

enum err_code data_table_fail_missing(const struct stream *s, const char *const *names, size_t n,
    const char *missing, struct err *e)
{
	const char *near = suggest(missing, names, n);

	for (size_t i = 0; i < n; i++)
		if (strcasecmp(names[i], missing) == 0)
			near = names[i];
	return stream_fail(s, e, "has no column \"%.60s\", but the training data has one%s%.60s%s",
	    missing, near ? "; did you mean \"" : "", near ? near : "", near ? "\"?" : "");
}

/* Columns with names are found by name, in any order; columns of one name in their order. Labels,
 * weights of evaluation data and unused columns may be missing. */
static enum err_code match_by_name(struct data_table *t, const struct stream *s,
    const struct data_table_shape *shape, struct err *e)
{
	const struct data_schema *m = t->schema;
	enum err_code rc = check_names_known(m, s, shape, e);

	if (rc)
		return rc;
	for (size_t i = 0; i < shape->width; i++)
		t->column[i] = NO_COLUMN;
	for (size_t k = 0; k < m->ncolumns; k++) {
		size_t i = 0;

		while (i < shape->width &&
		    (t->column[i] != NO_COLUMN || strcmp(shape->name[i], m->column[k].name) != 0))
			i++;
		if (i < shape->width)
			t->column[i] = k;
		else if (data_schema_gives_features(&m->column[k]) ||
		    (t->own && m->column[k].kind == DATA_WEIGHT))
			return data_table_fail_missing(s, (const char *const *)shape->name,
			    shape->width, m->column[k].name, e);
	}
	return ERR_OK;
}

/* Matches columns without names by their place. A file that lacks as many columns as there are
 * targets has no labels. */
static enum err_code match_by_place(struct data_table *t, const struct stream *s,
    const struct data_table_shape *shape, struct err *e)
{
	const struct data_schema *m = t->schema;
	bool unlabelled = shape->width + t->targets == m->ncolumns;

	if (shape->width != m->ncolumns && !unlabelled)
		return stream_fail(s, e, "has %zu column%s, expected %zu, or %zu without labels",
		    shape->width, NUM_S(shape->width), m->ncolumns, m->ncolumns - t->targets);
	for (size_t k = 0, i = 0; k < m->ncolumns; k++)
		if (!unlabelled || m->column[k].kind != DATA_LABEL)
			t->column[i++] = k;
	return ERR_OK;
}

/* Checks that the file has a column for each target. */
static enum err_code check_labels(const struct data_table *t, const struct stream *s, struct err *e)
{
	size_t n = 0;

	for (size_t k = 0; k < t->targets; k++) {
		const struct data_column *c = data_schema_label(t->schema, k);
		size_t i = 0;

		while (i < t->width && t->column[i] != (size_t)(c - t->schema->column))
			i++;
		if (i < t->width)
			n++;
		else if (t->targets > 1)
			return stream_fail(s, e,
			    "has no column \"%.60s\", which is a target of the training data",
			    c->name);
	}
	return n ? ERR_OK : stream_fail(s, e, "has no label column");
}

/* The column of the schema that a word of an option stands for: by its name in this file or in the
 * schema, or by its number in this file. NO_COLUMN: none. */
static size_t find_known_column(const struct data_table *t, const struct data_table_shape *shape,
    const char *word)
{
	uint64_t number;

	for (size_t i = 0; shape->name && i < t->width; i++)
		if (strcmp(shape->name[i], word) == 0)
			return t->column[i];
	for (size_t k = 0; k < t->schema->ncolumns; k++)
		if (strcmp(t->schema->column[k].name, word) == 0)
			return k;
	return num_uint(word, t->width, &number) && number > 0 ? t->column[number - 1] : NO_COLUMN;
}

/* An option about a column must agree with the training data. */
static enum err_code check_kind(const struct data_column *c, const char *option,
    const struct stream *s, struct err *e)
{
	bool feature = data_schema_gives_features(c);
	const char *was = NULL;

	if (strcmp(option, "categories") == 0)
		was = c->kind == DATA_NUMBER ? "a column of numbers" : NULL;
	else if (strcmp(option, "weight") == 0)
		was = c->kind != DATA_WEIGHT ? "no weight" : NULL;
	else if (strcmp(option, "text") == 0 || strcmp(option, "lists") == 0)
		was = feature && !c->split ? "one value" : NULL;
	else
		was = feature ? "a feature" : NULL;
	return was ? err_set(e, ERR_CONFIG,
	                 "%s: %s= names the column \"%.60s\", which is %s in the training data: "
	                 "remove it from the path, or train with it",
	                 stream_name(s), option, c->name, was)
	           : ERR_OK;
}

/* Columns have the kinds of the training data: refuses options of this path that say otherwise. */
static enum err_code check_kinds(const struct data_table *t, const struct stream *s,
    const struct data_options *o, const struct data_table_shape *shape, struct err *e)
{
	const struct {
		const char *option, *list;
	} given[] = { { "categories", o->categories }, { "weight", o->weight },
		{ "ignore", o->ignore }, { "id", o->id }, { "text", o->text },
		{ "lists", o->lists } };
	enum err_code rc = ERR_OK;

	for (size_t i = 0; i < sizeof given / sizeof given[0]; i++) {
		const char *list = given[i].list;

		for (const char *at = list ? names_first(list) : NULL; at && !rc;
		     at = names_next(at)) {
			char *word = mem_printf("%.*s", (int)strcspn(at, ","), at);
			size_t k = find_known_column(t, shape, word);

			if (k != NO_COLUMN)
				rc = check_kind(&t->schema->column[k], given[i].option, s, e);
			free(word);
		}
	}
	return rc;
}

enum err_code data_table_open(struct data_build *b, const struct stream *s,
    const struct data_options *o, const struct data_table_shape *shape, struct err *e)
{
	struct data_table *t = b->table;
	enum err_code rc = ERR_OK;

	if (o->norm)
		return err_set(e, ERR_CONFIG,
		    "%s: norm= requires rows of numbers only; use scale=", stream_name(s));
	if (shape->width > DATA_SCHEMA_COLUMNS)
		return stream_fail(s, e,
		    "has %zu columns; tables with text or missing cells have at most %u",
		    shape->width, DATA_SCHEMA_COLUMNS);
	if (b->d->rows > 0 && !t)
		return stream_fail(s, e, "has text or missing cells, but %s has none", b->first);
	if (b->like && !b->like->schema)
		return stream_fail(s, e,
		    "has text or missing cells, but the training data (%s) has none; if this file is "
		    "no table, name its format by ?format=",
		    b->like->source);
	if (!t)
		t = b->table = mem_alloc(sizeof *t);
	if (!t->schema && b->like) {
		t->schema = b->like->schema;
		t->extends = b->extends;
		t->numbers = t->extends ? map_new() : NULL;
	} else if (!t->schema)
		rc = make_schema(b, s, o, shape, e);
	if (rc)
		return rc;
	t->targets = data_schema_targets(t->schema);
	rc = data_label_set_targets(b->label, s, t->targets ? t->targets : 1, e);
	if (rc)
		return rc;
	t->dense = data_schema_is_numeric(t->schema);
	if (t->dense)
		b->d->cols = t->schema->numbers;
	free(t->column);
	t->column = mem_array(shape->width + 1, sizeof *t->column);
	if (!t->given)
		t->given = mem_array(t->schema->ncolumns + 1, sizeof *t->given);
	t->width = shape->width;
	t->sep = shape->sep;
	t->keyed = shape->keyed;
	rc = shape->name && t->schema->named ? match_by_name(t, s, shape, e)
	                                     : match_by_place(t, s, shape, e);
	if (!rc && b->like)
		rc = check_kinds(t, s, o, shape, e);
	t->weighted = false;
	for (size_t i = 0; i < t->width; i++)
		t->weighted |= data_table_kind(t, i) == DATA_WEIGHT;
	return rc || data_label_is_ignored(b->label) ? rc : check_labels(t, s, e);
}
