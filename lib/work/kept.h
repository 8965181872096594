#ifndef WORK_KEPT_H
#define WORK_KEPT_H

#include "work/worker.h"

/* A worker's own checkpoints: what it has still to push, in RUN/workers, of the steps of
 * the cluster's.  A worker without the run directory has none. */

/* Before the worker's first step.  In a job that goes on from a checkpoint: what was saved at
 * its step (in ssp and asp, at the first of this worker from there on).  What a worker that
 * was killed has left half-written in the slot's name is removed. */
void kept_load(struct worker *w);
/* Once a step has its parameters: save, if the servers do at this step.  A failure is
 * logged, and costs no more than that file. */
void kept_save(struct worker *w);

#endif
