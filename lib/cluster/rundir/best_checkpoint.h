/* SPDX-License-Identifier: ISC */
#ifndef RUNDIR_BEST_CHECKPOINT_H
#define RUNDIR_BEST_CHECKPOINT_H

#include <stdint.h>

#include "core/json.h"

/* Finds the model that a finished job is to save, where that is not the one on its servers: with
 * early stopping (job.stop) the best evaluation may be of an earlier step, whose model is in a
 * checkpoint.
 *
 * Returns the path of that checkpoint in the run directory dir, a fresh string; NULL: the servers
 * have the model, or there is no such checkpoint. *missing_step: the step of the best evaluation if
 * there is no checkpoint of exactly that step, so that another model is saved; else -1. Any
 * thread. */
char *best_checkpoint_find(const char *dir, const json_t *result, int64_t *missing_step);

#endif
