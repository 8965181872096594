#ifndef WORK_KEPT_H
#define WORK_KEPT_H

#include "work/worker.h"

/* A worker's own checkpoints: what it has still to push, in RUN/workers, of the steps of
 * the cluster's.  A worker without the run directory has none. */

/* Before the first step of a job that goes on from a checkpoint: what was saved at its
 * step (in ssp and asp, at the first of this worker from there on). */
void kept_load(struct worker *w);
/* Once a step has its parameters: save, if the servers do at this step.  A failure is
 * logged, and costs no more than that file. */
void kept_save(struct worker *w);

#endif
