/* SPDX-License-Identifier: ISC */
#include "loss/logistic.h"
#include "model/factors.h"

/* Skip-gram with negative sampling (Mikolov et al., "Distributed Representations of Words and
 * Phrases", 2013, eq. 4). A word has a vector v as the given word, and another one, u, as a word to
 * be predicted. The u of its neighbours shall be near v, the u of randomly drawn words far:
 *
 * loss = -log sigmoid(u_near v) - sum log sigmoid(-u_drawn v),
 *
 * as a mean over an example's neighbours. The first entry of an example is the given word; field
 * says what each other one is (data_words.h): 1 near, 2 drawn. */

#define NEAR   1
#define FIELDS 3

static enum err_code word2vec_fits(const struct model_shape *shape, struct err *e)
{
	if (!shape->sparse || shape->fields != FIELDS)
		return err_set(e, ERR_CONFIG, "job.model word2vec needs plain text (?format=text)");
	return ERR_OK;
}

static void word2vec_plan(struct model *m)
{
	factors_plan(m, m->shape.factors, false);
	m->tables[0].decay = false;
}

/* Scratch: the gradient of the given word. */
static size_t word2vec_scratch(const struct model *m)
{
	return m->shape.factors;
}

/* Number of neighbours; entry 0 is the given word itself. */
static size_t count_neighbours(const struct entries *x)
{
	size_t n = 0;

	for (size_t i = 1; i < x->n; i++)
		n += x->field[i] == NEAR;
	return n;
}

/* The loss of one example; unless g is NULL, adds its gradient times scale to g. */
static double compute_example(struct model *m, const struct entries *x, size_t near, const float *v,
    double scale, float *g)
{
	size_t k = m->shape.factors, word = x->n ? entries_at(x, 0, k) : 0;
	float *sum = m->scratch;
	double loss = 0;

	memset(sum, 0, k * sizeof *sum);
	for (size_t i = 1; near && i < x->n; i++) {
		size_t other = entries_at(x, i, k);
		double f = (double)entries_dot(k, v + word, v + other),
		       y = x->field[i] == NEAR ? 1 : 0, slope;
		float delta;

		loss += logistic_at(f, y, &slope);
		delta = (float)(slope * scale / (double)near);
		if (!g)
			continue;
		entries_axpy(k, delta, v + other, sum);
		entries_axpy(k, delta, v + word, g + other);
	}
	if (near && g)
		entries_axpy(k, 1, sum, g + word);
	return near ? loss / (double)near : 0;
}

/* Examples of words that were thinned out or have no neighbours do not count. */
static double word2vec_grad(struct model *m, const struct batch *b, const float *const params[],
    float *const grads[])
{
	double loss = 0;
	size_t n = 0;

	factors_clear(&m->tables[0], b, grads[0]);
	for (size_t r = 0; r < b->rows; r++) {
		struct entries x = entries_of(b, r);

		n += count_neighbours(&x) > 0;
	}
	for (size_t r = 0; n && r < b->rows; r++) {
		struct entries x = entries_of(b, r);

		loss += compute_example(m, &x, count_neighbours(&x), params[0], 1 / (double)n,
		    grads[0]);
	}
	return n ? loss / (double)n : 0;
}

static double word2vec_forward(struct model *m, const struct batch *b, const float *const params[],
    float *scores)
{
	double loss = 0;

	for (size_t r = 0; r < b->rows; r++) {
		struct entries x = entries_of(b, r);
		double of = compute_example(m, &x, count_neighbours(&x), params[0], 1, NULL);

		loss += of;
		scores[r] = (float)of;
	}
	return loss;
}

const struct model_kind model_kind_word2vec = {
	.fields = true,
	.fits = word2vec_fits,
	.plan = word2vec_plan,
	.scratch = word2vec_scratch,
	.grad = word2vec_grad,
	.forward = word2vec_forward,
};
