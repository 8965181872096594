/* SPDX-License-Identifier: ISC */
#ifndef METRIC_EARLY_STOP_H
#define METRIC_EARLY_STOP_H

#include "metric/metrics.h"

/* Early stopping (job.stop): which evaluation of a job is the best one so far, and whether the job
 * should end because none has been better for long (Prechelt, "Early stopping - but when?", 1998).
 * Pure. */
struct early_stop_rule {
	enum metric metric; /* METRICS: the job does not stop early */
	int64_t patience;   /* evaluations in a row that are not better, after which the job ends */
	double min_delta;   /* an evaluation is better that is better by more than this */
};

struct early_stop {
	int64_t best_step;  /* -1: there was no evaluation with the metric yet */
	double best;        /* its value */
	int64_t seen_step;  /* of the last evaluation; -1: none yet */
	int64_t since_best; /* evaluations since the best one */
};
#define EARLY_STOP_INIT \
	{ \
		.best_step = -1, .seen_step = -1 \
	}

enum early_stop_verdict {
	EARLY_STOP_SEEN,       /* an evaluation of this step or a later one was taken before */
	EARLY_STOP_BEST,       /* the best one so far */
	EARLY_STOP_NOT_BETTER, /* not better */
	EARLY_STOP_ENOUGH,     /* not better, and the job should end */
};

/* Parses "none" or "METRIC [patience=N] [min_delta=X]"; patience is 3 unless given, and min_delta
 * 0. ERR_CONFIG: a sentence without the key. */
enum err_code early_stop_parse(const char *text, struct early_stop_rule *out, struct err *e);

/* Takes an evaluation. value: of the metric; not finite: it had none, which is not better. */
enum early_stop_verdict early_stop_take(struct early_stop *s, const struct early_stop_rule *rule,
    int64_t step, double value);

#endif
