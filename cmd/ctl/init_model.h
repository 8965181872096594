/* SPDX-License-Identifier: ISC */
#ifndef CTL_INIT_MODEL_H
#define CTL_INIT_MODEL_H

#include <stdbool.h>

#include "core/json.h"
#include "init_sample.h"

/* Chooses the model of the job that `ps-ctl init` writes: the default one of the task, or a better
 * one, which a trial on a sample shows (init_trial.h). */

enum init_task { INIT_NO_TASK, INIT_REAL, INIT_TWO, INIT_CLASSES, INIT_RATINGS, INIT_PAIRS };

/* The request of the user; borrowed. */
struct init_request {
	const char *data, *eval, *model; /* eval, model: NULL: none, chosen */
	bool fast;                       /* no trial */
};

/* Writes job.model, the settings that go with it, and the number of workers into the cluster file,
 * and prints the choice. d: the sample; rows: of all files. ERR_CONFIG: the model does not suit the
 * task. */
enum err_code init_model_choose(json_t *cluster, const struct init_request *r,
    const struct init_sample *sample, const struct dataset *d, double rows, enum init_task task,
    struct err *e);

#endif
