/* SPDX-License-Identifier: ISC */
#ifndef WORKER_DELAY_H
#define WORKER_DELAY_H

#include "conf/conf_slow.h"
#include "core/err.h"
#include "core/rng.h"
#include "core/thread.h"

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

/* Delays by which a worker imitates a slow one (job.slow, ps-work train --compute). The step loop calls
 * delay_take after each computation, and does not know whether there are any. One thread. */
struct delay {
	struct conf_slow slow;
	struct rng chance;
};

/* Begins the delays of a rank. slow: job.slow, which has been checked. own: of --compute, which replaces all
 * but the part of single workers; its seconds are 0 when it is not given. */
void delay_init(struct delay *d, const char *slow, const struct compute_time *own, uint64_t seed,
    uint32_t rank);
/* Returns the delayed duration of a computation that took `took` seconds. Draws a random number
 * where the delays have a chance. */
double delay_draw(struct delay *d, double took);
/* Sleeps until the computation that began at this time (clock_now) has taken long enough. Only an interrupt
 * cuts it short. */
void delay_take(struct delay *d, int64_t began, const struct interrupt *i);

#endif
