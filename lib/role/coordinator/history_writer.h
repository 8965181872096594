/* SPDX-License-Identifier: ISC */
#ifndef COORDINATOR_HISTORY_WRITER_H
#define COORDINATOR_HISTORY_WRITER_H

#include <stddef.h>

#include "core/log.h"

/* Appends lines to events.jsonl and metrics.jsonl on a thread of its own, so that a full or remote
 * disk stalls nobody else. The lines of each file are written whole, in the order in which they
 * were added. A line that cannot be written is logged once, until one is written again. An event
 * stays queued and is tried again with each line that follows, and at the end; of more than
 * HISTORY_QUEUE_MAX waiting lines of a file the oldest are lost. A row of the metrics that cannot
 * be written is lost. */
struct history_writer;

enum history_file { HISTORY_EVENTS, HISTORY_METRICS };
#define HISTORY_FILES     2
#define HISTORY_QUEUE_MAX 1024

/* Starts the thread. fd: the files, by enum history_file, open for appending; -1: its lines are
 * dropped. The writer closes them. NULL, after a warning: there is no thread for it. */
struct history_writer *history_writer_start(const int fd[static HISTORY_FILES], struct log *log);
/* Takes the text, which ends with a newline and was allocated. Does not block. Any thread. Without
 * a writer (NULL) the line is dropped. */
void history_writer_add(struct history_writer *w, enum history_file file, char *text);
/* Writes what is queued, ends the thread, closes the files and frees the writer. NULL is fine. */
void history_writer_stop(struct history_writer *w);

#endif
