#ifndef WORK_TURN_H
#define WORK_TURN_H

#include "work/worker.h"

/* Settings that have changed (ps-consistency(7)).  In bsp each holds from its own step on;
 * else this worker goes by them before its next step, and where another mode begins takes
 * that step for its next: who is behind does not make up.
 *
 * Between two steps. */
enum err_code turn_take(struct worker *w, struct err *e);
/* The same of a step whose parameters have come: only then is it sure what holds for it.
 * *turned: something is another now. */
enum err_code turn_settle(struct worker *w, bool *turned, struct err *e);

#endif
