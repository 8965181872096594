/* SPDX-License-Identifier: ISC */
#ifndef SUPERVISOR_RUN_LOOP_H
#define SUPERVISOR_RUN_LOOP_H

#include "supervisor/supervisor.h"

/* The two main loops of a supervisor. supervisor_init(s) was called and s's options are set; s is
 * closed on return. One thread; policy.h has the states of the run. */

/* A run in the foreground, for ps-ctl run and rank 0 of ps-ctl launch: start the cluster, show its
 * progress, wait until it is over or a signal comes, end it, and print the result (json: as an
 * object). *code: the exit code. An error when the cluster could not be started. */
enum err_code run_loop_foreground(struct supervisor *s, const struct conf *conf, const char *dir,
    bool json, int *code, struct err *e);

/* The process that ps-ctl start leaves behind:
 *
 *   1. start the cluster and wait until it is ready;
 *   2. report on the pipe `ready`: "ready", or a JSON object with code and reason, and then end;
 *   3. wait until the job is over, rolling back where possible, and write the result and the model;
 *   4. keep the servers up until the cluster is stopped, then end all processes.
 *
 * lock: the locked file of the run directory. Returns the exit code. */
int run_loop_background(struct supervisor *s, const struct conf *conf, const char *dir, int lock,
    int ready);

#endif
