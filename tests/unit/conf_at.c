/* SPDX-License-Identifier: ISC */
/* The configuration at a step: a function of a base and of a list of changes. */
#include <string.h>

#include "conf/conf_live.h"
#include "core/json.h"
#include "tap.h"

static struct err e;

static json_t *base_config(void)
{
	struct conf c;
	json_t *file = json_pack("{s:i, s:{s:s, s:f}}", "workers", 2, "job", "model", "custom",
	           "lr", 0.5),
	       *o;

	conf_from_json(file, &c, &e);
	o = conf_to_json(&c);
	conf_release(&c);
	json_decref(file);
	return o;
}

/* The learning rate at a step; -1: there is no configuration. */
static double rate_at(const json_t *base, const struct setting *change, size_t n, uint64_t step)
{
	struct conf c;
	double lr = -1;

	if (!conf_at(base, change, n, step, &c, &e))
		lr = c.job.lr;
	conf_release(&c);
	return lr;
}

static void steps(void)
{
	json_t *base = base_config(), *fast = json_pack("{s:s}", "lr", "0.25"),
	       *slow = json_pack("{s:s}", "job.lr", "0.125");
	const struct setting list[] = { { .step = 10, .number = 1, .set = fast },
		{ .step = 20, .number = 2, .set = slow },
		{ .step = 20, .number = 3, .set = fast } };

	ok(rate_at(base, NULL, 0, 100) == 0.5, "without changes it is the base");
	ok(rate_at(base, list, 1, 9) == 0.5 && rate_at(base, list, 1, 10) == 0.25,
	    "a change holds from its step on");
	ok(rate_at(base, list, 2, 19) == 0.25 && rate_at(base, list, 2, 20) == 0.125,
	    "and until the next one");
	ok(rate_at(base, list, 3, 20) == 0.25, "of two changes at one step the later one holds");
	ok(rate_at(base, list, 2, CONF_NEWEST) == 0.125, "the newest of a list");
	json_decref(base);
	json_decref(fast);
	json_decref(slow);
}

/* A server that starts late gets a base with the first changes in it. */
static void folded(void)
{
	json_t *base = base_config(), *a = json_pack("{s:s}", "optimizer", "adam"),
	       *b = json_pack("{s:s, s:s}", "lr", "0.25", "sync", "asp"), *later, *all, *rest;
	const struct setting list[] = { { .step = 10, .number = 1, .set = a },
		{ .step = 20, .number = 2, .set = b } };
	struct conf first, c, d;

	ok(!conf_at(base, list, 1, 10, &first, &e) && !strcmp(first.job.optimizer, "adam"),
	    "another rule");
	ok(first.job.lr == 0.5, "with the rate that a user has set");
	later = conf_to_json(&first);
	ok(!conf_at(base, list, 2, 20, &c, &e) && !conf_at(later, list + 1, 1, 20, &d, &e),
	    "two ways to the same step");
	all = conf_to_json(&c);
	rest = conf_to_json(&d);
	ok(json_equal(all, rest), "give the same configuration");
	conf_release(&first);
	conf_release(&c);
	conf_release(&d);
	json_decref(all);
	json_decref(rest);
	json_decref(later);
	json_decref(base);
	json_decref(a);
	json_decref(b);
}

static void wrong(void)
{
	static const struct conf zero;
	json_t *base = base_config(), *bad = json_pack("{s:s}", "lr", "fast"),
	       *unknown = json_pack("{s:s}", "rate_of_learning", "1");
	struct setting change = { .step = 10, .number = 1, .set = bad };
	struct conf c;

	ok(conf_at(base, &change, 1, 10, &c, &e) == ERR_CONFIG && strstr(e.msg, "job.lr") &&
	        memcmp(&c, &zero, sizeof c) == 0,
	    "a wrong value: %s", e.msg);
	ok(rate_at(base, &change, 1, 9) == 0.5, "which does not matter before its step");
	change.set = unknown;
	ok(conf_at(base, &change, 1, 10, &c, &e) == ERR_CONFIG, "an unknown key: %s", e.msg);
	ok(conf_at(NULL, NULL, 0, 0, &c, &e) == ERR_CONFIG, "no base");
	json_decref(base);
	json_decref(bad);
	json_decref(unknown);
}

int main(void)
{
	steps();
	folded();
	wrong();
	return tap_done();
}
