/* SPDX-License-Identifier: ISC */
#ifndef CTL_INIT_TRIAL_H
#define CTL_INIT_TRIAL_H

#include <stdint.h>

#include "core/json.h"
#include "metric/metrics.h"

/* Trains a job on a sample of its data in this process, without a cluster, and measures it on
 * examples that are held out: so `ps-ctl init` compares models. The batches, update rules, passes
 * and the choice of the model by job.validate and job.stop are those of the job with one worker.
 * One thread. */

/* The result of a trial. */
struct init_score {
	enum metric metric;         /* METRICS: nothing was measured */
	double value;               /* of the model that the job would save */
	double goodness;            /* the greater, the better */
	unsigned passes, best_pass; /* over the data: all, and those of this model */
	bool cut;                   /* the time was over before the last pass */
};

/* Trains the job of a cluster file for at most `budget` ns. share: of the examples, held out by the
 * seed, by which the model is measured; job.validate is a share of the others. ERR_CONFIG and
 * errors of readers: the model does not fit the data. */
enum err_code init_trial_measure(const json_t *job, double share, uint64_t seed, int64_t budget,
    struct init_score *out, struct err *e);

#endif
