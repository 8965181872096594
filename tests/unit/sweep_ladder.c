/* SPDX-License-Identifier: ISC */
/* The rungs of a sweep: their steps, and which point runs next. */
#include "lab/sweep_ladder.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tap.h"

static bool refused(const char *text, int64_t steps, const char *why)
{
	struct sweep_ladder l;
	struct err e = { 0 };
	bool good = sweep_ladder_init(&l, text, steps, 9, &e) == ERR_USAGE && strstr(e.msg, why);

	if (!good)
		printf("# %s: %s\n", text, e.msg);
	sweep_ladder_release(&l);
	return good;
}

static const char *rungs(const char *text, int64_t steps)
{
	static char out[200];
	struct sweep_ladder l;
	size_t at = 0;

	if (sweep_ladder_init(&l, text, steps, 1, NULL))
		return "?";
	for (size_t k = 0; k < l.rungs; k++)
		at += (size_t)snprintf(out + at, sizeof out - at, "%s%lld", k ? " " : "",
		    (long long)l.steps[k]);
	sweep_ladder_release(&l);
	return out;
}

static void texts(void)
{
	ok(strcmp(rungs(NULL, 100), "0") == 0, "without --asha there is one rung");
	ok(strcmp(rungs("min=10", 90), "10 30 90") == 0, "eta is 3, and job.steps the last rung");
	ok(strcmp(rungs("min=10,max=1000,eta=4", 90), "10 40 160 1000") == 0,
	    "the last rung has all steps");
	ok(strcmp(rungs("max=15,min=10", 0), "10 15") == 0, "there are two at least");
	ok(strcmp(rungs("min=1000000000000,max=1000000000001,eta=1000000000000", 0),
	       "1000000000000 1000000000001") == 0,
	    "also with large numbers");
	ok(refused("max=10", 0, "min=STEPS, the steps of the first rung, is required") &&
	        refused("min=10", 0, "max=STEPS is required") &&
	        refused("min=10,eta=1", 90, "eta=1") && refused("min=0", 90, "min=0") &&
	        refused("min=90", 90, "must be below") && refused("min=10,keep=2", 90, "keep=2") &&
	        refused("", 90, "min=STEPS, the steps of the first rung, is required") &&
	        refused("min=10x", 90, "min=10x"),
	    "other texts are refused");
}

/* Runs a ladder with one run at a time, whose score is score[point], or less by the rung with `falling`.
 * Prints "point:rung" for each run. */
static const char *order(struct sweep_ladder *l, const double *score)
{
	static char out[400];
	size_t at = 0, i;

	out[0] = 0;
	while (sweep_ladder_next(l, &i) && at + 20 < sizeof out) {
		at += (size_t)snprintf(out + at, sizeof out - at, "%s%zu:%zu", at ? " " : "", i,
		    l->point[i].done);
		sweep_ladder_ended(l, i, score[i], !isfinite(score[i]));
	}
	return out;
}

static bool runs(const char *text, const double *score, size_t n, const char *want)
{
	struct sweep_ladder l;
	const char *got;
	bool good;

	sweep_ladder_init(&l, text, 0, n, NULL);
	got = order(&l, score);
	good = strcmp(got, want) == 0;
	if (!good)
		printf("# \"%s\", not \"%s\"\n", got, want);
	sweep_ladder_release(&l);
	return good;
}

static void promotions(void)
{
	const double nine[] = { 5, 3, 4, 9, 8, 7, 2, 1, 6 }, few[] = { 2, 1 },
	             diverged[] = { 1, INFINITY, INFINITY, 2 }, none[] = { INFINITY, INFINITY };

	ok(runs(NULL, nine, 4, "0:0 1:0 2:0 3:0"), "one rung: each point once, in order");
	ok(runs("min=1,max=9", nine, 9,
	       "0:0 1:0 2:0 1:1 3:0 4:0 5:0 2:1 6:0 6:1 6:2 7:0 7:1 7:2 8:0"),
	    "one of three goes on, as soon as there are three");
	ok(runs("min=1,max=9", few, 2, "0:0 1:0 1:1 1:2"),
	    "with few points the best one goes to the end");
	ok(runs("min=1,max=3", diverged, 4, "0:0 1:0 2:0 0:1 3:0"),
	    "a failed point counts, and goes nowhere");
	ok(runs("min=1,max=3", none, 2, "0:0 1:0"), "when all have failed nothing goes on");
}

static void parallel(void)
{
	struct sweep_ladder l;
	size_t a, b, c;

	sweep_ladder_init(&l, "min=1,max=3", 0, 3, NULL);
	ok(sweep_ladder_next(&l, &a) && sweep_ladder_next(&l, &b) && sweep_ladder_next(&l, &c) &&
	        a == 0 && b == 1 && c == 2 && !sweep_ladder_next(&l, &a),
	    "points run at the same time");
	sweep_ladder_ended(&l, 1, 5, false);
	ok(!sweep_ladder_next(&l, &a), "no leader is chosen while others run");
	sweep_ladder_gave_up(&l, 2);
	ok(sweep_ladder_next(&l, &a) && a == 2 && l.point[2].done == 0,
	    "one that was interrupted is next");
	sweep_ladder_ended(&l, 2, (double)NAN, true);
	sweep_ladder_ended(&l, 0, 6, false);
	ok(sweep_ladder_next(&l, &a) && a == 1 && l.point[1].done == 1, "then the best of three");
	ok(!sweep_ladder_next(&l, &a), "and no other");
	ok(sweep_ladder_rung(&l, 0).finished == 3 && sweep_ladder_rung(&l, 0).promoted == 1 &&
	        sweep_ladder_rung(&l, 0).failed == 1 && sweep_ladder_rung(&l, 0).best <= 5,
	    "the rung's figures");
	sweep_ladder_ended(&l, 1, INFINITY, true);
	ok(sweep_ladder_next(&l, &a) && a == 0, "when it fails the next one takes its place");
	sweep_ladder_release(&l);
}

static void earlier(void)
{
	struct sweep_ladder l;
	size_t i;

	sweep_ladder_init(&l, "min=1,max=9", 0, 4, NULL);
	/* An earlier sweep has finished points 0 to 2, and had begun the next rung of point 1. */
	for (i = 0; i < 3; i++)
		sweep_ladder_ended(&l, i, (double)i, false);
	sweep_ladder_grant(&l, 1);
	ok(sweep_ladder_next(&l, &i) && i == 1 && l.point[1].done == 1,
	    "what had begun goes on first");
	ok(sweep_ladder_next(&l, &i) && i == 0 && sweep_ladder_next(&l, &i) && i == 3,
	    "then the best, then what is new");
	sweep_ladder_release(&l);
	sweep_ladder_init(&l, "min=1,max=9", 0, 1, NULL);
	sweep_ladder_next(&l, &i);
	sweep_ladder_ended(&l, 0, 1, true);
	ok(!sweep_ladder_next(&l, &i), "a point whose data are used up has won");
	sweep_ladder_release(&l);
}

int main(void)
{
	texts();
	promotions();
	parallel();
	earlier();
	return tap_done();
}
