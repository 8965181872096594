#ifndef WORK_EXPORT_H
#define WORK_EXPORT_H

#include "base/err.h"
#include "client/identity.h"

/* Write one table, or "all", of a living cluster to a descriptor: safetensors,
 * npy (one dense table) or text (a line a parameter, "table[row,col] value";
 * sparse rows by their ids). */
enum err_code model_export(const char *run_dir, const char *table, const char *format, int fd, struct err *e);
enum err_code model_export_from(const struct identity *id, const char *table, const char *format, int fd, struct err *e);

/* What has changed since a step (0: all), as safetensors: dense tables whole; of a sparse table T the rows that were
 * updated at that step or later as T.ids and T, and, where rows have gone since, the ids of all that there are as
 * T.live.  *step, also its metadata "step": from where to ask the next time.  ERR_CONFIG: it is not known of a
 * sparse table when its rows change. */
enum err_code model_export_since(const char *run_dir, const char *table, uint64_t since, int fd, uint64_t *step, struct err *e);

#endif
