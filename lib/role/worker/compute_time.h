/* SPDX-License-Identifier: ISC */
#ifndef WORKER_COMPUTE_TIME_H
#define WORKER_COMPUTE_TIME_H

#include "core/err.h"
#include "core/rng.h"

/* How long a worker computes one step, as ps-work train --compute gives it to imitate slow workers,
 * and as the simulator of the laboratory assumes it. Pure. */
struct compute_time {
	double seconds;       /* one step on an idle core; 0: not given */
	double chance, times; /* with this probability a step takes `times` as long */
};

/* Parses "50ms" (constant) or "50ms,5%x7" (5 % of the steps take 7 times as long). ERR_CONFIG. */
enum err_code compute_time_parse(const char *text, struct compute_time *out, struct err *e);
/* Returns the seconds of one step. Takes a random number only where chance is above 0. */
double compute_time_draw(const struct compute_time *t, struct rng *rng);

#endif
