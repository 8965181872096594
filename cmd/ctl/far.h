#ifndef CTL_FAR_H
#define CTL_FAR_H

#include "runner.h"

/* Processes on other hosts: of each, the child here is a remote shell.  What it says goes to the
 * log of that name, the join file goes over its standard input, and the end of that is the end of
 * the process there. */

/* The host that "server-1" or "worker-0" is to run on; NULL: this one. */
const char *far_host(const struct runner *r, const char *id);
/* Start `words` (NULL-ended; a name without "/" is a program of pskit) on host, in the directory
 * `dir` there, or where the remote shell begins (NULL).  The coordinator must answer by now. */
enum err_code far_spawn(struct runner *r, const char *host, const char *dir, const char *id, const char *const *words,
                        size_t *child, struct err *e);
/* The join file of a process whose key is in the run directory, as one line: a secret. */
enum err_code far_join_line(struct runner *r, const char *id, struct buf *line, struct err *e);
void far_wipe(struct buf *line);
/* How a process on host ended, by how its remote shell did: into *ev as if it had been a child of
 * ours, in words into how, and the exit code of a run that fails by it. */
int far_judge(const struct runner *r, const char *host, struct launch_event *ev, char *how, size_t size);
/* Has the cluster been given a new secret?  Those elsewhere cannot read it in the run directory. */
void far_refresh(struct runner *r);

#endif
