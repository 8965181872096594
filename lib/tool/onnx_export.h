/* SPDX-License-Identifier: ISC */
#ifndef TOOL_ONNX_EXPORT_H
#define TOOL_ONNX_EXPORT_H

#include "tool/tool.h"

/* Writes a model as an ONNX file that scores examples as ps-work predict does. The inputs follow from
 * the description of the training data (onnx_inputs.h), the operators from the model (model/graph.h),
 * and the values of tables are streamed from the source of parameters (onnx_tables.h). The outputs are
 * those of PREDICTION_JSON (prediction.h): "prediction", and with classes "probability" or "score".
 *
 * data_path: the file for the values of a model that has more than `most` bytes, which appears before
 * this returns; NULL: there may be none. ERR_UNSUPPORTED: the model, or its data, cannot be written as
 * ONNX. ERR_LIMIT: the model is too large without data_path, or a row id is too large. Errors of the
 * source and of files. One thread, the source's. */
enum err_code onnx_export(const struct tool_model *m, int fd, const char *data_path, uint64_t most,
    struct err *e);

#endif
