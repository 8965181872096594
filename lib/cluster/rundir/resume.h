/* SPDX-License-Identifier: ISC */
#ifndef RUNDIR_RESUME_H
#define RUNDIR_RESUME_H

#include "conf/conf.h"

/* --resume FROM: resume a run, or begin a new one from a checkpoint.
 *
 * wish: none (or NULL), auto, step=N, a checkpoint's directory, or its name in an object
 * store. The run directory is made or reopened, and locked. *from: the checkpoint, or "auto",
 * from which the coordinator is to start, a fresh string; NULL: it starts anew. ERR_CONFIG:
 * the earlier run had another configuration; ERR_NOTFOUND: there is no such run or checkpoint;
 * ERR_NOTREADY: the checkpoint leaves nothing to train.
 *
 * auto uses the newest checkpoint that is not damaged. Damaged ones that are newer are
 * reported on stderr and in *passed, a fresh text or NULL (passed may be NULL). ERR_FORMAT:
 * there are checkpoints and all are damaged; then nothing is started. Blocks while a
 * checkpoint is downloaded. */
enum err_code resume_prepare(const struct conf *conf, const char *dir, const char *wish, int *lock,
    char **from, char **passed, struct err *e);

#endif
