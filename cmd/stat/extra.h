/* SPDX-License-Identifier: ISC */
#ifndef CMD_STAT_EXTRA_H
#define CMD_STAT_EXTRA_H

#include "cmd/stat/view.h"

/* Columns that the user adds: a shell command, run for each row, prints NAME=VALUE lines, as the
 * scripts of zpool iostat -c do. One thread. */
struct extra;

struct extra *extra_new(const char *command); /* command is borrowed */
void extra_free(struct extra *x);
/* Run the command for each row, several at a time, with PS_ID, PS_PID, PS_HOST and PS_STATE in the
 * environment, and add what it prints to the row as members. A command that takes longer than
 * `longest` (ns, at least a second) is killed with its process group. The first failure is
 * reported on standard error. */
void extra_run(struct extra *x, json_t *rows, int64_t longest);
/* The columns that the command has printed for the first rows that had any. */
const struct column *extra_columns(const struct extra *x, size_t *n);

#endif
