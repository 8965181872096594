/* SPDX-License-Identifier: ISC */
/* Update rules against their papers' formulas in double, and schedules. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "math/clones.h"
#include "optim/optim.h"
#include "optim/schedule.h"
#include "tap.h"

/* The rules once more, as plain code: what the library picks for this
 * processor must have the same bits. */
#undef KERN_CLONES
#define KERN_CLONES
#define AGAIN(name) plain_##name
#include "again/rules.h"

static const struct optim_rule *const plain[] = {
#define RULE(name, number) &plain_##name,
#include "optim/optim.def"
#undef RULE
};

enum { N = 211, STEPS = 200 };

static uint64_t state = 1;

static double uniform(void)
{
	state = state * 6364136223846793005u + 1442695040888963407u;
	return (double)(state >> 11) / 9007199254740992.0 * 2 - 1;
}

/* One element of the reference: parameter and vectors in double, and the largest
 * size that the parameter has had. */
struct ref {
	double w, a, b, c, peak;
};

static void ref_adam(struct ref *r, const struct optim_hyper *h, uint64_t t, double g, double wd)
{
	double b1 = (double)h->beta1, b2 = (double)h->beta2;

	r->a = b1 * r->a + (1 - b1) * g;
	r->b = b2 * r->b + (1 - b2) * g * g;
	double mhat = r->a / (1 - pow(b1, (double)t)), vhat = r->b / (1 - pow(b2, (double)t));

	r->w -= (double)h->lr * (mhat / (sqrt(vhat) + (double)h->eps) + wd * r->w);
}

/* As torch.optim.Adam with amsgrad: a and b are the moments, c is the greatest b so far. */
static void ref_amsgrad(struct ref *r, const struct optim_hyper *h, uint64_t t, double g)
{
	double b1 = (double)h->beta1, b2 = (double)h->beta2;

	r->a = b1 * r->a + (1 - b1) * g;
	r->b = b2 * r->b + (1 - b2) * g * g;
	r->c = fmax(r->c, r->b);
	r->w -= (double)h->lr / (1 - pow(b1, (double)t)) * r->a /
	    (sqrt(r->c) / sqrt(1 - pow(b2, (double)t)) + (double)h->eps);
}

/* McMahan et al. 2013, algorithm 1, to the letter: a is z, b is n, g the sum over the batch. */
static void ref_ftrl(struct ref *r, const struct optim_hyper *h, double g, double l1, double l2)
{
	double sigma = (sqrt(r->b + g * g) - sqrt(r->b)) / (double)h->lr;

	r->a += g - sigma * r->w;
	r->b += g * g;
	if (fabs(r->a) <= l1)
		r->w = 0;
	else
		r->w = -(r->a - copysign(l1, r->a)) /
		    (((double)h->ftrl_beta + sqrt(r->b)) / (double)h->lr + l2);
}

/* a is the sum of squares, b the first value, c the way so far; g the sum over the batch. */
static void ref_dog(struct ref *r, const struct optim_hyper *h, double g)
{
	if (r->c == 0 && g == 0)
		return;
	if (r->c == 0) {
		r->b = r->w;
		r->c = 1e-6 * (1 + fabs(r->w));
	}
	r->a += g * g;
	r->w -= (double)h->lr * r->c * g / (sqrt(r->a) + (double)h->eps);
	r->c = fmax(r->c, fabs(r->w - r->b));
}

/* bare: the mean gradient of a batch of so many examples. */
static void ref_step(int id, const struct optim_hyper *h, uint64_t t, bool decay, struct ref *r,
    double bare, double examples)
{
	double lr = (double)h->lr, mu = (double)h->momentum, rho = (double)h->rho;
	double eps = (double)h->eps, l2 = decay ? (double)h->l2 : 0, g = bare + l2 * r->w;

	switch (id) {
	case OPTIM_ID_sgd:
		r->w -= lr * g;
		break;
	case OPTIM_ID_momentum:
		r->a = mu * r->a + g;
		r->w -= lr * r->a;
		break;
	case OPTIM_ID_nesterov:
		r->a = mu * r->a + g;
		r->w -= lr * (g + mu * r->a);
		break;
	case OPTIM_ID_rowwise_adagrad: /* of values that are rows of their own */
	case OPTIM_ID_adagrad:
		g *= examples;
		r->a += g * g;
		r->w -= lr * g / (sqrt((double)h->initial + r->a) + eps);
		break;
	case OPTIM_ID_dog:
		ref_dog(r, h, g * examples);
		break;
	case OPTIM_ID_rmsprop:
		r->a = rho * r->a + (1 - rho) * g * g;
		r->w -= lr * g / sqrt(r->a + eps);
		break;
	case OPTIM_ID_rowwise_adam: /* of values that are rows of their own */
	case OPTIM_ID_adam:
		ref_adam(r, h, t, g, 0);
		break;
	case OPTIM_ID_amsgrad:
		ref_amsgrad(r, h, t, g);
		break;
	case OPTIM_ID_adamw:
		ref_adam(r, h, t, bare, l2);
		break;
	case OPTIM_ID_ftrl:
		ref_ftrl(r, h, bare * examples, decay ? (double)h->l1 : 0, l2);
		break;
	default:
		r->w = NAN;
	}
}

/* One layer, You et al. 2020, algorithm 2 with phi(z) = z: a and b are the moments. Without decay the ratio
 * is 1. */
static void ref_lamb(struct ref *r, const struct optim_hyper *h, uint64_t t, bool decay,
    const float *g, double scale)
{
	double b1 = (double)h->beta1, b2 = (double)h->beta2, u[N], of_w = 0, of_u = 0, ratio = 1;

	for (size_t i = 0; i < N; i++) {
		double gi = (double)g[i] * scale;

		r[i].a = b1 * r[i].a + (1 - b1) * gi;
		r[i].b = b2 * r[i].b + (1 - b2) * gi * gi;
		u[i] = r[i].a / (1 - pow(b1, (double)t)) /
		        (sqrt(r[i].b / (1 - pow(b2, (double)t))) + (double)h->eps) +
		    (decay ? (double)h->l2 * r[i].w : 0);
		of_w += r[i].w * r[i].w;
		of_u += u[i] * u[i];
	}
	if (decay && of_w > 0 && of_u > 0)
		ratio = sqrt(of_w) / sqrt(of_u);
	for (size_t i = 0; i < N; i++)
		r[i].w -= (double)h->lr * ratio * u[i];
}

/* One step of all N parameters, which are a dense table; g * scale is the mean of three examples. */
static void ref_table(int id, const struct optim_hyper *h, uint64_t t, bool decay, struct ref *r,
    const float *g, double scale)
{
	if (id == OPTIM_ID_lamb)
		ref_lamb(r, h, t, decay, g, scale);
	else
		for (size_t i = 0; i < N; i++)
			ref_step(id, h, t, decay, &r[i], (double)g[i] * scale, 3);
}

struct params {
	float w[N], vector[OPTIM_VECTORS_MAX][N];
	float *s[OPTIM_VECTORS_MAX];
};

static void start(struct params *p, const struct optim_rule *rule, struct ref *ref, bool zero)
{
	memset(p, 0, sizeof *p);
	for (size_t k = 0; k < OPTIM_VECTORS_MAX; k++)
		p->s[k] = p->vector[k];
	for (size_t i = 0; i < N; i++) {
		p->w[i] = zero ? 0 : (float)uniform();
		for (unsigned k = 0; k < rule->nvectors; k++)
			p->vector[k][i] = rule->vector_init[k];
		ref[i] = (struct ref){ (double)p->w[i], (double)rule->vector_init[0],
			(double)rule->vector_init[1], (double)rule->vector_init[2],
			fabs((double)p->w[i]) };
	}
}

/* A gradient of a bowl with a minimum of its own for each element, and noise;
 * taken at the reference's w, so that rounding cannot feed back. */
static void gradient(const struct ref *ref, float *g)
{
	for (size_t i = 0; i < N; i++)
		g[i] = (float)((ref[i].w - (double)i / N) * 0.5 + 0.3 * uniform());
	g[3] = 0;
}

/* The worst error of an element, relative to the largest that it has been: each
 * step rounds at the size w has then, and a w that has since come near zero
 * keeps that error. */
static double worst(const struct params *p, struct ref *ref)
{
	double bad = 0;

	for (size_t i = 0; i < N; i++) {
		double off = fabs((double)p->w[i] - ref[i].w);

		ref[i].peak = fmax(ref[i].peak, fabs(ref[i].w));
		if (!isfinite(p->w[i]) || !isfinite(ref[i].w))
			bad = INFINITY;
		else if (off > 0)
			bad = fmax(bad, off / ref[i].peak);
	}
	return bad;
}

/* ftrl has no other first value; the first distances of dog are lost in the rounding of one. */
static bool begins_at_zero(const struct optim_rule *rule)
{
	return rule->id == OPTIM_ID_ftrl || rule->id == OPTIM_ID_dog;
}

static void test_rule(const struct optim_rule *rule, const struct optim_rule *copy, bool decay,
    float l1, float l2)
{
	static struct params p, q;
	static struct ref ref[N];
	struct optim_hyper h;
	const float gscale = 0.25f;
	float g[N];
	const struct optim_gradient batch = { g, gscale, 3, 0, 0 };
	double bad = 0, moved = 0, before[N];
	bool same = true;

	rule->defaults(&h);
	h.l1 = l1;
	h.l2 = l2;
	h.initial = l1;
	state = 42;
	start(&p, rule, ref, begins_at_zero(rule));
	state = 42;
	start(&q, rule, ref, begins_at_zero(rule));
	for (uint64_t t = 1; t <= STEPS; t++) {
		gradient(ref, g);
		for (size_t i = 0; i < N; i++)
			before[i] = ref[i].w;
		ref_table(rule->id, &h, t, decay, ref, g, (double)gscale);
		for (size_t i = 0; i < N; i++)
			moved += fabs(ref[i].w - before[i]);
		rule->step(&h, t, decay, N, p.w, p.s, &batch);
		copy->step(&h, t, decay, N, q.w, q.s, &batch);
		bad = fmax(bad, worst(&p, ref));
		same &= memcmp(p.w, q.w, sizeof p.w) == 0 &&
		    memcmp(p.vector, q.vector, sizeof p.vector) == 0;
	}
	ok(bad < 1e-5 && moved > 0.1, "%s, l1 %g, l2 %g%s: as the formula (%.1e)", rule->name,
	    (double)l1, (double)l2, decay ? "" : ", no decay", bad);
	ok(same, "%s: the chosen code has the bits of plain code", rule->name);
}

/* Does a step without a gradient, after some with one, leave all elements as the rule says? */
static void test_untouched(const struct optim_rule *rule)
{
	static struct params p, before;
	static struct ref ref[N];
	const float none[N] = { 0 };
	struct optim_hyper h;
	float g[N];
	bool same;

	rule->defaults(&h);
	state = 7;
	start(&p, rule, ref, false);
	for (uint64_t t = 1; t <= 4; t++) {
		gradient(ref, g);
		rule->step(&h, t, true, N, p.w, p.s, &(struct optim_gradient){ g, 1, 1, 0, 0 });
	}
	before = p;
	rule->step(&h, 5, true, N, p.w, p.s, &(struct optim_gradient){ none, 1, 1, 0, 0 });
	same = memcmp(p.w, before.w, sizeof p.w) == 0 &&
	    memcmp(p.vector, before.vector, sizeof p.vector) == 0;
	ok(same == rule->keeps_untouched, "%s %s elements without a gradient", rule->name,
	    rule->keeps_untouched ? "keeps" : "changes");
}

/* Parameters that one example of a batch touches end with the bits that single examples give them, for the
 * rules whose constants are for single examples. The batch's size is a power of two, so that a mean
 * times it is exact. */
static void test_batch(const struct optim_rule *rule, unsigned size)
{
	static struct params single, batch;
	static struct ref ref[N];
	struct optim_hyper h;
	float g[N];

	rule->defaults(&h);
	h.l1 = 0.05f;
	h.initial = 0.1f;
	state = 5;
	start(&single, rule, ref, false);
	batch = single;
	for (size_t k = 0; k < OPTIM_VECTORS_MAX; k++)
		batch.s[k] = batch.vector[k];
	for (uint64_t t = 1; t <= 5; t++) {
		gradient(ref, g);
		rule->step(&h, t, true, N, single.w, single.s,
		    &(struct optim_gradient){ g, 1, 1, 0, 0 });
		for (size_t i = 0; i < N; i++)
			g[i] /= (float)size;
		rule->step(&h, t, true, N, batch.w, batch.s,
		    &(struct optim_gradient){ g, 1, size, 0, 0 });
	}
	ok(memcmp(single.w, batch.w, sizeof single.w) == 0 &&
	        memcmp(single.vector, batch.vector, sizeof single.vector) == 0,
	    "%s: a batch of %u changes a parameter as the one example does that touches it",
	    rule->name, size);
}

/* Does l2 act in proportion to the examples that touch a row: as a quarter of it, where a quarter does? */
static void test_touching(const struct optim_rule *rule)
{
	static struct params some, all;
	static struct ref ref[N];
	struct optim_hyper h, quarter;
	float g[N];

	rule->defaults(&h);
	h.l2 = 0.5f;
	quarter = h;
	quarter.l2 = 0.125f;
	state = 9;
	start(&some, rule, ref, false);
	all = some;
	for (size_t k = 0; k < OPTIM_VECTORS_MAX; k++)
		all.s[k] = all.vector[k];
	for (uint64_t t = 1; t <= 3; t++) {
		gradient(ref, g);
		rule->step(&h, t, true, N, some.w, some.s,
		    &(struct optim_gradient){ g, 1, 64, 16, 0 });
		rule->step(&quarter, t, true, N, all.w, all.s,
		    &(struct optim_gradient){ g, 1, 64, 0, 0 });
	}
	ok((memcmp(some.w, all.w, sizeof some.w) == 0) == rule->counts_touching,
	    "%s: l2 %s by the examples that touch a row", rule->name,
	    rule->counts_touching ? "goes" : "does not go");
}

static void test_every_length(const struct optim_rule *rule, const struct optim_rule *copy)
{
	static struct params p, q;
	static struct ref ref[N];
	struct optim_hyper h;
	float g[N];
	int bad = 0;

	rule->defaults(&h);
	h.l1 = 0.01f;
	h.l2 = 0.1f;
	for (size_t n = 0; n < 131; n++) {
		state = n + 1;
		start(&p, rule, ref, false);
		state = n + 1;
		start(&q, rule, ref, false);
		gradient(ref, g);
		for (uint64_t t = 1; t <= 3; t++) {
			rule->step(&h, t, true, n, p.w, p.s,
			    &(struct optim_gradient){ g, 1, 1, 0, 0 });
			copy->step(&h, t, true, n, q.w, q.s,
			    &(struct optim_gradient){ g, 1, 1, 0, 0 });
		}
		bad += memcmp(p.w, q.w, sizeof p.w) != 0 ||
		    memcmp(p.vector, q.vector, sizeof p.vector) != 0;
		for (size_t i = n; i < N; i++)
			bad += (double)p.w[i] != ref[i].w;
	}
	ok(bad == 0, "%s: plain bits at every length, and nothing written behind", rule->name);
}

/* Gradients of the length that servers still accept, summed over a large batch. */
static void test_long_gradients(const char *name)
{
	const struct optim_rule *rule = optim_find(name);
	static struct params p;
	static struct ref ref[N];
	struct optim_hyper h;
	float g[N];
	bool finite = true;

	rule->defaults(&h);
	start(&p, rule, ref, false);
	for (size_t i = 0; i < N; i++)
		g[i] = i % 2 ? 1e25f : -1e17f;
	for (uint64_t t = 1; t <= 3; t++)
		rule->step(&h, t, true, N, p.w, p.s, &(struct optim_gradient){ g, 1, 2048, 0, 0 });
	for (size_t i = 0; i < N; i++)
		finite = finite && isfinite(p.w[i]) && isfinite(p.s[0][i]);
	ok(finite, "%s: long gradients leave everything finite", name);
}

/* rowwise_adagrad in rows of several values, against the formula in double; one number for each row, and
 * the bits of plain code. */
static void test_rowwise(size_t width)
{
	const struct optim_rule *rule = optim_find("rowwise_adagrad");
	static float w[2][N], accum[2][N], g[N];
	double ref[N], sum[N] = { 0 }, bad = 0;
	size_t rows = N / width, n = rows * width;
	float *s[2] = { accum[0], accum[1] };
	struct optim_hyper h;
	bool same = true;

	rule->defaults(&h);
	h.initial = 0.1f;
	h.eps = 0.01f;
	h.l2 = 0.05f;
	memset(accum, 0, sizeof accum);
	memset(w, 0, sizeof w);
	for (size_t i = 0; i < n; i++)
		ref[i] = (double)(w[0][i] = w[1][i] = (float)uniform());
	for (uint64_t t = 1; t <= 50; t++) {
		for (size_t i = 0; i < n; i++)
			g[i] = (float)uniform();
		for (size_t r = 0; r < rows; r++) {
			double squares = 0, all[N];

			for (size_t i = 0; i < width; i++) {
				all[i] = 3 * 0.25 * (double)g[r * width + i] +
				    2 * (double)h.l2 * ref[r * width + i];
				squares += all[i] * all[i];
			}
			sum[r] += squares / (double)width;
			for (size_t i = 0; i < width; i++)
				ref[r * width + i] -= (double)h.lr * all[i] /
				    (sqrt((double)h.initial + sum[r]) + (double)h.eps);
		}
		rule->step(&h, t, true, n, w[0], &s[0],
		    &(struct optim_gradient){ g, 0.25f, 3, 2, (uint32_t)width });
		plain[rule->id - 1]->step(&h, t, true, n, w[1], &s[1],
		    &(struct optim_gradient){ g, 0.25f, 3, 2, (uint32_t)width });
		same &= !memcmp(w[0], w[1], sizeof w[0]) &&
		    !memcmp(accum[0], accum[1], sizeof w[0]);
	}
	for (size_t i = 0; i < n; i++)
		bad = fmax(bad, fabs((double)w[0][i] - ref[i]));
	for (size_t r = 0; r < rows; r++)
		bad = fmax(bad, fabs((double)accum[0][r] - sum[r]) / sum[r]);
	for (size_t i = rows; i < N; i++)
		same &= accum[0][i] == 0;
	ok(bad < 1e-5, "rowwise_adagrad, rows of %zu: as the formula (%.1e)", width, bad);
	ok(same, "rows of %zu: one number each, and the bits of plain code", width);
	for (size_t i = 0; i < n; i++)
		g[i] = 1e25f;
	rule->step(&h, 51, true, n, w[0], &s[0],
	    &(struct optim_gradient){ g, 1, 2048, 0, (uint32_t)width });
	ok(isfinite(accum[0][0]) && isfinite(w[0][0]),
	    "rows of %zu: long gradients leave all finite", width);
	ok(optim_state_floats(rule, n, width) == rows && optim_state_floats(rule, n, 0) == n &&
	        optim_state_floats(optim_find("adam"), n, width) == 2 * n,
	    "rows of %zu: the size of the state", width);
}

/* rowwise_adam in rows of several values, against the formula in double: m for each value, and one v
 * for each row. */
static void test_rowwise_adam(size_t width)
{
	const struct optim_rule *rule = optim_find("rowwise_adam");
	static float w[2][N], m[2][N], v[2][N], g[N];
	double ref[N], first[N] = { 0 }, second[N] = { 0 }, bad = 0;
	size_t rows = N / width, n = rows * width;
	float *s[2][2] = { { m[0], v[0] }, { m[1], v[1] } };
	struct optim_hyper h;
	bool same = true;

	rule->defaults(&h);
	h.l2 = 0.05f;
	h.lr = 0.01f;
	memset(m, 0, sizeof m);
	memset(v, 0, sizeof v);
	memset(w, 0, sizeof w);
	for (size_t i = 0; i < n; i++)
		ref[i] = (double)(w[0][i] = w[1][i] = (float)uniform());
	for (uint64_t t = 1; t <= 50; t++) {
		double b1 = (double)h.beta1, b2 = (double)h.beta2;

		for (size_t i = 0; i < n; i++)
			g[i] = (float)uniform();
		for (size_t r = 0; r < rows; r++) {
			double squares = 0;

			for (size_t i = r * width; i < (r + 1) * width; i++) {
				double all = 0.25 * (double)g[i] + (double)h.l2 * 2 / 3 * ref[i];

				squares += all * all;
				first[i] = b1 * first[i] + (1 - b1) * all;
			}
			second[r] = b2 * second[r] + (1 - b2) * squares / (double)width;
			for (size_t i = r * width; i < (r + 1) * width; i++)
				ref[i] -= (double)h.lr * first[i] / (1 - pow(b1, (double)t)) /
				    (sqrt(second[r] / (1 - pow(b2, (double)t))) + (double)h.eps);
		}
		for (int k = 0; k < 2; k++)
			(k ? plain[rule->id - 1] : rule)
			    ->step(&h, t, true, n, w[k], s[k],
			        &(struct optim_gradient){ g, 0.25f, 3, 2, (uint32_t)width });
		same &= !memcmp(w[0], w[1], sizeof w[0]) && !memcmp(m[0], m[1], sizeof m[0]) &&
		    !memcmp(v[0], v[1], sizeof v[0]);
	}
	for (size_t i = 0; i < n; i++)
		bad = fmax(bad, fabs((double)w[0][i] - ref[i]));
	for (size_t r = 0; r < rows; r++)
		bad = fmax(bad, fabs((double)v[0][r] - second[r]) / second[r]);
	for (size_t i = rows; i < N; i++)
		same &= v[0][i] == 0;
	ok(bad < 1e-5, "rowwise_adam, rows of %zu: as the formula (%.1e)", width, bad);
	ok(same, "rows of %zu: one second moment each, and the bits of plain code", width);
	ok(optim_state_floats(rule, n, width) == n + rows &&
	        optim_state_floats(rule, n, 0) == 2 * n,
	    "rows of %zu: the size of the state", width);
}

/* lamb: each row is a layer. Rows together have the bits of each by itself, and these have those of a dense
 * table of that size. */
static void test_lamb_rows(size_t width)
{
	const struct optim_rule *rule = optim_find("lamb");
	static struct params all, row, table;
	static struct ref ref[N];
	size_t n = N / width * width;
	struct optim_hyper h;
	float g[N];

	rule->defaults(&h);
	h.l2 = 0.05f;
	state = width;
	start(&all, rule, ref, false);
	row = table = all;
	for (uint64_t t = 1; t <= 20; t++) {
		gradient(ref, g);
		rule->step(&h, t, true, n, all.w, all.s,
		    &(struct optim_gradient){ g, 1, 1, 0, (uint32_t)width });
		for (size_t at = 0; at < n; at += width) {
			float *one[] = { row.vector[0] + at, row.vector[1] + at };
			float *dense[] = { table.vector[0] + at, table.vector[1] + at };

			rule->step(&h, t, true, width, row.w + at, one,
			    &(struct optim_gradient){ g + at, 1, 1, 0, (uint32_t)width });
			rule->step(&h, t, true, width, table.w + at, dense,
			    &(struct optim_gradient){ g + at, 1, 1, 0, 0 });
		}
	}
	ok(!memcmp(all.w, row.w, sizeof row.w) && !memcmp(all.w, table.w, sizeof table.w),
	    "lamb, rows of %zu: each is a layer", width);
}

/* lamb: a layer of zeros begins to move, one whose direction is 0 stays, and directions that nearly vanish
 * leave all finite. */
static void test_lamb_extremes(void)
{
	const struct optim_rule *rule = optim_find("lamb");
	float w[3] = { 0 }, m[3] = { 0 }, v[3] = { 0 }, *const s[] = { m, v };
	static const float some[3] = { 1, 0, -2 }, none[3], tiny[3] = { 1e-38f, 1e-38f, 1e-38f };
	struct optim_hyper h;

	rule->defaults(&h);
	rule->step(&h, 1, true, 3, w, s, &(struct optim_gradient){ some, 1, 1, 0, 0 });
	ok(w[0] < 0 && w[1] == 0 && w[2] > 0, "lamb: zeros move with the ratio 1");
	memset(m, 0, sizeof m);
	w[0] = w[1] = w[2] = 1;
	rule->step(&h, 2, true, 3, w, s, &(struct optim_gradient){ none, 1, 1, 0, 0 });
	ok(w[0] == 1 && w[1] == 1 && w[2] == 1, "lamb: without a gradient nothing moves");
	w[0] = w[1] = w[2] = 1e30f;
	rule->step(&h, 3, true, 3, w, s, &(struct optim_gradient){ tiny, 1, 1, 0, 0 });
	ok(isfinite(w[0]) && isfinite(w[1]) && isfinite(w[2]),
	    "lamb: a vanishing direction leaves all finite");
}

static void test_ftrl(void)
{
	const struct optim_rule *rule = optim_find("ftrl");
	static struct params p;
	static struct ref ref[N];
	struct optim_hyper h;
	float g[N] = { 0 };
	size_t zeroes = 0;
	double far = 0;

	rule->defaults(&h);
	h.l1 = 0.5f;
	start(&p, rule, ref, false);
	for (uint64_t t = 1; t <= 50; t++) {
		h.lr = 0.1f * (float)(51 - t) / 50;
		rule->step(&h, t, true, N, p.w, p.s, &(struct optim_gradient){ g, 1, 1, 0, 0 });
	}
	for (size_t i = 0; i < N; i++)
		far = fmax(far, fabs((double)p.w[i] - ref[i].w));
	ok(far < 1e-6, "ftrl: without gradients w stays, whatever it began as and lr does (%.1e)",
	    far);

	rule->defaults(&h);
	h.l1 = 3;
	start(&p, rule, ref, true);
	for (uint64_t t = 1; t <= STEPS; t++) {
		for (size_t i = 0; i < N; i++)
			g[i] = (float)uniform() * 0.2f + (i % 2 ? 0.5f : 0);
		rule->step(&h, t, true, N, p.w, p.s, &(struct optim_gradient){ g, 1, 1, 0, 0 });
	}
	for (size_t i = 0; i < N; i++)
		zeroes += p.w[i] == 0;
	ok(zeroes >= N / 3 && zeroes <= N / 2 + 1, "ftrl: l1 keeps noise at exactly 0 (%zu of %d)",
	    zeroes, N);

	h.lr = 0;
	float before = p.w[1];

	rule->step(&h, 1, true, N, p.w, p.s, &(struct optim_gradient){ g, 1, 1, 0, 0 });
	ok(p.w[1] == before && before != 0, "ftrl: learning rate 0 changes nothing");

	rule->defaults(&h);
	h.ftrl_beta = 0;
	memset(g, 0, sizeof g);
	start(&p, rule, ref, false);
	rule->step(&h, 1, true, N, p.w, p.s, &(struct optim_gradient){ g, 1, 1, 0, 0 });
	ok((double)p.w[5] == ref[5].w, "ftrl: with beta 0 an untouched parameter stays");
}

static void test_registry(void)
{
	size_t n = 0;

	for (const struct optim_rule *r; (r = optim_at(n)) != NULL; n++) {
		ok(optim_find(r->name) == r && r->id == (int)n + 1,
		    "%s is found by name, and has its number", r->name);
		ok(strchr(r->help, '(') != NULL && r->nvectors <= OPTIM_VECTORS_MAX,
		    "%s names its paper", r->name);
	}
	ok(n > 0 && optim_find("sdg") == NULL, "no other rule is found");
}

static void test_adam_late(void)
{
	const struct optim_rule *rule = optim_find("adam");
	struct optim_hyper h;
	float w = 1, m = 0, v = 0, g = 1, *s[] = { &m, &v };

	rule->defaults(&h);
	rule->step(&h, UINT64_MAX, true, 1, &w, s, &(struct optim_gradient){ &g, 1, 1, 0, 0 });
	ok(isfinite(w), "adam at the last of all steps is finite");
	w = 1;
	m = v = 0;
	rule->step(&h, 1, true, 1, &w, s, &(struct optim_gradient){ &g, 1, 1, 0, 0 });
	ok(fabsf(w - 0.999f) < 1e-6f, "adam's first step is lr long");
}

/* What is 1 is not divided by: the bits of a division. */
static void test_adam_uncorrected(void)
{
	static const uint64_t steps[] = { 1, 164, 165, 166, 167, 200, 17000, 17400, 1000000 };
	const struct optim_rule *rule = optim_find("adam");
	struct optim_hyper h;
	unsigned other = 0;

	rule->defaults(&h);
	for (size_t k = 0; k < sizeof steps / sizeof *steps; k++)
		for (int i = 0; i < 1000; i++) {
			float w = (float)uniform(), m = (float)uniform(),
			      v = fabsf((float)uniform()), g = (float)uniform(), *s[] = { &m, &v };
			volatile float c1 = (float)(1 -
			                   power_by_squaring((double)h.beta1, steps[k])),
			               c2 = (float)(1 -
			                   power_by_squaring((double)h.beta2, steps[k]));
			volatile float mean, square, by, want = w;
			volatile float m1 = h.beta1 * m, m2 = (1 - h.beta1) * g, v1 = h.beta2 * v,
			               g2 = g * g, v2 = (1 - h.beta2) * g2;

			mean = (m1 + m2) / c1;
			square = (v1 + v2) / c2;
			by = h.lr * mean;
			by = by / (sqrtf(square) + h.eps);
			want = want - by;
			rule->step(&h, steps[k], false, 1, &w, s,
			    &(struct optim_gradient){ &g, 1, 1, 0, 0 });
			other += w != want;
		}
	ok(other == 0, "adam: at any step the bits of the formula in float (%u not)", other);
}

static double at(const char *text, uint64_t step)
{
	struct schedule s;

	return schedule_parse(text, &s, NULL) == ERR_OK ? schedule_factor(&s, step) : -1;
}

/* A number of 130 digits: longer than any schedule. */
#define ZEROES "00000000000000000000000000"
#define LONG   ("cosine:100:0." ZEROES ZEROES ZEROES ZEROES ZEROES)

static void test_schedules(void)
{
	static const struct {
		const char *text;
		uint64_t step;
		double want;
	} cases[] = {
		{ "constant", 0, 1 },
		{ "constant", 1000000, 1 },
		{ "step:1000:0.5", 0, 1 },
		{ "step:1000:0.5", 999, 1 },
		{ "step:1000:0.5", 1000, 0.5 },
		{ "step:1000:0.5", 3999, 0.125 },
		{ "step:1:1", 77, 1 },
		{ "cosine:100", 0, 1 },
		{ "cosine:100", 50, 0.5 },
		{ "cosine:100", 100, 0 },
		{ "cosine:100", 25, 0.85355339059327376 },
		{ "cosine:100", 101, 0 },
		{ "cosine:100:0.1", 50, 0.55 },
		{ "cosine:100:0.1", 5000, 0.1 },
		{ "warmup:10", 0, 0.1 },
		{ "warmup:10", 8, 0.9 },
		{ "warmup:10", 9, 1 },
		{ "warmup:10", 10, 1 },
		{ "warmup:1", 0, 1 },
		{ "warmup:10+cosine:100", 4, 0.5 },
		{ "warmup:10+cosine:100", 10, 1 },
		{ "warmup:10+cosine:100", 60, 0.5 },
		{ "warmup:10+cosine:100", 110, 0 },
		{ "warmup:4+step:10:0.1", 14, 0.1 },
		{ "warmup:4+constant", 99, 1 },
		{ "wsd:10:20:5", 0, 0.1 },
		{ "wsd:10:20:5", 29, 1 },
		{ "wsd:10:20:5", 30, 1 },
		{ "wsd:10:20:5", 31, 0.8 },
		{ "wsd:10:20:5", 34, 0.2 },
		{ "wsd:10:20:5", 35, 0 },
		{ "wsd:10:20:5", UINT64_MAX, 0 },
		{ "wsd:0:0:2", 1, 0.5 },
	};
	static const char *const bad[] = {
		"",
		":",
		"+",
		"cosin:10",
		"constant:1",
		"step",
		"step:10",
		"step:0:0.5",
		"step:10:0",
		"step:10:1.5",
		"step:10:-1",
		"step:10:nan",
		"step:10:0.5:7",
		"step:ten:0.5",
		"step:-1:0.5",
		"cosine",
		"cosine:",
		"cosine:0",
		"cosine:10:2",
		"cosine:10:-0.1",
		"cosine:1e3",
		"cosine:99999999999999999999",
		"warmup",
		"warmup:0",
		"warmup:5:6",
		"warmup:5+",
		"warmup:5+warmup:5",
		"warmup:5+wsd:1:2:3",
		"warmup:5+cosine:9+constant",
		"cosine:9+warmup:5",
		"wsd:1:2",
		"wsd:1:2:0",
		"wsd:1:2:3:4",
		"wsd:1:2:3:4:5",
		" constant",
		"constant ",
		LONG,
	};
	double far = 0;

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		double got = at(cases[i].text, cases[i].step);

		ok(fabs(got - cases[i].want) < 1e-14, "%s at %llu is %.4g", cases[i].text,
		    (unsigned long long)cases[i].step, got);
	}
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		struct schedule s = { .length = 77 };
		struct err e = { 0 };
		enum err_code rc = schedule_parse(bad[i], &s, &e);

		ok(rc == ERR_CONFIG && e.code == rc && s.length == 77 &&
		        strncmp(e.msg, "job.schedule", 12) == 0,
		    "refused: %s", e.msg);
	}
	for (uint64_t i = 0; i <= 10000; i++) {
		double want = (1 + cos(3.14159265358979323846 * (double)i / 1e4)) / 2;

		far = fmax(far, fabs(at("cosine:10000", i) - want));
	}
	ok(far < 1e-15, "cosine is libm's cosine (%.1e)", far);
	ok(strcmp(schedule_name(SCHEDULE_cosine), "cosine") == 0 && schedule_name(-1) == NULL &&
	        schedule_form(5) == NULL && schedule_help(5) == NULL,
	    "schedules can be listed");
}

/* The way of one parameter from `first` to its target at 1, in steps of least squares, in the units of w and
 * of the loss that are given. */
static double way_of_dog(double first, double unit, double loss)
{
	const struct optim_rule *rule = optim_find("dog");
	struct optim_hyper h;
	float w = (float)(first * unit), accum = 0, origin = 0,
	      reach = 0, *const s[] = { &accum, &origin, &reach };

	rule->defaults(&h);
	for (uint64_t t = 1; t <= 3000; t++) {
		float g = (float)(loss * ((double)w - unit));

		rule->step(&h, t, true, 1, &w, s, &(struct optim_gradient){ &g, 1, 1, 0, 0 });
	}
	return (double)w / unit;
}

/* Does dog arrive, whatever the units are? */
static void test_dog_units(void)
{
	static const double unit[] = { 1e-3, 1, 1e3, 1e6 }, loss[] = { 1e-6, 1, 1e6 };

	for (size_t i = 0; i < 4; i++)
		for (size_t k = 0; k < 3; k++) {
			double from0 = way_of_dog(0, unit[i], loss[k]),
			       from3 = way_of_dog(3, unit[i], loss[k]);

			ok(fabs(from0 - 1) < 0.01 && fabs(from3 - 1) < 0.01,
			    "dog: to %g, with gradients times %g: %g and %g", unit[i], loss[k],
			    from0, from3);
		}
}

int main(void)
{
	test_registry();
	for (size_t i = 0; optim_at(i) != NULL; i++) {
		test_rule(optim_at(i), plain[i], true, 0, 0);
		test_rule(optim_at(i), plain[i], true, 0.1f, 0.05f);
		test_rule(optim_at(i), plain[i], false, 0.1f, 0.05f);
		test_every_length(optim_at(i), plain[i]);
		test_untouched(optim_at(i));
		test_touching(optim_at(i));
	}
	for (unsigned size = 1; size <= 512; size *= 8) {
		test_batch(optim_find("adagrad"), size);
		test_batch(optim_find("ftrl"), size);
		test_batch(optim_find("dog"), size);
	}
	test_long_gradients("adagrad");
	test_long_gradients("rowwise_adagrad");
	test_long_gradients("ftrl");
	test_long_gradients("dog");
	test_dog_units();
	for (size_t width = 2; width <= 64; width += width < 18 ? 1 : 23)
		test_rowwise(width);
	for (size_t width = 2; width <= 64; width += width < 18 ? 1 : 23)
		test_rowwise_adam(width);
	for (size_t width = 1; width <= 64; width += width < 18 ? 1 : 23)
		test_lamb_rows(width);
	test_lamb_extremes();
	test_ftrl();
	test_adam_late();
	test_adam_uncorrected();
	test_schedules();
	return tap_done();
}
