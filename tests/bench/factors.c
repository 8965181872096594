/* SPDX-License-Identifier: ISC */
/* One process that trains fm, ffm or mf by adagrad, an example at a time and in place, as libffm
 * and libfm do: what a model's own arithmetic and memory allow without servers.
 *
 * usage: factors MODEL FACTORS EPOCHS LR DATA [EVAL]
 * prints one JSON object: examples a second (the best epoch), and loss on EVAL. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/rng.h"
#include "data/data.h"
#include "model/model.h"

struct trainer {
	const struct dataset *d;
	bool aware, real;
	size_t k, width;
	float *v, *sum; /* parameters, and sums of squares of gradients; a row for each feature */
	float *all;     /* k floats */
	double bias, bias_sum;
	float lr;
};

static void step(const struct trainer *t, size_t at, float g)
{
	t->sum[at] += g * g;
	t->v[at] -= t->lr * g / sqrtf(t->sum[at] + 1e-8f);
}

static const float *factors(const struct trainer *t, const struct dataset *d, uint64_t i,
    uint64_t other, const uint32_t *row)
{
	return t->v + row[d->col[i]] * t->width + 1 + (t->aware ? d->field[other] * t->k : 0);
}

/* Every pair. */
static double pairs_aware(const struct trainer *t, const struct dataset *d, size_t r,
    const uint32_t *row)
{
	double f = 0;

	for (uint64_t i = d->start[r]; i < d->start[r + 1]; i++) {
		float sum = 0;

		for (uint64_t j = i + 1; j < d->start[r + 1]; j++) {
			const float *x = factors(t, d, i, j, row), *y = factors(t, d, j, i, row);
			float dot = 0;

			for (size_t c = 0; c < t->k; c++)
				dot += x[c] * y[c];
			sum += dot * d->val[j];
		}
		f += (double)(sum * d->val[i]);
	}
	return f;
}

/* By the sums of all, which stay in t->all. */
static double pairs_plain(const struct trainer *t, const struct dataset *d, size_t r,
    const uint32_t *row)
{
	double f = 0;

	memset(t->all, 0, t->k * sizeof *t->all);
	for (uint64_t i = d->start[r]; i < d->start[r + 1]; i++) {
		const float *x = factors(t, d, i, i, row);
		float squares = 0;

		for (size_t c = 0; c < t->k; c++) {
			float at = x[c] * d->val[i];

			t->all[c] += at;
			squares += at * at;
		}
		f -= (double)squares;
	}
	for (size_t c = 0; c < t->k; c++)
		f += (double)(t->all[c] * t->all[c]);
	return f / 2;
}

static double score(const struct trainer *t, const struct dataset *d, size_t r, const uint32_t *row)
{
	double f = t->bias + (t->aware ? pairs_aware(t, d, r, row) : pairs_plain(t, d, r, row));

	for (uint64_t i = d->start[r]; i < d->start[r + 1]; i++)
		f += (double)(t->v[row[d->col[i]] * t->width] * d->val[i]);
	return f;
}

static void learn_aware(struct trainer *t, size_t r, float delta)
{
	const struct dataset *d = t->d;

	for (uint64_t i = d->start[r]; i < d->start[r + 1]; i++)
		for (uint64_t j = i + 1; j < d->start[r + 1]; j++) {
			size_t x = d->col[i] * t->width + 1 + d->field[j] * t->k,
			       z = d->col[j] * t->width + 1 + d->field[i] * t->k;
			float s = delta * d->val[i] * d->val[j];

			for (size_t c = 0; c < t->k; c++) {
				float gx = s * t->v[z + c], gz = s * t->v[x + c];

				step(t, x + c, gx);
				step(t, z + c, gz);
			}
		}
}

static void learn_plain(struct trainer *t, size_t r, float delta)
{
	const struct dataset *d = t->d;

	for (uint64_t i = d->start[r]; i < d->start[r + 1]; i++) {
		size_t x = d->col[i] * t->width + 1;

		for (size_t c = 0; c < t->k; c++)
			step(t, x + c, delta * d->val[i] * (t->all[c] - t->v[x + c] * d->val[i]));
	}
}

static void learn(struct trainer *t, size_t r, const uint32_t *row)
{
	const struct dataset *d = t->d;
	double f = score(t, d, r, row), y = (double)d->y[r];
	float delta = (float)(t->real ? f - y : 1 / (1 + exp(-f)) - y);

	t->aware ? learn_aware(t, r, delta) : learn_plain(t, r, delta);
	for (uint64_t i = d->start[r]; i < d->start[r + 1]; i++)
		step(t, d->col[i] * t->width, delta * d->val[i]);
	t->bias_sum += (double)(delta * delta);
	t->bias -= (double)t->lr * (double)delta / sqrt(t->bias_sum + 1e-8);
}

/* Rows of the evaluation's features in the training's table; those that were not trained have a row
 * of zeroes. */
static uint32_t *rows_of(const struct dataset *d, const struct dataset *train)
{
	uint32_t *row = calloc(d->nids + 1, sizeof *row);
	size_t k = 0;

	for (size_t i = 0; i < d->nids; i++) {
		while (k < train->nids && train->id[k] < d->id[i])
			k++;
		row[i] = (uint32_t)(k < train->nids && train->id[k] == d->id[i] ? k : train->nids);
	}
	return row;
}

static double evaluate(const struct trainer *t, const struct dataset *d)
{
	uint32_t *row = rows_of(d, t->d);
	double loss = 0;

	memset(t->v + t->d->nids * t->width, 0, t->width * sizeof *t->v);
	for (size_t r = 0; r < d->rows; r++) {
		double f = score(t, d, r, row), y = (double)d->y[r];

		loss += t->real ? (f - y) * (f - y) / 2 : fmax(f, 0) - y * f + log1p(exp(-fabs(f)));
	}
	free(row);
	return loss / (double)d->rows;
}

static struct dataset *load(const char *path, bool real, const struct dataset *like)
{
	struct data_want want = { .two = !real };
	struct dataset *d;
	struct err e;

	if (data_load(&path, 1, NULL, &want, like, &d, &e)) {
		fprintf(stderr, "factors: %s\n", e.msg);
		exit(1);
	}
	return d;
}

int main(int argc, char **argv)
{
	bool real = argc > 5 && strcmp(argv[1], "mf") == 0;
	struct dataset *d = argc > 5 ? load(argv[5], real, NULL) : NULL, *eval;
	uint32_t *order, *row;
	struct trainer t;
	struct rng rng;
	double best = INFINITY, loss = NAN;

	if (!d || !d->sparse) {
		fprintf(stderr, "usage: factors fm|ffm|mf FACTORS EPOCHS LR DATA [EVAL]\n");
		return 2;
	}
	t = (struct trainer){ .d = d,
		.aware = strcmp(argv[1], "ffm") == 0,
		.real = real,
		.k = strtoul(argv[2], NULL, 10),
		.lr = strtof(argv[4], NULL) };
	t.width = 1 + t.k * (t.aware ? d->fields : 1);
	t.v = malloc((d->nids + 1) * t.width * sizeof *t.v);
	t.sum = calloc((d->nids + 1) * t.width, sizeof *t.sum);
	t.all = malloc(t.k * sizeof *t.all);
	order = malloc(d->rows * sizeof *order);
	row = rows_of(d, d);
	rng_init(&rng, 1);
	for (size_t i = 0; i < (d->nids + 1) * t.width; i++)
		t.v[i] = (float)(rng_unit(&rng) - 0.5) / 10;
	for (unsigned long e = strtoul(argv[3], NULL, 10); e > 0; e--) {
		int64_t from = clock_now();

		rng_permutation(&rng, order, d->rows);
		for (size_t r = 0; r < d->rows; r++)
			learn(&t, order[r], row);
		best = fmin(best, (double)(clock_now() - from) / NSEC_PER_SEC);
	}
	eval = argc > 6 ? load(argv[6], real, d) : NULL;
	if (eval)
		loss = evaluate(&t, eval);
	printf("{\"examples_per_second\": %.0f, \"loss\": %.4f}\n", (double)d->rows / best,
	    eval ? loss : 0);
	dataset_free(eval);
	dataset_free(d);
	free(order);
	free(row);
	free(t.v);
	free(t.sum);
	free(t.all);
	return 0;
}
