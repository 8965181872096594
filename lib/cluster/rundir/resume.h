/* SPDX-License-Identifier: ISC */
#ifndef RUNDIR_RESUME_H
#define RUNDIR_RESUME_H

#include "conf/conf.h"

/* --resume FROM: resume a run, or begin a new one from a checkpoint.
 *
 * wish: none (or NULL), auto, step=N, a checkpoint's directory, or its name in an object store. The
 * run directory is made or reopened, and locked. *from: the checkpoint, or "auto", from which the
 * coordinator is to start, a fresh string; NULL: it begins from the start. ERR_CONFIG: the earlier
 * run had another configuration; ERR_NOTFOUND: there is no such run or checkpoint; ERR_NOTREADY:
 * the checkpoint leaves nothing to train.
 *
 * Checkpoints on this host are chosen by the manifest and the sizes of the files; the cluster's
 * servers compare all bytes when they read them (coordinator/resumed.h). ERR_FORMAT: the named
 * checkpoint, or with auto all of them, are damaged already by that; then nothing is started. If a
 * run lies in the way of one that begins from a named checkpoint, every byte of this is compared
 * before the run is moved aside. Blocks while a checkpoint is downloaded. */
enum err_code resume_prepare(const struct conf *conf, const char *dir, const char *wish, int *lock,
    char **from, struct err *e);

/* Reopens and locks the run directory of a run that is done, and keeps its result and its model:
 * the coordinator serves it again, and no new run begins. ERR_NOTFOUND: there is no such run;
 * ERR_CONFIG: it had another configuration. */
enum err_code resume_finished(const struct conf *conf, const char *dir, int *lock, struct err *e);

#endif
