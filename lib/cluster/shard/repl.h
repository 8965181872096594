/* SPDX-License-Identifier: ISC */
#ifndef SHARD_REPL_H
#define SHARD_REPL_H

/* Replication, the sending side: records (struct repl_record of shard.h) for the next replica of a
 * partition's chain, their queue part.chain.sent, and what is safe. A relay queues its sums for
 * SHARD_UPSTREAM in the same way. repl_in.c is the receiving side. All functions are called with
 * the partition's lock held.
 *
 * The next replica (chain.next) of a partition goes through these states:
 *
 *    none --shard_send_next_state--> joining: REPL_STATE queued, then changes; not required
 *    joining --REPL_STATE acknowledged--> required: nothing is safe without it
 *    required --joined_version is safe--> synced: the layout may count it in
 *    none --layout: a counted member comes next--> required
 *    any --layout: another server or process--> none, or that server (repl_set_next) */
#include "shard/part.h"

/* Every head begins with: u64 version, u64 examples, u32 number of ranks that follow (REPL_PUSH:
 * the rank), u32 rows in the body, u32 number of the settings epoch of the update, u32 lower half
 * of the row policy's clock, u64 divisor of the sum in the body (struct part_sum_size; REPL_SUM) or
 * of the learning rate (REPL_PUSH), u32 1 if the body of a REPL_PUSH ends with how many examples
 * touch each row, and u32 0. */
#define REPL_HEAD 48
/* REPL_STATE, before the ranks: u32 rows of sparse.prev, u32 prev_same, u64 rule_began. */
#define REPL_STATE_HEAD 16
/* REPL_STATE, for each rank: u64 last, the end and steps of struct announced, and refused. */
#define REPL_STATE_RANK 32
/* Set in a rank's number in the list of a sum: its push was refused. */
#define REPL_REFUSED (UINT32_C(1) << 31)

/* Queues the record of a step that was just closed; the sum is still in the accumulator, and is
 * moved to the record. Nothing is queued when nobody pushed, because the next replica learns that
 * from CLOCKs; explicit_step: queue a record even then. */
void repl_queue_sum(struct shard *s, struct part *p, uint64_t step,
    const struct part_sum_size *size, bool explicit_step);
/* Queues a record that says only that the step is closed. */
void repl_queue_step(struct shard *s, struct part *p, uint64_t step);
/* Queues the record of a push that was applied, or refused, which leaves the version as it was. */
void repl_queue_push(struct shard *s, struct part *p, const struct push *push,
    uint64_t rate_divisor, bool refused);
/* The parts of repl_queue_sum, for other records with a sum: makes a record of the partition's
 * present version (the caller fills in head and body); lists the ranks whose last push is of this
 * step, in ascending order, with REPL_REFUSED for refused ones, and returns their number (out NULL:
 * only that); makes the accumulated sum the record's body; queues the record. */
struct repl_record *repl_new_record(struct part *p, enum repl_kind kind, uint64_t step,
    size_t nhead, size_t nbody);
/* out has room for one u32 for each rank that the partition knows; call it with NULL first to
 * learn how many are written. */
uint32_t repl_list_pushers(const struct part *p, uint64_t step, uint8_t *out);
/* After this a dense partition has its spare accumulator in place of the one that was moved, and
 * no spare one until a record is acknowledged. A sparse sum is copied, and part_clear_sum empties
 * it. */
void repl_move_sum(struct repl_record *c, struct part *p);
/* Takes the record over, gives it the next seq, and calls cfg.forward, which must not call this
 * shard. */
void repl_enqueue(struct shard *s, struct part *p, struct repl_record *c);
/* Drops a record of the list, which was acknowledged, and keeps its accumulator as the spare one. */
void repl_drop(struct part *p, struct repl_record *c);
/* Queues, at a replica that has taken a record, the same record for the replica after it. */
void repl_pass_on(struct shard *s, struct part *p, const struct repl_record *c, const uint8_t *head,
    size_t nhead, const uint8_t *body, size_t nbody);
/* Is there room for one more record, and a second accumulator for the sum in it? */
bool repl_may_send(const struct part *p);
/* Is a push of this rank of a step before `end` in a record that the next replica must still
 * acknowledge? Of sums, any such step counts, because they have pushes of all ranks. */
bool repl_has_unsafe_push(const struct part *p, uint32_t rank, uint64_t end);
/* Drops all records. Nothing is acknowledged by it; call part_update_safe afterwards. */
void repl_drop_all(struct part *p);
/* The next replica is now this process of the server `next`. Records that count are sent to it
 * again; a state transfer that was under way is dropped. */
void repl_set_next(struct shard *s, struct part *p, uint16_t next, uint64_t process);

#endif
