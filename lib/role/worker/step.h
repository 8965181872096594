/* SPDX-License-Identifier: ISC */
#ifndef WORKER_STEP_H
#define WORKER_STEP_H

#include "worker/worker.h"

/* The parts of one training step, in the order in which train.c calls them. Each stores in *t when
 * it ended. The picture is in worker/worker.h. All run on the training thread and may block on
 * servers. */

/* Computes what is to be pushed into w->params.g. *loss may be infinite or NaN; nothing may be
 * pushed then. */
enum err_code step_compute(struct worker *w, double *loss, struct err *e);
/* Pushes the gradient, and requests the next parameters early where the configuration says so. */
enum err_code step_push(struct worker *w, struct err *e);
/* Announces to all servers that this worker's step is over. For a kind of worker that
 * asks ahead it also requests the next parameters. */
enum err_code step_clock(struct worker *w, struct err *e);

#endif
