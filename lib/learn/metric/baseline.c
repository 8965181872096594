/* SPDX-License-Identifier: ISC */
#include "metric/baseline.h"

#include <math.h>

#include "core/num.h"
#include "metric/summary.h"

/* An area under the ROC curve counts as better than chance when it is this many standard deviations
 * above 1/2, as in a random order (Hanley and McNeil, 1982). */
#define AUC_DEVIATIONS 3

static void set_value(struct baseline *b, enum metric k, double value)
{
	b->value[k] = value;
	b->has[k] = isfinite(value);
}

/* Is the model's value of the metric better than that of the constant? */
static bool is_better(const struct baseline *b, const struct eval_result *r, enum metric k)
{
	return b->has[k] && r->has[k] &&
	    metrics_goodness(k, r->value[k]) > metrics_goodness(k, b->value[k]);
}

/* The constant prediction of squared errors is the mean. Losses of quantiles have another one,
 * which R2 does not measure. */
static void measure_real(const struct metrics *m, const struct eval_result *r, struct baseline *b)
{
	if (m->of.quantile > 0 || !r->has[METRIC_r2])
		return;
	b->known = true;
	set_value(b, METRIC_r2, 0);
	if (m->of.outputs == 1 && r->has[METRIC_rmse] && r->value[METRIC_r2] < 1)
		set_value(b, METRIC_rmse, r->value[METRIC_rmse] / sqrt(1 - r->value[METRIC_r2]));
	b->no_better = !is_better(b, r, METRIC_r2);
}

/* Classes that occur, the share of the most frequent one, and the entropy of all shares. */
static size_t measure_shares(const struct class_counts *s, double n, struct baseline *b)
{
	double most = 0, entropy = 0;
	size_t occur = 0;

	for (size_t i = 0; i < s->classes; i++) {
		double share = s->class[i].real / n;

		most = fmax(most, share);
		entropy -= share > 0 ? share * log(share) : 0;
		occur += share > 0;
	}
	set_value(b, METRIC_accuracy, most);
	set_value(b, METRIC_log_loss, entropy);
	return occur;
}

static bool auc_is_chance(const struct class_counts *s, const struct eval_result *r)
{
	double n0, n1;

	if (!r->has[METRIC_auc] || s->classes != 2)
		return true;
	n0 = s->class[0].real;
	n1 = s->class[1].real;
	return r->value[METRIC_auc] <= 0.5 + AUC_DEVIATIONS * sqrt((n0 + n1 + 1) / (12 * n0 * n1));
}

static void measure_classes(const struct metrics *m, const struct eval_result *r,
    struct baseline *b)
{
	const struct class_counts *s = m->summary[METRIC_accuracy];

	if (!s || !s->class || !(m->weight > 0) || measure_shares(s, m->weight, b) < 2)
		return;
	b->known = true;
	b->no_better = !is_better(b, r, METRIC_accuracy) && !is_better(b, r, METRIC_log_loss) &&
	    auc_is_chance(s, r);
}

void baseline_measure(const struct metrics *m, const struct eval_result *r, struct baseline *out)
{
	*out = (struct baseline){ 0 };
	if (metric_suits_real(&m->of))
		measure_real(m, r, out);
	else if (metric_suits_classes(&m->of))
		measure_classes(m, r, out);
}

void baseline_add(json_t *eval, const struct baseline *b)
{
	json_t *o;

	if (!b->known || !b->no_better)
		return;
	o = json_object();
	for (int k = 0; k < METRICS; k++)
		if (b->has[k])
			json_object_set_new(o, metric_name[k], json_of_num(b->value[k]));
	json_object_set_new(eval, "constant", o);
}

void baseline_sentence(const json_t *eval, struct buf *out)
{
	const json_t *constant = json_object_get(eval, "constant"), *v, *own;
	const char *between = " (";
	char model[32], other[32];

	if (!json_is_object(constant))
		return;
	buf_puts(out, "no better than the constant prediction");
	for (int k = 0; k < METRICS; k++) {
		v = json_object_get(constant, metric_name[k]);
		own = json_object_get(eval, metric_name[k]);
		if (!json_is_number(v) || !json_is_number(own))
			continue;
		num_digits(json_number_value(own), 4, model);
		num_digits(json_number_value(v), 4, other);
		buf_printf(out, "%s%s %s, and %s of the constant", between, metric_name[k], model,
		    other);
		between = "; ";
	}
	buf_puts(out, *between == ';' ? ")" : "");
}
