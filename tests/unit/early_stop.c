/* SPDX-License-Identifier: ISC */
/* Early stopping: the rule's text, and its decision about a sequence of evaluations. */
#include "metric/early_stop.h"

#include <math.h>
#include <string.h>

#include "tap.h"

/* The verdicts about evaluations at steps 10, 20, ... as letters: Best, Worse, Enough, Seen. */
static const char *verdicts(const char *text, const double *value, size_t n, struct early_stop *s)
{
	static char out[32];
	struct early_stop_rule rule;

	*s = (struct early_stop)EARLY_STOP_INIT;
	if (early_stop_parse(text, &rule, NULL))
		return "?";
	for (size_t i = 0; i < n; i++)
		out[i] = "SBWE"[early_stop_take(s, &rule, 10 * (int64_t)(i + 1), value[i])];
	out[n] = 0;
	return out;
}

static bool refused(const char *text, const char *why)
{
	struct early_stop_rule rule;
	struct err e = { 0 };
	bool good = early_stop_parse(text, &rule, &e) == ERR_CONFIG && strstr(e.msg, why);

	if (!good)
		printf("# %s\n", e.msg);
	return good;
}

int main(void)
{
	static const double rising[] = { 0.5, 0.7, 0.6, 0.65, 0.69, 0.9 },
	                    falling[] = { 3, 2, 2, 1.999, 1.998, 1.997 },
	                    near[] = { 0.8, 1.3, 0.95, 1.04 },
	                    nothing[] = { (double)NAN, (double)NAN, (double)NAN },
	                    diverging[] = { 2, (double)INFINITY, (double)NAN };
	struct early_stop_rule r;
	struct early_stop s;

	ok(!early_stop_parse("none", &r, NULL) && r.metric == METRICS, "none");
	ok(!early_stop_parse("auc", &r, NULL) && r.metric == METRIC_auc && r.patience == 3 &&
	        r.min_delta == 0,
	    "a metric alone");
	ok(!early_stop_parse("loss min_delta=0.01  patience=5", &r, NULL) &&
	        r.metric == METRIC_loss && r.patience == 5 && r.min_delta == 0.01,
	    "options");
	ok(refused("acuracy", "did you mean \"accuracy\"?") && refused("", "no metric") &&
	        refused("auc patience=0", "patience=0") &&
	        refused("auc min_delta=-1", "min_delta=-1") && refused("auc after=3", "after=3"),
	    "other texts are refused");
	ok(strcmp(verdicts("auc", rising, 6, &s), "BBWWEB") == 0 && s.best_step == 60 &&
	        s.best == 0.9 && s.since_best == 0,
	    "higher auc is better, and three that are not are enough");
	ok(strcmp(verdicts("auc patience=1", rising, 3, &s), "BBE") == 0 && s.best_step == 20 &&
	        s.best == 0.7 && s.since_best == 1,
	    "patience");
	ok(strcmp(verdicts("loss patience=9", falling, 6, &s), "BBWBBB") == 0,
	    "lower loss is better, and equal is not");
	ok(strcmp(verdicts("loss min_delta=0.01", falling, 6, &s), "BBWWEE") == 0 &&
	        s.best_step == 20,
	    "min_delta");
	ok(strcmp(verdicts("calibration", near, 4, &s), "BWBB") == 0, "the nearer to 1 the better");
	ok(strcmp(verdicts("auc", nothing, 3, &s), "WWE") == 0 && s.best_step == -1,
	    "without a value no evaluation is the best");
	ok(strcmp(verdicts("loss patience=2", diverging, 3, &s), "BWE") == 0 && s.best_step == 10,
	    "a value that is not finite is not better");
	early_stop_parse("auc", &r, NULL);
	ok(early_stop_take(&s, &r, 30, 1) == EARLY_STOP_SEEN && s.since_best == 2 &&
	        early_stop_take(&s, &r, 31, 3) == EARLY_STOP_BEST,
	    "a step that was evaluated before counts once");
	return tap_done();
}
