#ifndef WORK_EXPORT_H
#define WORK_EXPORT_H

#include "base/err.h"
#include "client/identity.h"

/* Write one table, or "all", of a living cluster to a descriptor: safetensors,
 * npy (one dense table) or text (a line a parameter, "table[row,col] value";
 * sparse rows by their ids). */
enum err_code model_export(const char *run_dir, const char *table, const char *format, int fd, struct err *e);
enum err_code model_export_from(const struct identity *id, const char *table, const char *format, int fd, struct err *e);

#endif
