/* SPDX-License-Identifier: ISC */
#ifndef CMD_WORK_MODEL_H
#define CMD_WORK_MODEL_H

#include "cmd/work/common.h"

/* The model of the commands eval, predict and words: that of a living cluster, or a saved one. */

/* Finds the model, opens it as a source of parameters, and calls fn with it and the parsed options.
 * The first operand, -C, --join, PS_CLUSTER or the only run here names the model. Returns the exit
 * code; a reader that closes standard output early is not a failure. */
typedef enum err_code (*model_fn)(const struct tool_model *m, const void *options, int nargs,
    char **argv, struct err *e);
int model_run(const struct opt_spec *spec, const struct where *w, const void *options, int nargs,
    char **argv, model_fn fn);

#endif
