/* SPDX-License-Identifier: ISC */
#include "conf/serve_if.h"

#include <math.h>
#include <string.h>

#include "core/num.h"
#include "metric/metric.h"

/* Both signs of a test begin with the shorter one, so the longer ones come first. */
static const struct {
	const char *sign;
	enum serve_if_test test;
} tests[] = {
	{ ">=", SERVE_IF_AT_LEAST },
	{ "<=", SERVE_IF_AT_MOST },
	{ ">", SERVE_IF_ABOVE },
	{ "<", SERVE_IF_BELOW },
};

static const struct {
	const char *name;
	enum serve_if_kind kind;
} losses[] = {
	{ "train_loss", SERVE_IF_TRAIN_LOSS },
	{ "progressive_loss", SERVE_IF_PROGRESSIVE_LOSS },
};

static bool is_name(const char *name, const char *text, size_t n)
{
	return strlen(name) == n && strncmp(name, text, n) == 0;
}

/* Finds the measure that has the first n bytes as its name. False: there is none. */
static bool find_measure(const char *text, size_t n, struct serve_if *out)
{
	for (size_t i = 0; i < sizeof losses / sizeof *losses; i++)
		if (is_name(losses[i].name, text, n)) {
			*out = (struct serve_if){ losses[i].kind, .measure = losses[i].name };
			return true;
		}
	for (size_t i = 0; i < METRICS; i++)
		if (is_name(metric_name[i], text, n)) {
			*out = (struct serve_if){ SERVE_IF_METRIC, .measure = metric_name[i] };
			return true;
		}
	return false;
}

enum err_code serve_if_parse(const char *text, struct serve_if *out, struct err *e)
{
	size_t n = strcspn(text, " <>"), i = 0;
	const char *rest = text + n + strspn(text + n, " ");

	*out = (struct serve_if){ 0 };
	if (!find_measure(text, n, out))
		return err_set(e, ERR_CONFIG,
		    "\"%.*s\" is not a measure: use train_loss, progressive_loss or a metric of "
		    "evaluations, as in \"auc >= 0.76\"",
		    (int)(n < 40 ? n : 40), text);
	while (i < sizeof tests / sizeof *tests &&
	    strncmp(rest, tests[i].sign, strlen(tests[i].sign)) != 0)
		i++;
	if (i == sizeof tests / sizeof *tests)
		return err_set(e, ERR_CONFIG,
		    "after %s there must be >=, >, <= or <, got \"%.40s\"", out->measure, rest);
	out->test = tests[i].test;
	rest += strlen(tests[i].sign);
	rest += strspn(rest, " ");
	if (!num_double(rest, &out->bound) || !isfinite(out->bound))
		return err_set(e, ERR_CONFIG, "\"%.40s\" is not a number", rest);
	return ERR_OK;
}

bool serve_if_holds(const struct serve_if *c, double value)
{
	switch (c->test) {
	case SERVE_IF_AT_LEAST:
		return value >= c->bound;
	case SERVE_IF_ABOVE:
		return value > c->bound;
	case SERVE_IF_AT_MOST:
		return value <= c->bound;
	case SERVE_IF_BELOW:
		return value < c->bound;
	}
	return false;
}
