#ifndef CTL_FOREGROUND_H
#define CTL_FOREGROUND_H

#include "runner.h"

/* A whole run: start the cluster, show its progress, wait until it is over or a signal comes, end
 * it and print the result (json: as an object).  r has its signals and its options; it is closed
 * when this returns.  The exit code of ps-ctl run. */
int foreground(struct runner *r, const struct conf *conf, const char *dir, bool json);

#endif
