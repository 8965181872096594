#ifndef CTL_SUPERVISOR_H
#define CTL_SUPERVISOR_H

#include "runner.h"

/* The body of the process that ps-ctl start leaves behind: starts the cluster,
 * reports on the pipe `ready` ("ready", or a JSON object with code, reason and
 * culprit), saves what comes of the job, and stays until the cluster is
 * stopped.  r has its signals already.  Returns the exit code. */
int supervise(struct runner *r, const struct conf *conf, const char *dir, int lock, int ready);

#endif
