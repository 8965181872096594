/* SPDX-License-Identifier: ISC */
/* Linear models trained to the end by whole gradients, against what scikit-learn 1.2.1 finds for
 * the same data, weights and l2 = 0.1 of the mean loss, with intercepts that l2 leaves alone:
 *
 * LogisticRegression with C = 1 / (8 l2), of two classes and multinomial; Ridge with alpha = 8 l2;
 * PoissonRegressor with alpha = l2; LinearSVC of the primal problem with C = 1 / (8 l2) and no
 * intercept; all with a tolerance of 1e-12 or less. Weights of classes are balanced, or {0: 1, 1:
 * 5}. */
#include <math.h>
#include <string.h>

#include "math/blas.h"
#include "model/class_weight.h"
#include "model/model.h"
#include "tap.h"

enum { ROWS = 8, COLS = 2, MOST = 3 };

static const double L2 = 0.1;
static float x[ROWS * COLS] = { 0.5f, -1, 1.5f, 0.25f, -0.75f, 0.5f, 0.25f, 1.25f, -1.25f, -0.5f, 1,
	-0.75f, -0.5f, 1, 0.75f, 0.5f };
static float weight[ROWS] = { 2, 0.5f, 1, 0, 1.5f, 0.5f, 2, 0.5f };
static float two[ROWS] = { 1, 1, 0, 1, 0, 0, 0, 1 };
static float real[ROWS] = { 1.5f, 2, -1, 0.5f, -2, 1, 0, 1.25f };
static float count[ROWS] = { 3, 2, 0, 1, 0, 2, 1, 4 };
static int32_t label[ROWS] = { 0, 1, 2, 1, 2, 0, 0, 1 };

struct fit {
	const char *model, *loss, *classes; /* classes: job.class_weight */
	size_t nclasses;
	float *y, *weight;
	bool intercept;
	double w[COLS * MOST], b[MOST];
};

/* Gradient descent in double, with the gradient of the model. */
static double worst_difference(const struct fit *f)
{
	static char *const names[] = { "0", "1", "2" };
	const uint64_t counts[] = { 4, 4, 0 };
	float class_weight[MOST];
	struct model_shape shape = { .features = COLS,
		.classes = f->nclasses,
		.loss = f->loss,
		.class_weight = f->classes ? class_weight : NULL };
	struct batch b = { .rows = ROWS,
		.cols = COLS,
		.x = x,
		.y = f->y,
		.targets = 1,
		.label = label,
		.weight = f->weight };
	double w[COLS * MOST] = { 0 }, bias[MOST] = { 0 }, off = 0;
	float wf[COLS * MOST] = { 0 }, bf[MOST] = { 0 }, gw[COLS * MOST], gb[MOST];
	const float *params[] = { wf, bf };
	float *grads[] = { gw, gb };
	struct model *m;
	size_t k;

	if (f->classes && class_weight_set(f->classes, names, counts, 2, class_weight, NULL))
		return INFINITY;
	if (model_new(model_kinds_all, f->model, &shape, &m, NULL))
		return INFINITY;
	k = model_outputs(m);
	for (int step = 0; step < 3000; step++) {
		model_grad(m, &b, params, grads);
		for (size_t i = 0; i < COLS * k; i++)
			wf[i] = (float)(w[i] -= 0.2 * ((double)gw[i] + L2 * w[i]));
		for (size_t i = 0; f->intercept && i < k; i++)
			bf[i] = (float)(bias[i] -= 0.2 * (double)gb[i]);
	}
	for (size_t i = 0; i < COLS * k; i++)
		off = fmax(off, fabs(w[i] - f->w[i]));
	for (size_t i = 0; i < k; i++)
		off = fmax(off, fabs(bias[i] - f->b[i]));
	model_free(m);
	return off;
}

static void test_fits(void)
{
	static const struct fit fit[] = {
		{ "logistic", NULL, NULL, 2, two, weight, true, { 1.1463116, -0.6256015 },
		    { -0.5406199 } },
		{ "logistic", NULL, "balanced", 2, two, NULL, true, { 1.0665003, 0.3063171 },
		    { -0.2698535 } },
		{ "linear", "logistic", "0:1,1:5", 2, two, NULL, true, { 1.5888322, 0.2844167 },
		    { 0.9891774 } },
		{ "softmax", NULL, NULL, 3, NULL, weight, true,
		    { 0.2433709, 0.9276888, -1.1710597, -0.0723287, 0.3924149, -0.3200862 },
		    { 0.9004917, -0.7542914, -0.1462003 } },
		{ "linear", NULL, NULL, 0, real, weight, true, { 1.3341144, 0.0311096 },
		    { 0.3083615 } },
		{ "linear", "poisson", NULL, 0, count, weight, true, { 0.7779659, -0.1852305 },
		    { 0.2431705 } },
		{ "linear", "squared_hinge", NULL, 2, two, weight, false, { 0.7747833, -0.3435631 },
		    { 0 } },
	};

	for (size_t i = 0; i < sizeof fit / sizeof *fit; i++) {
		double off = worst_difference(&fit[i]);

		ok(off < 1e-4, "%s, loss %s, %s: the coefficients of scikit-learn (%.1e)",
		    fit[i].model, fit[i].loss ? fit[i].loss : "auto",
		    fit[i].classes ? fit[i].classes : "weights of examples", off);
	}
}

static void test_class_weights(void)
{
	static char *const names[] = { "no", "yes", "a:b" };
	const uint64_t counts[] = { 60, 20, 0 };
	float out[3];
	struct err e;

	ok(class_weight_set("balanced", names, counts, 3, out, &e) == ERR_OK &&
	        fabs((double)out[0] - 80.0 / 3 / 60) < 1e-6 &&
	        fabs((double)out[1] - 80.0 / 3 / 20) < 1e-6 && out[2] == 1,
	    "balanced: by the counts; a class without examples has 1");
	ok(class_weight_set("yes:2.5,a:b:0", names, counts, 3, out, &e) == ERR_OK && out[0] == 1 &&
	        out[1] == 2.5f && out[2] == 0,
	    "by name: the others have 1, and a name may have a colon");
	ok(class_weight_set("yse:2", names, counts, 3, out, &e) == ERR_CONFIG &&
	        strstr(e.msg, "no class \"yse\""),
	    "refused: %s", e.msg);
	ok(class_weight_check("yes:-1", &e) == ERR_CONFIG &&
	        class_weight_check("yes:1,", &e) == ERR_CONFIG &&
	        class_weight_check(":1", &e) == ERR_CONFIG &&
	        class_weight_check("yes:1e300", &e) == ERR_CONFIG &&
	        class_weight_check("none", &e) == ERR_OK &&
	        class_weight_check("balanced", &e) == ERR_OK &&
	        class_weight_check("a:1,b:0", &e) == ERR_OK,
	    "forms");
}

int main(void)
{
	blas_init();
	test_fits();
	test_class_weights();
	return tap_done();
}
