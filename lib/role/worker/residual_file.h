/* SPDX-License-Identifier: ISC */
#ifndef WORKER_RESIDUAL_FILE_H
#define WORKER_RESIDUAL_FILE_H

#include "worker/worker.h"

/* Saves a worker's residuals, the parts of gradients that a lossy codec has not sent yet, in
 * RUN/workers at the steps of the cluster's checkpoints. A worker without a run directory saves
 * none.
 *
 * Training thread only. A file appears whole or not at all (core/file.h). It stays as long as a checkpoint
 * in the run directory needs it; a checkpoint that was begun and failed removes nothing. */

/* Before the worker's first step. When the job resumes from a checkpoint, loads what was saved at
 * its step (in ssp and asp: at this worker's first step from there on). Removes half-written files
 * of a killed worker of this rank. */
void residual_file_load(struct worker *w);
/* After the pull of a step: saves, if the servers save a checkpoint at this step. A failure is
 * logged and loses only this file. */
void residual_file_save(struct worker *w);

#endif
