/* SPDX-License-Identifier: ISC */
#ifndef SHARD_RELAY_PART_H
#define SHARD_RELAY_PART_H

#include "shard/gate.h"

/* A relay's partitions. They sum the pushes of the relay's slots, step by step, and send the sums
 * on as records for SHARD_UPSTREAM; the values that pulls show come from the servers.
 *
 *    open, empty --push--> open, with a sum --complete, or a push of a later step--> closed:
 *    the sum is queued as a record, or marked split; the next step is open
 *
 * The functions of this header are called with the partition's lock held; those of relay_part.c
 * that shard.h declares take it. */

/* Queues the open step's sum, or marks it split when it is too large, and opens the next step. */
void relay_part_close(struct shard *s, struct part *p);
/* A slot is at `step`: closes the open step if it is earlier, and opens `step`. Slots that are late
 * send their pushes by themselves. Does nothing when there is no room for another sum. */
void relay_part_jump(struct shard *s, struct part *p, uint64_t step);
/* Opens `step` if no push came and none is announced for the open step and those before `step`. */
void relay_part_skip(struct part *p, uint64_t step);
/* Notes that the slot is in the open sum; examples 0: its push was refused. */
void relay_part_add_share(struct part *p, uint32_t slot, uint32_t examples, uint64_t incarnation);

/* Are the values of this step here? relay_part_may_show: of a dense partition; relay_part_copy_rows: of n rows, which
 * it copies to out. SHARD_HOLD marks the caller as waiting. */
enum shard_answer relay_part_may_show(struct part *p, uint64_t step);
enum shard_answer relay_part_copy_rows(struct part *p, uint64_t step, const uint8_t *ids,
    uint32_t n, float *out);
/* Floats of a row: its values and a struct marks. */
uint32_t relay_part_stride(uint32_t cols);

#endif
