/* SPDX-License-Identifier: ISC */
#ifndef SUPERVISOR_REMOTE_H
#define SUPERVISOR_REMOTE_H

#include "supervisor/supervisor.h"

/* Processes on other hosts. Each is represented here by a child that runs a remote shell, which
 * runs "ps-ctl remote" there. The remote shell's output is the log of the process. Its standard
 * input first carries the process's join file and later join files with a new pre-shared key; when
 * it is closed, the remote process ends. All functions run on the supervisor's thread. */

/* The host of "server-1" or "worker-0"; NULL: this one. Servers take the first places, workers
 * follow. */
const char *remote_host(const struct supervisor *s, const char *id);
/* Do the hosts have a slot for this process? True where no hosts are given. */
bool remote_has_slot(const struct supervisor *s, const char *id);
/* Start `words` (NULL-ended; a name without "/" is a program of pskit) on host, in the directory
 * `dir` there or, with NULL, where the remote shell begins. Needs a coordinator that answers. */
enum err_code remote_start(struct supervisor *s, const char *host, const char *dir, const char *id,
    const char *const *words, size_t *child, struct err *e);
/* Get the join file of a process whose key is in the run directory, as one line. It is a secret:
 * release it with remote_wipe_join_line. */
enum err_code remote_get_join_line(struct http_client *client, const char *id, struct buf *line,
    struct err *e);
/* Overwrite and release such a line. */
void remote_wipe_join_line(struct buf *line);
/* Translate the end of a remote shell to the end of the process on host. forming: the cluster has
 * not formed yet, so that the host was never reached. *ev is changed to what a local child would
 * show; how gets it in words, *code the exit code of a run that fails by it. */
enum policy_end remote_translate_end(const char *host, bool forming, struct launch_event *ev,
    char *how, size_t size, int *code);
/* When the pre-shared key has changed, send new join files to the processes on other hosts, which
 * cannot read it in the run directory. */
void remote_send_new_key(struct supervisor *s);

#endif
