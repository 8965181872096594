/* SPDX-License-Identifier: ISC */
#ifndef CTL_SUPERVISOR_H
#define CTL_SUPERVISOR_H

#include "runner.h"

/* The main loop of the process that ps-ctl start leaves behind (see runner.h for the life of a
 * run):
 *
 *   1. start the cluster and wait until it is ready;
 *   2. report on the pipe `ready`: "ready", or a JSON object with code and reason, and then end;
 *   3. wait until the job is over, rolling back where possible, and write the result and the model;
 *   4. keep the servers up until the cluster is stopped, then end all processes.
 *
 * runner_signals(r) was called before.  lock: the locked file of the run directory.  Returns the
 * exit code.  One thread. */
int supervise(struct runner *r, const struct conf *conf, const char *dir, int lock, int ready);

#endif
