/* SPDX-License-Identifier: ISC */
/* Metrics against their definitions. */
#include <math.h>
#include <stdlib.h>

#include "core/rng.h"
#include "metric/baseline.h"
#include "metric/metrics.h"
#include "tap.h"

static struct rng rng;

enum { EXAMPLES = 5003 };

static void begin_metrics(struct metrics *m, enum model_task task, size_t outputs)
{
	metrics_init(m, &(struct metric_scores){ .task = task, .outputs = outputs });
}

/* Feed the examples in batches of odd sizes. */
static void feed(struct metrics *m, size_t outputs, const float *scores, float *y, int32_t *label)
{
	for (size_t at = 0, n; at < EXAMPLES; at += n) {
		struct batch b = { .y = y ? y + at : NULL, .label = label ? label + at : NULL };

		n = 1 + rng_below(&rng, 700);
		n = n < EXAMPLES - at ? n : EXAMPLES - at;
		b.rows = n;
		if (metrics_add(m, &b, scores + at * outputs, 0.25 * (double)n, NULL) != ERR_OK)
			exit(1);
	}
}

static double naive_auc(const float *score, const float *y)
{
	double wins = 0, pairs = 0;

	for (size_t i = 0; i < EXAMPLES; i++)
		for (size_t j = 0; y[i] == 1 && j < EXAMPLES; j++)
			if (y[j] == 0) {
				wins += score[i] > score[j] ? 1 : score[i] == score[j] ? 0.5 : 0;
				pairs++;
			}
	return wins / pairs;
}

static void test_two_class_metrics(void)
{
	static float score[EXAMPLES], both[2 * EXAMPLES], y[EXAMPLES];
	static int32_t label[EXAMPLES];
	struct eval_result r, c;
	struct metrics m;
	size_t right = 0;
	double auc;

	for (size_t i = 0; i < EXAMPLES; i++) {
		y[i] = (float)rng_below(&rng, 2);
		label[i] = (int32_t)y[i];
		/* Hundredths, so that many are equal. */
		score[i] = (float)rng_below(&rng, y[i] > 0 ? 101 : 71) / 100;
		both[2 * i] = 1 - score[i];
		both[2 * i + 1] = score[i];
		right += (score[i] > 0.5f) == (y[i] > 0);
	}
	auc = naive_auc(score, y);
	begin_metrics(&m, MODEL_TWO, 1);
	feed(&m, 1, score, y, NULL);
	metrics_finish(&m, &r);
	ok(r.has[METRIC_auc] && fabs(r.value[METRIC_auc] - auc) < 1e-12 && auc > 0.6,
	    "auc is the share of pairs in order, "
	    "%.6f",
	    auc);
	ok(r.has[METRIC_accuracy] && r.value[METRIC_accuracy] == (double)right / EXAMPLES &&
	        r.examples == EXAMPLES,
	    "accuracy is the share above or below 1/2 rightly");
	ok(r.has[METRIC_loss] && fabs(r.value[METRIC_loss] - 0.25) < 1e-12 && !r.has[METRIC_rmse] &&
	        !r.has[METRIC_r2],
	    "loss is the mean");
	metrics_release(&m);

	begin_metrics(&m, MODEL_CLASSES, 2);
	feed(&m, 2, both, NULL, label);
	metrics_finish(&m, &c);
	ok(c.has[METRIC_auc] && c.value[METRIC_auc] == r.value[METRIC_auc] &&
	        fabs(c.value[METRIC_accuracy] - r.value[METRIC_accuracy]) < 0.02,
	    "two classes with two scores have the same auc");
	both[7] = NAN;
	feed(&m, 2, both, NULL, label);
	metrics_finish(&m, &c);
	ok(!c.has[METRIC_auc] && c.has[METRIC_accuracy] && c.examples == 2 * EXAMPLES,
	    "no auc with a NaN among scores");
	metrics_release(&m);

	for (size_t i = 0; i < EXAMPLES; i++)
		y[i] = 1;
	begin_metrics(&m, MODEL_TWO, 1);
	metrics_finish(&m, &r);
	ok(!r.has[METRIC_loss] && !r.has[METRIC_accuracy] && !r.has[METRIC_auc],
	    "nothing is known of no examples");
	feed(&m, 1, score, y, NULL);
	metrics_finish(&m, &r);
	ok(!r.has[METRIC_auc] && r.has[METRIC_accuracy], "no auc where all are of one class");
	metrics_release(&m);
}

static void test_other_metrics(void)
{
	static float score[3 * EXAMPLES], y[EXAMPLES];
	static int32_t label[EXAMPLES];
	struct eval_result r;
	struct metrics m;
	double mean = 0, error = 0, spread = 0;
	size_t right = 0;

	for (size_t i = 0; i < EXAMPLES; i++) {
		y[i] = (float)(1000 + 3 * rng_unit(&rng));
		score[i] = y[i] + (float)(2 * rng_unit(&rng) - 1);
		mean += (double)y[i] / EXAMPLES;
		error += ((double)y[i] - (double)score[i]) * ((double)y[i] - (double)score[i]);
	}
	for (size_t i = 0; i < EXAMPLES; i++)
		spread += ((double)y[i] - mean) * ((double)y[i] - mean);
	begin_metrics(&m, MODEL_REAL, 1);
	feed(&m, 1, score, y, NULL);
	metrics_finish(&m, &r);
	ok(r.has[METRIC_rmse] && fabs(r.value[METRIC_rmse] - sqrt(error / EXAMPLES)) < 1e-10 &&
	        r.has[METRIC_r2] && fabs(r.value[METRIC_r2] - (1 - error / spread)) < 1e-9 &&
	        !r.has[METRIC_accuracy] && !r.has[METRIC_auc],
	    "rmse %.4f and r2 %.4f are the two-pass ones", r.value[METRIC_rmse],
	    r.value[METRIC_r2]);
	metrics_release(&m);

	for (size_t i = 0; i < EXAMPLES; i++) {
		label[i] = (int32_t)rng_below(&rng, 3);
		for (size_t j = 0; j < 3; j++)
			score[3 * i + j] = (float)rng_below(&rng, 5);
		const float *s = score + 3 * i;
		int32_t best = s[1] > s[0] ? 1 : 0;

		best = s[2] > s[best] ? 2 : best;
		right += best == label[i];
	}
	begin_metrics(&m, MODEL_CLASSES, 3);
	feed(&m, 3, score, NULL, label);
	metrics_finish(&m, &r);
	ok(r.value[METRIC_accuracy] == (double)right / EXAMPLES && !r.has[METRIC_auc],
	    "accuracy of three classes, first of "
	    "equals");
	metrics_release(&m);
}

/* Measures scores of two classes: the i-th of 1000 examples is of class 1 if i % 10 == 0. */
static void measure_rare(float (*score_of)(size_t i), struct eval_result *r)
{
	static float score[1000], y[1000];
	struct batch b = { .y = y, .rows = 1000 };
	struct metrics m;

	for (size_t i = 0; i < 1000; i++) {
		score[i] = score_of(i);
		y[i] = i % 10 == 0;
	}
	metrics_init(&m,
	    &(struct metric_scores){ .task = MODEL_TWO, .outputs = 1, .probabilities = true });
	metrics_add(&m, &b, score, 0, NULL);
	metrics_finish(&m, r);
	metrics_release(&m);
}

static float score_high(size_t i)
{
	(void)i;
	return 0.4f;
}

static float score_unweighted(size_t i)
{
	return i % 10 == 0 ? 0.9f : 0.6f;
}

static float score_random(size_t i)
{
	return (float)(i * 7919 % 1000) / 1000;
}

static void test_constant(void)
{
	static float score[1000], y[1000];
	struct batch b = { .y = y, .rows = 1000 };
	struct buf said = BUF_INIT;
	struct eval_result r;
	struct metrics m;
	json_t *eval;

	measure_rare(score_high, &r);
	ok(r.constant.known && r.constant.no_better && r.constant.value[METRIC_accuracy] == 0.9 &&
	        fabs(r.constant.value[METRIC_log_loss] - 0.325083) < 1e-6,
	    "a constant that is not the best one is no better than it");
	measure_rare(score_random, &r);
	ok(r.constant.known && r.constant.no_better, "nor are scores at random");
	measure_rare(score_unweighted, &r);
	ok(r.constant.known && !r.constant.no_better,
	    "scores that rank the classes are better, whatever their accuracy");
	for (size_t i = 0; i < 1000; i++)
		y[i] = (float)i;
	for (size_t i = 0; i < 1000; i++)
		score[i] = 499.5f;
	begin_metrics(&m, MODEL_REAL, 1);
	metrics_add(&m, &b, score, 0, NULL);
	metrics_finish(&m, &r);
	metrics_release(&m);
	ok(r.constant.no_better && r.constant.value[METRIC_r2] == 0 &&
	        fabs(r.constant.value[METRIC_rmse] - 288.675) < 1e-2,
	    "the mean of real targets is no better than itself");
	eval = json_pack("{s:f, s:f}", "rmse", 300.0, "r2", -0.08);
	baseline_add(eval, &r.constant);
	baseline_sentence(eval, &said);
	ok(strcmp((char *)said.data,
	       "no better than the constant prediction (r2 -0.08, and 0 of the "
	       "constant; rmse 300, and 288.7 of the constant)") == 0,
	    "%s", (char *)said.data);
	buf_release(&said);
	json_decref(eval);
	begin_metrics(&m, MODEL_REAL, 1);
	score[0] = 0;
	score[999] = 999;
	metrics_add(&m, &b, score, 0, NULL);
	metrics_finish(&m, &r);
	metrics_release(&m);
	ok(r.constant.known && !r.constant.no_better, "and any better one is better");
	begin_metrics(&m, MODEL_TWO, 1);
	memset(y, 0, sizeof y);
	metrics_add(&m, &b, score, 0, NULL);
	metrics_finish(&m, &r);
	metrics_release(&m);
	ok(!r.constant.known && !r.constant.no_better,
	    "of one class alone there is nothing to learn");
}

/* Scores of 3 million examples in an order that is bad for a sketch: sorted, and most of them in a narrow
 * range. auc is known from counts by score. */
enum { MANY = 3000000, GRID = 1 << 20 };

static float many_score(size_t i)
{
	return i < MANY / 10 ? (float)i / MANY : 0.5f + (float)(i % GRID) * 0x1p-24f;
}

static void test_auc_of_many(void)
{
	static uint32_t count[2][2 * GRID];
	static float score[1000], y[1000];
	struct eval_result r;
	struct metrics m, twice;
	double pairs = 0, below = 0, of[2] = { 0 };

	begin_metrics(&m, MODEL_TWO, 1);
	for (size_t at = 0; at < MANY; at += 1000) {
		struct batch b = { .y = y, .rows = 1000 };

		for (size_t i = 0; i < 1000; i++) {
			bool low = at + i < MANY / 10;

			score[i] = many_score(at + i);
			y[i] = rng_below(&rng, 100) < (low ? 1 : 2 + (at + i) % GRID * 9 / GRID);
			/* Of equal scores in one cell: the low ones are all different and ascend. */
			count[y[i] > 0][low ? at + i : GRID + (at + i) % GRID]++;
			of[y[i] > 0]++;
		}
		if (metrics_add(&m, &b, score, 0, NULL))
			exit(1);
	}
	for (size_t i = 0; i < 2 * (size_t)GRID; i++) {
		pairs += count[1][i] * (below + count[0][i] / 2.0);
		below += count[0][i];
	}
	pairs /= of[0] * of[1];
	metrics_finish(&m, &r);
	ok(r.has[METRIC_auc] && fabs(r.value[METRIC_auc] - pairs) < 1e-4 &&
	        r.value[METRIC_auc] != pairs && pairs > 0.6,
	    "auc of %.0f and %.0f examples is %.7f, exactly %.7f", of[0], of[1],
	    r.value[METRIC_auc], pairs);
	metrics_finish(&m, &r);
	ok(fabs(r.value[METRIC_auc] - pairs) < 1e-4, "once more");
	metrics_init(&twice, &m.of);
	ok(!metrics_merge(&twice, &m, NULL) && !metrics_merge(&twice, &m, NULL), "merged");
	metrics_finish(&twice, &r);
	ok(fabs(r.value[METRIC_auc] - pairs) < 1e-4 && r.examples == 2 * (uint64_t)MANY,
	    "and of the same examples twice, merged: %.7f", r.value[METRIC_auc]);
	metrics_release(&twice);
	metrics_release(&m);
}

/* Ten examples, of which example i counts i times, against a batch that has it i times. */
static void test_weights(void)
{
	static float score[100], y[100], weight[10], one_score[10], one_y[10];
	static const enum model_task task[] = { MODEL_TWO, MODEL_REAL };

	for (int t = 0; t < 2; t++) {
		struct metrics a, b;
		struct eval_result x, z;
		size_t n = 0;
		bool same = true;

		begin_metrics(&a, task[t], 1);
		begin_metrics(&b, task[t], 1);
		for (size_t i = 0; i < 10; i++) {
			weight[i] = (float)i;
			one_score[i] = (float)rng_below(&rng, 5) / 5;
			one_y[i] = (float)rng_below(&rng, 2);
			for (size_t k = 0; k < i; k++) {
				score[n] = one_score[i];
				y[n++] = one_y[i];
			}
		}
		struct batch once = { .rows = 10, .y = one_y, .weight = weight },
		             times = { .rows = n, .y = y };

		metrics_add(&a, &once, one_score, 4.5, NULL);
		metrics_add(&b, &times, score, 4.5, NULL);
		metrics_finish(&a, &x);
		metrics_finish(&b, &z);
		for (int k = 0; k < METRICS; k++)
			same &= x.has[k] == z.has[k] &&
			    (!x.has[k] || fabs(x.value[k] - z.value[k]) < 1e-12);
		ok(same && x.examples == 10 && x.has[METRIC_loss],
		    "an example of weight n counts as n examples do");
		metrics_release(&a);
		metrics_release(&b);
	}
}

/* The values below were computed by scikit-learn 1.2.1 (Debian 12) for the same examples: its
 * functions for accuracy, area under the ROC curve, log loss, average precision, F1 (binary and
 * macro), NDCG (k = 10), absolute and squared error, R2 and pinball loss (alpha = 0.9), with the
 * weights of samples where the test has weights; and by numpy: normalized entropy as that log loss
 * over the log loss of the weighted mean of y, calibration as sum(w p) / sum(w y), the calibration
 * error with 15 bins int(15 p). Of groups: the mean of the functions over the groups, of the area
 * weighted by the groups' sizes; reciprocal rank, precision and recall as means over all orders of
 * examples with equal scores, by itertools. */
struct expected {
	enum metric metric;
	double value;
};

enum { SMALL = 600, GROUPS = 25 };
static uint32_t lcg;

/* The same numbers as of the script: x = (1103515245 x + 12345) mod 2^31, and (x >> 8) mod n. */
static uint32_t draw(uint32_t n)
{
	lcg = (lcg * 1103515245u + 12345u) & 0x7fffffffu;
	return (lcg >> 8) % n;
}

static struct small {
	float y[SMALL], score[3 * SMALL], weight[SMALL];
	int32_t label[SMALL];
	uint64_t group[SMALL];
} small;

/* Measures the examples in one part, and in three that are merged in another order. */
static void check_small(const struct metric_scores *of, bool weighted, const struct expected *want,
    size_t n, const char *what)
{
	struct metrics m[3], all;
	struct eval_result r[2];

	metrics_init(&all, of);
	for (int parts = 1; parts <= 3; parts += 2) {
		for (int k = 0; k < parts; k++) {
			size_t from = (size_t)(SMALL / parts * k), rows = (size_t)(SMALL / parts);
			struct batch b = { .rows = rows,
				.y = small.y + from,
				.label = small.label + from,
				.group = of->grouped ? small.group + from : NULL,
				.weight = weighted ? small.weight + from : NULL };

			metrics_init(&m[k], of);
			metrics_add(&m[k], &b, small.score + from * of->outputs, 1, NULL);
		}
		for (int k = parts - 2; k >= 0; k--)
			metrics_merge(&m[parts - 1], &m[k], NULL);
		metrics_finish(&m[parts - 1], &r[parts / 2]);
		if (parts == 1)
			metrics_merge(&all, &m[0], NULL);
		for (int k = 0; k < parts; k++)
			metrics_release(&m[k]);
	}
	for (size_t i = 0; i < n; i++) {
		enum metric k = want[i].metric;

		ok(r[0].has[k] && r[1].has[k] && fabs(r[0].value[k] - want[i].value) < 1e-6 &&
		        fabs(r[1].value[k] - want[i].value) < 1e-6,
		    "%s of %s is %.10f and, merged, %.10f; by scikit-learn %.10f", metric_name[k],
		    what, r[0].value[k], r[1].value[k], want[i].value);
	}
	metrics_finish(&all, &r[1]);
	ok(r[1].examples == SMALL && r[1].value[want[0].metric] == r[0].value[want[0].metric],
	    "merging into an empty set copies it");
	metrics_release(&all);
}

#define CHECK(of, weighted, want, what) \
	check_small(&(struct metric_scores)of, weighted, want, sizeof(want) / sizeof *(want), what)
#define OF(...) \
	{ \
		__VA_ARGS__ \
	}

static void test_two_classes_against_sklearn(void)
{
	static const struct expected plain[] = { { METRIC_accuracy, 0.5750000000 },
		{ METRIC_auc, 0.5435134301 }, { METRIC_log_loss, 0.7701090948 },
		{ METRIC_normalized_entropy, 1.1992950923 }, { METRIC_calibration, 1.2005853631 },
		{ METRIC_calibration_error, 0.1953333326 }, { METRIC_pr_auc, 0.4499279620 },
		{ METRIC_f1, 0.4000000000 }, { METRIC_f1_macro, 0.5354838710 },
		{ METRIC_group_auc, 0.5528860949 }, { METRIC_ndcg_at_k, 0.5049169538 },
		{ METRIC_mrr, 0.8161111111 }, { METRIC_precision_at_k, 0.3846666667 },
		{ METRIC_recall_at_k, 0.4759050949 } };
	static const struct expected ranked[] = { { METRIC_group_auc, 0.5528860949 },
		{ METRIC_ndcg_at_k, 0.5049169538 }, { METRIC_mrr, 0.8161111111 },
		{ METRIC_precision_at_k, 0.3846666667 }, { METRIC_recall_at_k, 0.4759050949 } };
	static const struct expected three[] = { { METRIC_ndcg_at_k, 0.5336331286 },
		{ METRIC_precision_at_k, 0.4800000000 }, { METRIC_recall_at_k, 0.1953125763 } };
	static const struct expected weighted[] = { { METRIC_accuracy, 0.5705521472 },
		{ METRIC_auc, 0.5224385045 }, { METRIC_log_loss, 0.7793204251 },
		{ METRIC_normalized_entropy, 1.2239378600 }, { METRIC_calibration, 1.2297736886 },
		{ METRIC_calibration_error, 0.2118782439 }, { METRIC_pr_auc, 0.4269365094 },
		{ METRIC_f1, 0.3784153005 }, { METRIC_f1_macro, 0.5251845789 } };

	lcg = 1;
	for (size_t i = 0; i < SMALL; i++) {
		bool one = draw(3) == 0;

		small.y[i] = (float)one;
		small.label[i] = one;
		small.score[i] = (float)(1 + draw(one ? 90 : 80)) / 100.0f;
		small.group[i] = 1 + draw(GROUPS);
		small.weight[i] = (float)draw(8) / 4.0f;
	}
	CHECK(OF(.task = MODEL_TWO, .outputs = 1, .grouped = true, .top_k = 10,
	          .probabilities = true),
	    false, plain, "two classes");
	CHECK(OF(.task = MODEL_PAIRS, .outputs = 1, .grouped = true, .top_k = 10), false, ranked,
	    "ranked items");
	CHECK(OF(.task = MODEL_PAIRS, .outputs = 1, .grouped = true, .top_k = 3), false, three,
	    "the first 3 of ranked items");
	CHECK(OF(.task = MODEL_TWO, .outputs = 1, .probabilities = true), true, weighted,
	    "weighted examples");
	for (size_t i = SMALL; i-- > 0;) {
		small.score[2 * i + 1] = small.score[i];
		small.score[2 * i] = 1 - small.score[2 * i + 1];
	}
	CHECK(OF(.task = MODEL_CLASSES, .outputs = 2, .grouped = true, .top_k = 10,
	          .probabilities = true),
	    false, plain, "two scores");
}

static void test_three_classes_against_sklearn(void)
{
	static const struct expected want[] = { { METRIC_accuracy, 0.8650000000 },
		{ METRIC_log_loss, 0.6614752132 }, { METRIC_f1_macro, 0.8642309176 },
		{ METRIC_calibration_error, 0.3246589786 } };

	lcg = 2;
	for (size_t i = 0; i < SMALL; i++) {
		float *s = small.score + 3 * i, sum;

		small.label[i] = (int32_t)draw(3);
		for (int32_t k = 0; k < 3; k++)
			s[k] = (float)(1 + draw(100) + (k == small.label[i] ? 60 : 0));
		sum = s[0] + s[1] + s[2];
		for (int k = 0; k < 3; k++)
			s[k] /= sum;
	}
	CHECK(OF(.task = MODEL_CLASSES, .outputs = 3, .probabilities = true), false, want,
	    "three classes");
}

static void test_real_targets_against_sklearn(void)
{
	static const struct expected want[] = { { METRIC_mae, 0.8340333313 },
		{ METRIC_rmse, 0.9884722169 }, { METRIC_r2, 0.5442895192 },
		{ METRIC_pinball, 0.2173900001 }, { METRIC_ndcg_at_k, 0.9530966349 } };
	struct metrics m;
	struct eval_result r;
	struct batch b = { .rows = SMALL, .y = small.y, .group = small.group };

	lcg = 3;
	for (size_t i = 0; i < SMALL; i++) {
		small.y[i] = (float)draw(500) / 100.0f;
		small.score[i] = small.y[i] + (float)draw(300) / 100.0f - 1.0f;
		small.group[i] = 1 + draw(GROUPS);
	}
	CHECK(OF(.task = MODEL_REAL, .outputs = 1, .grouped = true, .top_k = 10, .quantile = 0.9),
	    false, want, "numbers");
	small.y[7] = -1;
	metrics_init(&m,
	    &(struct metric_scores){ .task = MODEL_REAL,
	        .outputs = 1,
	        .grouped = true,
	        .top_k = 10 });
	metrics_add(&m, &b, small.score, 1, NULL);
	metrics_finish(&m, &r);
	ok(!r.has[METRIC_ndcg_at_k] && !r.has[METRIC_pinball] && !r.has[METRIC_mrr] &&
	        r.has[METRIC_mae],
	    "a negative target is no gain, and the model predicts no quantile");
	metrics_release(&m);
}

/* So many groups that some must be dropped: the mean over the others estimates that over all. */
static void test_many_groups(void)
{
	enum { SIZE = 8, EACH = 1000, TIMES = 2500 };
	static float score[EACH], y[EACH];
	static uint64_t group[EACH];
	struct batch b = { .rows = EACH, .y = y, .group = group };
	const struct metric_scores of = { .task = MODEL_TWO,
		.outputs = 1,
		.grouped = true,
		.top_k = 10 };
	struct metrics m[2];
	struct eval_result r;
	double sum = 0;

	metrics_init(&m[0], &of);
	metrics_init(&m[1], &of);
	for (uint64_t t = 0; t < TIMES; t++) {
		for (size_t i = 0; i < EACH; i++) {
			/* The relevant example of a group is at one of 8 places. */
			uint64_t number = (t * EACH + i) / SIZE;

			group[i] = 1 + number;
			score[i] = (float)(SIZE - i % SIZE);
			y[i] = i % SIZE == rng_mix(~number) % SIZE;
			sum += (double)y[i] / (double)(1 + i % SIZE);
		}
		metrics_add(&m[t % 3 == 0], &b, score, 1, NULL);
	}
	sum /= (double)TIMES * EACH / SIZE;
	metrics_merge(&m[0], &m[1], NULL);
	metrics_finish(&m[0], &r);
	/* A reciprocal rank has the standard deviation 0.28, and at least 50000 groups are kept. */
	ok(r.has[METRIC_mrr] && fabs(r.value[METRIC_mrr] - sum) < 6 * 0.28 / 224,
	    "mrr of %d groups is %.5f, exactly %.5f", TIMES * EACH / SIZE, r.value[METRIC_mrr],
	    sum);
	metrics_release(&m[0]);
	metrics_release(&m[1]);
}

/* A group that is larger than all memory for groups is left out; the others stay as they are. */
static void test_large_group(void)
{
	enum { EACH = 1000, LARGE = 1200, OTHER = 100 };
	static float score[EACH], y[EACH];
	static uint64_t group[EACH];
	struct batch b = { .rows = EACH, .y = y, .group = group };
	const struct metric_scores of = { .task = MODEL_TWO,
		.outputs = 1,
		.grouped = true,
		.top_k = 10 };
	struct metrics m[2];
	struct eval_result r;
	uint64_t most = 1;

	/* Its number is in the smallest shares of the groups, too. */
	while (rng_mix(most) >> 44)
		most++;
	metrics_init(&m[0], &of);
	metrics_init(&m[1], &of);
	for (int t = 0; t < LARGE + OTHER; t++) {
		for (size_t i = 0; i < EACH; i++) {
			bool large = t % 13 != 0;

			/* The second example of 10 is relevant in a small group, and the last one alone in
			 * the large group. */
			group[i] = large ? most : UINT32_MAX + ((uint64_t)t * EACH + i) / 10;
			score[i] = large ? (float)(1 + i) : (float)(10 - i % 10);
			y[i] = large ? i == 0 : i % 10 == 1;
		}
		metrics_add(&m[t % 2], &b, score, 1, NULL);
	}
	metrics_merge(&m[0], &m[1], NULL);
	metrics_finish(&m[0], &r);
	ok(r.has[METRIC_mrr] && r.value[METRIC_mrr] == 0.5 && r.has[METRIC_group_auc] &&
	        fabs(r.value[METRIC_group_auc] - 8.0 / 9) < 1e-9,
	    "a group of 1.2 million examples leaves the others theirs: mrr %g, group_auc %g",
	    r.value[METRIC_mrr], r.value[METRIC_group_auc]);
	ok(strstr(r.remark, "1 group with more than 262144 examples is left out"),
	    "and it is said: %s", r.remark);
	metrics_release(&m[0]);
	metrics_release(&m[1]);
}

static void test_directions(void)
{
	ok(metrics_goodness(METRIC_loss, 1) > metrics_goodness(METRIC_loss, 2) &&
	        metrics_goodness(METRIC_auc, 1) < metrics_goodness(METRIC_auc, 2) &&
	        metrics_goodness(METRIC_calibration, 0.9) >
	            metrics_goodness(METRIC_calibration, 1.2) &&
	        metrics_find("f1_macro") == METRIC_f1_macro && metrics_find("none") == METRICS,
	    "each metric knows which values are better");
	ok(metrics_is_detail("f1") && !metrics_is_detail("auc") && !metrics_is_detail("examples"),
	    "and whether lines for people have it");
}

/* The scores of a margin are above 1/2 for class 1, but are no probabilities. */
static void test_no_probabilities(void)
{
	static float score[EXAMPLES], y[EXAMPLES];
	struct eval_result r;
	struct metrics m;

	for (size_t i = 0; i < EXAMPLES; i++) {
		y[i] = (float)rng_below(&rng, 2);
		score[i] = (float)rng_below(&rng, 101) / 100;
	}
	begin_metrics(&m, MODEL_TWO, 1);
	feed(&m, 1, score, y, NULL);
	metrics_finish(&m, &r);
	ok(!r.has[METRIC_log_loss] && !r.has[METRIC_normalized_entropy] &&
	        !r.has[METRIC_calibration] && !r.has[METRIC_calibration_error],
	    "metrics of probabilities have no value for scores that are none");
	ok(r.has[METRIC_accuracy] && r.has[METRIC_auc] && r.has[METRIC_f1] && r.has[METRIC_pr_auc],
	    "metrics of order and of predicted classes have");
	ok(!metrics_may_suit(METRIC_calibration, MODEL_TWO, 0, false) &&
	        metrics_may_suit(METRIC_calibration, MODEL_TWO, 0, true) &&
	        metrics_may_suit(METRIC_auc, MODEL_TWO, 0, false),
	    "and a job cannot stop by one that has none");
	metrics_release(&m);
}

/* Metrics of several targets are the means of those of each target, also when parts are merged. */
static void test_several_targets(void)
{
	enum { ROWS = 40, TARGETS = 3 };
	float y[ROWS * TARGETS], scores[ROWS * TARGETS], weight[ROWS];
	double mean[METRICS] = { 0 };
	struct eval_result r;
	struct metrics m, half;
	struct batch b = { .rows = ROWS / 2, .y = y, .weight = weight };
	const enum metric of[] = { METRIC_r2, METRIC_rmse, METRIC_mae };
	double off = 0;

	for (size_t i = 0; i < ROWS * TARGETS; i++) {
		y[i] = (float)rng_unit(&rng) * (float)(1 + 9 * (i % TARGETS));
		scores[i] = y[i] + (float)rng_unit(&rng) - 0.3f;
		weight[i / TARGETS] = (float)(i / TARGETS % 3);
	}
	for (size_t k = 0; k < TARGETS; k++) {
		float own[ROWS], score[ROWS];
		struct batch one = { .rows = ROWS, .y = own, .weight = weight };

		for (size_t i = 0; i < ROWS; i++) {
			own[i] = y[i * TARGETS + k];
			score[i] = scores[i * TARGETS + k];
		}
		begin_metrics(&m, MODEL_REAL, 1);
		metrics_add(&m, &one, score, 7, NULL);
		metrics_finish(&m, &r);
		metrics_release(&m);
		for (int i = 0; i < METRICS; i++)
			mean[i] += r.has[i] ? r.value[i] / TARGETS : 0;
	}
	begin_metrics(&m, MODEL_REAL, TARGETS);
	begin_metrics(&half, MODEL_REAL, TARGETS);
	metrics_add(&m, &b, scores, 3, NULL);
	b.y += ROWS / 2 * TARGETS;
	b.weight += ROWS / 2;
	metrics_add(&half, &b, scores + ROWS / 2 * TARGETS, 4, NULL);
	metrics_merge(&m, &half, NULL);
	metrics_finish(&m, &r);
	for (size_t i = 0; i < sizeof of / sizeof *of; i++)
		off = r.has[of[i]] ? fmax(off, fabs(r.value[of[i]] - mean[of[i]])) : INFINITY;
	ok(off < 1e-9, "metrics of several targets are means over the targets (off by %g)", off);
	ok(r.has[METRIC_loss] && fabs(r.value[METRIC_loss] - mean[METRIC_loss]) < 1e-9,
	    "the loss counts once");
	metrics_release(&m);
	metrics_release(&half);
}

int main(void)
{
	rng_init(&rng, 7);
	test_two_class_metrics();
	test_several_targets();
	test_other_metrics();
	test_constant();
	test_auc_of_many();
	test_weights();
	test_two_classes_against_sklearn();
	test_three_classes_against_sklearn();
	test_real_targets_against_sklearn();
	test_many_groups();
	test_large_group();
	test_no_probabilities();
	test_directions();
	return tap_done();
}
