/* SPDX-License-Identifier: ISC */
#ifndef CTL_TRIAL_H
#define CTL_TRIAL_H

#include "conf/conf.h"
#include "core/err.h"

/* Choose the numbers of workers and servers that the cluster file leaves to pskit ("auto"), and report the
 * choice in a line on stderr. c gets the numbers, so that nothing after this call knows of "auto". Does
 * nothing if both numbers were given.
 *
 *   - A run that is resumed (resume, as in resume_prepare) keeps the numbers in the cluster.json of its run
 *     directory `dir`.
 *   - With one processor, or a job that is short, or one whose data cannot be read twice, the rule of
 *     thumb holds.
 *   - Otherwise trials with real processes in $TMPDIR measure the candidates of conf/sizing.h. They
 *     evaluate nothing and write no checkpoint. They end after 5 s, or after 3 % of the time that the
 *     job is expected to take, but the first one is always finished.
 *
 * ERR_CONFIG: the cluster has several hosts, or the numbers do not suit the other keys. A signal (SIGINT,
 * SIGTERM, SIGHUP) ends the trials, and then this process. Call it before the first thread. */
enum err_code trial_choose_sizes(struct conf *c, const char *dir, const char *resume,
    struct err *e);

/* ERR_CONFIG if one of the two numbers is "auto"; reason completes "workers: auto ...". For commands whose
 * processes read the cluster file on several hosts, where the rule of thumb gives different numbers. */
enum err_code trial_require_numbers(const struct conf *c, const char *reason, struct err *e);

#endif
