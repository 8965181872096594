/* SPDX-License-Identifier: ISC */
#include <math.h>

#include "coord/coord_state.h"

#include "core/json.h"
#include "core/mem.h"

/* Early stopping: each evaluation is compared with the best one so far. When none has been better
 * for as many evaluations as job.stop says, the view asks the workers to end, each after its
 * present step; the job then finishes as if the data had ended. coord.h draws how the model of the
 * best evaluation is saved. */

/* False: the job does not stop early. */
static bool find_rule(const struct coord *c, struct early_stop_rule *rule)
{
	return c->conf->job.stop && !early_stop_parse(c->conf->job.stop, rule, NULL) &&
	    rule->metric < METRICS;
}

/* The rows that are held out choose the model, where the job has some beside job.eval. */
static double value_of(const json_t *eval, const struct early_stop_rule *rule)
{
	const json_t *held_out = json_object_get(eval, "validate");

	return json_num(json_is_object(held_out) ? held_out : eval, metric_name[rule->metric],
	    (double)NAN);
}

/* Does no step close without the evaluator, while it waits for the snapshot? */
static bool evaluator_holds_steps(const struct coord *c)
{
	return c->cfg.lockstep && !c->conf->backup;
}

void coord_early_stop_take(struct coord *c, int64_t step, const json_t *eval, bool final)
{
	struct coord_stopping *s = &c->stopping;
	struct early_stop_rule rule;
	enum early_stop_verdict verdict;
	double value;

	if (!find_rule(c, &rule))
		return;
	value = value_of(eval, &rule);
	/* The last evaluator may be a slower worker than those before. At the step of the last
	 * evaluation the model is the same in bsp; otherwise other workers may have changed it. */
	if (final &&
	    (step < s->state.seen_step ||
	        (step == s->state.seen_step && !c->cfg.lockstep && value != s->state.best)))
		step = s->state.seen_step + 1;
	verdict = early_stop_take(&s->state, &rule, step, value);
	if (verdict == EARLY_STOP_BEST) {
		json_decref(s->eval);
		s->eval = json_deep_copy(eval);
		s->exact = evaluator_holds_steps(c);
		/* The final model needs no checkpoint: the servers have it. */
		s->wanted = c->phase == PHASE_RUNNING && s->saver ? (uint64_t)step : 0;
		s->evaluator_waits = s->wanted > 0;
	}
	if (verdict != EARLY_STOP_SEEN)
		coord_changed(c);
	if (verdict != EARLY_STOP_ENOUGH || s->ended[0] || c->phase != PHASE_RUNNING)
		return;
	if (s->state.best_step < 0)
		snprintf(s->ended, sizeof s->ended, "none of %lld evaluations has the metric %s",
		    (long long)s->state.since_best, metric_name[rule.metric]);
	else
		snprintf(s->ended, sizeof s->ended,
		    "%lld evaluations after step %lld had no better %s than %.6g",
		    (long long)s->state.since_best, (long long)s->state.best_step,
		    metric_name[rule.metric], s->state.best);
	coord_event(c, EVENT_early_stop, "the job ends: %s", s->ended);
	coord_changed(c);
}

void coord_best_begin(struct coord *c)
{
	struct coord_stopping *s = &c->stopping;

	s->saver = true;
	/* The coordinator before this one may have ended before the best model was saved. */
	if (c->phase == PHASE_RUNNING && s->eval && s->state.best_step > (int64_t)s->saved) {
		s->wanted = (uint64_t)s->state.best_step;
		s->evaluator_waits = s->state.best_step == s->state.seen_step;
	}
}

uint64_t coord_best_wanted(const struct coord *c)
{
	return c->stopping.wanted;
}

uint64_t coord_best_awaited(const struct coord *c)
{
	return c->stopping.evaluator_waits ? c->stopping.wanted : 0;
}

void coord_best_taken(struct coord *c)
{
	if (!c->stopping.evaluator_waits)
		return;
	c->stopping.evaluator_waits = false;
	coord_changed(c);
}

void coord_best_end(struct coord *c, uint64_t step)
{
	coord_best_taken(c);
	c->stopping.wanted = 0;
	if (!step)
		return;
	c->stopping.saved = step;
	coord_changed(c);
}

bool coord_early_stop_is_writing(const struct coord *c)
{
	enum coord_snap state = coord_snap_state(c);

	return coord_best_wanted(c) && !c->stopping.evaluator_waits &&
	    (state == SNAP_TAKEN || state == SNAP_WRITING || state == SNAP_SAVED);
}

uint64_t coord_best_saved(const struct coord *c)
{
	return c->stopping.saved;
}

struct state_stop *coord_early_stop_save(const struct coord *c)
{
	const struct coord_stopping *s = &c->stopping;
	struct state_stop *out;

	if (s->state.seen_step < 0)
		return NULL;
	out = mem_alloc(sizeof *out);
	*out = (struct state_stop){ .best_step = s->state.best_step,
		.seen_step = s->state.seen_step,
		.since_best = s->state.since_best,
		.saved = (int64_t)s->saved,
		.exact = s->exact,
		.eval = s->eval,
		.ended = s->ended };
	return out;
}

void coord_early_stop_reset(struct coord *c)
{
	struct coord_stopping *s = &c->stopping;

	json_decref(s->eval);
	s->eval = NULL;
	s->state = (struct early_stop)EARLY_STOP_INIT;
	s->saved = 0;
	s->exact = false;
	s->ended[0] = '\0';
}

void coord_early_stop_load(struct coord *c, const struct state_stop *saved)
{
	struct coord_stopping *s = &c->stopping;
	struct early_stop_rule rule;

	if (!saved || !find_rule(c, &rule))
		return;
	json_decref(s->eval);
	s->eval = json_is_object(saved->eval) ? json_deep_copy(saved->eval) : NULL;
	s->state = (struct early_stop){ .best_step = s->eval ? saved->best_step : -1,
		.best = value_of(s->eval, &rule),
		.seen_step = saved->seen_step,
		.since_best = saved->since_best };
	s->saved = (uint64_t)saved->saved;
	s->exact = saved->exact;
	snprintf(s->ended, sizeof s->ended, "%s", saved->ended ? saved->ended : "");
}

bool coord_early_stop_is_earlier(const struct coord *c)
{
	const struct early_stop *s = &c->stopping.state;

	if (!c->stopping.eval)
		return false;
	/* A job that failed has no last evaluation: its last model may be of any later step. */
	return c->phase == PHASE_FAILED ? s->best_step < (int64_t)coord_step(c)
	                                : c->evaluation.result.json && s->best_step < s->seen_step;
}

bool coord_early_stop_is_exact(const struct coord *c)
{
	const struct coord_stopping *s = &c->stopping;

	return s->exact && (int64_t)s->saved == s->state.best_step;
}

void coord_early_stop_report(const struct coord *c, json_t *to)
{
	const struct coord_stopping *s = &c->stopping;
	struct early_stop_rule rule;

	if (!find_rule(c, &rule))
		return;
	if (s->state.best_step >= 0) {
		json_object_set_new(to, "best_step", json_integer(s->state.best_step));
		json_object_set_new(to, "best_metric", json_string(metric_name[rule.metric]));
		json_object_set_new(to, "best_value", json_of_num(s->state.best));
		json_object_set_new(to, "best_checkpoint",
		    s->saved ? json_integer((json_int_t)s->saved) : json_null());
		json_object_set_new(to, "best_is_earlier",
		    json_boolean(coord_early_stop_is_earlier(c)));
	}
	if (s->ended[0])
		json_object_set_new(to, "ended", json_string(s->ended));
}
