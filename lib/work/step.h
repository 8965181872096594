#ifndef WORK_STEP_H
#define WORK_STEP_H

#include "work/worker.h"

/* The parts of a worker's step; t is filled in on the way. */

/* Batch and parameters of this step.  *over: there is no more data. */
enum err_code step_fetch(struct worker *w, struct step_times *t, bool *over, struct err *e);
/* What is to be pushed, from them; *loss may be infinite or NaN, and then nothing is. */
enum err_code step_compute(struct worker *w, struct step_times *t, double *loss, struct err *e);
/* Push it, and ask ahead for what the configuration says. */
enum err_code step_push(struct worker *w, struct err *e);
/* Tell all that it is over; where a caller waits for the next at once, with what that asks for. */
enum err_code step_clock(struct worker *w, struct err *e);

#endif
