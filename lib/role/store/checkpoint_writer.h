/* SPDX-License-Identifier: ISC */
#ifndef STORE_CHECKPOINT_WRITER_H
#define STORE_CHECKPOINT_WRITER_H

#include "store/store_state.h"

/* A store's part of a checkpoint, on a thread of its own. The coordinator orders it in three
 * messages (store_on_snapshot, store_on_save, store_on_snapshot_end), and the thread answers each
 * by "snap" messages with a state:
 *
 *   idle     -- "snapshot" -->      waiting: the partitions copy themselves at the snapshot's step;
 *                                   "late" if the step has passed here already
 *   waiting  -- a change, complete --> taken: answers "taken" with the clocks, or "failed"
 *   taken    -- "save" -->          the files are written: answers "saved" with their description,
 *                                   or "failed"
 *   any      -- "snapshot_end" -->  idle: the snapshot is dropped
 *
 * A newer order replaces one that the thread has not begun. When the session with the coordinator
 * breaks, an order or its answer may be lost with it. The coordinator then repeats the order in the
 * next session; the thread does not carry it out twice, but repeats the answer.
 *
 * checkpoint_writer.lock guards the order; it is not held while the thread works, and no other lock
 * is taken under it. */
struct checkpoint_writer;

/* Start the thread and set the store's `save`. */
enum err_code checkpoint_writer_start(struct server *s, struct err *e);
/* End the thread. checkpoint_writer_free frees the rest, when no thread can call
 * checkpoint_writer_wake any more. NULL is fine for both. */
void checkpoint_writer_stop(struct checkpoint_writer *s);
void checkpoint_writer_free(struct checkpoint_writer *s);
/* The shard has changed, perhaps so that the snapshot can go on. Any thread, without locks of the
 * shard. */
void checkpoint_writer_wake(struct checkpoint_writer *s);

#endif
