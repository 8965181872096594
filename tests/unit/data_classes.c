/* SPDX-License-Identifier: ISC */
/* Classes that are drawn for batches, and what a model learns of them. */
#include "data/batch/data_classes.h"
#include "model_fixture.h"

enum { CLASSES = 40, EXAMPLES = 4000, FACTORS = 5, COLS = 9 };

/* Labels by a law like Zipf's; the last class has no example. */
static struct dataset *make_labels(void)
{
	struct dataset *d = calloc(1, sizeof *d);

	d->rows = EXAMPLES;
	d->classes = CLASSES;
	d->label = calloc(EXAMPLES, sizeof *d->label);
	for (size_t i = 0; i < EXAMPLES; i++)
		d->label[i] = (int32_t)(exp(rng_unit(&rng) * log(CLASSES)) - 1);
	return d;
}

/* The probability that one of the draws is class k, in double. */
static double chance(const struct dataset *d, size_t k, size_t draws)
{
	double n = 0;

	for (size_t i = 0; i < d->rows; i++)
		n += d->label[i] == (int32_t)k;
	return 1 - pow(1 - (0.125 / CLASSES + 0.875 * n / (double)d->rows), (double)draws);
}

static void draw(struct data_classes *c, struct batch *b, uint64_t epoch)
{
	struct err e;

	b->epoch = epoch;
	if (data_classes_draw(c, b, &e))
		ok(false, "draw: %s", e.msg);
}

/* Are the classes those of the labels and the drawn ones, in order, with the right places? */
static bool is_sound(const struct batch *b)
{
	const struct batch_classes *c = &b->classes;
	bool used[CLASSES] = { false }, good = c->n > 0;

	for (size_t i = 0; i < c->n; i++)
		good &= c->id[i] < CLASSES && (i == 0 || c->id[i] > c->id[i - 1]);
	for (size_t j = 0; good && j < c->ndrawn; j++) {
		good = c->drawn[j] < c->n && (j == 0 || c->drawn[j] > c->drawn[j - 1]);
		used[c->drawn[j]] = true;
	}
	for (size_t r = 0; good && r < b->rows; r++) {
		good = c->place[r] < c->n && c->id[c->place[r]] == (uint64_t)b->label[r];
		used[c->place[r]] = true;
	}
	for (size_t i = 0; good && i < c->n; i++)
		good = used[i];
	return good;
}

static void test_draws(const struct dataset *d)
{
	enum { DRAWS = 12, TIMES = 20000 };
	struct data_classes *c = data_classes_new(d, NULL, d->rows, DRAWS, 3),
	                    *same = data_classes_new(d, NULL, d->rows, DRAWS, 3),
	                    *other = data_classes_new(d, NULL, d->rows, DRAWS, 4);
	double found[CLASSES] = { 0 }, bad = 0, worst = 0;
	bool sound = true, equal = true;
	size_t differ[3] = { 0 };
	struct sample s;
	struct batch again;

	sample_make(&s, true, 7, COLS, CLASSES);
	again = s.b;
	for (uint64_t t = 0; t < TIMES; t++) {
		const struct batch_classes *x = &s.b.classes;

		draw(c, &s.b, t);
		sound &= is_sound(&s.b);
		for (size_t j = 0; j < x->ndrawn; j++) {
			size_t k = (size_t)x->id[x->drawn[j]];

			found[k] += 1.0 / TIMES;
			bad = fmax(bad, fabs((double)x->offset[j] - log(chance(d, k, DRAWS))));
		}
		if (t >= 50)
			continue;
		draw(same, &again, t);
		equal &= again.classes.n == x->n && again.classes.ndrawn == x->ndrawn &&
		    memcmp(again.classes.id, x->id, x->n * sizeof *x->id) == 0 &&
		    memcmp(again.classes.drawn, x->drawn, x->ndrawn * sizeof *x->drawn) == 0;
		for (int what = 0; what < 3; what++) {
			int32_t label = again.label[6];

			again.label[6] = what == 2 ? (label + 1) % CLASSES : label;
			draw(what == 0 ? other : same, &again, what == 1 ? t + 1 : t);
			differ[what] += again.classes.ndrawn != x->ndrawn ||
			    memcmp(again.classes.drawn, x->drawn, x->ndrawn * sizeof *x->drawn) !=
			        0;
			again.label[6] = label;
		}
	}
	for (size_t k = 0; k < CLASSES; k++)
		worst = fmax(worst, fabs(found[k] - chance(d, k, DRAWS)));
	ok(sound, "classes: those of the labels and the drawn ones, in order, each once");
	ok(bad < 1e-6, "offsets are logarithms of the probabilities (%.1e)", bad);
	ok(worst < 5 * 0.5 / sqrt(TIMES) && found[CLASSES - 1] > 0,
	    "classes are drawn as often as the probabilities say (%.4f), also one without examples",
	    worst);
	ok(equal, "equal seeds, passes and labels draw the same classes");
	ok(differ[0] > 45 && differ[1] > 45 && differ[2] > 45,
	    "another seed, pass or label draws others: %zu, %zu, %zu of 50", differ[0], differ[1],
	    differ[2]);
	s.b.rows = 0;
	draw(c, &s.b, 1);
	ok(s.b.classes.n == 0 && s.b.classes.ndrawn == 0, "a batch without examples needs none");
	s.b.rows = 7;
	data_classes_free(c);
	data_classes_free(same);
	data_classes_free(other);
	feed_sample_release(&s);
}

/* Classes of some of the examples, and of data without examples. */
static void test_part(const struct dataset *d)
{
	struct dataset empty = { .classes = CLASSES };
	uint32_t some[] = { 0, 0 };
	struct data_classes *c, *none = data_classes_new(&empty, NULL, 0, 1000, 1);
	size_t hits = 0, draws = 0;
	struct sample s;

	/* Examples of two rare classes. */
	while (d->label[some[0]] != CLASSES - 3)
		some[0]++;
	while (d->label[some[1]] != CLASSES - 2)
		some[1]++;
	c = data_classes_new(d, some, 2, 3, 1);
	sample_make(&s, true, 3, COLS, CLASSES);
	for (uint64_t t = 0; t < 300; t++) {
		draw(c, &s.b, t);
		draws += s.b.classes.ndrawn;
		for (size_t j = 0; j < s.b.classes.ndrawn; j++) {
			int32_t k = (int32_t)s.b.classes.id[s.b.classes.drawn[j]];

			hits += k == d->label[some[0]] || k == d->label[some[1]];
		}
	}
	ok(hits * 10 > draws * 7, "of two examples, these classes are drawn: %zu of %zu", hits,
	    draws);
	draw(none, &s.b, 0);
	ok(is_sound(&s.b) && s.b.classes.ndrawn == CLASSES && (double)s.b.classes.offset[0] > -1e-6,
	    "no examples, 1000 draws: all %zu classes", s.b.classes.ndrawn);
	data_classes_free(c);
	data_classes_free(none);
	feed_sample_release(&s);
}

/* ---- gradients ---- */

/* The mean h of an example in double. */
static void ref_mean(const struct subject *t, const struct sample *s, size_t r, double *h)
{
	double all = 0;

	for (size_t i = 0; i < s->cols; i++)
		all += fabs(s->x[r * s->cols + i]);
	for (size_t k = 0; k < FACTORS; k++) {
		h[k] = 0;
		for (size_t i = 0; all > 0 && i < s->cols; i++)
			h[k] += s->x[r * s->cols + i] / all * t->p[0][i * FACTORS + k];
	}
}

static const struct dataset *drawn_of;
static size_t drawn_draws;

/* The loss with the drawn classes of the batch: as the manual has it. */
static double ref_drawn(const struct subject *t, const struct sample *s, size_t r, double *z)
{
	const struct batch_classes *c = &s->b.classes;
	double h[FACTORS], sum = 0, own = 0;

	(void)z;
	ref_mean(t, s, r, h);
	for (size_t i = 0; i < c->n; i++) {
		bool is_own = c->id[i] == (uint64_t)s->b.label[r], is_drawn = false;
		double f = 0;

		for (size_t k = 0; k < FACTORS; k++)
			f += h[k] * t->p[1][i * FACTORS + k];
		for (size_t j = 0; j < c->ndrawn; j++)
			is_drawn |= c->drawn[j] == i;
		if (is_own)
			own = f;
		sum += is_own  ? exp(f)
		    : is_drawn ? exp(f) / chance(drawn_of, (size_t)c->id[i], drawn_draws)
		               : 0;
	}
	return (log(sum) - own) * (double)batch_weight(&s->b, r);
}

static void test_differences(const struct dataset *d, bool sparse, bool weighted)
{
	static const size_t sizes[] = { 1, 6, 33 };
	struct model_shape shape = { .features = COLS,
		.classes = CLASSES,
		.sparse = sparse,
		.factors = FACTORS,
		.negatives = 8 };
	struct data_classes *c = data_classes_new(d, NULL, d->rows, shape.negatives, 5);
	struct subject t;
	double bad = 0, loss = 0;

	drawn_of = d;
	drawn_draws = shape.negatives;
	/* Room for a row for each class; in the sparse case, v has a row for each feature. */
	subject_make(&t, "fasttext", &shape, CLASSES);
	t.n[0] = COLS * FACTORS;
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		struct sample s;
		double got;

		sample_make(&s, sparse, sizes[i], COLS, CLASSES);
		s.b.weight = weighted ? calloc(sizes[i], sizeof *s.b.weight) : NULL;
		for (size_t r = 0; weighted && r < sizes[i]; r++)
			s.b.weight[r] = (float)uniform(0.1, 2);
		draw(c, &s.b, i);
		t.n[1] = s.b.classes.n * FACTORS;
		got = model_grad(t.m, &s.b, (const float *const *)t.pf, t.g);
		loss = fmax(loss,
		    fabs(got - ref_total(&t, &s, ref_drawn, NULL) / (double)sizes[i]));
		bad = fmax(bad, grad_error(&t, &s, ref_drawn));
		feed_sample_release(&s);
	}
	ok(bad < 1e-4 && loss < 1e-5,
	    "fasttext with drawn classes%s%s: gradient is that of the naive loss (%.1e, %.1e)",
	    sparse ? ", sparse" : "", weighted ? ", weights" : "", bad, loss);
	subject_release(&t);
	data_classes_free(c);
}

/* |mean over many draws of the gradient - gradient with all classes| / |the latter|, for both
 * tables together; *spread: |gradient - mean of gradients| of one draw, likewise. */
static double bias_of(const struct dataset *d, size_t draws, double *spread)
{
	const double times = draws < 1000 ? 6000 : 10;
	struct model_shape all = { .features = COLS, .classes = CLASSES, .factors = FACTORS },
	                   some = all;
	struct data_classes *c = data_classes_new(d, NULL, d->rows, draws, 9);
	double mean[(COLS + CLASSES) * FACTORS] = { 0 }, square = 0, size = 0, off = 0;
	float compact[CLASSES * FACTORS];
	struct subject full, t;
	struct sample s;

	some.negatives = draws;
	rng_init(&rng, 77);
	subject_make(&full, "fasttext", &all, COLS);
	subject_make(&t, "fasttext", &some, CLASSES);
	sample_make(&s, false, 16, COLS, CLASSES);
	for (size_t r = 0; r < s.b.rows; r++)
		s.b.label[r] = d->label[r];
	model_grad(full.m, &s.b, (const float *const *)full.pf, full.g);
	memcpy(t.pf[0], full.pf[0], COLS * FACTORS * sizeof *t.pf[0]);
	for (uint64_t at = 0; (double)at < times; at++) {
		const struct batch_classes *x = &s.b.classes;

		draw(c, &s.b, at);
		for (size_t i = 0; i < x->n; i++)
			for (size_t k = 0; k < FACTORS; k++)
				compact[i * FACTORS + k] = full.pf[1][k * CLASSES + x->id[i]];
		model_grad(t.m, &s.b, (const float *const[]){ t.pf[0], compact }, t.g);
		for (size_t i = 0; i < COLS * FACTORS; i++) {
			mean[i] += (double)t.g[0][i] / times;
			square += pow((double)t.g[0][i], 2) / times;
		}
		for (size_t i = 0; i < x->n; i++)
			for (size_t k = 0; k < FACTORS; k++) {
				double g = (double)t.g[1][i * FACTORS + k];

				mean[(COLS + x->id[i]) * FACTORS + k] += g / times;
				square += g * g / times;
			}
	}
	for (size_t i = 0; i < (COLS + CLASSES) * FACTORS; i++) {
		size_t class = i / FACTORS - COLS;
		double want = (double)(i < COLS * FACTORS
		        ? full.g[0][i]
		        : full.g[1][i % FACTORS * CLASSES + class]);

		size += want * want;
		off += pow(mean[i] - want, 2);
		square -= mean[i] * mean[i];
	}
	/* The difference of two equal sums may be below zero by a rounding error. */
	*spread = sqrt(fmax(square, 0) / size);
	subject_release(&full);
	subject_release(&t);
	feed_sample_release(&s);
	data_classes_free(c);
	return sqrt(off / size);
}

static void test_expectation(const struct dataset *d)
{
	static const size_t draws[] = { 5, 20, 80, 320, 20000 };
	double bias[5], spread[5];

	for (size_t i = 0; i < 5; i++)
		bias[i] = bias_of(d, draws[i], &spread[i]);
	ok(bias[1] < bias[0] / 2 && bias[2] < bias[1] / 2 && bias[3] < bias[2] / 2,
	    "the mean gradient comes near that of all %d classes: off by %.4f, %.4f, %.4f and %.4f of "
	    "it with 5, 20, 80 and 320 draws (single ones by %.3f, %.3f, %.3f and %.3f)",
	    CLASSES, bias[0], bias[1], bias[2], bias[3], spread[0], spread[1], spread[2],
	    spread[3]);
	ok(bias[4] < 1e-5 && spread[4] < 1e-3, "where all classes are drawn it is the same (%.1e)",
	    bias[4]);
}

static void test_shapes(void)
{
	const struct model_table *tables;
	struct model *m;
	struct err e;
	struct batch none = { .sparse = true, .cols = COLS };
	struct model_shape shape = { .features = COLS, .classes = 3, .factors = 4, .negatives = 5 };

	ok(model_new(model_kinds_all, "softmax", &shape, &m, &e) == ERR_CONFIG &&
	        strstr(e.msg, "job.negatives: model softmax"),
	    "%s", e.msg);
	shape.sparse = true;
	if (model_new(model_kinds_all, "fasttext", &shape, &m, &e)) {
		ok(false, "%s", e.msg);
		return;
	}
	ok(model_tables(m, &tables) == 2 && tables[0].sparse &&
	        tables[0].domain == &row_domain_features && tables[1].sparse &&
	        tables[1].domain == &row_domain_classes && tables[1].cols == 4 &&
	        tables[1].init == INIT_ZEROS && model_outputs(m) == 3,
	    "with drawn classes the rows of table c are classes");
	ok(model_grad(m, &none, (const float *const[]){ NULL, NULL },
	       (float *const[]){ NULL, NULL }) == 0,
	    "no examples, no loss");
	model_free(m);
}

/* Scores are those of all classes, and equal those of the model without drawn classes. */
static void test_scores(void)
{
	struct model_shape all = { .features = COLS, .classes = CLASSES, .factors = FACTORS },
	                   some = all;
	float got[4 * CLASSES], want[4 * CLASSES];
	struct subject full, t;
	struct sample s;
	double a, b, bad = 0;

	some.negatives = 3;
	subject_make(&full, "fasttext", &all, COLS);
	subject_make(&t, "fasttext", &some, CLASSES);
	sample_make(&s, false, 4, COLS, CLASSES);
	memcpy(t.pf[0], full.pf[0], COLS * FACTORS * sizeof *t.pf[0]);
	for (size_t c = 0; c < CLASSES; c++)
		for (size_t k = 0; k < FACTORS; k++)
			t.pf[1][c * FACTORS + k] = full.pf[1][k * CLASSES + c];
	a = model_forward(full.m, &s.b, (const float *const *)full.pf, want);
	b = model_forward(t.m, &s.b, (const float *const *)t.pf, got);
	for (size_t i = 0; i < 4 * CLASSES; i++)
		bad = fmax(bad, fabs((double)(got[i] - want[i])));
	ok(bad < 1e-6 && fabs(a - b) < 1e-5, "scores are of all classes (%.1e)", bad);
	subject_release(&full);
	subject_release(&t);
	feed_sample_release(&s);
}

int main(void)
{
	struct dataset *d;

	rng_init(&rng, 31);
	d = make_labels();
	test_draws(d);
	test_part(d);
	for (int i = 0; i < 4; i++)
		test_differences(d, i % 2, i / 2);
	test_expectation(d);
	test_shapes();
	test_scores();
	dataset_free(d);
	return tap_done();
}
