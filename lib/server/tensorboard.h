#ifndef SERVER_TENSORBOARD_H
#define SERVER_TENSORBOARD_H

#include <jansson.h>

#include "base/log.h"

/* The curves of a run for TensorBoard, in its run directory: what metrics.jsonl tells of each
 * step.  A coordinator that begins again writes a file of its own, which TensorBoard reads behind
 * the one before.  The caller's lock covers it.  A full disk costs the curves, not the job. */
struct tensorboard;

/* dir: the run directory; NULL: nothing is written. */
struct tensorboard *tensorboard_new(const char *dir, struct log *log);
void tensorboard_free(struct tensorboard *b);
/* A row (row.h).  The file is made with the first one. */
void tensorboard_row(struct tensorboard *b, const json_t *row);

#endif
