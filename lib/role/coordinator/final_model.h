/* SPDX-License-Identifier: ISC */
#ifndef COORDINATOR_FINAL_MODEL_H
#define COORDINATOR_FINAL_MODEL_H

#include "coordinator/coordinator.h"

/* Saves the model and the result of a job that is done, as RUN/model.safetensors and
 * RUN/result.json, for a coordinator without a supervisor (server_config.saves_model). A thread
 * waits for the end of the job, and runs ps-ctl export as a child (core/helper.h). It tries again
 * until the deadline, because the servers may still be connecting to a coordinator that was started
 * again. The result is written last: a run that has one is done, and a coordinator that is killed
 * before that does all of this again. */
struct final_model;

/* Starts nothing unless the coordinator is to save the model, and has a job and a run directory.
 * ERR_IO. */
enum err_code final_model_start(struct coordinator *coordinator, const struct conf *c,
    struct err *e);
/* Stop the child and join the thread. Call without the coordinator's lock. */
void final_model_stop(struct coordinator *coordinator);
/* Call after final_model_stop. f may be NULL. */
void final_model_free(struct final_model *f);

#endif
