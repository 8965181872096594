/* SPDX-License-Identifier: ISC */
/* The values of a sweep: lists, ranges, and draws from them. */
#include "lab/sweep_axis.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tap.h"

static bool refused(const char *text, const char *why)
{
	struct sweep_axis a;
	struct err e = { 0 };
	bool good = sweep_axis_parse_range(text, &a, &e) == ERR_USAGE && strstr(e.msg, why);

	if (!good)
		printf("# %s: %s\n", text, e.msg);
	sweep_axis_release(&a);
	return good;
}

static double drawn(const struct sweep_axis *a, uint64_t seed, uint64_t draw)
{
	char *text = sweep_axis_draw(a, seed, draw);
	double v = strtod(strchr(text, '=') + 1, NULL);

	free(text);
	return v;
}

/* Counts, of 1000 draws, those up to a value; -1: one was out of the range. */
static int count_up_to(const struct sweep_axis *a, double v)
{
	int n = 0;

	for (uint64_t i = 0; i < 1000; i++) {
		double x = drawn(a, 5, i);

		if (x < a->low || x > a->high)
			return -1;
		n += x <= v;
	}
	return n;
}

static bool parses(const char *text, bool whole, bool logarithmic)
{
	struct sweep_axis a;
	bool good = !sweep_axis_parse_range(text, &a, NULL) && a.whole == whole &&
	    a.log == logarithmic;

	sweep_axis_release(&a);
	return good;
}

static void ranges(void)
{
	struct sweep_axis a;

	ok(parses("lr=1e-4..1", false, true), "a rate is logarithmic");
	ok(parses("momentum=0..0.9", false, false), "what begins at 0 is linear");
	ok(parses("batch=16..256", true, false) && parses("batch=16..256:log", true, true),
	    "whole numbers are linear, unless they say so");
	ok(parses("lr=0.1..1:linear", false, false), "linear");
	ok(refused("lr", "KEY=LOW..HIGH") && refused("=1..2", "KEY=LOW..HIGH") &&
	        refused("lr=1", "KEY=LOW..HIGH") && refused("lr=1..", "must be numbers") &&
	        refused("lr=a..2", "must be numbers") && refused("lr=2..1", "lower one first") &&
	        refused("lr=1..1", "lower one first") && refused("lr=0..1:log", "above 0") &&
	        refused("lr=1..2:exp", "log or linear") && refused("batch=1.5..3", "whole numbers"),
	    "other texts are refused");
	sweep_axis_parse_range("lr=0.0001..1", &a, NULL);
	ok(abs(count_up_to(&a, 0.01) - 500) < 80, "half of a logarithmic range is its square root");
	ok(count_up_to(&a, 1) == 1000, "all draws are in the range");
	sweep_axis_release(&a);
	sweep_axis_parse_range("momentum=0..0.9", &a, NULL);
	ok(abs(count_up_to(&a, 0.45) - 500) < 80, "half of a linear one is its middle");
	sweep_axis_release(&a);
	sweep_axis_parse_range("batch=1..4", &a, NULL);
	ok(abs(count_up_to(&a, 1) - 250) < 60 && abs(count_up_to(&a, 3) - 750) < 60 &&
	        count_up_to(&a, 4) == 1000,
	    "whole numbers include both ends");
	sweep_axis_release(&a);
}

static void draws(void)
{
	struct sweep_axis lr, other, list;
	char *a, *b;
	int seen = 0;

	sweep_axis_parse_range("lr=0.001..1", &lr, NULL);
	sweep_axis_parse_range("l2=0.001..1", &other, NULL);
	sweep_axis_parse_list("sync=bsp,ssp:3,asp", &list, NULL);
	a = sweep_axis_draw(&lr, 1, 0);
	b = sweep_axis_draw(&lr, 1, 0);
	ok(strcmp(a, b) == 0 && strlen(a) <= strlen("lr=0.00123"),
	    "the same draw is the same value, of three digits: %s", a);
	free(a);
	free(b);
	ok(fabs(drawn(&lr, 1, 0) - drawn(&lr, 2, 0)) > 0 &&
	        fabs(drawn(&lr, 1, 0) - drawn(&lr, 1, 1)) > 0 &&
	        fabs(drawn(&lr, 1, 0) - drawn(&other, 1, 0)) > 0,
	    "another seed, draw or key is another value");
	for (uint64_t i = 0; i < 30; i++) {
		char *text = sweep_axis_draw(&list, 1, i);

		for (size_t k = 0; k < list.n; k++)
			seen |= (strcmp(text + strlen("sync="), list.value[k]) == 0) << k;
		free(text);
	}
	ok(seen == 7, "all values of a list are drawn");
	sweep_axis_release(&lr);
	sweep_axis_release(&other);
	sweep_axis_release(&list);
}

int main(void)
{
	ranges();
	draws();
	return tap_done();
}
