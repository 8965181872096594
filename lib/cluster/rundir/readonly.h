/* SPDX-License-Identifier: ISC */
#ifndef RUNDIR_READONLY_H
#define RUNDIR_READONLY_H

#include "conf/conf.h"
#include "core/json.h"

/* Makes and locks the run directory of a read-only cluster, which answers pulls with the parameters of a
 * source (layout/param_source.h). It has one server, the given configuration with read_only set,
 * addresses on this host with any free port, and then the assignments in `sets`. *dir: its path, or
 * NULL for NAME-read.run in the current directory, which is then set to a fresh string. ERR_CONFIG:
 * an assignment is wrong, or asks for more than one server. Assignments that change nothing are reported on
 * stderr. */
enum err_code readonly_prepare(const json_t *config, const char *const *sets, size_t nsets,
    struct conf *conf, char **dir, int *lock, struct err *e);

#endif
