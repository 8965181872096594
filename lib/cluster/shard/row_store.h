/* SPDX-License-Identifier: ISC */
#ifndef SHARD_ROW_STORE_H
#define SHARD_ROW_STORE_H

/* A row store keeps the rows of one sparse partition by 64-bit ids. It is an interface: the table
 * says which implementation it has (table.row_store, layout/row_store.def). Sums, former values and
 * other rows that last for a step are not in it, but in struct rows (rows.h).
 *
 * The two forms of a row: callers read and change a row in its working form, which struct
 * row_layout describes, whatever the store is. The store keeps it in a form of its own, which has
 * the type of elements and the number of bytes that the store has chosen for the table. A store
 * whose form is the working form hands out the rows themselves; another one hands out copies, and
 * put_many converts them back. Bytes after the floats of a row (its words) are kept as they are in
 * every form.
 *
 * States:
 *
 *    closed --open--> open, without rows --open--> open, without rows, maybe of another layout
 *    open --close--> closed
 *
 * A closed store has no rows and takes almost no memory. The partition makes its store when it is
 * made itself, opens it when it gets values, and frees it last, so the pointer is valid as long as
 * the shard.
 *
 * The way of a push or a pull:
 *
 *    make_present   without the partition's lock. SHARD_WAIT: some rows are not in memory yet
 *    mutex_lock
 *    has_present    no: another thread has let go some of them. Unlock, and begin again
 *    get_many or make_many, changes of the rows, put_many; block by block
 *    settle         not while the open step has a sum: closing the step needs the rows of all pushes in
 *                   the sum, and must find them in memory
 *    mutex_unlock
 *
 * The first three calls are part_lock_rows, the last two part_unlock_rows (part.h). A store that
 * keeps all rows in memory has none of make_present, has_present and settle; another one has all
 * three.
 *
 * Locks: all functions except make_present and the snapshot's are called with the partition's lock
 * held, and of a closed store only those whose comments allow it. None of them may wait for a disk,
 * except drain and those that go over all rows: next, remove, convert and snapshot_next. The first three are
 * called with the lock held, for state transfers, scans of all rows, expiry and eviction, and
 * changes of the update rule: a store with rows on a disk should have their ids and words in
 * memory. A store that has threads of its own guards itself by a lock that comes after the
 * partition's in core/lock.def.
 *
 * A disk that fails is waited for: to guess at rows would be worse. When the process ends nobody can
 * wait any longer. Such a store then gives up, which has_failed tells: what it has said since may be
 * wrong, and must not leave the process in an answer, a state transfer or a checkpoint.
 *
 * Memory: rows that a function hands out belong to the store. They are aligned for floats, and
 * valid until the next call of get_many, make_many, remove, convert, open or close, or until the
 * lock is given up. Pointers from next and snapshot_next are valid until the next call of the same
 * function. Ids and arrays belong to the caller. Blocks have at most ROWS_BLOCK rows. */

#include "layout/layout.h"
#include "shard/row_layout.h"
#include "shard/rows.h"
#include "shard/shard.h"

struct row_store_ops;
struct spill;

/* The first member of each implementation's struct. */
struct row_store {
	const struct row_store_ops *ops;
	uint32_t element_bytes;   /* of a parameter in the store's own form */
	struct row_layout layout; /* of the working form, while the store is open */
};

/* Rows as they were at one moment. */
struct row_snapshot {
	const struct row_store_ops *ops;
	size_t n;
};

/* Fills the new row from the one of another layout, which it only reads. */
typedef void row_convert_fn(void *ctx, void *from, void *to);

struct row_store_ops {
	/* Bytes that a row of this layout takes by its size alone, with its id and its place in an
	 * index, at most. Servers compare these with limits of the table, so they are equal in all
	 * replicas. */
	uint64_t (*row_bytes)(const struct row_store *s, const struct row_layout *l);

	/* Makes a closed store for rows of a table, which it does not keep; ends the process without
	 * memory. spill: the server's rows on the disk; NULL: it has none, and only stores in memory
	 * can be made. */
	struct row_store *(*make)(const struct table *t, struct spill *spill);
	/* Frees the store with its rows. */
	void (*free)(struct row_store *s);
	/* Opens the store, closed or open, for rows of this layout. It has no rows then. */
	void (*open)(struct row_store *s, const struct row_layout *l);
	/* Removes all rows. For a closed store, too. */
	void (*close)(struct row_store *s);

	/* Sees to it that the rows of these ids, as many as a record may have, are in memory or do
	 * not exist. Called by an I/O thread, without the partition's lock and while other threads
	 * may use, open or close the store; it must not block.
	 *
	 *   SHARD_OK    they are. *since is for has_present
	 *   SHARD_WAIT  the store has begun to read them, and calls `wake` without locks when they are
	 *               there. The caller holds its record (CONN_HOLD, or a queued pull) and calls again.
	 *
	 * wake and since NULL: begin to read them, for a request that waits for its turn. A call that
	 * asks for them follows.
	 *
	 * NULL: all rows are always in memory. */
	enum shard_answer (*make_present)(struct row_store *s, const uint8_t *ids, uint32_t n,
	    void (*wake)(void *ctx), void *ctx, uint64_t *since);
	/* Are those rows still in memory, or do not exist? They are then until settle. since: of the
	 * make_present that said so, which spares the look-ups where no row has left the memory since; 0:
	 * nobody has asked. */
	bool (*has_present)(struct row_store *s, const uint8_t *ids, uint32_t n, uint64_t since);
	/* The update or pull under way has ended: rows may leave the memory. They may in no other
	 * call. */
	void (*settle)(struct row_store *s);
	/* Does what settle does, and waits for the disk until the store keeps to its memory: for a
	 * caller that makes many rows, one block after another, and may wait. NULL: there is nothing
	 * to do. */
	void (*drain)(struct row_store *s);

	/* Which of n ids have a row? Bit i is for id i. Reads no values. */
	uint64_t (*find_many)(const struct row_store *s, const uint8_t *ids, uint32_t n);
	/* Gets the rows of n ids (u64 little-endian, any alignment), which are present; NULL where
	 * there is none. An id that is given twice gets the same row at both places. */
	void (*get_many)(struct row_store *s, const uint8_t *ids, uint32_t n, void **row);
	/* Does what get_many does, but makes missing rows, all of whose bytes are zero. Bit i of
	 * *made is set where row i is new and the first of its id in this call. False without
	 * memory, after the rows in *made were made. */
	bool (*make_many)(struct row_store *s, const uint8_t *ids, uint32_t n, void **row,
	    uint64_t *made);
	/* Takes over what the caller has written into rows, which get_many, make_many or next
	 * handed out for these ids and which are still valid. A store whose elements are narrower
	 * than a float rounds the values, so a row may have other ones after this; values that it
	 * has handed out stay as they are. It rounds at random, by the table's seed, the row's id
	 * and `version`, the partition's before the update: so all replicas get the same values.
	 * NULL: there is nothing to do, because the rows are the store's own. */
	void (*put_many)(struct row_store *s, uint64_t version, const uint8_t *ids, uint32_t n,
	    void *const *row);

	/* Goes over all rows, in an order of the store's own, which stays the same as long as no
	 * row is made or removed. Gets up to `most` rows and their ids from *at on, which is 0 at
	 * first, and moves *at. Returns their number; 0 at the end. get_many and make_many do not
	 * make these rows void. */
	uint32_t (
	    *next)(struct row_store *s, uint64_t *at, uint32_t most, uint64_t *ids, void **row);
	/* Removes the rows for which keeps() returns false, and frees memory that they leave.
	 * keeps() is called once for each row, in the order of `next`, and must not use the store.
	 * Returns how many were removed. */
	size_t (*remove)(struct row_store *s, rows_keeps_fn *keeps, void *ctx);
	/* Gives all rows another layout. fn fills each, of which all bytes are zero. False: no
	 * memory; the store is as it was. */
	bool (*convert)(struct row_store *s, const struct row_layout *l, row_convert_fn *fn,
	    void *ctx);

	/* Takes a snapshot of the rows that wants() chooses; NULL: of all. wants() must not use the
	 * store. The snapshot stays as it is while the store changes, closes or is freed. NULL: no
	 * memory, or the disk fails: it does not wait for one. */
	struct row_snapshot *(*snapshot)(struct row_store *s, rows_keeps_fn *wants, void *ctx);
	/* Gets the next rows of a snapshot, up to `most`, in ascending order of ids; 0 at the end, and
	 * earlier if the disk fails for longer than READ_RETRY_TIME. Needs no lock; one thread. */
	uint32_t (*snapshot_next)(struct row_snapshot *x, uint32_t most, uint64_t *ids, void **row);
	/* Frees the snapshot. Needs no lock. */
	void (*snapshot_free)(struct row_snapshot *x);
	/* Goes back to the first row. NULL: a snapshot can be read once, and has its rows in memory; with it,
	 * they are read from the disk. */
	void (*snapshot_rewind)(struct row_snapshot *x);

	/* Has the store given up? Needs no lock. NULL: it never does. */
	bool (*has_failed)(const struct row_store *s);

	/* The number of rows, and the bytes of memory that they take; 0 in a closed store. */
	size_t (*count)(const struct row_store *s);
	size_t (*bytes)(const struct row_store *s);
};

/* The functions of a table's row store, at a server with this spill (NULL: none). */
const struct row_store_ops *row_store_of(const struct table *t, const struct spill *spill);

/* `drain` for any store. */
static inline void row_store_drain(struct row_store *s)
{
	if (s->ops->drain)
		s->ops->drain(s);
}

/* `has_failed` for any store. */
static inline bool row_store_has_failed(const struct row_store *s)
{
	return s->ops->has_failed && s->ops->has_failed(s);
}

/* put_many for any store. */
static inline void row_store_put(struct row_store *s, uint64_t version, const uint8_t *ids,
    uint32_t n, void *const *row)
{
	if (s->ops->put_many)
		s->ops->put_many(s, version, ids, n, row);
}

#endif
