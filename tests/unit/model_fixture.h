#ifndef MODEL_FIXTURE_H
#define MODEL_FIXTURE_H

/* Batches and models at random, and the same numbers in double. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "model/model.h"
#include "tap.h"

enum { MAX_TABLES = 8 };

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

static inline void sample_make(struct sample *s, bool sparse, size_t rows, size_t cols, size_t classes)
{
	uint32_t n = 0;

	memset(s, 0, sizeof *s);
	s->cols = cols;
	s->x = calloc(rows * cols + 1, sizeof *s->x);
	s->b.rows = rows;
	s->b.sparse = sparse;
	s->b.cols = cols;
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

static inline void sample_release(struct sample *s)
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

static inline void subject_make(struct subject *t, const char *name, const struct model_shape *shape,
                         size_t cols)
{
	struct err e = { 0 };

	memset(t, 0, sizeof *t);
	t->name = name;
	t->shape = *shape;
	if (model_new(name, shape, &t->m, &e) != ERR_OK) {
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

#endif
