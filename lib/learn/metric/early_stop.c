/* SPDX-License-Identifier: ISC */
#include "metric/early_stop.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "core/num.h"
#include "core/suggest.h"

#define PATIENCE 3

static enum err_code find_metric(const char *word, enum metric *out, struct err *e)
{
	const char *near = suggest(word, metric_name, METRICS);

	*out = metrics_find(word);
	if (*out < METRICS)
		return ERR_OK;
	return err_set(e, ERR_CONFIG, "there is no metric \"%.60s\"%s%s%s", word,
	    near ? "; did you mean \"" : "", near ? near : "", near ? "\"?" : "");
}

static enum err_code take_option(const char *word, struct early_stop_rule *out, struct err *e)
{
	if (strncmp(word, "patience=", 9) == 0 && num_int(word + 9, 1, 1000000, &out->patience))
		return ERR_OK;
	if (strncmp(word, "min_delta=", 10) == 0 && num_double(word + 10, &out->min_delta) &&
	    out->min_delta >= 0)
		return ERR_OK;
	return err_set(e, ERR_CONFIG,
	    "must be none, or a metric with optional patience=N (at least 1) and min_delta=X (at "
	    "least 0), got \"%.60s\"",
	    word);
}

enum err_code early_stop_parse(const char *text, struct early_stop_rule *out, struct err *e)
{
	char *copy = mem_strdup(text), *rest = copy, *word;
	enum err_code rc = ERR_OK;

	*out = (struct early_stop_rule){ METRICS, PATIENCE, 0 };
	if (strcmp(text, "none") != 0) {
		word = strtok_r(copy, " ", &rest);
		rc = find_metric(word ? word : "", &out->metric, e);
		while (!rc && (word = strtok_r(NULL, " ", &rest)))
			rc = take_option(word, out, e);
	}
	free(copy);
	return rc;
}

enum early_stop_verdict early_stop_take(struct early_stop *s, const struct early_stop_rule *rule,
    int64_t step, double value)
{
	double gain;

	if (step <= s->seen_step)
		return EARLY_STOP_SEEN;
	s->seen_step = step;
	gain = s->best_step < 0
	    ? (double)INFINITY
	    : metrics_goodness(rule->metric, value) - metrics_goodness(rule->metric, s->best);
	if (isfinite(value) && gain > rule->min_delta) {
		s->best_step = step;
		s->best = value;
		s->since_best = 0;
		return EARLY_STOP_BEST;
	}
	return ++s->since_best >= rule->patience ? EARLY_STOP_ENOUGH : EARLY_STOP_NOT_BETTER;
}
