/* SPDX-License-Identifier: ISC */
/* The parts of scores: of every kind of model that has them they add up to its score before the link, for
 * dense and sparse data, and in the units of scaled targets. */
#include "math/blas.h"
#include "model/entries.h"
#include "model_fixture.h"

enum { COLS = 9, ROWS = 6 };

/* The score of an output of the sums of the parts. */
static double link_of(const struct subject *t, const double *sum, size_t outputs, size_t k)
{
	double total = 0;

	if (model_task(t->m) == MODEL_TWO)
		return 1 / (1 + exp(-sum[k]));
	if (model_task(t->m) != MODEL_CLASSES)
		return sum[k];
	for (size_t i = 0; i < outputs; i++)
		total += exp(sum[i]);
	return exp(sum[k]) / total;
}

static double worst_error(struct subject *t, const struct sample *s)
{
	size_t outputs = model_outputs(t->m);
	double part[(COLS + 1) * 16], base[16], worst = 0;
	float scores[ROWS * 16];

	model_forward(t->m, &s->b, (const float *const *)t->pf, scores);
	for (size_t r = 0; r < s->b.rows; r++) {
		model_parts(t->m, &s->b, r, (const float *const *)t->pf, part, base);
		for (size_t i = 0; i < entries_of(&s->b, r).n * outputs; i++)
			base[i % outputs] += part[i];
		for (size_t k = 0; k < outputs; k++)
			worst = fmax(worst,
			    fabs(link_of(t, base, outputs, k) - (double)scores[r * outputs + k]));
	}
	return worst;
}

static void parts_add_up(const char *name, struct model_shape shape)
{
	struct subject t;
	struct sample s;
	double worst;

	shape.features = COLS;
	subject_make(&t, name, &shape, COLS);
	sample_make(&s, shape.sparse, ROWS, COLS, shape.classes);
	if (shape.fields)
		sample_fields(&s, shape.fields);
	ok(model_has_parts(t.m), "%s has parts", name);
	worst = worst_error(&t, &s);
	ok(worst < 1e-5, "%s%s%s: they add up to the score (%.1e)", name,
	    shape.sparse ? ", sparse" : "", shape.scaling ? ", scaled targets" : "", worst);
	feed_sample_release(&s);
	subject_release(&t);
}

static void test_bpr(void)
{
	struct model_shape shape = { .sparse = true, .fields = 3, .factors = 5 };
	uint32_t start[] = { 0, 3 }, col[] = { 0, 1, 2 };
	float val[] = { 1, 1, 1 };
	uint16_t field[] = { 0, 1, 2 };
	uint64_t id[] = { 2, 3, 5 };
	struct sample s = { .b = { .rows = 1,
		                .cols = COLS,
		                .sparse = true,
		                .start = start,
		                .col = col,
		                .val = val,
		                .field = field,
		                .fields = 3,
		                .id = id,
		                .nids = 3,
		                .targets = 1 } };
	struct subject t;

	subject_make(&t, "bpr", &shape, COLS);
	ok(worst_error(&t, &s) < 1e-5, "bpr: they add up to the score of the item");
	subject_release(&t);
}

int main(void)
{
	static const size_t hidden[] = { 4 };
	static const struct target_scaling scaling[] = { { 20, 0.25 } };
	struct subject t;

	blas_init();
	rng_init(&rng, 11);
	for (int sparse = 0; sparse < 2; sparse++) {
		parts_add_up("linear", (struct model_shape){ .sparse = sparse });
		parts_add_up("linear",
		    (struct model_shape){ .sparse = sparse, .scaling = scaling });
		parts_add_up("logistic", (struct model_shape){ .sparse = sparse, .classes = 2 });
		parts_add_up("softmax", (struct model_shape){ .sparse = sparse, .classes = 5 });
		parts_add_up("fm",
		    (struct model_shape){ .sparse = sparse, .classes = 2, .factors = 3 });
		parts_add_up("ffm",
		    (struct model_shape){ .sparse = sparse,
		        .classes = 2,
		        .factors = 3,
		        .fields = sparse ? 4 : COLS });
		parts_add_up("mf",
		    (struct model_shape){ .sparse = sparse, .factors = 3, .scaling = scaling });
		parts_add_up("fasttext",
		    (struct model_shape){ .sparse = sparse, .classes = 4, .factors = 3 });
	}
	test_bpr();
	subject_make(&t, "mlp",
	    &(struct model_shape){ .features = COLS, .classes = 3, .hidden = hidden, .nhidden = 1 },
	    COLS);
	ok(!model_has_parts(t.m), "a network has none");
	subject_release(&t);
	return tap_done();
}
