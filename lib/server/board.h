#ifndef SERVER_BOARD_H
#define SERVER_BOARD_H

#include <jansson.h>

#include "base/log.h"

/* The curves of a run for TensorBoard, in its run directory: what metrics.jsonl tells of each
 * step.  A coordinator that begins again writes a file of its own, which TensorBoard reads behind
 * the one before.  The caller's lock covers it.  A full disk costs the curves, not the job. */
struct board;

/* dir: the run directory; NULL: nothing is written. */
struct board *board_new(const char *dir, struct log *log);
void board_free(struct board *b);
/* A row (row.h).  The file is made with the first one. */
void board_row(struct board *b, const json_t *row);

#endif
