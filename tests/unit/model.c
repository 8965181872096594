/* SPDX-License-Identifier: ISC */
/* Models against naive loops in double and their central differences. */
#include <math.h>

#include "math/blas.h"
#include "model_fixture.h"

/* The activations of one example after all layers; a model without hidden
 * layers is a network of one. */
static void ref_outputs(const struct subject *t, const double *x, size_t cols, double *out)
{
	double in[64], z[64];
	size_t nin = cols, layers = t->ntables / 2;

	memcpy(in, x, cols * sizeof *in);
	for (size_t l = 0; l < layers; l++) {
		size_t k = t->tables[2 * l].cols;

		for (size_t j = 0; j < k; j++) {
			z[j] = t->p[2 * l + 1][j];
			for (size_t i = 0; i < nin; i++)
				z[j] += in[i] * t->p[2 * l][i * k + j];
			if (l + 1 < layers)
				z[j] = t->shape.activation && !strcmp(t->shape.activation, "tanh")
				    ? tanh(z[j])
				    : fmax(z[j], 0);
		}
		memcpy(in, z, k * sizeof *in);
		nin = k;
	}
	memcpy(out, in, nin * sizeof *out);
}

/* Loss of one example by the textbook formula, and its scores in z. */
static double ref_loss(const struct subject *t, const struct sample *s, size_t r, double *z)
{
	double sum = 0, y = (double)s->b.y[r];
	size_t k = model_outputs(t->m);

	ref_outputs(t, s->x + r * s->cols, s->cols, z);
	switch (model_task(t->m)) {
	case MODEL_REAL:
	case MODEL_TWO:
		return ref_value(t, y, z[0], z);
	case MODEL_CLASSES:
		for (size_t j = 0; j < k; j++)
			sum += exp(z[j]);
		for (size_t j = 0; j < k; j++)
			z[j] = exp(z[j]) / sum;
		return -log(z[s->b.label[r]]);
	case MODEL_WORDS:
	case MODEL_PAIRS:
	case MODEL_OUTSIDE:
		break;
	}
	return NAN;
}

static void test_models(void)
{
	static const size_t hidden[] = { 11, 8, 13 };

	for (int sparse = 0; sparse < 2; sparse++) {
		test_model("linear", &(struct model_shape){ .features = 7, .sparse = sparse },
		    ref_loss);
		test_model("logistic",
		    &(struct model_shape){ .features = 7, .classes = 2, .sparse = sparse },
		    ref_loss);
		for (size_t k = 2; k < 20; k += 5)
			test_model("softmax",
			    &(struct model_shape){ .features = 7, .classes = k, .sparse = sparse },
			    ref_loss);
	}
	for (size_t n = 1; n <= 3; n++)
		for (int t = 0; t < 2; t++)
			test_model("mlp",
			    &(struct model_shape){ .features = 6,
			        .classes = 2 + 3 * n,
			        .hidden = hidden,
			        .nhidden = n,
			        .activation = t ? "tanh" : "relu" },
			    ref_loss);
	for (size_t n = 1; n <= 2; n++)
		test_model("mlp",
		    &(struct model_shape){ .features = 6,
		        .classes = 4,
		        .hidden = hidden,
		        .nhidden = n,
		        .activation = "tanh",
		        .sparse = true },
		    ref_loss);
	test_model("mlp",
	    &(struct model_shape){ .features = 1,
	        .classes = 2,
	        .hidden = &hidden[1],
	        .nhidden = 1 },
	    ref_loss);
}

static void test_losses(void)
{
	static const size_t hidden[] = { 4 };

	for (size_t i = 0; i < REF_LOSSES; i++) {
		struct model_shape shape = { .features = 5,
			.classes = ref_losses[i].classes,
			.loss = ref_losses[i].loss };

		test_model("linear", &shape, ref_loss);
		if (shape.classes == 2)
			test_model("logistic", &shape, ref_loss);
		shape.hidden = hidden;
		shape.nhidden = 1;
		test_model("mlp", &shape, ref_loss);
	}
}

static void test_empty(void)
{
	struct subject t;
	struct sample s;
	float none[1];

	for (int sparse = 0; sparse < 2; sparse++) {
		subject_make(&t, "softmax",
		    &(struct model_shape){ .features = 4, .classes = 3, .sparse = sparse }, 4);
		sample_make(&s, sparse, 0, 4, 3);
		ok(model_grad(t.m, &s.b, (const float *const *)t.pf, t.g) == 0 && t.g[0][0] == 0 &&
		        t.g[0][11] == 0 && t.g[1][2] == 0 &&
		        model_forward(t.m, &s.b, (const float *const *)t.pf, none) == 0,
		    "a batch of no examples has no loss, and gradient 0");
		feed_sample_release(&s);
		subject_release(&t);
	}
}

/* Do two gradients of a model agree, to rounding? */
static bool same_gradient(const struct subject *t, float *const *a, float *const *b)
{
	double off = 0, size = 1e-3;

	for (size_t i = 0; i < t->ntables; i++)
		for (size_t k = 0; k < t->n[i]; k++) {
			off = fmax(off, fabs((double)a[i][k] - (double)b[i][k]));
			size = fmax(size, fabs((double)a[i][k]));
		}
	return off < 1e-5 * size;
}

/* A model with a loss: three examples with the weights 2, 0 and 1, against a batch of the first one twice and
 * the last. */
static void test_weights_of(const char *name, const char *loss, size_t classes)
{
	static const size_t hidden[] = { 3 };
	struct model_shape shape = { .features = 4,
		.fields = 4,
		.factors = 2,
		.classes = classes,
		.loss = loss,
		.hidden = hidden,
		.cross = 1,
		.nhidden = strstr(name, "deep") || !strcmp(name, "mlp") || !strcmp(name, "dcn") };
	float weight[3] = { 2, 0, 1 }, scores[9], *got[MAX_TABLES];
	struct sample once, times;
	struct subject t;
	double a, b;

	subject_make(&t, name, &shape, 4);
	sample_make(&once, false, 3, 4, classes);
	sample_make(&times, false, 3, 4, classes);
	for (size_t r = 0; r < 3; r++)
		once.b.y[r] = fabsf(once.b.y[r]);
	for (size_t r = 0; r < 3; r++) {
		size_t from = r < 2 ? 0 : 2;

		memcpy(times.b.x + 4 * r, once.b.x + 4 * from, 4 * sizeof(float));
		times.b.y[r] = once.b.y[from];
		times.b.label[r] = once.b.label[from];
	}
	for (size_t k = 0; k < t.ntables; k++)
		got[k] = malloc(t.n[k] * sizeof(float));
	once.b.weight = weight;
	a = model_grad(t.m, &once.b, (const float *const *)t.pf, t.g);
	b = model_grad(t.m, &times.b, (const float *const *)t.pf, got);
	ok(fabs(a - b) < 1e-6 && same_gradient(&t, t.g, got) &&
	        fabs(model_forward(t.m, &once.b, (const float *const *)t.pf, scores) - 3 * a) <
	            1e-5,
	    "%s, loss %s: an example of weight 2 counts as two do, one of weight 0 not at all",
	    name, loss);
	once.b.weight = NULL;
	for (size_t k = 0; k < t.ntables; k++)
		free(got[k]);
	feed_sample_release(&once);
	feed_sample_release(&times);
	subject_release(&t);
}

static void test_weights(void)
{
	static const char *const name[] = { "linear", "mlp", "fm", "ffm", "mf", "wide_deep",
		"deepfm" };

	test_weights_of("logistic", "auto", 2);
	test_weights_of("softmax", "auto", 3);
	test_weights_of("mlp", "auto", 3);
	test_weights_of("fasttext", "auto", 3);
	for (size_t i = 0; i < sizeof name / sizeof *name; i++)
		for (size_t k = 0; k < REF_LOSSES; k++)
			test_weights_of(name[i], ref_losses[k].loss, ref_losses[k].classes);
}

/* A model of scaled targets against one that gets scaled targets, and whose loss has the argument in these
 * units. */
static void test_target_scaling(void)
{
	static const struct {
		const char *name, *loss, *scaled;
		int degree;
	} form[] = { { "linear", NULL, NULL, 2 }, { "mf", NULL, NULL, 2 },
		{ "linear", "huber:0.5", "huber:15000", 2 },
		{ "mf", "quantile:0.7", "quantile:0.7", 1 } };
	const double shift = 250000, factor = 1.0 / 30000;

	for (size_t i = 0; i < sizeof form / sizeof *form; i++) {
		const char *name = form[i].name, *loss = form[i].loss ? form[i].loss : "own";
		const double square = pow(factor, form[i].degree);
		struct model_shape shape = { .features = 4, .factors = 2, .loss = form[i].loss };
		float scores[5], plain[5], near[5];
		struct subject t, u;
		struct sample s;
		double a, b, f, g, off = 0;

		subject_make(&u, name, &shape, 4);
		shape.scaling = &(struct target_scaling){ shift, factor };
		shape.loss = form[i].scaled;
		subject_make(&t, name, &shape, 4);
		for (size_t k = 0; k < t.ntables; k++)
			memcpy(t.pf[k], u.pf[k], t.n[k] * sizeof(float));
		sample_make(&s, false, 5, 4, 0);
		memcpy(near, s.b.y, sizeof near);
		b = model_grad(u.m, &s.b, (const float *const *)u.pf, u.g);
		g = model_forward(u.m, &s.b, (const float *const *)u.pf, plain);
		for (size_t r = 0; r < 5; r++)
			s.b.y[r] = (float)((double)near[r] / factor + shift);
		a = model_grad(t.m, &s.b, (const float *const *)t.pf, t.g);
		f = model_forward(t.m, &s.b, (const float *const *)t.pf, scores);
		for (size_t r = 0; r < 5; r++)
			off = fmax(off,
			    fabs(((double)scores[r] - shift) * factor - (double)plain[r]));
		ok(off < 1e-5 && fabs(a * square - b) < 1e-5 && fabs(f * square - g) < 1e-5,
		    "%s, loss %s: scores and losses are in the units of the targets", name, loss);
		for (size_t k = 0; k < t.ntables; k++)
			for (size_t j = 0; j < t.n[k]; j++)
				off = fmax(off, fabs((double)t.g[k][j] - (double)u.g[k][j]));
		ok(off < 1e-5, "%s, loss %s: the gradient is that of the scaled targets", name,
		    loss);
		feed_sample_release(&s);
		subject_release(&t);
		subject_release(&u);
	}
}

static void test_extremes(void)
{
	float x = 1, w = 500, bias = 0, y = 0, gw, gb, score;
	const float *params[] = { &w, &bias };
	float *grads[] = { &gw, &gb };
	struct batch b = { .rows = 1, .cols = 1, .x = &x, .y = &y, .targets = 1 };
	struct model *m;

	model_new(model_kinds_all, "logistic", &(struct model_shape){ .features = 1, .classes = 2 },
	    &m, NULL);
	ok(model_grad(m, &b, params, grads) == 500 && gw == 1 && gb == 1,
	    "logistic, surely wrong: the loss is the distance");
	w = -500;
	ok(model_grad(m, &b, params, grads) < 1e-200 && fabsf(gw) < 1e-30f &&
	        model_forward(m, &b, params, &score) < 1e-200 && score < 1e-30f,
	    "logistic, surely right: loss and gradient are nothing");
	b.y = NULL;
	ok(model_forward(m, &b, params, &score) == 0 && score < 1e-30f, "scores without targets");
	model_free(m);

	float w3[3] = { 1e30f, -1e30f, 0 }, b3[3] = { 0 }, gw3[3], gb3[3], s3[3];
	const float *params3[] = { w3, b3 };
	float *grads3[] = { gw3, gb3 };
	int32_t label = 0;

	b.label = &label;
	model_new(model_kinds_all, "softmax", &(struct model_shape){ .features = 1, .classes = 3 },
	    &m, NULL);
	ok(model_grad(m, &b, params3, grads3) == 0 && gw3[0] == 0 && gw3[1] == 0,
	    "softmax, surely right: no loss");
	label = 2;
	ok(fabs(model_forward(m, &b, params3, s3) / 1e30 - 1) < 1e-6 && s3[0] == 1 && s3[2] == 0,
	    "softmax, surely wrong: a finite loss");
	model_free(m);
}

static void test_tables(void)
{
	static const size_t hidden[] = { 30, 20 };
	const struct model_table *t;
	struct model *m;
	size_t n;

	model_new(model_kinds_all, "mlp",
	    &(struct model_shape){ .features = 784, .classes = 10, .hidden = hidden, .nhidden = 2 },
	    &m, NULL);
	n = model_tables(m, &t);
	ok(n == 6 && strcmp(t[0].name, "w0") == 0 && strcmp(t[5].name, "b2") == 0 &&
	        t[0].rows == 784 && t[0].cols == 30 && t[2].rows == 30 && t[2].cols == 20 &&
	        t[4].cols == 10 && t[5].rows == 1 && t[5].cols == 10 && t[0].decay && !t[1].decay,
	    "mlp has w0 b0 w1 b1 w2 b2");
	ok(t[0].init == INIT_GLOROT && fabs((double)t[0].init_scale - sqrt(6.0 / 814)) < 1e-7 &&
	        t[1].init == INIT_ZEROS,
	    "weights begin by Glorot's limit, biases at 0");
	ok(model_outputs(m) == 10 && model_task(m) == MODEL_CLASSES, "mlp scores its classes");
	ok(model_reserve(m, 100, NULL) == ERR_OK &&
	        model_reserve(m, SIZE_MAX / 8, NULL) == ERR_NOMEM,
	    "memory for a batch is reserved, or refused");
	model_free(m);
	model_new(model_kinds_all, "softmax", &(struct model_shape){ .classes = 5, .sparse = true },
	    &m, NULL);
	n = model_tables(m, &t);
	ok(n == 2 && t[0].sparse && t[0].rows == 0 && t[0].cols == 5 && !t[1].sparse &&
	        t[0].init == INIT_ZEROS,
	    "sparse softmax has a sparse table w of width 5, and b");
	model_free(m);
}

static void refused(const char *name, const struct model_shape *shape, const char *words)
{
	struct model *m = NULL;
	struct err e = { 0 };

	ok(model_new(model_kinds_all, name, shape, &m, &e) == ERR_CONFIG && m == NULL &&
	        strstr(e.msg, words) != NULL,
	    "refused: %s", e.msg);
}

static void test_refusals(void)
{
	static const size_t hidden[] = { 4, 0 }, huge[] = { SIZE_MAX / 2 };

	refused("softmaks", &(struct model_shape){ .features = 2 }, "did you mean softmax");
	refused("logistic", &(struct model_shape){ .features = 2, .classes = 10 },
	    "job.model logistic needs two classes, but the data has 10; use softmax or mlp");
	refused("logistic", &(struct model_shape){ .features = 2 }, "two classes");
	refused("softmax", &(struct model_shape){ .features = 2, .classes = 1 }, "at least two");
	refused("linear", &(struct model_shape){ .features = 2, .classes = 2 },
	    "job.model linear needs real targets with the loss squared");
	refused("fm", &(struct model_shape){ .features = 2, .classes = 2, .loss = "huber" },
	    "real targets with the loss huber");
	refused("softmax", &(struct model_shape){ .features = 2, .loss = "squared" },
	    "cannot use the loss squared");
	refused("linear", &(struct model_shape){ .features = 0 }, "no features");
	refused("linear", &(struct model_shape){ .features = 2, .hidden = hidden, .nhidden = 1 },
	    "job.hidden");
	refused("mlp", &(struct model_shape){ .features = 2, .classes = 2 }, "needs job.hidden");
	refused("mlp",
	    &(struct model_shape){ .features = 2, .classes = 2, .hidden = hidden, .nhidden = 2 },
	    "job.hidden[1]");
	refused("mlp",
	    &(struct model_shape){ .features = 2, .classes = 2, .hidden = huge, .nhidden = 1 },
	    "too large");
	refused("mlp",
	    &(struct model_shape){ .features = 2,
	        .classes = 2,
	        .hidden = hidden,
	        .nhidden = 1,
	        .activation = "gelu" },
	    "\"gelu\" must be relu or tanh");
	refused("softmax", &(struct model_shape){ .features = SIZE_MAX / 4, .classes = 9 },
	    "too large");
}

static void test_check(void)
{
	struct model *m;
	struct sample s;
	struct err e;

	model_new(model_kinds_all, "softmax", &(struct model_shape){ .features = 3, .classes = 4 },
	    &m, NULL);
	sample_make(&s, false, 6, 3, 4);
	ok(model_check(m, &s.b, &e) == ERR_OK, "a batch that fits");
	s.b.label[5] = 4;
	ok(model_check(m, &s.b, &e) == ERR_FORMAT, "refused: %s", e.msg);
	s.b.label[5] = -1;
	ok(model_check(m, &s.b, &e) == ERR_FORMAT, "refused: %s", e.msg);
	s.b.cols = 2;
	ok(model_check(m, &s.b, &e) == ERR_FORMAT, "refused: %s", e.msg);
	s.b.sparse = true;
	ok(model_check(m, &s.b, &e) == ERR_FORMAT, "refused: %s", e.msg);
	feed_sample_release(&s);
	model_free(m);

	model_new(model_kinds_all, "linear",
	    &(struct model_shape){ .features = 3, .loss = "poisson" }, &m, NULL);
	sample_make(&s, false, 6, 3, 2);
	ok(model_check(m, &s.b, &e) == ERR_OK, "counts");
	s.b.y[2] = -1;
	ok(model_check(m, &s.b, &e) == ERR_FORMAT && strstr(e.msg, "poisson needs a number of at"),
	    "refused: %s", e.msg);
	feed_sample_release(&s);
	model_free(m);

	model_new(model_kinds_all, "logistic", &(struct model_shape){ .features = 3, .classes = 2 },
	    &m, NULL);
	sample_make(&s, false, 6, 3, 2);
	ok(model_check(m, &s.b, &e) == ERR_OK, "a batch of two classes that fits");
	s.b.y[2] = 0.5f;
	ok(model_check(m, &s.b, &e) == ERR_FORMAT, "refused: %s", e.msg);
	s.b.y[2] = NAN;
	ok(model_check(m, &s.b, &e) == ERR_FORMAT, "refused: %s", e.msg);
	free(s.b.y);
	s.b.y = NULL;
	ok(model_check(m, &s.b, &e) == ERR_FORMAT, "refused: %s", e.msg);
	feed_sample_release(&s);
	model_free(m);
}

static void test_blas(void)
{
	enum { M = 5, K = 7, L = 3 };
	float a[M * K], at[K * M], b[K * L], bt[L * K], c[M * L];
	double bad = 0;

	for (size_t i = 0; i < M; i++)
		for (size_t k = 0; k < K; k++)
			a[i * K + k] = at[k * M + i] = (float)uniform(-1, 1);
	for (size_t k = 0; k < K; k++)
		for (size_t j = 0; j < L; j++)
			b[k * L + j] = bt[j * K + k] = (float)uniform(-1, 1);
	for (int way = 0; way < 4; way++) {
		for (size_t i = 0; i < M * L; i++)
			c[i] = NAN;
		blas_gemm(way & 1, way & 2, M, L, K, 2, way & 1 ? at : a, way & 2 ? bt : b, 0, c);
		for (size_t i = 0; i < M; i++)
			for (size_t j = 0; j < L; j++) {
				double want = 0;

				for (size_t k = 0; k < K; k++)
					want += 2 * (double)a[i * K + k] * (double)b[k * L + j];
				bad = isfinite(c[i * L + j])
				    ? fmax(bad, fabs((double)c[i * L + j] - want))
				    : INFINITY;
			}
	}
	ok(bad < 1e-6, "blas_gemm in four ways, over NaN (%.1e)", bad);
}

enum { SEVERAL = 3, SEVERAL_ROWS = 7, SEVERAL_COLS = 4 };

/* The parameters of one target among those of several. */
static void take_column(const struct subject *all, size_t k, struct subject *one)
{
	for (size_t t = 0; t < all->ntables; t++)
		for (size_t i = 0; i < all->n[t] / SEVERAL; i++)
			one->pf[t][i] = all->pf[t][i * SEVERAL + k];
}

/* Checks that each target has the gradient and the scores of a model of this target alone, and that
 * the loss is the sum of their losses. */
static void check_several(const char *loss, const struct target_scaling *scaling)
{
	struct model_shape shape = { .features = SEVERAL_COLS,
		.targets = SEVERAL,
		.loss = loss,
		.scaling = scaling };
	float y[SEVERAL_ROWS * SEVERAL], scores[SEVERAL_ROWS * SEVERAL], single[SEVERAL_ROWS];
	struct subject all;
	struct sample s;
	double grad, forward, off = 0;
	bool same = true;

	subject_make(&all, "linear", &shape, SEVERAL_COLS);
	sample_make(&s, false, SEVERAL_ROWS, SEVERAL_COLS, 0);
	for (size_t i = 0; i < SEVERAL_ROWS * SEVERAL; i++)
		y[i] = (float)uniform(-9, 9);
	free(s.b.y);
	s.b.y = y;
	s.b.targets = SEVERAL;
	ok(model_check(all.m, &s.b, NULL) == ERR_OK && model_outputs(all.m) == SEVERAL,
	    "a batch with %d targets fits", SEVERAL);
	grad = model_grad(all.m, &s.b, (const float *const *)all.pf, all.g);
	forward = model_forward(all.m, &s.b, (const float *const *)all.pf, scores);
	for (size_t k = 0; k < SEVERAL; k++) {
		struct batch b = s.b;
		float own[SEVERAL_ROWS];
		struct subject one;

		shape.targets = 1;
		shape.scaling = scaling ? &scaling[k] : NULL;
		subject_make(&one, "linear", &shape, SEVERAL_COLS);
		take_column(&all, k, &one);
		for (size_t r = 0; r < SEVERAL_ROWS; r++)
			own[r] = y[r * SEVERAL + k];
		b.y = own;
		b.targets = 1;
		grad -= model_grad(one.m, &b, (const float *const *)one.pf, one.g);
		forward -= model_forward(one.m, &b, (const float *const *)one.pf, single);
		for (size_t t = 0; t < one.ntables; t++)
			for (size_t i = 0; i < one.n[t]; i++)
				off = fmax(off,
				    fabs((double)(one.g[t][i] - all.g[t][i * SEVERAL + k])));
		for (size_t r = 0; r < SEVERAL_ROWS; r++)
			off = fmax(off, fabs((double)(single[r] - scores[r * SEVERAL + k])));
		same &= model_check(one.m, &s.b, NULL) == ERR_FORMAT;
		subject_release(&one);
	}
	ok(off < 1e-5, "%s: each target has its own gradient and scores (off by %g)", loss, off);
	ok(fabs(grad) < 1e-4 && fabs(forward) < 1e-4,
	    "%s: the loss is the sum of the losses of all targets (off by %g, %g)", loss, grad,
	    forward);
	ok(same, "a model of one target refuses several");
	s.b.y = NULL;
	feed_sample_release(&s);
	subject_release(&all);
}

static void test_several_targets(void)
{
	const struct target_scaling scaling[] = { { 3, 0.25 }, { 0, 0 }, { -100, 8 } };
	const char *const loss[] = { "squared", "huber:1.5", "quantile:0.3" };
	struct model *m;
	struct err e;

	for (size_t i = 0; i < sizeof loss / sizeof *loss; i++) {
		check_several(loss[i], NULL);
		check_several(loss[i], scaling);
	}
	ok(model_new(model_kinds_all, "fm",
	       &(struct model_shape){ .features = 3,
	           .targets = 2,
	           .factors = 2,
	           .loss = "squared" },
	       &m, &e) == ERR_CONFIG &&
	        strstr(e.msg, "fm has one target, but the data has 2"),
	    "a model of one target says so: %s", e.msg);
}

int main(void)
{
	blas_init();
	rng_init(&rng, 7);
	test_blas();
	test_models();
	test_losses();
	test_empty();
	test_weights();
	test_target_scaling();
	test_several_targets();
	test_extremes();
	test_tables();
	test_refusals();
	test_check();
	/* Last, so that the others get the same random numbers as without it. */
	test_weights_of("dcn", "auto", 2);
	return tap_done();
}
