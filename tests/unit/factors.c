/* SPDX-License-Identifier: ISC */
/* Models of features and their factors, against sums over all pairs in double. */
#include <math.h>

#include "data/batch/batch_slice.h"
#include "model_fixture.h"
#include "optim/optim.h"

static size_t field_of(const struct subject *t, size_t k)
{
	return t->shape.fields ? k % t->shape.fields : 0;
}

/* <v_i, v_j>, in a field-aware model those for each other's fields. */
static double product(const struct subject *t, size_t i, size_t j)
{
	size_t k = t->shape.factors, width = t->tables[0].cols;
	bool aware = strcmp(t->name, "ffm") == 0;
	const double *a = t->p[0] + i * width + 1 + (aware ? field_of(t, j) * k : 0);
	const double *b = t->p[0] + j * width + 1 + (aware ? field_of(t, i) * k : 0);
	double sum = 0;

	for (size_t d = 0; d < k; d++)
		sum += a[d] * b[d];
	return sum;
}

/* The table of the vectors. In wide_deep that of the weights stands before it. */
static size_t vectors_of(const struct subject *t)
{
	return strcmp(t->name, "wide_deep") == 0 ? 1 : 0;
}

/* The layers on each field's sum of vectors. */
static double layers(const struct subject *t, const double *x, size_t cols)
{
	size_t fields = t->shape.fields ? t->shape.fields : 1, k = t->shape.factors,
	       nin = fields * k, v = vectors_of(t), width = t->tables[v].cols;
	double in[256] = { 0 }, z[256];

	for (size_t i = 0; i < cols; i++)
		for (size_t d = 0; d < k; d++)
			in[field_of(t, i) * k + d] += x[i] * t->p[v][i * width + width - k + d];
	for (size_t l = 0; l <= t->shape.nhidden; l++) {
		size_t out = t->tables[v + 1 + 2 * l].cols;

		for (size_t j = 0; j < out; j++) {
			z[j] = t->p[v + 2 + 2 * l][j];
			for (size_t i = 0; i < nin; i++)
				z[j] += in[i] * t->p[v + 1 + 2 * l][i * out + j];
			z[j] = l == t->shape.nhidden ? z[j] : tanh(z[j]);
		}
		memcpy(in, z, out * sizeof *in);
		nin = out;
	}
	return in[0];
}

/* Layers of the tables from table `from` on, on `in`, which becomes their output; returns its first
 * number. */
static double tower_of_tables(const struct subject *t, size_t from, size_t nhidden, double *in,
    size_t nin)
{
	double z[256];

	for (size_t l = 0; l <= nhidden; l++) {
		size_t out = t->tables[from + 2 * l].cols;

		for (size_t j = 0; j < out; j++) {
			z[j] = t->p[from + 1 + 2 * l][j];
			for (size_t i = 0; i < nin; i++)
				z[j] += in[i] * t->p[from + 2 * l][i * out + j];
			z[j] = l == nhidden ? z[j] : tanh(z[j]);
		}
		memcpy(in, z, out * sizeof *in);
		nin = out;
	}
	return in[0];
}

/* Layers that cross the fields' sums of vectors, and a tower. */
static double ref_dcn(const struct subject *t, const struct sample *s, size_t r, double *z)
{
	const double *x = s->x + r * s->cols;
	size_t fields = t->shape.fields ? t->shape.fields : 1, k = t->shape.factors, d = fields * k,
	       last = 1 + 2 * t->shape.cross;
	double x0[256] = { 0 }, xl[256], next[256], f = 0;

	for (size_t i = 0; i < s->cols; i++)
		for (size_t j = 0; j < k; j++)
			x0[field_of(t, i) * k + j] += x[i] * t->p[0][i * k + j];
	memcpy(xl, x0, sizeof xl);
	for (size_t l = 0; l < t->shape.cross; l++) {
		for (size_t j = 0; j < d; j++) {
			double u = t->p[2 + 2 * l][j];

			for (size_t i = 0; i < d; i++)
				u += xl[i] * t->p[1 + 2 * l][i * d + j];
			next[j] = x0[j] * u + xl[j];
		}
		memcpy(xl, next, d * sizeof *xl);
	}
	for (size_t j = 0; j < d; j++)
		f += xl[j] * t->p[last][j];
	f += tower_of_tables(t, last + 1, t->shape.nhidden, x0, d);
	return ref_value(t, (double)s->b.y[r], f, z);
}

static double ref_factors(const struct subject *t, const struct sample *s, size_t r, double *z)
{
	const double *x = s->x + r * s->cols;
	bool pairs = strcmp(t->name, "wide_deep") != 0;
	double f = t->shape.nhidden ? layers(t, x, s->cols) : t->p[1][0], y = (double)s->b.y[r];

	for (size_t i = 0; i < s->cols; i++) {
		f += t->p[0][i * t->tables[0].cols] * x[i];
		for (size_t j = 0; pairs && j < i; j++)
			f += product(t, i, j) * x[i] * x[j];
	}
	return ref_value(t, y, f, z);
}

static void test_factors(void)
{
	static const size_t hidden[] = { 5, 6 };

	for (size_t k = 1; k < 20; k += 6)
		for (int sparse = 0; sparse < 2; sparse++) {
			struct model_shape two = { .features = 7,
				.classes = 2,
				.sparse = sparse,
				.factors = k };
			struct model_shape fields = two, real = two, deep = two;

			fields.fields = sparse ? 3 : 7;
			real.classes = 0;
			deep.hidden = hidden;
			deep.nhidden = 2;
			deep.activation = "tanh";
			test_model("fm", &two, ref_factors);
			test_model("mf", &real, ref_factors);
			test_model("ffm", &fields, ref_factors);
			if (sparse) {
				test_model("deepfm", &deep, ref_factors);
				test_model("wide_deep", &deep, ref_factors);
			}
			deep.fields = fields.fields;
			test_model("deepfm", &deep, ref_factors);
			test_model("wide_deep", &deep, ref_factors);
		}
}

static void test_losses(void)
{
	static const char *const name[] = { "fm", "mf", "ffm", "deepfm", "wide_deep" };
	static const size_t hidden[] = { 4 };

	for (size_t i = 0; i < REF_LOSSES; i++)
		for (size_t k = 0; k < sizeof name / sizeof *name; k++)
			test_model(name[k],
			    &(struct model_shape){ .features = 4,
			        .classes = ref_losses[i].classes,
			        .loss = ref_losses[i].loss,
			        .factors = 3,
			        .fields = 4,
			        .activation = "tanh",
			        .hidden = hidden,
			        .nhidden = strstr(name[k], "deep") != NULL },
			    ref_factors);
}

/* Products of the fields' sums of vectors and of the numbers after layers, and a tower on them. */
static double ref_dlrm(const struct subject *t, const struct sample *s, size_t r, double *z)
{
	const double *x = s->x + r * s->cols;
	size_t k = t->shape.factors, first = t->shape.numbers > 0, n = first + t->shape.places,
	       at = 0, top = 1 + 2 * first * (t->shape.nbottom + 1);
	double v[6][8] = { 0 }, in[256] = { 0 };

	for (size_t i = 0; i < s->cols; i++) {
		size_t field = field_of(t, i),
		       place = t->shape.place ? t->shape.place[field] : field;

		if (s->b.id[i] < t->shape.numbers)
			in[s->b.id[i]] = x[i];
		else if (place != MODEL_NO_PLACE)
			for (size_t j = 0; j < k; j++)
				v[first + place][j] += x[i] * t->p[0][i * k + j];
	}
	if (first) {
		tower_of_tables(t, 1, t->shape.nbottom, in, t->shape.numbers);
		for (size_t j = 0; j < k; j++)
			in[at++] = v[0][j] = tanh(in[j]);
	}
	for (size_t a = 0; a < n; a++)
		for (size_t b = a + 1; b < n; b++, at++) {
			in[at] = 0;
			for (size_t j = 0; j < k; j++)
				in[at] += v[a][j] * v[b][j];
		}
	tower_of_tables(t, top, t->shape.nhidden, in, at);
	return ref_value(t, (double)s->b.y[r], in[0], z);
}

/* Feature 0 has the id 5 (sample_make). With 6 numbers it is one, in field 0, which has categories,
 * too; field 1 has none. */
static void test_dlrm(void)
{
	static const uint16_t place[] = { 0, MODEL_NO_PLACE, 1 };
	static const size_t hidden[] = { 4, 3 }, bottom[] = { 3 };
	struct model_shape shape = { .sparse = true,
		.fields = 3,
		.classes = 2,
		.activation = "tanh",
		.hidden = hidden,
		.nhidden = 2,
		.bottom = bottom };

	for (shape.factors = 1; shape.factors < 8; shape.factors += 3)
		for (int numbers = 0; numbers < 3; numbers++) {
			shape.numbers = numbers ? 6 : 0;
			shape.place = numbers ? place : NULL;
			shape.places = numbers ? 2 : 3;
			shape.nbottom = numbers == 2;
			test_model("dlrm", &shape, ref_dlrm);
		}
	for (size_t i = 0; i < REF_LOSSES; i++) {
		shape.factors = 4;
		shape.classes = ref_losses[i].classes;
		shape.loss = ref_losses[i].loss;
		test_model("dlrm", &shape, ref_dlrm);
	}
}

/* Few parameters: each of them is changed twice, and the naive loss computed again. */
static void test_dcn(void)
{
	static const size_t hidden[] = { 3 };
	struct model_shape shape = { .features = 3,
		.classes = 2,
		.factors = 2,
		.activation = "tanh",
		.hidden = hidden,
		.nhidden = 1 };

	for (shape.cross = 1; shape.cross < 4; shape.cross++)
		for (int fields = 0; fields < 3; fields++) {
			shape.sparse = fields < 2;
			shape.fields = fields ? 3 : 0;
			test_model("dcn", &shape, ref_dcn);
		}
	shape.cross = 2;
	for (size_t i = 0; i < REF_LOSSES; i++) {
		shape.classes = ref_losses[i].classes;
		shape.loss = ref_losses[i].loss;
		test_model("dcn", &shape, ref_dcn);
	}
}

/* ---- learning in place ---- */

enum { LEARNED = 120, LEARN_COLS = 9, LEARN_FACTORS = 5, LEARN_WIDTH = 1 + LEARN_FACTORS };

/* Parameters, and the state of adagrad. */
struct learned {
	float v[LEARN_COLS * LEARN_WIDTH], sum[LEARN_COLS * LEARN_WIDTH], b, b_sum;
	uint64_t updates;
};

static void step_row(struct learned *l, size_t table, size_t row, const float *g)
{
	const struct optim_hyper h = { .lr = 0.1f, .eps = 1e-10f, .l2 = 0.02f };
	float *w = table ? &l->b : l->v + row * LEARN_WIDTH;
	float *state[OPTIM_VECTORS_MAX] = { table ? &l->b_sum : l->sum + row * LEARN_WIDTH };

	optim_rule_adagrad.step(&h, 1, table == 0, table ? 1 : LEARN_WIDTH, w, state,
	    &(struct optim_gradient){ g, 1, 1, table ? 0 : 1, table ? 0 : LEARN_WIDTH });
	l->updates++;
}

/* model_update.row */
static void step_row_in_place(void *ctx, size_t example, size_t table, size_t row, float *w,
    const float *g)
{
	(void)example;
	(void)w;
	step_row(ctx, table, row, g);
}

/* Steps with the gradients of batches of one example each. Returns the sum of the losses. */
static double learn_by_batches(struct model *m, const struct batch *b, struct learned *l)
{
	struct batch_slice s = { 0 };
	double loss = 0;
	struct err e;

	for (size_t r = 0; r < b->rows; r++) {
		float v[LEARN_COLS * LEARN_WIDTH], g[LEARN_COLS * LEARN_WIDTH], gb;
		const float *const params[] = { v, &l->b };
		float *const grads[] = { g, &gb };

		if (batch_slice_cut(&s, b, r, 1, &e))
			return NAN;
		for (size_t k = 0; k < s.b.nids; k++)
			memcpy(v + k * LEARN_WIDTH, l->v + s.row[k] * LEARN_WIDTH,
			    LEARN_WIDTH * sizeof *v);
		loss += model_grad(m, &s.b, params, grads);
		for (size_t k = 0; k < s.b.nids; k++)
			step_row(l, 0, s.row[k], g + k * LEARN_WIDTH);
		step_row(l, 1, 0, &gb);
	}
	batch_slice_release(&s);
	return loss;
}

/* Some examples have a feature twice, have no features, or have a weight. */
static void test_learning(const char *loss, size_t classes)
{
	struct model_shape shape = { .classes = classes,
		.sparse = true,
		.factors = LEARN_FACTORS,
		.loss = loss };
	static struct learned a, b;
	struct sample s;
	struct subject t;
	double sum_a, sum_b;

	sample_make(&s, true, LEARNED, LEARN_COLS, classes);
	for (uint32_t i = 2; i < s.b.start[LEARNED]; i += 7)
		s.b.col[i] = s.b.col[i - 1];
	s.b.weight = malloc(LEARNED * sizeof *s.b.weight);
	for (size_t r = 0; r < LEARNED; r++)
		s.b.weight[r] = (float)uniform(0, 2);
	subject_make(&t, "mf", &shape, LEARN_COLS);
	memset(&a, 0, sizeof a);
	memcpy(a.v, t.pf[0], sizeof a.v);
	a.b = t.pf[1][0];
	b = a;
	sum_a = learn_by_batches(t.m, &s.b, &a);
	sum_b = model_learn(t.m, &s.b, (float *[]){ b.v, &b.b },
	    &(struct model_update){ .row = step_row_in_place, .ctx = &b });
	ok(model_learns(t.m) && memcmp(&a, &b, sizeof a) == 0 && a.updates > 2 * LEARNED &&
	        fabs(sum_a - sum_b) < 1e-9 * fabs(sum_a),
	    "mf, %s: in place, the same bits as by batches of one example", loss);
	s.b.y[3] = 1e30f;
	sum_b = model_learn(t.m,
	    &(struct batch){ .rows = 4,
	        .sparse = true,
	        .start = s.b.start,
	        .col = s.b.col,
	        .val = s.b.val,
	        .y = s.b.y,
	        .targets = 1,
	        .id = s.b.id,
	        .nids = s.b.nids },
	    (float *[]){ b.v, &b.b },
	    &(struct model_update){ .row = step_row_in_place, .ctx = &b });
	ok(strcmp(loss, "squared") != 0 || (!isfinite((float)sum_b) && isfinite(b.b)),
	    "mf, %s: a loss beyond all numbers ends it before the update", loss);
	subject_release(&t);
	feed_sample_release(&s);
}

/* ---- texts ---- */

/* A linear model on the mean of the vectors. */
static double ref_means(const struct subject *t, const struct sample *s, size_t r, double *z)
{
	const double *x = s->x + r * s->cols;
	size_t k = t->shape.factors, n = t->shape.classes;
	double all = 0, sum = 0;

	for (size_t i = 0; i < s->cols; i++)
		all += fabs(x[i]);
	for (size_t c = 0; c < n; c++) {
		z[c] = 0;
		for (size_t i = 0; i < s->cols; i++)
			for (size_t d = 0; d < k; d++)
				z[c] += x[i] != 0
				    ? x[i] / all * t->p[0][i * k + d] * t->p[1][d * n + c]
				    : 0;
		sum += exp(z[c]);
	}
	for (size_t c = 0; c < n; c++)
		z[c] = exp(z[c]) / sum;
	return -log(z[s->b.label[r]]);
}

/* Some sparse examples are likely to have no features. */
static void test_means(void)
{
	const struct model_table *tables;
	struct model *m;
	struct err e;

	for (size_t k = 1; k < 20; k += 6)
		for (int sparse = 0; sparse < 2; sparse++)
			test_model("fasttext",
			    &(struct model_shape){ .features = 7,
			        .classes = k + 1 + (k == 1),
			        .sparse = sparse,
			        .factors = k },
			    ref_means);
	if (model_new(model_kinds_all, "fasttext",
	        &(struct model_shape){ .sparse = true, .classes = 3, .factors = 8 }, &m, &e)) {
		ok(false, "fasttext: %s", e.msg);
		return;
	}
	ok(model_tables(m, &tables) == 2 && tables[0].sparse && tables[0].cols == 8 &&
	        tables[0].init == INIT_GLOROT && tables[0].init_scale == 0.125f &&
	        tables[1].rows == 8 && tables[1].cols == 3 && tables[1].init == INIT_ZEROS,
	    "fasttext: vectors begin between -1 / factors and 1 / factors, w with zeroes");
	model_free(m);
}

/* ---- words ---- */

#define WIDTH 5

/* Word 0 with a neighbour and two words drawn; one with two neighbours; one with none; an empty
 * example. */
static const uint32_t start[] = { 0, 4, 9, 10, 10 };
static const uint32_t col[] = { 0, 1, 2, 3, 4, 1, 5, 3, 5, 0 };
static const uint16_t field[] = { 0, 1, 2, 2, 0, 1, 2, 1, 2, 0 };

static double ref_words(const double *v)
{
	double all = 0;

	for (size_t r = 0; r < 2; r++) {
		double near = r == 0 ? 1 : 2, loss = 0;

		for (uint32_t i = start[r] + 1; i < start[r + 1]; i++) {
			double f = 0;

			for (size_t d = 0; d < WIDTH; d++)
				f += v[col[start[r]] * WIDTH + d] * v[col[i] * WIDTH + d];
			loss -= log(1 / (1 + exp(field[i] == 1 ? -f : f)));
		}
		all += loss / near;
	}
	return all / 2;
}

static void test_words(void)
{
	struct model_shape shape = { .sparse = true, .fields = 3, .factors = WIDTH };
	uint64_t id[] = { 0, 1, 3, 5, 8, 9 };
	float val[10], pf[6 * WIDTH], g[6 * WIDTH], shown[4];
	const float *params[] = { pf };
	float *grads[] = { g };
	struct batch b = { .rows = 4,
		.sparse = true,
		.start = (uint32_t *)(uintptr_t)start,
		.col = (uint32_t *)(uintptr_t)col,
		.field = (uint16_t *)(uintptr_t)field,
		.val = val,
		.fields = 3,
		.id = id,
		.nids = 6 };
	double p[6 * WIDTH], bad = 0, loss;
	struct model *m;
	struct err e;

	for (size_t i = 0; i < 6 * WIDTH; i++)
		p[i] = (double)(pf[i] = (float)uniform(-0.9, 0.9));
	if (model_new(model_kinds_all, "word2vec", &shape, &m, &e) != ERR_OK) {
		ok(false, "word2vec: %s", e.msg);
		return;
	}
	loss = model_grad(m, &b, params, grads);
	for (size_t i = 0; i < 6 * WIDTH; i++) {
		double at = p[i], up, down;

		p[i] = at + 1e-6;
		up = ref_words(p);
		p[i] = at - 1e-6;
		down = ref_words(p);
		p[i] = at;
		bad = fmax(bad, fabs((up - down) / 2e-6 - (double)g[i]));
	}
	ok(bad < 1e-6, "word2vec: gradient is that of the naive loss (%.1e)", bad);
	ok(fabs(loss - ref_words(p)) < 1e-6 &&
	        fabs(model_forward(m, &b, params, shown) / 2 - loss) < 1e-6 && shown[2] == 0 &&
	        shown[3] == 0,
	    "word2vec: loss is the naive one; words without neighbours have none");
	model_free(m);
}

/* ---- observations ---- */

/* Users 0 and 1, items 2 to 4, and features of users (5) and of items (6). The first two examples have a target
 * of 1 and two drawn items, the third has a target of 0 and one drawn item, and the last has none. */
#define RANKED_ROWS 7
static const uint32_t pair_start[] = { 0, 7, 11, 15, 17 };
static const uint32_t pair_col[] = { 0, 5, 2, 6, 3, 6, 4, 1, 3, 2, 4, 0, 4, 6, 2, 1, 4 };
static const uint16_t pair_field[] = { 0, 0, 1, 1, 2, 2, 3, 0, 1, 2, 3, 0, 1, 1, 2, 0, 1 };
static const float pair_val[] = { 1, 0.5f, 1, 2, 1, 1.5f, 1, 1, 1, 1, 1, 1, 1, 2, 1, 1, 1 };
static const float pair_y[] = { 1, 1, 0, 1 };
static const float pair_weight[] = { 1, 2.5f, 0.5f, 1 };
#define PAIR_ITEMS 40

/* Adds up the rows of example r that are in a field. False: there is none. */
static bool ref_side(const double *v, size_t r, unsigned place, double *sum)
{
	bool any = false;

	for (size_t d = 0; d <= WIDTH; d++)
		sum[d] = 0;
	for (uint32_t k = pair_start[r]; k < pair_start[r + 1]; k++) {
		if (pair_field[k] != place)
			continue;
		any = true;
		for (size_t d = 0; d <= WIDTH; d++)
			sum[d] += (double)pair_val[k] * v[pair_col[k] * (WIDTH + 1) + d];
	}
	return any;
}

/* The score of the item of example r that is in a field. False: there is none. */
static bool ref_item(const double *v, size_t r, unsigned place, double *x)
{
	double user[WIDTH + 1], item[WIDTH + 1];

	if (!ref_side(v, r, 0, user) || !ref_side(v, r, place, item))
		return false;
	*x = item[0];
	for (size_t d = 1; d <= WIDTH; d++)
		*x += user[d] * item[d];
	return true;
}

static double ref_bpr(const double *v)
{
	double all = 0, item, drawn;

	for (size_t r = 0; r < 4; r++)
		if (ref_item(v, r, 1, &item) && ref_item(v, r, 2, &drawn))
			all -= (double)pair_weight[r] *
			    log(1 / (1 + exp(pair_y[r] > 0 ? drawn - item : item - drawn)));
	return all / 4;
}

static double ref_warp(const double *v)
{
	double all = 0, item, drawn;

	for (size_t r = 0; r < 4; r++)
		for (unsigned n = 1; ref_item(v, r, 1, &item) && ref_item(v, r, 1 + n, &drawn);
		     n++) {
			double f = pair_y[r] > 0 ? item - drawn : drawn - item, weight = 0;

			if (f >= 1)
				continue;
			for (unsigned i = 1; i <= (PAIR_ITEMS - 1) / n; i++)
				weight += 1.0 / i;
			all += (double)pair_weight[r] * weight * (1 - f);
			break;
		}
	return all / 4;
}

/* exact: the accuracy of the loss and of the gradient. */
static void test_ranking(const char *name, double (*ref)(const double *v), double exact)
{
	struct model_shape shape = { .sparse = true,
		.fields = 4,
		.factors = WIDTH,
		.items = PAIR_ITEMS };
	uint64_t id[] = { 0, 2, 3, 5, 9, 10, 11 };
	float pf[RANKED_ROWS * (WIDTH + 1)], g[RANKED_ROWS * (WIDTH + 1)], shown[4];
	const float *params[] = { pf };
	float *grads[] = { g };
	struct batch b = { .rows = 4,
		.sparse = true,
		.start = (uint32_t *)(uintptr_t)pair_start,
		.col = (uint32_t *)(uintptr_t)pair_col,
		.field = (uint16_t *)(uintptr_t)pair_field,
		.val = (float *)(uintptr_t)pair_val,
		.y = (float *)(uintptr_t)pair_y,
		.targets = 1,
		.weight = (float *)(uintptr_t)pair_weight,
		.fields = 4,
		.id = id,
		.nids = RANKED_ROWS };
	double p[RANKED_ROWS * (WIDTH + 1)], bad = 0, loss, of_user, base, part[17], all = 0;
	struct model *m;
	struct err e;

	for (size_t i = 0; i < RANKED_ROWS * (WIDTH + 1); i++)
		p[i] = (double)(pf[i] = (float)uniform(-0.9, 0.9));
	if (model_new(model_kinds_all, name, &shape, &m, &e) != ERR_OK) {
		ok(false, "%s: %s", name, e.msg);
		return;
	}
	ok(model_check(m, &b, &e) == ERR_OK, "%s: %s", name, e.msg);
	loss = model_grad(m, &b, params, grads);
	for (size_t i = 0; i < RANKED_ROWS * (WIDTH + 1); i++) {
		double at = p[i], up, down;

		p[i] = at + 1e-6;
		up = ref(p);
		p[i] = at - 1e-6;
		down = ref(p);
		p[i] = at;
		bad = fmax(bad, fabs((up - down) / 2e-6 - (double)g[i]));
	}
	ok(bad < exact, "%s: gradient is that of the naive loss (%.1e)", name, bad);
	ok(fabs(loss - ref(p)) < exact &&
	        fabs(model_forward(m, &b, params, shown) / 4 - loss) < 1e-6,
	    "%s: loss is the naive one (%.7f, %.7f)", name, loss, ref(p));
	ok(ref_item(p, 2, 1, &of_user) && fabs((double)shown[2] - of_user) < 1e-6 &&
	        ref_item(p, 3, 1, &of_user) && fabs((double)shown[3] - of_user) < 1e-6,
	    "%s: the score is that of the item", name);
	model_parts(m, &b, 0, params, part, &base);
	for (size_t i = 0; i < 7; i++)
		all += part[i];
	ok(fabs(all - (double)shown[0]) < 1e-5 && part[4] == 0 && base == 0,
	    "%s: the parts of the user and the item make the score (%.6f, %.6f)", name, all,
	    (double)shown[0]);
	model_free(m);
}

static void test_refusals(void)
{
	static const size_t hidden[] = { 4 };
	static const struct {
		const char *name;
		struct model_shape shape;
		const char *why;
	} bad[] = {
		{ "ffm", { .sparse = true, .classes = 2, .factors = 4 },
		    "needs features in fields" },
		{ "ffm", { .sparse = true, .classes = 3, .fields = 2, .factors = 4 },
		    "needs two classes" },
		{ "mf", { .sparse = true, .classes = 2, .factors = 4 }, "needs real targets" },
		{ "deepfm", { .sparse = true, .classes = 2, .factors = 4 }, "needs job.hidden" },
		{ "dcn", { .sparse = true, .classes = 2, .factors = 4, .cross = 1 },
		    "needs job.hidden" },
		{ "dcn",
		    { .sparse = true, .classes = 2, .factors = 4, .hidden = hidden, .nhidden = 1 },
		    "needs at least one cross layer" },
		{ "dlrm",
		    { .classes = 2,
		        .features = 3,
		        .fields = 3,
		        .places = 3,
		        .factors = 4,
		        .hidden = hidden,
		        .nhidden = 1 },
		    "needs columns of categories" },
		{ "dlrm", { .sparse = true, .classes = 2, .fields = 3, .places = 3, .factors = 4 },
		    "needs job.hidden" },
		{ "fm",
		    { .sparse = true, .classes = 2, .factors = 4, .hidden = hidden, .nhidden = 1 },
		    "has no hidden layers" },
		{ "fasttext", { .sparse = true, .factors = 4 }, "needs at least two classes" },
		{ "fasttext", { .sparse = true, .classes = 2, .factors = 4, .loss = "logistic" },
		    "cannot use the loss logistic" },
		{ "word2vec", { .sparse = true, .fields = 2, .factors = 4 }, "needs plain text" },
		{ "word2vec", { .features = 3, .factors = 4 }, "needs plain text" },
		{ "bpr", { .sparse = true, .fields = 2, .factors = 4 }, "needs users and items" },
		{ "bpr", { .features = 3, .factors = 4 }, "needs users and items" },
		{ "warp", { .sparse = true, .fields = 2, .factors = 4 }, "needs users and items" },
		{ "bpr", { .sparse = true, .fields = 3, .factors = 4, .negatives = 10 },
		    "draws neither classes nor several items" },
	};
	struct model_shape shape = { .sparse = true, .classes = 2, .fields = 2, .factors = 2 };
	struct model *m = NULL;
	struct sample s;
	struct err e;

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		bool refused = model_new(model_kinds_all, bad[i].name, &bad[i].shape, &m, &e) ==
		        ERR_CONFIG &&
		    strstr(e.msg, bad[i].why);

		ok(refused, "%s: %s", bad[i].name, refused ? bad[i].why : e.msg);
	}
	sample_make(&s, true, 5, 9, 2);
	sample_fields(&s, 3);
	ok(model_new(model_kinds_all, "ffm", &shape, &m, &e) == ERR_OK &&
	        model_check(m, &s.b, &e) == ERR_FORMAT && strstr(e.msg, "has 3 fields"),
	    "%s", e.msg);
	feed_sample_release(&s);
	model_free(m);
}

int main(void)
{
	rng_init(&rng, 20);
	test_factors();
	test_learning("squared", 0);
	test_learning("logistic", 2);
	test_learning("huber:0.7", 0);
	test_losses();
	test_means();
	test_words();
	test_ranking("bpr", ref_bpr, 1e-6);
	test_ranking("warp", ref_warp, 1e-3);
	test_refusals();
	test_dcn();
	test_dlrm();
	return tap_done();
}
