/* SPDX-License-Identifier: ISC */
#ifndef RUNDIR_READONLY_H
#define RUNDIR_READONLY_H

#include "conf/conf.h"
#include "core/json.h"

/* A read-only cluster, which answers pulls from a checkpoint. It has one server, the
 * checkpoint's configuration with read_only set, addresses on this host with any free port,
 * and then the assignments in `sets`.
 *
 * readonly_prepare verifies the checkpoint and makes and locks the run directory. *dir: its
 * path, or NULL for NAME-read.run in the current directory, which is then set to a fresh
 * string. *from: the checkpoint's absolute path, a fresh string. ERR_FORMAT: the checkpoint is
 * damaged; ERR_NOTFOUND: there is none; ERR_CONFIG: an assignment is wrong. */
enum err_code readonly_prepare(const char *checkpoint, const char *const *sets, size_t nsets,
    struct conf *conf, char **dir, int *lock, char **from, struct err *e);

/* As readonly_prepare, but by a configuration alone: the parameters come later, from a living
 * cluster. */
enum err_code readonly_prepare_from_config(const json_t *config, const char *const *sets,
    size_t nsets, struct conf *conf, char **dir, int *lock, struct err *e);

#endif
