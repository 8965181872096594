/* SPDX-License-Identifier: ISC */
#ifndef CTL_SAVED_H
#define CTL_SAVED_H

#include "core/err.h"

/* Exports of a saved model: of RUN/model.safetensors (saved.c) and of a checkpoint
 * (saved_checkpoint.c). table: a name, or "all". format: "text", "npy" or "safetensors"; it is
 * written to the descriptor fd. */

/* Export a model file that a run left. The output is the same as that of export_run
 * (tool/export.h) from live servers. ERR_NOTFOUND when there is no such file or table. */
enum err_code saved_export(const char *model, const char *table, const char *format, int fd,
    struct err *e);

/* Export the checkpoint in the directory path. Checks the sizes and shapes of its files, but not
 * every byte. ERR_NOTFOUND for an unknown table, ERR_FORMAT for a damaged checkpoint. */
enum err_code saved_export_checkpoint(const char *path, const char *table, const char *format,
    int fd, struct err *e);
/* Write all tables of a checkpoint to a safetensors file, which appears once it is complete. */
enum err_code saved_write_model(const char *checkpoint, const char *file, struct err *e);

#endif
