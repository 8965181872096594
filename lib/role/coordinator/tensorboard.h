/* SPDX-License-Identifier: ISC */
#ifndef COORDINATOR_TENSORBOARD_H
#define COORDINATOR_TENSORBOARD_H

#include "core/json.h"
#include "core/log.h"

/* Writes the curves of a run for TensorBoard into its run directory, from the rows of
 * metrics.jsonl. A restarted coordinator writes a new file, which TensorBoard appends to the
 * previous one. No lock of its own: the host's lock covers it. A full disk costs the curves, not
 * the job. */
struct tensorboard;

/* dir: the run directory; NULL: nothing is written. */
struct tensorboard *tensorboard_new(const char *dir, struct log *log);
void tensorboard_free(struct tensorboard *b);
/* Add a row (summary_row.h). The file is made with the first one. */
void tensorboard_row(struct tensorboard *b, const json_t *row);

#endif
