/* SPDX-License-Identifier: ISC */
#include "tool/onnx_inputs.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>

#include "core/map.h"
#include "core/mem.h"
#include "data/table/data_schema.h"

/* From this many deviations between 0 and the mean on, float32 loses more than a ten thousandth of a
 * deviation, and the input of the column is double. */
#define FAR_DEVIATIONS 1024.0
/* The number of a text that is not a category. */
#define NO_FEATURE (-1)

/* The columns of a table while they become a graph. */
struct columns {
	struct onnx *onnx;
	const struct data_schema *schema;
	/* Values of number columns, (N, 1) float, by their features. */
	const char **number;
	/* The features of categories, (N, any), and the column of each. */
	const char **category;
	size_t *column;
	size_t ncategories;
	bool lists; /* some of them may have several in an example */
};

static const char *set_int(struct onnx *g, const char *value, const char *name, int64_t v)
{
	onnx_set_int(g, name, v);
	return value;
}

static const char *cast(struct onnx *g, const char *x, enum onnx_type type)
{
	return set_int(g, onnx_op(g, "Cast", x, NULL), "to", type);
}

static const char *scalar(struct onnx *g, int64_t v)
{
	return onnx_ints(g, &v, 0, NULL);
}

/* Lays tensors of the rank 2 side by side. */
static const char *lay_together(struct onnx *g, const char **x, size_t n)
{
	const char *all = x[0];

	for (size_t i = 1; i < n; i++)
		all = set_int(g, onnx_op(g, "Concat", all, x[i], NULL), "axis", 1);
	return all;
}

/* ---- columns of numbers ---- */

static bool needs_double(const struct data_column *c)
{
	return fabs(c->mean) * (double)c->factor > FAR_DEVIATIONS;
}

static char *describe_number(const struct data_column *c)
{
	const char *what = c->form == DATA_TIME ? "hours since midnight, or a duration in hours"
	    : data_form_is_time(c->form)        ? "days since 1970-01-01"
	                                        : "a number";

	return mem_printf("%s%s%s; NaN where it is missing", what, c->unit ? ", in " : "",
	    c->unit ? c->unit : "");
}

/* (x - shift) * factor, with the number that a missing one stands for. */
static const char *scale_number(struct onnx *g, const struct data_schema *s,
    const struct data_column *c, const char *x)
{
	double missing = s->missing == DATA_MISSING_ZERO ? 0 : c->mean, factor = (double)c->factor;

	x = needs_double(c) ? x : cast(g, x, ONNX_DOUBLE);
	x = onnx_op(g, "Where", onnx_op(g, "IsNaN", x, NULL), onnx_doubles(g, &missing, 0, NULL), x,
	    NULL);
	x = onnx_op(g, "Sub", x, onnx_doubles(g, &c->shift, 0, NULL), NULL);
	x = onnx_op(g, "Mul", x, onnx_doubles(g, &factor, 0, NULL), NULL);
	return cast(g, x, ONNX_FLOAT);
}

/* ---- columns of categories ---- */

static void add_category(struct columns *x, const char *feature, size_t column)
{
	x->category = mem_regrow(x->category, x->ncategories + 1, sizeof *x->category);
	x->column = mem_regrow(x->column, x->ncategories + 1, sizeof *x->column);
	x->category[x->ncategories] = feature;
	x->column[x->ncategories++] = column;
}

/* The feature of the category of missing cells of a column; NO_FEATURE: there is none. */
static int64_t missing_feature(const struct data_schema *s, const struct data_column *c)
{
	size_t found = s->missing == DATA_MISSING_CATEGORY
	    ? data_schema_find(s, c, DATA_MISSING_TEXT)
	    : SIZE_MAX;

	return found == SIZE_MAX ? NO_FEATURE : (int64_t)found;
}

/* The texts that a graph knows, and their features. */
struct dictionary {
	const char **key;
	int64_t *feature;
	size_t n;
	struct map *known; /* the texts */
};

/* Adds a text, unless it is known; the text must stay. */
static void add_key(struct dictionary *d, const char *text, int64_t feature)
{
	if (map_get(d->known, text))
		return;
	d->key[d->n] = text;
	d->feature[d->n++] = feature;
	map_put(d->known, text, d);
}

/* Texts of missing cells, as data_form.h lists them, in lower case, in upper case, and with one capital
 * letter. ONNX cannot compare without the case of letters. */
#define CASES 4
static char *change_case(const char *text, int way)
{
	char *out = mem_strdup(text);

	for (size_t i = 0; way && out[i]; i++)
		out[i] = (char)(way == 2 || (way == 3 && !i) ? toupper((unsigned char)out[i])
		                                             : tolower((unsigned char)out[i]));
	return out;
}

/* The features of texts; those that the schema does not have are NO_FEATURE. */
static const char *number_texts(struct columns *x, const struct data_column *c, const char *text)
{
	const struct data_schema *s = x->schema;
	int64_t missing = missing_feature(s, c);
	size_t marks = 0, nowned = 0, room;
	struct dictionary d = { .known = map_new() };
	char **owned;
	const char *out;

	while (missing != NO_FEATURE && data_form_missing(marks))
		marks++;
	room = c->count + CASES * marks + 1;
	owned = mem_array(CASES * marks + 1, sizeof *owned);
	d.key = mem_array(room, sizeof *d.key);
	d.feature = mem_array(room, sizeof *d.feature);
	for (size_t i = 0; i < CASES * marks; i++) {
		owned[nowned] = change_case(data_form_missing(i / CASES), (int)(i % CASES));
		add_key(&d, owned[nowned++], missing);
	}
	for (size_t i = 0; i < c->count; i++)
		add_key(&d, s->value[c->value + i],
		    (int64_t)data_schema_find(s, c, s->value[c->value + i]));
	/* The operator needs a text. */
	if (!d.n)
		add_key(&d, "", NO_FEATURE);
	out = onnx_op_ml(x->onnx, "LabelEncoder", text, NULL);
	onnx_set_texts(x->onnx, "keys_strings", d.key, d.n);
	onnx_set_ints(x->onnx, "values_int64s", d.feature, d.n);
	onnx_set_int(x->onnx, "default_int64", NO_FEATURE);
	for (size_t i = 0; i < nowned; i++)
		free(owned[i]);
	free(owned);
	free(d.key);
	free(d.feature);
	map_free(d.known);
	return out;
}

static void add_category_column(struct columns *x, const struct data_column *c)
{
	char *any = c->split ? mem_printf("%s_count", c->name) : NULL;
	struct onnx_columns shape = { c->split ? 0 : 1, any };
	const char *text = onnx_input(x->onnx, c->name, ONNX_STRING, shape,
	    c->split ? "categories; pad with texts that are none" : "a category");

	x->lists |= c->split != 0;
	add_category(x, number_texts(x, c, text), (size_t)(c - x->schema->column));
	free(any);
}

/* Words among the numbers, and numbers that are missing, may be categories of their column. */
static void add_words_of_numbers(struct columns *x, const struct data_column *c, const char *number)
{
	struct onnx *g = x->onnx;
	int64_t missing = missing_feature(x->schema, c);
	const char *feature = NULL, *none = onnx_op(g, "IsNaN", number, NULL);
	char *name = mem_printf("%s.word", c->name);

	if (c->words) {
		feature = onnx_input(g, name, ONNX_STRING, (struct onnx_columns){ 1, NULL },
		    "a word in place of the number, which is NaN then; else empty");
		feature = number_texts(x, c, feature);
	} else if (missing != NO_FEATURE) {
		feature = scalar(g, missing);
	}
	free(name);
	if (feature)
		add_category(x, onnx_op(g, "Where", none, feature, scalar(g, NO_FEATURE), NULL),
		    (size_t)(c - x->schema->column));
}

static void add_number_column(struct columns *x, const struct data_column *c)
{
	char *description = describe_number(c);
	const char *number = onnx_input(x->onnx, c->name,
	    needs_double(c) ? ONNX_DOUBLE : ONNX_FLOAT, (struct onnx_columns){ 1, NULL },
	    description);

	x->number[c->first] = scale_number(x->onnx, x->schema, c, number);
	if (data_schema_gives_categories(x->schema, c))
		add_words_of_numbers(x, c, number);
	free(description);
}

/* ---- tables ---- */

/* Dense rows: the numbers, then a column for each category, which counts how often the example has
 * it. */
static const char *make_dense(const struct columns *x)
{
	struct onnx *g = x->onnx;
	size_t first = x->schema->numbers, n = data_schema_features(x->schema) - first;
	int64_t *feature = mem_array(n + 1, sizeof *feature), dims[] = { 1, 1, (int64_t)n };
	const char *numbers = first ? lay_together(g, x->number, first) : NULL, *is, *part[2];

	for (size_t i = 0; i < n; i++)
		feature[i] = (int64_t)(first + i);
	if (!n || !x->ncategories) {
		free(feature);
		return numbers;
	}
	is = onnx_op(g, "Unsqueeze", lay_together(g, x->category, x->ncategories),
	    onnx_ints(g, &(int64_t){ 2 }, 1, &(int64_t){ 1 }), NULL);
	is = onnx_op(g, "Equal", is, onnx_ints(g, feature, 3, dims), NULL);
	is = onnx_op(g, "ReduceSum", cast(g, is, ONNX_FLOAT),
	    onnx_ints(g, &(int64_t){ 1 }, 1, &(int64_t){ 1 }), NULL);
	is = set_int(g, is, "keepdims", 0);
	free(feature);
	part[0] = numbers;
	part[1] = is;
	return numbers ? lay_together(g, part, 2) : is;
}

/* A tensor of the shape of x, (N, any), all elements of which are v. */
static const char *fill_like(struct onnx *g, const char *x, int64_t v)
{
	return onnx_op(g, "Expand", onnx_ints(g, &v, 2, (const int64_t[]){ 1, 1 }),
	    onnx_op(g, "Shape", x, NULL), NULL);
}

/* Sparse rows: an entry for each column of numbers, and one for each category. */
static void make_sparse(const struct columns *x, struct graph *out)
{
	struct onnx *g = x->onnx;
	size_t numbers = x->schema->numbers, n = numbers + x->ncategories, at = 0;
	const char **id = mem_array(n + 1, sizeof *id), **value = mem_array(n + 1, sizeof *value),
	           **field = mem_array(n + 1, sizeof *field);

	for (size_t i = 0; i < x->schema->ncolumns; i++)
		if (x->schema->column[i].kind == DATA_NUMBER) {
			at = x->schema->column[i].first;
			id[at] = fill_like(g, x->number[at], (int64_t)at);
			field[at] = fill_like(g, x->number[at], (int64_t)i);
			value[at] = x->number[at];
		}
	for (size_t i = 0; i < x->ncategories; i++) {
		at = numbers + i;
		id[at] = x->category[i];
		field[at] = fill_like(g, id[at], (int64_t)x->column[i]);
		value[at] = cast(g, onnx_op(g, "GreaterOrEqual", id[at], scalar(g, 0), NULL),
		    ONNX_FLOAT);
	}
	out->id = lay_together(g, id, n);
	out->value = lay_together(g, value, n);
	out->field = lay_together(g, field, n);
	free(id);
	free(value);
	free(field);
}

static void add_columns(const struct data_schema *s, struct graph *out)
{
	struct columns x = { .onnx = out->onnx,
		.schema = s,
		.number = mem_array(s->numbers + 1, sizeof *x.number) };

	for (size_t i = 0; i < s->ncolumns; i++)
		if (s->column[i].kind == DATA_NUMBER)
			add_number_column(&x, &s->column[i]);
		else if (s->column[i].kind == DATA_CATEGORY)
			add_category_column(&x, &s->column[i]);
	if (s->dense)
		out->x = make_dense(&x);
	else
		make_sparse(&x, out);
	free(x.number);
	free(x.category);
	free(x.column);
}

/* ---- other data ---- */

/* Divides the values of an example by their length, (N, any). */
static const char *normalize(struct onnx *g, const char *x)
{
	const char *axis = onnx_ints(g, &(int64_t){ 1 }, 1, &(int64_t){ 1 }), *length, *zero;

	length = onnx_op(g, "Sqrt",
	    onnx_op(g, "ReduceSum", onnx_op(g, "Mul", x, x, NULL), axis, NULL), NULL);
	zero = onnx_op(g, "Equal", length, onnx_floats(g, &(float){ 0 }, 0, NULL), NULL);
	length = onnx_op(g, "Where", zero, onnx_floats(g, &(float){ 1 }, 0, NULL), length, NULL);
	return onnx_op(g, "Div", x, length, NULL);
}

static void add_features(const struct job *j, struct graph *out)
{
	const struct dataset *d = j->train;
	struct onnx_columns entries = { 0, "K" };
	bool normal = d->options && d->options->norm;
	struct onnx *g = out->onnx;

	if (!d->sparse) {
		out->x = onnx_input(g, "x", ONNX_FLOAT,
		    (struct onnx_columns){ (int64_t)d->cols, NULL }, "the features");
		out->x = normal ? normalize(g, out->x) : out->x;
		return;
	}
	out->id = onnx_input(g, "ids", ONNX_INT64, entries,
	    d->index_base == 1 ? "the features of the entries, from 1"
	                       : "the features of the entries, from 0");
	out->value = onnx_input(g, "values", ONNX_FLOAT, entries,
	    "the values of the entries; 0 pads an example");
	if (d->fields && model_uses_fields(j->model))
		out->field = onnx_input(g, "fields", ONNX_INT64, entries,
		    "the fields of the entries");
	if (d->index_base == 1)
		out->id = onnx_op(g, "Sub", out->id, scalar(g, 1), NULL);
	if (normal)
		out->value = normalize(g, out->value);
}

/* Why cannot ONNX compute the features of this table? NULL: it can. A new string. */
static char *find_obstacle(const struct data_schema *s)
{
	for (size_t i = 0; i < s->ncolumns; i++)
		if (s->column[i].kind == DATA_CATEGORY && s->column[i].split == DATA_SPLIT_WORDS)
			return mem_printf("column \"%.60s\" is a text of words", s->column[i].name);
	return s->bits ? mem_strdup("its categories are hashed") : NULL;
}

void onnx_inputs_add(const struct job *j, struct log *log, struct graph *out)
{
	const struct data_schema *s = j->train->schema;
	char *obstacle = s ? find_obstacle(s) : NULL;

	if (obstacle)
		log_warn(log,
		    "ONNX cannot read the table of this model as text, because %s: its inputs are %s of the "
		    "features, as pskit numbers and scales them",
		    obstacle, j->train->sparse ? "ids and values" : "the values");
	if (s && !obstacle)
		add_columns(s, out);
	else
		add_features(j, out);
	free(obstacle);
}
