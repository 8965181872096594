/* SPDX-License-Identifier: ISC */
#ifndef TOOL_INT8_EXPORT_H
#define TOOL_INT8_EXPORT_H

#include "tool/tool.h"

/* Rows with fewer values stay as they are: a scale for each would save little. */
#define INT8_EXPORT_COLS 8u

/* Writes a whole model as safetensors to fd, in which the rows of sparse tables with INT8_EXPORT_COLS values
 * or more have 8 bits a value (format/safetensors.h): the tensors NAME.ids, NAME.scale and NAME. All other
 * tables are written as they are. Rows ascend by id. The rows of a table are in memory meanwhile, in the
 * size in which they are written. What could not be made smaller is logged. ERR_NONFINITE: a value is not
 * finite. ERR_NOMEM, and errors of the source and of files. One thread, the source's. */
enum err_code int8_export(const struct tool_model *m, int fd, struct err *e);

#endif
