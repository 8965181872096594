/* SPDX-License-Identifier: ISC */
#ifndef CTL_FOREGROUND_H
#define CTL_FOREGROUND_H

#include "runner.h"

/* A run in the foreground, for ps-ctl run and rank 0 of ps-ctl launch: start the cluster, show its
 * progress, wait until it is over or a signal comes, end it, and print the result (json: as an
 * object). runner_signals(r) was called and r's options are set; r is closed on return.  Returns
 * the exit code of ps-ctl run.  One thread; runner.h has the states. */
int foreground(struct runner *r, const struct conf *conf, const char *dir, bool json);

#endif
