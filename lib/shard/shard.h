#ifndef SHARD_SHARD_H
#define SHARD_SHARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "coord/layout.h"
#include "optim/optim.h"
#include "optim/schedule.h"
#include "sync/sync.h"

/* What one server holds: partitions of tables, each with its own lock, and
 * the gate (clocks, members) that says when a push is taken and a pull is
 * answered.  All calls may come from any thread.
 *
 * Locks: a partition's lock, then the gate's; never the other way, never two
 * partitions at once. */
struct shard;

#define SHARD_OUTSIDE UINT32_MAX        /* the slot of a peer outside the job */

struct shard_config {
	unsigned self;                  /* this server's number in the layout */
	struct sync_mode mode;
	bool deterministic;
	const struct optim_rule *rule;
	struct optim_hyper hyper;       /* lr before the schedule */
	struct schedule schedule;
	const char *init_file;          /* safetensors for tables with TABLE_FILE */
	/* Something that somebody may wait for has changed.  Called without
	 * locks held. */
	void (*wake)(void *ctx);
	void *ctx;
};

enum err_code shard_new(const struct shard_config *cfg, struct shard **out, struct err *e);
void shard_free(struct shard *s);

/* Make the partitions that the layout gives to this server and that it does
 * not hold yet.  One caller at a time. */
enum err_code shard_install(struct shard *s, const struct layout *l, struct err *e);

/* ---- members and clocks ------------------------------------------------ */

/* The slot's holder.  A slot becomes active at step `from`; one that is taken
 * over keeps its clock when that is greater. */
void shard_admit(struct shard *s, uint32_t slot, uint64_t incarnation, uint64_t from);
/* Nobody waits for the slot any more; pushes of its incarnation are fenced. */
void shard_dismiss(struct shard *s, uint32_t slot);
uint64_t shard_incarnation(struct shard *s, uint32_t slot);

/* Vote on a change at `step`: fences the slot's present holder, and on a yes
 * takes nothing of `step` and later until shard_decided. */
struct shard_vote {
	bool yes;
	uint64_t frontier, clock;
};
struct shard_vote shard_vote(struct shard *s, uint32_t slot, uint64_t incarnation, uint64_t step, bool resume);
void shard_decided(struct shard *s);

enum shard_answer {
	SHARD_OK,
	SHARD_HOLD,                     /* not now: try again after wake */
	SHARD_FENCED,                   /* of an older incarnation */
	SHARD_BAD,                      /* no such partition here, or malformed */
};

/* The slot has completed `step`. */
enum shard_answer shard_clock(struct shard *s, uint32_t slot, uint64_t incarnation, uint64_t step, uint32_t examples);
enum shard_answer shard_done(struct shard *s, uint32_t slot, uint64_t incarnation);
bool shard_may_pull(struct shard *s, uint64_t step);
/* bsp: steps whose update is made; else UINT64_MAX, as receipts never wait. */
uint64_t shard_closed(struct shard *s);
/* Steps that all have completed, for display. */
uint64_t shard_step(struct shard *s);

/* ---- data --------------------------------------------------------------- */

enum push_status { PUSH_APPLIED = 1, PUSH_MERGED, PUSH_DUPLICATE, PUSH_LATE, PUSH_REFUSED, PUSH_SPLIT };

struct push {
	uint32_t slot;                  /* or SHARD_OUTSIDE: applied at once, in any mode */
	uint64_t incarnation, step;
	uint64_t pulled;                /* version that the gradient was computed from */
	uint16_t table, codec;
	uint32_t part, examples;
	const uint8_t *payload;
	size_t len;
	uint32_t nrows;                 /* sparse: row ids, then their encoded floats in payload */
	const uint8_t *ids;             /* u64 little-endian, any alignment */
};

struct receipt {
	uint16_t table;
	uint8_t status;
	uint32_t part, staleness;
	uint64_t step, version;
};

/* Take a push of one partition, whole.  In bsp a status of MERGED or DUPLICATE
 * counts from when shard_closed passes the step; the version then is told by
 * shard_version. */
enum shard_answer shard_push(struct shard *s, const struct push *p, struct receipt *r);
uint64_t shard_version(struct shard *s, uint16_t table, uint32_t part);

/* Copy a dense partition (table_part_elements floats).  step: the puller's, or
 * SYNC_NEVER for what is there now. */
enum shard_answer shard_pull(struct shard *s, uint16_t table, uint32_t part, uint64_t step, float *out, uint64_t *version);
/* Rows in the order of ids (n * cols floats); a row that is not there yet has
 * its initial value. */
enum shard_answer shard_pull_rows(struct shard *s, uint16_t table, uint32_t part, uint64_t step, const uint8_t *ids,
    uint32_t n, float *out, uint64_t *version);
/* Up to *n rows with ids above `after` (or from the first when `begin`), in
 * ascending order: ids into ids, floats into out.  *n is what was copied,
 * *more whether there are others. */
enum shard_answer shard_scan(struct shard *s, uint16_t table, uint32_t part, bool begin, uint64_t after, uint32_t *n,
    uint8_t *ids, float *out, bool *more, uint64_t *version);

const struct table *shard_table(struct shard *s, uint16_t table);       /* NULL when unknown here */

struct shard_stats {
	uint64_t status[PUSH_SPLIT + 1];
	uint64_t pulls, parameters, parameter_bytes, state_bytes, rows, closed;
};
void shard_stats(struct shard *s, struct shard_stats *out);
/* Bytes that the partitions take: parameters, optimizer state, accumulators and
 * previous versions of dense tables, and what sparse ones have by now. */
uint64_t shard_bytes(struct shard *s);
struct hist;
const struct hist *shard_staleness(const struct shard *s);
const struct hist *shard_apply_time(const struct shard *s);    /* nanoseconds */

#endif
