/* SPDX-License-Identifier: ISC */
#ifndef MODEL_FIXTURE_H
#define MODEL_FIXTURE_H

/* Batches and models at random, and the same numbers in double. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/rng.h"
#include "model/model.h"
#include "tap.h"

enum { MAX_TABLES = 16 };

static struct rng rng;

static inline double uniform(double low, double high)
{
	return low + (high - low) * rng_unit(&rng);
}

/* A batch and what it is made of: the same inputs as a dense matrix of double,
 * (rows, cols) with cols = nids in the sparse case. */
struct sample {
	struct batch b;
	size_t cols;
	double *x;
};

static inline void sample_make(struct sample *s, bool sparse, size_t rows, size_t cols,
    size_t classes)
{
	uint32_t n = 0;

	memset(s, 0, sizeof *s);
	s->cols = cols;
	s->x = calloc(rows * cols + 1, sizeof *s->x);
	s->b.rows = rows;
	s->b.sparse = sparse;
	s->b.cols = cols;
	s->b.targets = 1;
	s->b.x = malloc((rows * cols + 1) * sizeof *s->b.x);
	s->b.start = calloc(rows + 1, sizeof *s->b.start);
	s->b.col = malloc((rows * cols + 1) * sizeof *s->b.col);
	s->b.val = malloc((rows * cols + 1) * sizeof *s->b.val);
	s->b.id = malloc((cols + 1) * sizeof *s->b.id);
	s->b.y = malloc((rows + 1) * sizeof *s->b.y);
	s->b.label = malloc((rows + 1) * sizeof *s->b.label);
	for (size_t k = 0; sparse && k < cols; k++)
		s->b.id[s->b.nids++] = k * k * 1000003 + 5;
	for (size_t r = 0; r < rows; r++) {
		for (size_t k = 0; k < cols; k++) {
			float v = sparse && rng_below(&rng, 3) > 0 ? 0 : (float)uniform(-1, 1);

			s->b.x[r * cols + k] = v;
			s->x[r * cols + k] = (double)v;
			if (v != 0) {
				s->b.col[n] = (uint32_t)k;
				s->b.val[n++] = v;
			}
		}
		s->b.start[r + 1] = n;
		s->b.y[r] = classes == 2 ? (float)rng_below(&rng, 2) : (float)uniform(-2, 2);
		s->b.label[r] = classes > 0 ? (int32_t)rng_below(&rng, classes) : 0;
	}
}

/* Feature k is in field k modulo their number. */
static inline void sample_fields(struct sample *s, size_t fields)
{
	s->b.fields = fields;
	s->b.field = malloc((s->b.start[s->b.rows] + 1) * sizeof *s->b.field);
	for (uint32_t i = 0; i < s->b.start[s->b.rows]; i++)
		s->b.field[i] = (uint16_t)(s->b.col[i] % fields);
}

static inline void feed_sample_release(struct sample *s)
{
	free(s->x);
	batch_release(&s->b);
}

/* What is under test, and its parameters in double. */
struct subject {
	const char *name;
	struct model_shape shape;
	struct model *m;
	const struct model_table *tables;
	size_t ntables;
	size_t n[MAX_TABLES];
	double *p[MAX_TABLES];
	float *pf[MAX_TABLES], *g[MAX_TABLES];
};

static inline void subject_make(struct subject *t, const char *name,
    const struct model_shape *shape, size_t cols)
{
	struct err e = { 0 };

	memset(t, 0, sizeof *t);
	t->name = name;
	t->shape = *shape;
	if (model_new(model_kinds_all, name, shape, &t->m, &e) != ERR_OK) {
		ok(false, "%s: %s", name, e.msg);
		exit(1);
	}
	t->ntables = model_tables(t->m, &t->tables);
	for (size_t i = 0; i < t->ntables; i++) {
		t->n[i] = (t->tables[i].sparse ? cols : t->tables[i].rows) * t->tables[i].cols;
		t->p[i] = malloc(t->n[i] * sizeof *t->p[i]);
		t->pf[i] = malloc(t->n[i] * sizeof *t->pf[i]);
		t->g[i] = malloc(t->n[i] * sizeof *t->g[i]);
		for (size_t k = 0; k < t->n[i]; k++) {
			t->pf[i][k] = (float)uniform(-0.9, 0.9);
			t->p[i][k] = (double)t->pf[i][k];
			t->g[i][k] = NAN;
		}
	}
}

static inline void subject_release(struct subject *t)
{
	model_free(t->m);
	for (size_t i = 0; i < t->ntables; i++) {
		free(t->p[i]);
		free(t->pf[i]);
		free(t->g[i]);
	}
}

/* The loss of one output by the textbook formula, and the score. Other losses: NAN. */
static inline double ref_value(const struct subject *t, double y, double f, double *score)
{
	const char *loss = t->shape.loss     ? t->shape.loss
	    : model_task(t->m) == MODEL_REAL ? "squared"
	                                     : "logistic";
	double sign = y > 0 ? 1 : -1, off = fabs(f - y), p = 1 / (1 + exp(-f));

	*score = model_task(t->m) == MODEL_REAL ? f : p;
	if (strcmp(loss, "squared") == 0)
		return off * off / 2;
	if (strcmp(loss, "huber:0.7") == 0)
		return off <= 0.7 ? off * off / 2 : 0.7 * off - 0.7 * 0.7 / 2;
	if (strcmp(loss, "quantile:0.9") == 0)
		return off * (y > f ? 0.9 : 0.1);
	if (strcmp(loss, "poisson") == 0) {
		*score = exp(f);
		return y * log(y / *score) - y + *score;
	}
	if (strcmp(loss, "logistic") == 0)
		return y > 0 ? -log(p) : -log(1 - p);
	if (strcmp(loss, "hinge") == 0)
		return fmax(0, 1 - sign * f);
	if (strcmp(loss, "squared_hinge") == 0)
		return pow(fmax(0, 1 - sign * f), 2);
	return NAN;
}

/* The loss of example r in double, and its scores in z. */
typedef double (*ref_fn)(const struct subject *t, const struct sample *s, size_t r, double *z);

static inline double ref_total(const struct subject *t, const struct sample *s, ref_fn ref,
    double *scores)
{
	double z[64], total = 0;

	for (size_t r = 0; r < s->b.rows; r++) {
		total += ref(t, s, r, z);
		if (scores != NULL)
			memcpy(scores + r * model_outputs(t->m), z,
			    model_outputs(t->m) * sizeof *z);
	}
	return total;
}

/* The worst difference of the gradient to central differences of the naive
 * loss, relative to the table's largest entry. */
static inline double grad_error(struct subject *t, const struct sample *s, ref_fn ref)
{
	const double h = 1e-6;
	double bad = 0;

	for (size_t i = 0; i < t->ntables; i++) {
		double size = 1e-3, off = 0;

		for (size_t k = 0; k < t->n[i]; k++) {
			double at = t->p[i][k], up, down, want;

			t->p[i][k] = at + h;
			up = ref_total(t, s, ref, NULL);
			t->p[i][k] = at - h;
			down = ref_total(t, s, ref, NULL);
			t->p[i][k] = at;
			want = (up - down) / (2 * h) / (double)s->b.rows;
			size = fmax(size, fabs(want));
			if (!isfinite(t->g[i][k]))
				return INFINITY;
			off = fmax(off, fabs((double)t->g[i][k] - want));
		}
		bad = fmax(bad, off / size);
	}
	return bad;
}

static inline double forward_error(struct subject *t, const struct sample *s, ref_fn ref,
    double mean)
{
	size_t n = s->b.rows * model_outputs(t->m);
	double *want = calloc(n + 1, sizeof *want), bad = 0, total = ref_total(t, s, ref, want),
	       loss;
	float *scores = malloc((n + 1) * sizeof *scores);

	for (size_t i = 0; i < n; i++)
		scores[i] = NAN;
	loss = model_forward(t->m, &s->b, (const float *const *)t->pf, scores);
	bad = fmax(fabs(loss - total), fabs(mean * (double)s->b.rows - total)) / fmax(total, 1);
	for (size_t i = 0; i < n; i++)
		bad = isfinite(scores[i]) ? fmax(bad, fabs((double)scores[i] - want[i])) : INFINITY;
	free(want);
	free(scores);
	return bad;
}

/* The losses of one output, and the classes of the data that they need. */
static const struct {
	const char *loss;
	size_t classes;
} ref_losses[] = { { "squared", 0 }, { "huber:0.7", 0 }, { "quantile:0.9", 0 }, { "poisson", 0 },
	{ "logistic", 2 }, { "hinge", 2 }, { "squared_hinge", 2 } };
enum { REF_LOSSES = sizeof ref_losses / sizeof *ref_losses };

static inline void test_model(const char *name, const struct model_shape *shape, ref_fn ref)
{
	static const size_t sizes[] = { 1, 5, 33, 2 };
	const size_t cols = shape->sparse ? 9 : shape->features;
	struct subject t;
	double grad = 0, forward = 0;
	bool again = true, positive = shape->loss && strcmp(shape->loss, "poisson") == 0;

	subject_make(&t, name, shape, cols);
	for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
		struct sample s;
		struct err e = { 0 };
		double mean, second;
		float first;

		sample_make(&s, shape->sparse, sizes[i], cols, shape->classes);
		if (shape->fields)
			sample_fields(&s, shape->fields);
		for (size_t r = 0; positive && r < s.b.rows; r++)
			s.b.y[r] = fabsf(s.b.y[r]);
		if (model_check(t.m, &s.b, &e) != ERR_OK)
			ok(false, "%s: %s", name, e.msg);
		mean = model_grad(t.m, &s.b, (const float *const *)t.pf, t.g);
		grad = fmax(grad, grad_error(&t, &s, ref));
		forward = fmax(forward, forward_error(&t, &s, ref, mean));
		first = t.g[0][0];
		second = model_grad(t.m, &s.b, (const float *const *)t.pf, t.g);
		again &= second == mean && memcmp(&first, &t.g[0][0], sizeof first) == 0;
		feed_sample_release(&s);
	}
	/* Products of vectors are summed in float32. */
	ok(grad < (shape->factors ? 1e-4 : 2e-5),
	    "%s%s%s%s%s%s, %zu hidden: gradient is that of the naive loss (%.1e)", name,
	    shape->sparse ? ", sparse" : "", shape->activation ? ", " : "",
	    shape->activation ? shape->activation : "", shape->loss ? ", " : "",
	    shape->loss ? shape->loss : "", shape->nhidden, grad);
	ok(forward < 1e-5 && again, "%s: loss and scores are the naive ones (%.1e), twice", name,
	    forward);
	subject_release(&t);
}

#endif
