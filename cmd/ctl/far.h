/* SPDX-License-Identifier: ISC */
#ifndef CTL_FAR_H
#define CTL_FAR_H

#include "runner.h"

/* Processes on other hosts.  Each is represented here by a child that runs a remote shell, which
 * runs "ps-ctl remote" there.  The remote shell's output is the log of the process.  Its standard
 * input first carries the process's join file and later join files with a new pre-shared key; when
 * it is closed, the remote process ends.  All functions run on the runner's thread. */

/* The host of "server-1" or "worker-0"; NULL: this one.  Servers take the first places, workers
 * follow. */
const char *far_host(const struct runner *r, const char *id);
/* Are the slots of all hosts taken, so that there is no place for this process? */
bool far_has_no_slot(const struct runner *r, const char *id);
/* Start `words` (NULL-ended; a name without "/" is a program of pskit) on host, in the directory
 * `dir` there or, with NULL, where the remote shell begins.  Needs a coordinator that answers. */
enum err_code far_spawn(struct runner *r, const char *host, const char *dir, const char *id,
    const char *const *words, size_t *child, struct err *e);
/* Get the join file of a process whose key is in the run directory, as one line.  It is a secret:
 * release it with far_wipe_join_line. */
enum err_code far_get_join_line(struct runner *r, const char *id, struct buf *line, struct err *e);
/* Overwrite and release such a line. */
void far_wipe_join_line(struct buf *line);
/* Translate the end of a remote shell to the end of the process on host.  *ev is changed to
 * what a local child would show, how gets it in words.  Returns the exit code of a run that
 * fails by it. */
int far_translate_end(const struct runner *r, const char *host, struct launch_event *ev, char *how,
    size_t size);
/* When the pre-shared key has changed, send new join files to the processes on other hosts, which
 * cannot read it in the run directory. */
void far_send_new_key(struct runner *r);

#endif
