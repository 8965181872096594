/* SPDX-License-Identifier: ISC */
/* Metrics against their definitions. */
#include <math.h>
#include <stdlib.h>

#include "core/rng.h"
#include "metric/metrics.h"
#include "tap.h"

static struct rng rng;

enum { EXAMPLES = 5003 };

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
	metrics_init(&m, MODEL_TWO, 1);
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

	metrics_init(&m, MODEL_CLASSES, 2);
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
	metrics_init(&m, MODEL_TWO, 1);
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
	metrics_init(&m, MODEL_REAL, 1);
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
	metrics_init(&m, MODEL_CLASSES, 3);
	feed(&m, 3, score, NULL, label);
	metrics_finish(&m, &r);
	ok(r.value[METRIC_accuracy] == (double)right / EXAMPLES && !r.has[METRIC_auc],
	    "accuracy of three classes, first of "
	    "equals");
	metrics_release(&m);
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
	struct metrics m;
	double pairs = 0, below = 0, of[2] = { 0 };

	metrics_init(&m, MODEL_TWO, 1);
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

		metrics_init(&a, task[t], 1);
		metrics_init(&b, task[t], 1);
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

int main(void)
{
	rng_init(&rng, 7);
	test_two_class_metrics();
	test_other_metrics();
	test_auc_of_many();
	test_weights();
	return tap_done();
}
