/* SPDX-License-Identifier: ISC */
#ifndef WORKER_RANGE_SOURCE_H
#define WORKER_RANGE_SOURCE_H

#include "core/err.h"
#include "data/data.h"
#include "data/data_blocks.h"
#include "data/batch/data_split.h"

/* The source of a worker's training examples: memory, blocks of files, or another implementation.
 * batches.c chooses the ranges that a worker trains on, and takes their examples from here without
 * knowing which source it has.
 *
 * An epoch of the data has `units` units: examples, blocks, or what the source counts. A range is some of
 * them, [begin, end) in the epoch's order. Its examples are a sequence, numbered from 0, which the data, the
 * configuration and the range alone determine: every worker gets the same one, so that another worker can
 * go on in the middle. How many examples a range has may be known only when its last one was read; it may
 * have none.
 *
 *   closed --open--> open --ready, load; positions never go back--> open --close--> closed
 *
 * One range is open at a time. `prepare` announces the one that will be opened after it, so that a source
 * may read it meanwhile.
 *
 * All functions are called by the training thread, which owns the source. Only `open` and `ready` may
 * wait. */
struct range_source;
struct lease_ops;
struct data_log;

struct source_range {
	uint64_t id; /* of the lease */
	uint64_t epoch, begin, end;
};

/* How the data are read, for display. */
struct source_reading {
	uint64_t epoch_bytes; /* of the data */
	uint64_t read_bytes;  /* read so far */
	uint64_t blocks_left; /* of the open range and the prepared one, not read yet */
};

/* More examples than a range has. The range after this one is announced to the coordinator for the
 * step at which this one ends: never for an earlier one, or pushes of this range would count as
 * pushes of that one. */
#define SOURCE_LEFT_UNKNOWN (UINT64_C(1) << 48)

struct range_source_ops {
	/* r will be opened next, unless this worker stops before. Called at most once between two calls
	 * of `open`. */
	enum err_code (
	    *prepare)(struct range_source *s, const struct source_range *r, struct err *e);
	/* Opens r, from its first example on. What was prepared and is another range is forgotten. */
	enum err_code (*open)(struct range_source *s, const struct source_range *r, struct err *e);
	/* Has the examples at, .., at + n - 1 of the open range ready in memory. *have: how many of them
	 * there are; less than n only at the end of the range. Examples before `at` may be dropped.
	 * Errors of the data's readers. */
	enum err_code (
	    *ready)(struct range_source *s, uint64_t at, uint64_t n, uint64_t *have, struct err *e);
	/* The number of examples of the open range from `at` on: exact if the source knows the end of the
	 * range, else SOURCE_LEFT_UNKNOWN. */
	uint64_t (*left)(const struct range_source *s, uint64_t at);
	/* Units of the epoch that lie before example `at` of the open range, for display. */
	uint64_t (*units_before)(const struct range_source *s, uint64_t at);
	/* Fills b with the n examples from `at` on, n > 0, which are ready, as those before them may be. */
	enum err_code (
	    *load)(struct range_source *s, uint64_t at, uint64_t n, struct batch *b, struct err *e);
	/* Fills b with the examples [begin, end) of an epoch's order, while no range is open. NULL where
	 * a unit is not an example: such data are always leased (per_range > 0). */
	enum err_code (*deal)(struct range_source *s, uint64_t epoch, uint64_t begin, uint64_t end,
	    struct batch *b, struct err *e);
	/* NULL where nothing is read while training goes on. */
	void (*reading)(const struct range_source *s, struct source_reading *out);
	/* Drops the open range; the one that was prepared stays. */
	void (*close)(struct range_source *s);
	void (*free)(struct range_source *s);
};

/* The beginning of each source. */
struct range_source {
	const struct range_source_ops *ops;
	uint64_t units;
	uint64_t per_range; /* units that are leased at once; 0: as the coordinator chooses */
	uint64_t examples;  /* of an epoch; 0: not known */
	const struct lease_ops *leases; /* how its units are leased (batches_state.h) */
};

/* Examples in memory; each is a unit. d is borrowed, and may be numbered. seed: of the order of its
 * examples. split, borrowed: only the examples of its part `train` are units; NULL: all are. */
struct range_source *source_memory_new(const struct dataset *d, const struct data_split *split,
    uint64_t seed);
/* Blocks of files; each is a unit, `per_range` of them are a range. A thread reads ahead. blocks is
 * borrowed, and so is split, as above. seed: of the order of the blocks, and of the examples in a
 * dataset. memory: bytes of a dataset; there are at most two of them at a time, but for batches that
 * are larger. The first `early` ranges of the first epoch begin with small datasets, so that the
 * workers can begin. */
struct range_source *source_blocks_new(const struct data_blocks *blocks,
    const struct data_split *split, uint64_t seed, uint64_t per_range, uint64_t early,
    uint64_t memory);
/* A stream; each partition is a unit, which has no end, and of which several are leased at once. Of the
 * functions there is only `free`: events are taken from the stream itself, which is borrowed. */
struct range_source *source_stream_new(const struct data_log *log);
/* NULL is fine. */
void range_source_free(struct range_source *s);

#endif
