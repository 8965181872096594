/* SPDX-License-Identifier: ISC */
#include <math.h>
#include <string.h>

#include "coord/coord_state.h"

#include "core/json.h"

/* Follows the evaluations: which one is the best so far, and whether the model overfits. Nothing is
 * decided by that: only job.stop chooses a model (coord_early_stop.c). */

/* The model overfits when this many evaluations in a row have had a larger loss than the best one,
 * the last of them by this part of it, while the loss of the training examples has fallen, or is
 * less than at the best evaluation: heartbeats bring it too late for the evaluations of a short
 * job. */
#define OVERFIT_EVALUATIONS 3
#define OVERFIT_LOSS        0.02

/* The metric of a job without job.stop: the first one after the loss that people see in a line. */
static enum metric choose_metric(const struct coord *c, const json_t *eval)
{
	struct early_stop_rule rule;

	if (c->conf->job.stop && !early_stop_parse(c->conf->job.stop, &rule, NULL) &&
	    rule.metric < METRICS)
		return rule.metric;
	for (int k = METRIC_loss + 1; k < METRICS; k++)
		if (!metrics_is_detail(metric_name[k]) &&
		    json_is_number(json_object_get(eval, metric_name[k])))
			return (enum metric)k;
	return METRIC_loss;
}

/* The mean loss of the workers' last batches; NAN: not known. */
static double measure_train_loss(const struct coord *c)
{
	double sum = 0, weight = 0;

	for (unsigned i = 0; i < c->nworkers; i++) {
		const struct heartbeat_worker *f = &c->worker[i].figures;

		sum += f->train_loss * (double)f->loss_examples;
		weight += (double)f->loss_examples;
	}
	return weight > 0 ? sum / weight : (double)NAN;
}

static void take_loss(struct coord_learning *l, int64_t step, double loss, double train)
{
	l->loss = loss;
	l->train = train;
	if (l->least_step < 0 || loss < l->least) {
		l->least = loss;
		l->least_step = step;
		l->least_train = train;
		l->above = 0;
	} else {
		l->above++;
	}
}

void coord_learning_take(struct coord *c, int64_t step, const json_t *eval)
{
	struct coord_learning *l = &c->learning;
	const json_t *held_out = json_object_get(eval, "validate"),
	             *of = json_is_object(held_out) ? held_out : eval;
	double loss = json_num(of, "loss", (double)NAN);

	if (l->taken && step <= l->step)
		return;
	if (!l->taken)
		l->metric = choose_metric(c, of);
	l->taken = true;
	l->step = step;
	l->last = json_num(of, metric_name[l->metric], (double)NAN);
	if (isfinite(l->last) &&
	    (l->best_step < 0 ||
	        metrics_goodness(l->metric, l->last) > metrics_goodness(l->metric, l->best))) {
		l->best = l->last;
		l->best_step = step;
	}
	if (isfinite(loss))
		take_loss(l, step, loss, measure_train_loss(c));
}

/* The last step before the model began to overfit; -1: it does not. */
static int64_t overfits_since(const struct coord *c)
{
	const struct coord_learning *l = &c->learning;
	bool worse = l->taken && l->above >= OVERFIT_EVALUATIONS &&
	    l->loss > l->least + OVERFIT_LOSS * fabs(l->least),
	     fits = l->train < l->least_train || measure_train_loss(c) < l->least;

	return worse && fits ? l->least_step : -1;
}

/* A worker that joins later begins with a model that others have trained: the largest loss is the
 * loss at the start. */
double coord_learning_first_loss(const struct coord *c)
{
	const char *init = c->conf->job.init;
	double first = (double)NAN;

	if (c->data.given || c->data.resumed || (init && strchr(init, '/')))
		return first;
	for (unsigned i = 0; i < c->nworkers; i++)
		if (c->worker[i].figures.has_first_loss)
			first = fmax(first, c->worker[i].figures.first_loss);
	return first;
}

void coord_learning_report(const struct coord *c, json_t *to)
{
	const struct coord_learning *l = &c->learning;

	if (!l->taken || l->best_step < 0)
		return;
	json_object_set_new(to, "best_eval",
	    json_pack("{s:s, s:o, s:I, s:o}", "metric", metric_name[l->metric], "value",
	        json_of_num(l->best), "step", (json_int_t)l->best_step, "last",
	        json_of_num(l->last)));
	if (overfits_since(c) >= 0)
		json_object_set_new(to, "overfits_since",
		    json_integer((json_int_t)overfits_since(c)));
}
