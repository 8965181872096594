/* SPDX-License-Identifier: ISC */
#ifndef TOOL_EXPORT_H
#define TOOL_EXPORT_H

#include "core/err.h"
#include "session/identity.h"

/* Exports a model from a running cluster; no file on disk is read. Each call connects, writes and
 * disconnects. Values are as of the time of the pull: exports during training mix steps.
 *
 * Writes one table, or "all", to a descriptor as safetensors, npy (one dense table) or text (a line
 * a parameter, as tool/row_text.h says; sparse rows by their ids). ERR_USAGE, ERR_NOTFOUND,
 * ERR_STALE (a table has changed its shape meanwhile), ERR_NOMEM. */
enum err_code export_run(const char *run_dir, const char *table, const char *format, int fd,
    struct err *e);

/* Exports what has changed since a step (0: everything) as safetensors: dense tables whole; of a
 * sparse table T the rows that were updated at that step or later, as T.ids and T, and, if rows
 * were removed since, the ids of all remaining rows as T.live. *step, also in the metadata as
 * "step", is the step to pass next time. ERR_CONFIG: the cluster does not record when rows of a
 * sparse table change. */
enum err_code export_changes(const char *run_dir, const char *table, uint64_t since, int fd,
    uint64_t *step, struct err *e);

#endif
