/* SPDX-License-Identifier: ISC */
#ifndef RUNDIR_REMOTE_CHECKPOINT_H
#define RUNDIR_REMOTE_CHECKPOINT_H

#include <stdbool.h>

#include "conf/conf.h"

/* Checkpoints in object stores, when a run begins or is resumed. The access to the store is a
 * ps-ctl child process (core/helper.h), whose error message becomes the error. Each call
 * blocks until the child has ended. */

/* Check that there are no checkpoints at the run's checkpoint_to, or that it is not set:
 * checkpoints of another run must not be mixed with this one's. ERR_CONFIG: there are some; the
 * message names the possible remedies. */
enum err_code remote_checkpoint_check_unused(const struct conf *conf, struct err *e);
/* Download one checkpoint, or the newest at a place, into directory dir. *path is a fresh
 * string. newer: only if dir does not have that one or a later one; else *path is NULL.
 * deadline: ns. ERR_NOTFOUND. */
enum err_code remote_checkpoint_download(const char *from, const char *dir, bool newer,
    int64_t deadline, char **path, struct err *e);
/* Was the checkpoint at `path` made with these settings, except for those that may change
 * while a job runs? Else ERR_CONFIG, which names the keys and `from`. */
enum err_code remote_checkpoint_check_config(const struct conf *conf, const char *path,
    const char *from, struct err *e);

#endif
