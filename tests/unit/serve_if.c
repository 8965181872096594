/* SPDX-License-Identifier: ISC */
/* The condition under which a read replica takes over new values. */
#include <math.h>

#include "conf/serve_if.h"
#include "tap.h"

/* Has the text this meaning? */
static bool means(const char *text, const char *measure, enum serve_if_test test, double bound)
{
	struct serve_if c;

	return !serve_if_parse(text, &c, NULL) && strcmp(c.measure, measure) == 0 &&
	    c.test == test && c.bound == bound;
}

static bool is_refused(const char *text)
{
	struct serve_if c;
	struct err e;

	return serve_if_parse(text, &c, &e) == ERR_CONFIG && *e.msg;
}

int main(void)
{
	static const char *const bad[] = { "", "auc", "auc 0.5", "auc >=", "auc >= x", "acu > 1",
		"auc >= 0.5 ", "auc => 1", "auc > inf", "auc > nan", "> 1", "au > 1" };
	struct serve_if c;

	ok(means("auc >= 0.76", "auc", SERVE_IF_AT_LEAST, 0.76) &&
	        means("auc>=0.76", "auc", SERVE_IF_AT_LEAST, 0.76),
	    "spaces may be missing");
	ok(!serve_if_parse("train_loss<1", &c, NULL) && c.kind == SERVE_IF_TRAIN_LOSS &&
	        !serve_if_parse("progressive_loss<1", &c, NULL) &&
	        c.kind == SERVE_IF_PROGRESSIVE_LOSS && !serve_if_parse("auc>0", &c, NULL) &&
	        c.kind == SERVE_IF_METRIC,
	    "losses, and a metric of evaluations");
	ok(means("train_loss < 3e-1", "train_loss", SERVE_IF_BELOW, 0.3) &&
	        means("progressive_loss <= 1", "progressive_loss", SERVE_IF_AT_MOST, 1) &&
	        means("accuracy > 0", "accuracy", SERVE_IF_ABOVE, 0),
	    "losses and metrics, and all tests");
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		ok(is_refused(bad[i]), "\"%s\" is refused", bad[i]);
	if (serve_if_parse("rmse<=1", &c, NULL))
		abort();
	ok(serve_if_holds(&c, 1) && serve_if_holds(&c, -5) && !serve_if_holds(&c, 1.001) &&
	        !serve_if_holds(&c, (double)NAN),
	    "at most");
	c.test = SERVE_IF_BELOW;
	ok(!serve_if_holds(&c, 1) && serve_if_holds(&c, 0.9), "below");
	c.test = SERVE_IF_ABOVE;
	ok(!serve_if_holds(&c, 1) && serve_if_holds(&c, 1.1), "above");
	c.test = SERVE_IF_AT_LEAST;
	ok(serve_if_holds(&c, 1) && !serve_if_holds(&c, 0.9) && !serve_if_holds(&c, (double)NAN),
	    "at least");
	return tap_done();
}
