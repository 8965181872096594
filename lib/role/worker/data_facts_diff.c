/* SPDX-License-Identifier: ISC */
#include "worker/data_facts_diff.h"

#include <inttypes.h>

#include "core/buf.h"
#include "core/log.h"
#include "core/map.h"
#include "core/mem.h"
#include "core/num.h"
#include "data/table/data_schema.h"
#include "data/batch/data_words.h"
#include "worker/data_facts.h"

/* The most names that a difference lists; it gives the number of the others. */
#define LISTED 3
/* Bytes of a name that are shown. */
#define SHOWN 40

struct facts_pair {
	const struct dataset *a, *b;
	data_facts_difference_fn *fn;
	void *ctx;
	bool differ;
};

/* Reports a difference, and empties the text for the next one. An empty text is none. */
static void report_difference(struct facts_pair *p, const char *what, struct buf *text)
{
	if (text->len) {
		buf_append(text, "", 1);
		p->fn(p->ctx, what, (const char *)text->data);
		p->differ = true;
	}
	buf_clear(text);
}

static void put_name(struct buf *out, const char *name)
{
	char shown[4 * SHOWN + 1];
	size_t n = strlen(name);

	log_escape(shown, sizeof shown, name, n < SHOWN ? n : SHOWN);
	buf_printf(out, "\"%s\"%s", shown, n < SHOWN ? "" : "...");
}

/* Names that only one of two descriptions has, while they are collected. */
struct only {
	struct buf list;
	size_t n;
};

static void add_only(struct only *o, const char *name)
{
	if (o->n < LISTED) {
		buf_puts(&o->list, o->n ? ", " : "");
		put_name(&o->list, name);
	}
	o->n++;
}

static void put_only(struct buf *out, struct only *o, const char *whose)
{
	if (o->n) {
		buf_printf(out, "%s%zu only in %s (%.*s%s)", out->len ? "; " : "", o->n, whose,
		    (int)o->list.len, (const char *)o->list.data, o->n > LISTED ? ", ..." : "");
		o->n = 0;
	}
	buf_release(&o->list);
}

/* Puts what only one of two lists has. True: they have the same names, in whatever order. */
static bool put_list_difference(struct buf *out, char *const *a, size_t na, char *const *b,
    size_t nb)
{
	struct map *in_a = map_new(), *in_b = map_new();
	struct only only_a = { BUF_INIT, 0 }, only_b = { BUF_INIT, 0 };
	bool same;

	for (size_t i = 0; i < na; i++)
		map_put(in_a, a[i], (void *)(uintptr_t)a[i]);
	for (size_t i = 0; i < nb; i++)
		map_put(in_b, b[i], (void *)(uintptr_t)b[i]);
	for (size_t i = 0; i < na; i++)
		if (!map_get(in_b, a[i]))
			add_only(&only_a, a[i]);
	for (size_t i = 0; i < nb; i++)
		if (!map_get(in_a, b[i]))
			add_only(&only_b, b[i]);
	same = !only_a.n && !only_b.n;
	put_only(out, &only_a, "A");
	put_only(out, &only_b, "B");
	map_free(in_a);
	map_free(in_b);
	return same;
}

/* Puts how two lists of names differ whose order matters. */
static void put_ordered_difference(struct buf *out, char *const *a, size_t na, char *const *b,
    size_t nb)
{
	bool same = na == nb;

	for (size_t i = 0; same && i < na; i++)
		same = strcmp(a[i], b[i]) == 0;
	if (!same && put_list_difference(out, a, na, b, nb))
		buf_puts(out, "the same in another order");
}

static void put_shape(struct buf *out, const struct dataset *d, const char *whose)
{
	buf_printf(out, "%s%zu %s", out->len ? ", " : "", d->cols, d->sparse ? "sparse" : "dense");
	if (d->sparse && d->index_base >= 0)
		buf_printf(out, " with indices from %d", d->index_base);
	if (d->fields)
		buf_printf(out, " in %zu field%s", d->fields, NUM_S(d->fields));
	buf_printf(out, " in %s", whose);
}

static void compare_shapes(struct facts_pair *p, struct buf *text)
{
	const struct dataset *a = p->a, *b = p->b;

	if (a->cols == b->cols && a->sparse == b->sparse && a->fields == b->fields &&
	    a->index_base == b->index_base)
		return;
	put_shape(text, a, "A");
	put_shape(text, b, "B");
	report_difference(p, "features", text);
}

/* The names of all columns, borrowed; free the array. */
static char **list_columns(const struct data_schema *s)
{
	char **name = mem_array(s->ncolumns + 1, sizeof *name);

	for (size_t i = 0; i < s->ncolumns; i++)
		name[i] = s->column[i].name;
	return name;
}

static const struct data_column *find_column(const struct map *m, const char *name)
{
	return map_get(m, name);
}

static struct map *map_columns(const struct data_schema *s)
{
	struct map *m = map_new();

	for (size_t i = 0; i < s->ncolumns; i++)
		map_put(m, s->column[i].name, &s->column[i]);
	return m;
}

/* Does a column give other features, or targets, but for its values and its scaling? */
static bool is_other_kind(const struct data_column *x, const struct data_column *y)
{
	return x->kind != y->kind || x->form != y->form || x->split != y->split ||
	    x->words != y->words || x->group != y->group ||
	    strcmp(x->unit ? x->unit : "", y->unit ? y->unit : "") != 0;
}

static void compare_columns(struct facts_pair *p, const struct map *in_b, struct buf *text)
{
	const struct data_schema *a = p->a->schema, *b = p->b->schema;
	char **x = list_columns(a), **y = list_columns(b);
	size_t others = 0;

	put_ordered_difference(text, x, a->ncolumns, y, b->ncolumns);
	for (size_t i = 0; i < a->ncolumns; i++) {
		const struct data_column *c = &a->column[i], *d = find_column(in_b, c->name);

		if (!d || !is_other_kind(c, d))
			continue;
		if (others++ == LISTED)
			buf_puts(text, ", ...");
		if (others > LISTED)
			continue;
		buf_puts(text, text->len ? "; " : "");
		put_name(text, c->name);
		if (c->kind != d->kind)
			buf_printf(text, " is %s in A and %s in B", data_column_kind_name(c->kind),
			    data_column_kind_name(d->kind));
		else
			buf_puts(text, " is written in another form");
	}
	report_difference(p, "columns", text);
	free(x);
	free(y);
}

/* Have the values of a column the same features? */
static bool have_same_places(const struct data_schema *a, const struct data_column *x,
    const struct data_schema *b, const struct data_column *y)
{
	for (uint32_t i = 0; i < x->count; i++)
		if (data_schema_find(a, x, a->value[x->value + i]) !=
		    data_schema_find(b, y, b->value[y->value + i]))
			return false;
	return true;
}

/* Counts the values that only one of two columns has. Both lists ascend. */
static bool put_values(struct buf *out, const struct data_schema *a, const struct data_column *x,
    const struct data_schema *b, const struct data_column *y)
{
	struct only only_a = { BUF_INIT, 0 }, only_b = { BUF_INIT, 0 };
	uint32_t i = 0, k = 0;
	bool same;

	while (i < x->count || k < y->count) {
		int order = i == x->count ? 1
		    : k == y->count       ? -1
		                          : strcmp(a->value[x->value + i], b->value[y->value + k]);

		if (order < 0)
			add_only(&only_a, a->value[x->value + i]);
		if (order > 0)
			add_only(&only_b, b->value[y->value + k]);
		i += order <= 0;
		k += order >= 0;
	}
	same = !only_a.n && !only_b.n;
	put_only(out, &only_a, "A");
	put_only(out, &only_b, "B");
	return same;
}

static void compare_categories(struct facts_pair *p, const struct map *in_b, struct buf *text)
{
	const struct data_schema *a = p->a->schema, *b = p->b->schema;
	struct buf one = BUF_INIT;
	size_t columns = 0;

	if (a->bits != b->bits)
		buf_printf(text, "hashed to %u bits in A and %u in B", a->bits, b->bits);
	if (a->missing != b->missing)
		buf_printf(text, "%smissing cells are treated in another way",
		    text->len ? "; " : "");
	for (size_t i = 0; i < a->ncolumns; i++) {
		const struct data_column *c = &a->column[i], *d = find_column(in_b, c->name);

		if (!d || c->kind != d->kind)
			continue;
		/* Other features and values before them move the others, too. */
		if (put_values(&one, a, c, b, d) && !p->differ && !text->len &&
		    !have_same_places(a, c, b, d))
			buf_puts(&one, "the same values are other features");
		if (one.len && columns++ < LISTED) {
			buf_puts(text, text->len ? "; " : "");
			put_name(text, c->name);
			buf_printf(text, ": %.*s", (int)one.len, (const char *)one.data);
		}
		buf_clear(&one);
	}
	if (columns > LISTED)
		buf_printf(text, "; and %zu more column%s", columns - LISTED,
		    NUM_S(columns - LISTED));
	report_difference(p, "categories", text);
	buf_release(&one);
}

static void put_scaling(struct buf *text, const char *name, double shift_a, double factor_a,
    double shift_b, double factor_b)
{
	buf_puts(text, text->len ? "; " : "");
	if (name)
		put_name(text, name);
	else
		buf_puts(text, "targets");
	buf_printf(text, ": (x - %.9g) * %.9g in A, (x - %.9g) * %.9g in B", shift_a, factor_a,
	    shift_b, factor_b);
}

/* Compares how numbers, targets and weights are scaled. */
static void compare_scaling(struct facts_pair *p, const struct map *in_b, struct buf *text)
{
	const struct dataset *a = p->a, *b = p->b;
	size_t columns = 0;

	if (a->target_shift != b->target_shift || a->target_factor != b->target_factor)
		put_scaling(text, NULL, a->target_shift, a->target_factor, b->target_shift,
		    b->target_factor);
	if (a->weight_factor < b->weight_factor || a->weight_factor > b->weight_factor)
		buf_printf(text, "%sweights: x * %.9g in A, x * %.9g in B", text->len ? "; " : "",
		    (double)a->weight_factor, (double)b->weight_factor);
	for (size_t i = 0; in_b && i < a->schema->ncolumns; i++) {
		const struct data_column *c = &a->schema->column[i],
		                         *d = find_column(in_b, c->name);

		if (!d || c->kind != d->kind ||
		    (c->shift == d->shift && c->factor == d->factor && c->mean == d->mean &&
		        c->origin == d->origin))
			continue;
		if (columns++ < LISTED)
			put_scaling(text, c->name, c->shift, (double)c->factor, d->shift,
			    (double)d->factor);
	}
	if (columns > LISTED)
		buf_printf(text, "; and %zu more column%s", columns - LISTED,
		    NUM_S(columns - LISTED));
	report_difference(p, "scaling", text);
}

/* Compares the frequencies by which words and pairs of texts are weighted. */
static void compare_frequencies(struct facts_pair *p, struct buf *text)
{
	const struct data_tfidf *a = p->a->schema->tfidf, *b = p->b->schema->tfidf;
	size_t others = 0, first = 0;

	if (!a && !b)
		return;
	if (!a || !b) {
		buf_printf(text, "only %s weights words and pairs by tf-idf", a ? "A" : "B");
	} else {
		for (size_t i = 0; a->places == b->places && i < a->places; i++)
			if (a->frequency[i] != b->frequency[i] && others++ == 0)
				first = i;
		if (a->rows != b->rows)
			buf_printf(text, "of %" PRIu64 " rows in A, of %" PRIu64 " in B", a->rows,
			    b->rows);
		if (others)
			buf_printf(text,
			    "%s%zu of %zu places of words and pairs, the first of them "
			    "place %zu with %u in A, %u in B",
			    text->len ? "; " : "", others, a->places, first, a->frequency[first],
			    b->frequency[first]);
	}
	report_difference(p, "frequencies", text);
}

/* Compares the columns of tables, or the names of features. */
static void compare_tables(struct facts_pair *p, struct buf *text)
{
	const struct dataset *a = p->a, *b = p->b;
	struct map *in_b = a->schema && b->schema ? map_columns(b->schema) : NULL;

	if (in_b) {
		compare_columns(p, in_b, text);
		compare_categories(p, in_b, text);
		compare_frequencies(p, text);
	} else if (a->schema || b->schema) {
		buf_printf(text, "only %s is a table with columns that are described",
		    a->schema ? "A" : "B");
	} else if (a->feature_name && b->feature_name) {
		put_ordered_difference(text, a->feature_name, a->cols, b->feature_name, b->cols);
	} else if (a->feature_name || b->feature_name) {
		buf_printf(text, "only those of %s have names", a->feature_name ? "A" : "B");
	}
	report_difference(p, "columns", text);
	compare_scaling(p, in_b, text);
	if (in_b)
		map_free(in_b);
}

static void compare_words(struct facts_pair *p, struct buf *text)
{
	const struct data_words *a = dataset_words(p->a), *b = dataset_words(p->b);

	if (a && b)
		put_ordered_difference(text, a->name, a->n, b->name, b->n);
	else if (a || b)
		buf_printf(text, "only %s is a text", a ? "A" : "B");
	report_difference(p, "words", text);
}

/* Reports members that no other function has found to differ. */
static void report_others(struct facts_pair *p, const json_t *a, const json_t *b, struct buf *text)
{
	json_t *both = json_copy((json_t *)(uintptr_t)a), *v;
	const char *key;

	json_object_update_missing(both, (json_t *)(uintptr_t)b);
	json_object_foreach(both, key, v) {
		if (strcmp(key, "source") == 0 || strcmp(key, "head") == 0 ||
		    strcmp(key, "heading") == 0 ||
		    json_equal(json_object_get(a, key), json_object_get(b, key)))
			continue;
		buf_printf(text, "%s%s", text->len ? ", " : "", key);
	}
	report_difference(p, "other", text);
	json_decref(both);
}

enum err_code data_facts_diff(const json_t *a, const json_t *b, data_facts_difference_fn *fn,
    void *ctx, struct err *e)
{
	struct facts_pair p = { .fn = fn, .ctx = ctx };
	struct dataset *x = NULL, *y = NULL;
	struct buf text = BUF_INIT;
	enum err_code rc;

	if (!a || !b) {
		if (a || b)
			fn(ctx, "other",
			    a ? "only A has a description of its data"
			      : "only B has a description of its data");
		return ERR_OK;
	}
	if (data_facts_are_equal(a, b))
		return ERR_OK;
	rc = data_of_facts(a, &x, e);
	if (!rc)
		rc = data_of_facts(b, &y, e);
	if (!rc) {
		p.a = x;
		p.b = y;
		compare_shapes(&p, &text);
		put_ordered_difference(&text, x->class_name, x->classes, y->class_name, y->classes);
		report_difference(&p, "classes", &text);
		compare_tables(&p, &text);
		compare_words(&p, &text);
		if (!p.differ)
			report_others(&p, a, b, &text);
	}
	buf_release(&text);
	dataset_free(x);
	dataset_free(y);
	return rc;
}
