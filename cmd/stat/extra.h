#ifndef CMD_STAT_EXTRA_H
#define CMD_STAT_EXTRA_H

#include "cmd/stat/view.h"

/* Columns of the user's own: a shell command, run for each row, prints NAME=VALUE lines, as
 * scripts of zpool iostat -c do. */
struct extra;

struct extra *extra_new(const char *command);   /* borrowed */
void extra_free(struct extra *x);
/* For each row, with PS_ID, PS_PID, PS_HOST and PS_STATE in the environment, some at a time;
 * what is printed becomes members of the row.  A command that takes longer than that (ns; at
 * least a second) is killed, with all that it has started in its process group.  That one fails
 * is said on stderr, once. */
void extra_run(struct extra *x, json_t *rows, int64_t longest);
/* The names of the first rows that had any. */
const struct column *extra_columns(const struct extra *x, size_t *n);

#endif
