/* SPDX-License-Identifier: ISC */
#ifndef SHARD_SHARD_OPS_H
#define SHARD_SHARD_OPS_H

/* The use that a shard makes of pushes, and the source of the values that are pulled. A store
 * applies the pushes and shows its own values (shard_store_ops, store_ops.c). A relay sends their
 * sum to the servers and shows what came from there (role/relay/relay_shard.c). An implementation
 * may include part.h, gate.h and repl.h.
 *
 * The functions that get a partition are called with its lock held, once for a record or a step and
 * never for an element. Only those that say so may be NULL. */

#include "shard/shard.h"

struct part;
struct step_end;

struct shard_ops {
	/* Bytes of part.ops_data, zeroed, for each partition; and those that a rank makes it grow
	 * by. */
	size_t part_bytes, rank_bytes;
	/* The receiver of all records of every partition, or NO_SERVER: the next replica of the
	 * partition's chain. */
	uint16_t next;
	/* Pushes from outside of the job are taken. */
	bool takes_outside;
	/* The open step of a partition may be closed early, by a push of a later step. */
	bool may_close_early;
	/* The status of a push whose step is closed. */
	enum push_status status_if_closed;

	/* May a pull at this step be answered by the clocks; and one that is answered from those
	 * partitions that are ready? A store asks the mode (sync_may_pull). The gate's lock is
	 * held. */
	bool (*may_pull)(const struct sync *s, uint64_t step);
	bool (*may_prefetch)(const struct sync *s, uint64_t step);

	/* Allocates what a row store of the partition needs. */
	void (*alloc_rows)(struct part *p, const struct shard_config *cfg);
	/* Fills a partition that is new in the layout. ERR_CONFIG, ERR_NOMEM, errors of files. */
	enum err_code (*init)(struct part *p, struct shard *s, struct err *e);
	/* The partition's values are about to be freed; the partition itself; the shard. */
	void (*release_values)(struct part *p);
	void (*free_part)(struct part *p);
	void (*free_shard)(struct shard *s);

	/* A push or a sum of a step after the open one has arrived, or a split sum of the open one.
	 * May the partition take it now, after opening its step if need be?
	 *
	 *   SHARD_OK         yes
	 *   SHARD_WAIT       not yet: its step is not open
	 *   SHARD_ELSEWHERE  never; each push must go to the servers by itself
	 *
	 * split: the partition will not take the sum, but must answer it in the order of steps. */
	enum shard_answer (*reach_step)(struct shard *s, struct part *p, uint64_t step, bool split);
	/* A push of the rank is in the open step's sum; examples 0: it was refused. NULL: the
	 * use that the shard makes of the sum does not need to know. */
	void (*note_push)(struct part *p, uint32_t rank, uint32_t examples, uint64_t incarnation);
	/* All pushes of the open step have arrived: uses its sum and opens the next step. A store
	 * applies the sum (apply_step in apply.c); a relay sends it to the servers. */
	void (*close_step)(struct shard *s, struct part *p, const struct step_end *end);
	/* All ranks have completed the steps below `step`. */
	void (*skip_steps)(struct part *p, uint64_t step);
	/* The step before the open one was closed, maybe without a record. */
	void (*tell_closed)(struct shard *s, struct part *p);
	/* The status for a receipt of a push that was answered `status` when it was taken. NULL:
	 * that one. */
	enum push_status (*final_status)(struct part *p, uint64_t step, enum push_status status);

	/* May a pull at `step` (SYNC_NEVER: from outside) be answered from this partition now?
	 * SHARD_WAIT marks the caller as waiting. */
	enum shard_answer (*may_read)(struct shard *s, struct part *p, uint64_t step);
	/* Reads n rows as struct row_read describes. */
	enum shard_answer (*read_rows)(struct shard *s, struct part *p, struct row_read *x);
};

extern const struct shard_ops shard_store_ops;

#endif
