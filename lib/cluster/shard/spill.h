/* SPDX-License-Identifier: ISC */
#ifndef SHARD_SPILL_H
#define SHARD_SPILL_H

/* The rows of a server's tables that are on its disk. They are scratch space of one process life:
 * durability stays with replicas and checkpoints, so a process that starts deletes what an earlier one
 * has left, and nothing is ever synced.
 *
 *   spill_dir/          the user's directory, where nothing else is touched
 *     NAME/             of one server, mode 0700
 *       lock            locked as long as the server lives
 *       rows/           RocksDB's files, in 16-byte keys: space, row id
 *
 * A space is a number for the rows of one life of a row store; its rows ascend by their ids. All
 * values of a space have the same number of bytes. RocksDB writes without its log, and keeps its
 * indexes and filters in a cache of bounded size.
 *
 * Threads: every function may be called by any thread. The functions that wait for the disk are
 * called by the spill's own threads, in a task, or by a thread that may wait. The lock of the queue
 * (SPILL in core/lock.def) is held for no longer than it takes to move a task. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "core/log.h"

struct spill;

/* Is RocksDB there? Every server tells the coordinator when it joins (`spills`), because loading the library
 * takes tens of milliseconds and 9 MB, and only the coordinator knows whether the cluster needs it. */
bool spill_is_possible(void);

/* Makes DIR/NAME and locks it, removes the rows of an earlier process, and starts the threads. log is
 * borrowed. ERR_EXISTS: another process has the place; ERR_IO. */
enum err_code spill_open(const char *dir, const char *name, struct log *log, struct spill **out,
    struct err *e);
/* The process ends: those who wait for a disk that fails give up. NULL is fine. */
void spill_give_up(struct spill *s);
/* Ends the threads, after the tasks that are queued, and removes the rows. No store uses it any more.
 * NULL is fine. */
void spill_close(struct spill *s);

/* The memory of a table's rows at this server, which its stores share. All of them belong to one spill. */
struct spill_budget {
	struct spill_budget *next;
	uint64_t limit;          /* bytes for rows in memory */
	_Atomic uint64_t used;   /* bytes that they take */
	_Atomic uint32_t stores; /* that are open */
	/* rows that pushes and pulls have asked for, and those that were not in memory */
	_Atomic uint64_t asked, missed;
	char table[];
};
/* The budget of a table, which is made at the first call. It lives as long as the spill. A quarter of
 * `memory` goes to RocksDB's caches, which know the rows on the disk, and the rest is the limit. disk: bytes
 * that the table's rows may take there; 0: no limit. */
struct spill_budget *spill_budget(struct spill *s, const char *table, uint64_t memory,
    uint64_t disk);

/* A number that no space had before. */
uint64_t spill_new_space(struct spill *s);
/* Removes all rows of a space, later. */
void spill_drop_space(struct spill *s, uint64_t space);

/* Work for the spill's threads. The struct belongs to the caller, and is the run function's from its
 * call on. */
struct spill_task {
	void (*run)(struct spill_task *t);
	struct spill_task *next;
	int64_t due; /* set by the functions below */
};
void spill_run(struct spill *s, struct spill_task *t);
/* Runs the task after a pause, because the disk has failed. At the end of the process at once. */
void spill_run_again(struct spill *s, struct spill_task *t);
/* Does the process end, so that nobody waits for a disk that fails? */
bool spill_gives_up(struct spill *s);

/* ---- functions that wait for the disk ---- */

/* Reads n rows of `bytes` bytes each into row[i]. found[i]: it exists. ERR_IO: nothing is known. */
enum err_code spill_read(struct spill *s, uint64_t space, size_t n, const uint64_t *ids,
    size_t bytes, void *const *row, bool *found, struct err *e);

/* Changes that are written together. */
struct spill_batch;
struct spill_batch *spill_batch_new(void);
void spill_batch_put(struct spill_batch *b, uint64_t space, uint64_t id, const void *row,
    size_t bytes);
void spill_batch_remove(struct spill_batch *b, uint64_t space, uint64_t id);
size_t spill_batch_bytes(const struct spill_batch *b);
void spill_batch_free(struct spill_batch *b);
/* Writes the batch, which stays the caller's. ERR_IO, with the cause no-space where the disk, or what the
 * budgets permit on it, is full: nothing was written, and it may be tried again. */
enum err_code spill_write(struct spill *s, const struct spill_batch *b, struct err *e);

/* A walk over the rows of a space as they are now, in ascending order of ids. Later changes are not
 * seen. One thread at a time. */
struct spill_walk;
struct spill_walk *spill_walk_new(struct spill *s, uint64_t space);
void spill_walk_free(struct spill_walk *w);
/* Goes to the first row whose id is `id` or greater. */
void spill_walk_seek(struct spill_walk *w, uint64_t id);
/* Goes back to the first row, and frees the buffers until the walk goes on. */
void spill_walk_rewind(struct spill_walk *w);
/* The present row, whose bytes stay until the next call; false: there is none, at the end or because
 * the disk has failed (spill_walk_error). */
bool spill_walk_at(struct spill_walk *w, uint64_t *id, const void **row, size_t *bytes);
void spill_walk_next(struct spill_walk *w);
enum err_code spill_walk_error(const struct spill_walk *w, struct err *e);

/* ---- figures ---- */

struct spill_stats {
	uint64_t reads, writes; /* rows looked up on the disk, and written to it, since the start */
	uint64_t disk_bytes;    /* of the files */
	uint64_t asked, missed, memory; /* of all budgets */
	bool failing;                   /* the last write or read has failed */
	struct err why;
};
void spill_stats(struct spill *s, struct spill_stats *out);

#endif
