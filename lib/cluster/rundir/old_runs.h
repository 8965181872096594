/* SPDX-License-Identifier: ISC */
#ifndef RUNDIR_OLD_RUNS_H
#define RUNDIR_OLD_RUNS_H

#include <stddef.h>
#include <stdint.h>

#include "core/buf.h"
#include "core/err.h"

/* The earlier runs of a cluster: the run directory PATH becomes PATH.N, with the next number, when
 * another run begins (rundir_create), and stays until somebody removes it. */

/* Lists the numbers of all directories PATH.N in ascending order; free *out. Returns how many there
 * are. */
size_t old_runs_list(const char *path, int64_t **out);

/* Removes earlier runs that are finished, except for the newest `keep` of them. A run is finished
 * when its cluster has ended with a result, and it is done or has no checkpoint to go on from. A
 * run that has one of the files `used` in it stays, too. Appends the names of those removed,
 * separated by blanks. Returns how many were removed; e is set if one could not be, and clear
 * otherwise. */
size_t old_runs_prune(const char *path, size_t keep, const char *const *used, size_t nused,
    struct buf *names, struct err *e);

#endif
