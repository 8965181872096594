/* SPDX-License-Identifier: ISC */
#ifndef RUNDIR_READONLY_H
#define RUNDIR_READONLY_H

#include "conf/conf.h"
#include "core/json.h"

/* A read-only cluster, which answers pulls from a saved model (saved/saved_model.h). It has one
 * server, the model's configuration with read_only set, addresses on this host with any free port,
 * and then the assignments in `sets`.
 *
 * readonly_prepare makes and locks the run directory. *dir: its path, or NULL for NAME-read.run in
 * the current directory, which is then set to a fresh string. *from: the absolute path of a
 * checkpoint with the model's values, a fresh string; where the model is a file it is made in the
 * run directory. ERR_CONFIG: an assignment is wrong; errors of saved_model_open. */
enum err_code readonly_prepare(const char *model, const char *const *sets, size_t nsets,
    struct conf *conf, char **dir, int *lock, char **from, struct err *e);

/* As readonly_prepare, but by a configuration alone: the parameters come later, from a living
 * cluster. */
enum err_code readonly_prepare_from_config(const json_t *config, const char *const *sets,
    size_t nsets, struct conf *conf, char **dir, int *lock, struct err *e);

#endif
