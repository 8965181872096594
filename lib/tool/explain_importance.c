/* SPDX-License-Identifier: ISC */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "core/num.h"
#include "core/rng.h"
#include "data/data_kinds.h"
#include "data/table/data_schema.h"
#include "metric/metrics.h"
#include "tool/explain.h"
#include "tool/score.h"

/* A group of features whose values are permuted together: all of a column, of a field, or of a kind, or a
 * single feature. */
#define NO_GROUP UINT32_MAX

struct group {
	char *name;
	uint64_t count; /* values that are not 0 */
	double mean, deviation;
};

struct permuting {
	struct scoring s;
	struct dataset *d;
	uint32_t *index; /* the numbers of the examples */
	struct group *group;
	size_t n;
	/* The group of a column of dense rows, or of an entry's `col` of sparse ones; NULL: it is the
	 * entry's field. */
	uint32_t *of;
	enum metric metric;
	struct eval_result base;
};

/* ---- groups ---- */

static uint32_t group_of_entry(const struct permuting *p, uint64_t k)
{
	return p->of ? p->of[p->d->col[k]] : p->d->field[k];
}

/* The column of a feature of a table. */
static size_t column_of(const struct data_schema *s, uint64_t feature)
{
	size_t value;

	for (size_t i = 0; i < s->ncolumns; i++)
		if (s->column[i].kind == DATA_NUMBER && s->column[i].first == feature)
			return i;
	value = (size_t)feature - s->numbers;
	if (s->value_of && value < s->nvalues)
		value = s->value_of[value];
	for (size_t i = 0; i < s->ncolumns; i++)
		if (data_schema_gives_categories(s, &s->column[i]) && value >= s->column[i].value &&
		    value - s->column[i].value < s->column[i].count)
			return i;
	return SIZE_MAX;
}

static void name_groups(struct permuting *p, size_t n)
{
	p->group = mem_array(n + 1, sizeof *p->group);
	p->n = n;
}

/* Gives each of n columns or distinct features a group; id NULL: feature i is i. */
static void group_features(struct permuting *p, size_t n, const uint64_t *id)
{
	const struct dataset *like = p->s.job.train;
	const struct data_kinds *kinds = data_kinds_of(like);
	const struct data_schema *schema = like->schema && !like->schema->bits ? like->schema
	                                                                       : NULL;

	p->of = mem_array(n + 1, sizeof *p->of);
	if (schema) {
		name_groups(p, schema->ncolumns);
		for (size_t i = 0; i < schema->ncolumns; i++)
			p->group[i].name = mem_strdup(schema->column[i].name);
	} else if (kinds) {
		name_groups(p, kinds->n);
		for (size_t i = 0; i < kinds->n; i++)
			p->group[i].name = mem_strdup(kinds->name[i]);
	} else {
		name_groups(p, n);
	}
	for (size_t i = 0; i < n; i++) {
		uint64_t feature = id ? id[i] : i;

		p->of[i] = schema ? (uint32_t)column_of(schema, feature)
		    : kinds       ? (uint32_t)(feature % kinds->n)
		                  : (uint32_t)i;
		if (p->n == n && !p->group[i].name) {
			char *name = data_kinds_name(like, feature);

			p->group[i].name = name ? name
			                        : mem_printf("%llu", (unsigned long long)feature);
		}
	}
}

static void group_fields(struct permuting *p)
{
	const struct data_schema *schema = p->s.job.train->schema;

	name_groups(p, p->d->fields);
	for (size_t i = 0; i < p->n; i++)
		p->group[i].name = schema && i < schema->ncolumns
		    ? mem_strdup(schema->column[i].name)
		    : mem_printf("field %zu", i);
}

static void make_groups(struct permuting *p)
{
	const struct dataset *d = p->d;
	const struct data_schema *schema = p->s.job.train->schema;

	if (!d->sparse)
		group_features(p, d->cols, NULL);
	else if (d->field && !data_kinds_of(p->s.job.train) && !(schema && !schema->bits))
		group_fields(p);
	else
		group_features(p, d->nids, d->id);
}

static void count_values(struct permuting *p)
{
	const struct dataset *d = p->d;

	for (size_t i = 0; !d->sparse && i < d->rows * d->cols; i++) {
		uint32_t g = p->of[i % d->cols];

		if (g < p->n)
			p->group[g].count += d->x8 ? d->x8[i] != 0 : d->x[i] != 0;
	}
	for (uint64_t k = 0; d->sparse && k < d->start[d->rows]; k++) {
		uint32_t g = group_of_entry(p, k);

		if (g < p->n)
			p->group[g].count += d->val[k] != 0;
	}
}

static int by_count(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x < *y) - (*x > *y);
}

/* The least count of the groups that are measured; *left: how many others have values. */
static uint64_t least_count(const struct permuting *p, size_t most, size_t *left)
{
	uint64_t *count = mem_array(p->n + 1, sizeof *count), least;
	size_t some = 0;

	for (size_t i = 0; i < p->n; i++)
		if (p->group[i].count)
			count[some++] = p->group[i].count;
	if (some)
		qsort(count, some, sizeof *count, by_count);
	least = some > most ? count[most - 1] : 1;
	*left = some > most ? some - most : 0;
	free(count);
	return least;
}

/* ---- permutations ---- */

static enum err_code measure(struct permuting *p, const struct dataset *d, struct eval_result *out,
    struct err *e)
{
	struct data_sequence *set = data_sequence_of_rows(d, p->index, d->rows);
	enum err_code rc = evaluate(&p->s.params, set, false, true, NULL, out, e);

	data_sequence_free(set);
	return rc;
}

/* Copies the columns of group g of dense rows to or from `kept`, in the order `from` of the rows, or in
 * their own. */
static void move_columns(struct permuting *p, uint32_t g, uint8_t *kept, bool out,
    const uint32_t *from)
{
	struct dataset *d = p->d;
	size_t size = d->x8 ? 1 : sizeof *d->x, n = 0;
	uint8_t *x = d->x8 ? d->x8 : (uint8_t *)(void *)d->x;

	for (size_t c = 0; c < d->cols; c++) {
		if (p->of[c] != g)
			continue;
		for (size_t r = 0; r < d->rows; r++) {
			uint8_t *cell = x + (r * d->cols + c) * size,
			        *copy = kept + (n * d->rows + (from ? from[r] : r)) * size;

			memcpy(out ? copy : cell, out ? cell : copy, size);
		}
		n++;
	}
}

static enum err_code measure_dense(struct permuting *p, uint32_t g, const uint32_t *from,
    struct eval_result *out, struct err *e)
{
	struct dataset *d = p->d;
	size_t columns = 0;
	uint8_t *kept;
	enum err_code rc;

	for (size_t c = 0; c < d->cols; c++)
		columns += p->of[c] == g;
	kept = mem_try_array(columns * d->rows + 1, d->x8 ? 1 : sizeof *d->x);
	if (!kept)
		return err_set(e, ERR_NOMEM, "no memory for %zu columns of %zu examples", columns,
		    d->rows);
	move_columns(p, g, kept, true, NULL);
	move_columns(p, g, kept, false, from);
	rc = measure(p, d, out, e);
	move_columns(p, g, kept, false, NULL);
	free(kept);
	return rc;
}

/* Appends the entries of row r that are, or are not, of group g. */
static uint64_t append_entries(const struct permuting *p, struct dataset *to, uint64_t n, size_t r,
    uint32_t g, bool of_group)
{
	const struct dataset *d = p->d;

	for (uint64_t k = d->start[r]; k < d->start[r + 1]; k++) {
		if ((group_of_entry(p, k) == g) != of_group)
			continue;
		to->col[n] = d->col[k];
		to->val[n] = d->val[k];
		if (d->field)
			to->field[n] = d->field[k];
		n++;
	}
	return n;
}

/* Entries of the group come first where the row's first entry is one of them, because the first entry of
 * ratings is the user. */
static enum err_code measure_sparse(struct permuting *p, uint32_t g, const uint32_t *from,
    struct eval_result *out, struct err *e)
{
	const struct dataset *d = p->d;
	struct dataset copy = *d;
	uint64_t n = 0, values = d->start[d->rows] + 1;
	enum err_code rc = ERR_OK;

	copy.start = mem_try_array(d->rows + 1, sizeof *copy.start);
	copy.col = mem_try_array(values, sizeof *copy.col);
	copy.val = mem_try_array(values, sizeof *copy.val);
	copy.field = d->field ? mem_try_array(values, sizeof *copy.field) : NULL;
	if (!copy.start || !copy.col || !copy.val || (d->field && !copy.field))
		rc = err_set(e, ERR_NOMEM, "no memory for %llu values", (unsigned long long)values);
	for (size_t r = 0; !rc && r < d->rows; r++) {
		bool first = d->start[r] < d->start[r + 1] && group_of_entry(p, d->start[r]) == g;

		copy.start[r] = n;
		n = first ? append_entries(p, &copy, n, from[r], g, true)
		          : append_entries(p, &copy, n, r, g, false);
		n = first ? append_entries(p, &copy, n, r, g, false)
		          : append_entries(p, &copy, n, from[r], g, true);
		copy.start[r + 1] = n;
	}
	if (!rc)
		rc = measure(p, &copy, out, e);
	free(copy.start);
	free(copy.col);
	free(copy.val);
	free(copy.field);
	return rc;
}

/* Measures a group. Its permutations depend on the seed and on its name alone. */
static enum err_code measure_group(struct permuting *p, uint32_t g, const struct explain_options *o,
    struct err *e)
{
	uint32_t *from = mem_array(p->d->rows, sizeof *from);
	double sum = 0, squares = 0, n = (double)o->repeats, worse;
	uint64_t seed = o->seed;
	enum err_code rc = ERR_OK;
	struct rng rng;

	for (const char *c = p->group[g].name; *c; c++)
		seed = rng_mix(seed ^ (unsigned char)*c);
	rng_init(&rng, seed);
	for (size_t i = 0; !rc && i < o->repeats; i++) {
		struct eval_result r;

		rng_permutation(&rng, from, p->d->rows);
		rc = (p->d->sparse ? measure_sparse : measure_dense)(p, g, from, &r, e);
		if (rc || !r.has[p->metric])
			continue;
		worse = metrics_goodness(p->metric, p->base.value[p->metric]) -
		    metrics_goodness(p->metric, r.value[p->metric]);
		sum += worse;
		squares += worse * worse;
	}
	p->group[g].mean = sum / n;
	p->group[g].deviation = o->repeats > 1 ? sqrt(fmax(0, (squares - sum * sum / n) / (n - 1)))
	                                       : 0;
	free(from);
	return rc;
}

/* ---- the whole ---- */

static enum err_code choose_metric(struct permuting *p, const char *name, struct err *e)
{
	enum metric k = name ? metrics_find(name) : METRIC_loss + 1;

	while (!name && k < METRICS && !p->base.has[k])
		k++;
	if (!name && k == METRICS)
		k = METRIC_loss;
	if (k == METRICS || !p->base.has[k])
		return err_set(e, ERR_USAGE,
		    "--metric: the model has no metric \"%.60s\" on these data; ps-work eval lists those "
		    "that it has",
		    name ? name : metric_name[METRIC_loss]);
	p->metric = k;
	return ERR_OK;
}

static enum err_code load_examples(struct permuting *p, const char *const *data, size_t ndata,
    struct err *e)
{
	struct data_want want = job_want(&p->s.job.conf.job);
	enum err_code rc;

	if (want.words || want.pairs)
		return err_set(e, ERR_UNSUPPORTED,
		    "model %s learns from %s, which have no features to permute",
		    p->s.job.conf.job.model,
		    want.words ? "words" : "users and items that it ranks");
	want.bad = p->s.job.bad;
	want.unseen = p->s.job.unseen;
	rc = data_load(data, ndata, NULL, &want, p->s.job.train, &p->d, e);
	if (rc)
		return rc;
	if (p->d->rows < 2 || p->d->rows > UINT32_MAX)
		return err_set(e, ERR_USAGE, "%s: %zu example%s cannot be permuted", p->d->source,
		    p->d->rows, NUM_S(p->d->rows));
	p->index = mem_array(p->d->rows, sizeof *p->index);
	for (size_t i = 0; i < p->d->rows; i++)
		p->index[i] = (uint32_t)i;
	return ERR_OK;
}

static int by_mean(const void *a, const void *b)
{
	const struct group *x = a, *y = b;

	return (x->mean < y->mean) - (x->mean > y->mean);
}

static json_t *make_document(struct permuting *p, const struct explain_options *o)
{
	json_t *rows = json_array();

	qsort(p->group, p->n, sizeof *p->group, by_mean);
	for (size_t i = 0; i < p->n; i++)
		if (p->group[i].count)
			json_array_append_new(rows,
			    json_pack("{s:o, s:o, s:o}", "feature", json_of_text(p->group[i].name),
			        "importance", json_of_num(p->group[i].mean), "deviation",
			        json_of_num(p->group[i].deviation)));
	return json_pack("{s:s, s:s, s:s, s:o, s:I, s:I, s:I, s:[s, s, s], s:o}", "kind",
	    "importance", "model", p->s.job.conf.job.model, "metric", metric_name[p->metric],
	    "value", json_of_num(p->base.value[p->metric]), "examples",
	    (json_int_t)p->base.examples, "repeats", (json_int_t)o->repeats, "seed",
	    (json_int_t)o->seed, "columns", "feature", "importance", "deviation", "rows", rows);
}

enum err_code explain_importance(const struct tool_model *m, const char *const *data, size_t ndata,
    const struct explain_options *o, json_t **out, struct err *e)
{
	struct permuting p = { .n = 0 };
	uint64_t least = 0;
	size_t left = 0;
	enum err_code rc = score_open(m, false, true, -1, &p.s, e);

	if (rc)
		return rc;
	rc = load_examples(&p, data, ndata, e);
	if (!rc)
		rc = measure(&p, p.d, &p.base, e);
	if (!rc)
		rc = choose_metric(&p, o->metric, e);
	if (!rc) {
		make_groups(&p);
		count_values(&p);
		least = least_count(&p, o->top, &left);
		data_unseen_log(p.s.job.unseen, "the data", m->log);
	}
	for (size_t g = 0, done = 0; !rc && g < p.n; g++) {
		if (p.group[g].count < least || done == o->top)
			p.group[g].count = 0;
		if (!p.group[g].count)
			continue;
		rc = measure_group(&p, (uint32_t)g, o, e);
		done++;
	}
	if (!rc && left)
		log_warn(m->log,
		    "%zu features were measured, those that are not zero in the most examples, and %zu were "
		    "not (--top)",
		    o->top, left);
	if (!rc)
		*out = make_document(&p, o);
	for (size_t g = 0; g < p.n; g++)
		free(p.group[g].name);
	free(p.group);
	free(p.of);
	free(p.index);
	dataset_free(p.d);
	score_close(&p.s);
	return rc;
}
