/* SPDX-License-Identifier: ISC */
#include "data/table/data_table_state.h"

#include <math.h>

#include "core/mem.h"
#include "data/shape/data_shape.h"

/* A column is moderate, and not scaled, if it lies within -1 and 1, is at least MODERATE_RANGE
 * wide, and has whole numbers only, or a deviation of at least MODERATE_DEVIATION, or is more than
 * RARE_DEVIATIONS deviations wide: then nearly all rows have one value, and scaling would make the
 * rare values the largest features. */
#define MODERATE_RANGE     0.5
#define MODERATE_DEVIATION 0.25
#define RARE_DEVIATIONS    12

/* ---- values of categories ---- */

static int compare_values(const void *a, const void *b)
{
	const struct data_value *x = *(const struct data_value *const *)a,
	                        *y = *(const struct data_value *const *)b;

	return x->column != y->column ? (x->column > y->column) - (x->column < y->column)
	                              : strcmp(x->text, y->text);
}

/* Gives the entries the features of the sorted values. rank: the new number of each value. */
static void renumber_entries(struct data_build *b, const uint32_t *rank)
{
	size_t numbers = b->table->own->numbers;

	for (uint64_t k = 0; k < b->nnz; k++)
		if (b->d->col[k] >= numbers)
			b->d->col[k] = (uint32_t)numbers + rank[b->d->col[k] - numbers];
}

/* Sorts the values of categories into the schema, and gives the entries their final features. */
static void sort_values(struct data_build *b)
{
	struct data_table *t = b->table;
	struct data_schema *s = t->own;
	const struct data_value **order = mem_array(t->nvalues + 1, sizeof *order);
	uint32_t *rank = mem_array(t->nvalues + 1, sizeof *rank);

	for (uint32_t i = 0; i < t->nvalues; i++)
		order[i] = &t->value[i];
	qsort(order, t->nvalues, sizeof *order, compare_values);
	s->value = mem_array(t->nvalues + 1, sizeof *s->value);
	s->nvalues = t->nvalues;
	for (uint32_t i = 0; i < t->nvalues; i++) {
		struct data_column *c = &s->column[order[i]->column];

		if (c->count++ == 0)
			c->value = i;
		s->value[i] = mem_strdup(order[i]->text);
		rank[order[i] - t->value] = i;
	}
	if (s->bits)
		data_schema_name_values(s);
	else
		renumber_entries(b, rank);
	free(order);
	free(rank);
}

static int compare_new_values(const void *a, const void *b)
{
	return compare_values(&(const struct data_value *){ a }, &(const struct data_value *){ b });
}

/* Adds the new values to the schema of the data before, and gives the entries their final
 * features. */
static void add_new_values(struct data_build *b)
{
	struct data_table *t = b->table;
	size_t known = data_schema_features(t->schema);
	uint32_t *rank = mem_array(t->nvalues + 1, sizeof *rank);
	struct data_value *sorted = mem_array(t->nvalues + 1, sizeof *sorted);

	if (t->nvalues)
		memcpy(sorted, t->value, t->nvalues * sizeof *sorted);
	qsort(sorted, t->nvalues, sizeof *sorted, compare_new_values);
	t->own = data_schema_extend(t->schema, sorted, t->nvalues);
	for (uint32_t i = 0; i < t->nvalues; i++)
		rank[i] = (uint32_t)data_schema_find(t->own, &t->own->column[t->value[i].column],
		    t->value[i].text);
	for (uint64_t k = 0; k < b->nnz; k++)
		if (b->d->col[k] >= known)
			b->d->col[k] = rank[b->d->col[k] - known];
	t->schema = t->own;
	free(sorted);
	free(rank);
}

/* ---- texts ---- */

/* Calls visit for each text of the rows: with the number of its row, its n terms, and their values. */
static void visit_texts(const struct data_build *b,
    void (*visit)(struct data_schema *s, size_t row, size_t n, const uint32_t *id, float *val))
{
	struct data_schema *s = b->table->own;
	const struct dataset *d = b->d;
	size_t n;

	for (size_t r = 0; r < d->rows; r++)
		for (uint64_t k = d->start[r]; k < d->start[r + 1]; k += n) {
			for (n = 1; k + n < d->start[r + 1] && d->field[k + n] == d->field[k]; n++)
				;
			if (s->column[d->field[k]].split == DATA_SPLIT_WORDS)
				visit(s, r, n, d->col + k, d->val + k);
		}
}

static void count_text(struct data_schema *s, size_t row, size_t n, const uint32_t *id, float *val)
{
	(void)val;
	data_tfidf_count(s->tfidf, row, s->numbers, n, id);
}

static void weigh_text(struct data_schema *s, size_t row, size_t n, const uint32_t *id, float *val)
{
	(void)row;
	data_tfidf_weigh(s->tfidf, s->numbers, n, id, val);
}

/* Counts in how many rows the words of texts are, and weights them. */
static void weigh_texts(struct data_build *b)
{
	struct data_schema *s = b->table->own;

	if (!s->tfidf)
		return;
	visit_texts(b, count_text);
	data_tfidf_end(s->tfidf, b->d->rows);
	visit_texts(b, weigh_text);
}

/* ---- means and scaling ---- */

/* From a mean of more deviations than this on, floats lose more than a ten thousandth of a deviation. */
#define FAR_DEVIATIONS 1024.0

/* Figures of a column of numbers, over the cells that are not missing, as they are kept. */
struct figures {
	uint64_t n, whole;                /* whole: those without a fraction */
	double sum, squares, least, most; /* squares: of the distances from the mean */
};

static bool is_moderate(const struct figures *f)
{
	double range = f->most - f->least, deviation = sqrt(f->squares / (double)f->n);

	return f->least >= -1 && f->most <= 1 && range >= MODERATE_RANGE &&
	    (f->whole == f->n || deviation >= MODERATE_DEVIATION ||
	        range > RARE_DEVIATIONS * deviation);
}

static void compute_scaling(const struct figures *f, enum table_scaling scaling,
    struct data_column *c)
{
	double spread = 0;

	c->mean = f->n ? c->origin + f->sum / (double)f->n : 0;
	/* Kept relative to an origin, the column has a number outside of -1 .. 1. */
	if (scaling == SCALE_AUTO)
		scaling = c->origin == 0 && is_moderate(f) ? SCALE_NONE : SCALE_STANDARD;
	if (scaling == SCALE_STANDARD && f->n) {
		c->shift = c->mean;
		spread = sqrt(f->squares / (double)f->n);
	} else if (scaling == SCALE_MINMAX && f->n) {
		c->shift = c->origin + f->least;
		spread = f->most - f->least;
	}
	/* A column with one value becomes 0 by its shift. */
	if (spread > 0 && isfinite((float)(1 / spread)))
		c->factor = (float)(1 / spread);
}

static void count_number(struct figures *f, double v)
{
	if (isnan(v))
		return;
	f->least = f->n == 0 || v < f->least ? v : f->least;
	f->most = f->n == 0 || v > f->most ? v : f->most;
	f->sum += v;
	f->whole += v == floor(v);
	f->n++;
}

static void count_distance(struct figures *f, double v)
{
	double far = v - f->sum / (double)f->n;

	if (!isnan(v))
		f->squares += far * far;
}

/* Calls visit for each cell with the figures of its column; values of categories go to f[numbers],
 * which nobody reads. */
static void visit_numbers(const struct data_build *b, struct figures *f,
    void (*visit)(struct figures *f, double v))
{
	size_t n = b->table->own->numbers;
	const struct dataset *d = b->d;

	for (size_t r = 0; b->table->dense && r < d->rows; r++)
		for (size_t i = 0; i < n; i++)
			visit(&f[i], (double)d->x[r * n + i]);
	for (uint64_t k = 0; k < b->nnz; k++)
		visit(&f[d->col[k] < n ? d->col[k] : n], (double)d->val[k]);
}

/* Computes means and scaling in two passes: the mean, then the distances from it, which stay exact
 * where the mean is large. */
static void measure_numbers(struct data_build *b)
{
	struct data_table *t = b->table;
	struct data_schema *s = t->own;
	struct figures *f = mem_array(s->numbers + 1, sizeof *f);

	for (size_t i = 0; i < s->ncolumns; i++)
		if (isnan(s->column[i].origin))
			s->column[i].origin = 0;
	visit_numbers(b, f, count_number);
	visit_numbers(b, f, count_distance);
	for (size_t i = 0; i < s->ncolumns; i++)
		if (s->column[i].kind == DATA_NUMBER)
			compute_scaling(&f[s->column[i].first], t->scaling, &s->column[i]);
	s->scaled = t->scaling != SCALE_NONE;
	free(f);
}

/* Scales a target of a regression (data_schema.h), and keeps the targets of the rows relative to where they
 * are, if they are far from 0. */
static void measure_target(const struct data_build *b, struct data_column *c)
{
	const struct dataset *d = b->d;
	const double *exact = data_label_exact(b->label);
	float *y = d->y + c->first;
	struct figures f = { 0 };

	for (size_t r = 0; r < d->rows; r++)
		count_number(&f,
		    exact ? exact[r * d->targets + c->first] : (double)y[r * d->targets]);
	for (size_t r = 0; r < d->rows; r++)
		count_distance(&f,
		    exact ? exact[r * d->targets + c->first] : (double)y[r * d->targets]);
	compute_scaling(&f, b->table->scaling, c);
	if (!exact || fabs(c->shift) * (double)c->factor <= FAR_DEVIATIONS)
		return;
	c->origin = c->shift;
	for (size_t r = 0; r < d->rows; r++)
		y[r * d->targets] = (float)(exact[r * d->targets + c->first] - c->origin);
}

static void measure_targets(struct data_build *b)
{
	struct data_schema *s = b->table->own;

	for (size_t i = 0; b->d->y && !b->d->classes && i < s->ncolumns; i++)
		if (s->column[i].kind == DATA_LABEL)
			measure_target(b, &s->column[i]);
}

/* Finds the factor that makes the mean weight 1. */
static enum err_code measure_table_weights(struct data_build *b, struct err *e)
{
	struct data_schema *s = b->table->own;
	const struct dataset *d = b->d;
	double sum = 0;

	for (size_t r = 0; d->weight && r < d->rows; r++)
		sum += (double)d->weight[r];
	for (size_t i = 0; i < s->ncolumns; i++) {
		if (s->column[i].kind != DATA_WEIGHT)
			continue;
		if (!(sum > 0) || !isfinite((float)((double)d->rows / sum)))
			return err_set(e, ERR_FORMAT,
			    "%s: all weights \"%.60s\" are 0 or too small; at least one must be "
			    "above 0",
			    b->first, s->column[i].name);
		s->column[i].factor = (float)((double)d->rows / sum);
	}
	return ERR_OK;
}

static void scale_table_weights(struct data_build *b)
{
	const struct data_schema *s = b->table->schema;
	struct dataset *d = b->d;
	float factor = 1;

	for (size_t i = 0; i < s->ncolumns; i++)
		if (s->column[i].kind == DATA_WEIGHT)
			factor = s->column[i].factor;
	for (size_t r = 0; d->weight && r < d->rows; r++)
		d->weight[r] *= factor;
}

/* Returns the feature of a cell of numbers, scaled; NAN, a missing cell, gives the feature of the
 * value that it stands for. */
static float scale_cell(const struct data_schema *s, const struct data_column *c, bool scaled,
    float v)
{
	double missing = s->missing == DATA_MISSING_ZERO ? 0 : c->mean;

	if (isnan(v))
		return (float)((missing - c->shift) * (double)c->factor);
	/* Cells of a known schema are scaled already. */
	return scaled ? v : (float)(((double)v - (c->shift - c->origin)) * (double)c->factor);
}

static void scale_numbers(struct data_build *b)
{
	const struct data_schema *s = b->table->schema;
	const struct data_column **column = mem_array(s->numbers + 1, sizeof *column);
	struct dataset *d = b->d;
	bool known = !b->table->own || b->table->extends;

	for (size_t i = 0; i < s->ncolumns; i++)
		if (s->column[i].kind == DATA_NUMBER)
			column[s->column[i].first] = &s->column[i];
	for (size_t r = 0; b->table->dense && r < d->rows; r++)
		for (size_t i = 0; i < s->numbers; i++) {
			float *x = &d->x[r * s->numbers + i];

			*x = scale_cell(s, column[i], known, *x);
		}
	for (uint64_t k = 0; k < b->nnz; k++)
		if (d->col[k] < s->numbers)
			d->val[k] = scale_cell(s, column[d->col[k]], known, d->val[k]);
	free(column);
}

/* ---- the end ---- */

/* Makes the rows dense. Values that are hashed to one place add up, as in sparse rows. */
static enum err_code make_dense(struct dataset *d, size_t features, const char *source,
    struct err *e)
{
	float *x = mem_try_array(d->rows * features, sizeof *x);

	if (!x)
		return err_set(e, ERR_NOMEM, "no memory for the examples of %s", source);
	for (size_t r = 0; r < d->rows; r++)
		for (uint64_t k = d->start[r]; k < d->start[r + 1]; k++)
			x[r * features + d->col[k]] += d->val[k];
	free(d->start);
	free(d->col);
	free(d->val);
	free(d->field);
	d->start = NULL;
	d->col = NULL;
	d->val = NULL;
	d->field = NULL;
	d->sparse = false;
	d->x = x;
	d->cols = features;
	return ERR_OK;
}

static void name_features(struct dataset *d, const struct data_schema *s)
{
	d->feature_name = mem_array(d->cols + 1, sizeof *d->feature_name);
	for (size_t i = 0; i < d->cols; i++)
		d->feature_name[i] = data_schema_name(s, i);
}

enum err_code data_table_finish(struct data_build *b, struct err *e)
{
	struct data_table *t = b->table;
	struct dataset *d = b->d;
	size_t features;
	enum err_code rc;

	if (!t)
		return ERR_OK;
	if (t->own) {
		sort_values(b);
		weigh_texts(b);
		measure_numbers(b);
		measure_targets(b);
		rc = measure_table_weights(b, e);
		if (rc)
			return rc;
	} else if (t->extends) {
		add_new_values(b);
	}
	features = data_schema_features(t->schema);
	if (features == 0)
		return err_set(e, ERR_FORMAT, "%s: has no feature columns", b->first);
	scale_numbers(b);
	scale_table_weights(b);
	if (t->own && !t->extends)
		t->own->dense = t->dense || (features <= DATA_SCHEMA_DENSE && !b->want.fields);
	b->index_base = 0;
	rc = t->dense          ? ERR_OK
	    : t->schema->dense ? make_dense(d, features, b->first, e)
	                       : data_shape_sparse.finish(b, e);
	if (rc)
		return rc;
	if (t->schema->dense)
		b->nnz = 0;
	d->index_base = 0;
	d->cols = features;
	if (!t->own)
		return ERR_OK;
	if (!t->own->bits)
		name_features(d, t->own);
	d->schema = t->own;
	t->own = NULL;
	return ERR_OK;
}
