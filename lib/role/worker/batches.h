/* SPDX-License-Identifier: ISC */
#ifndef WORKER_BATCHES_H
#define WORKER_BATCHES_H

#include "worker/cluster_view.h"
#include "worker/job.h"

/* Chooses the examples of a worker's next batch.
 *
 * Two ways: dealt and leased. In bsp, examples are dealt: (seed, epoch, step, rank) and the members
 * in the view determine them, without a message. In ssp and asp, and in bsp after such a mode,
 * workers lease ranges of examples from the coordinator, one range ahead. The view's `leased_from`
 * is the first step whose examples are leased.
 *
 * The examples come from the job's source (range_source.h). Data whose units are not examples, such as blocks
 * of files that are larger than job.data_memory, are leased in every mode.
 *
 * Life of a leased range: next (leased ahead) -> now (in use) -> done (used up, not yet reported)
 * -> reported with the next lease request. The coordinator gives the ranges of a worker that is lost
 * to others, from the first batch on whose push is not complete. The next worker trains on the same
 * batches, and pushes each only to the partitions that lack it (batches_is_taken); so the coordinator
 * must know at which step a range begins before its first push: a range that is leased ahead begins at
 * the step that follows from the examples left, and when it does not, the worker says so first.
 *
 * In a deterministic job the ranges are assigned to the ranks instead (coord/leases.h).
 *
 * One thread, the training thread; no locks. */
struct batches;

struct batches_hooks {
	void *ctx;
	struct log *log;
	/* While no range is to be had, though others still hold some that would come back if they died: may
	 * this worker make no steps? Else it makes steps without examples. */
	bool (*may_rest)(void *ctx);
	/* Called meanwhile, if it may; it must see to it that nobody waits for this worker, unless ranges are
	 * leased to it again soon (settling). An error ends the wait. */
	enum err_code (*idle)(void *ctx, bool settling, struct err *e);
	/* Returns when every push has its receipt. A range is reported as done only after that: a
	 * checkpoint that counts the range as done must hold its pushes. */
	enum err_code (*await_receipts)(void *ctx, struct err *e);
	/* Do others train while this worker has no examples, and wait for its steps? Then it makes
	 * them at once. */
	bool (*awaited)(void *ctx);
};

/* job and cluster are borrowed; the hooks are copied. Call batches_take_view before the first batch. */
struct batches *batches_new(const struct job *job, struct cluster_view *cluster, uint32_t rank,
    const struct batches_hooks *hooks);
void batches_free(struct batches *f);

/* Takes the members from a view. */
void batches_take_view(struct batches *f, const struct view *view);
/* The job's configuration has changed: reads batch size, epochs and steps again. */
void batches_reconfigure(struct batches *f);
/* Are the examples of this step dealt, so that they depend on its members? */
bool batches_are_assigned(const struct batches *f, uint64_t step);
/* Number of membership changes known, counted since the job's begin. */
uint32_t batches_members(const struct batches *f);

/* Chooses and loads the batch of this step; *over: there is no more. An empty batch (bsp, at the
 * end of an epoch) is a step all the same. Leasing may block. ERR_FENCED: this rank is no
 * member. */
enum err_code batches_next(struct batches *f, uint64_t step, struct batch *b, bool *over,
    struct err *e);
/* Loads into b the batch that the present one's k-th successor will be, as far as is known now, k > 0:
 * members and settings may change, and ranges may be taken back, so it may become another one. *known:
 * false if it is not known, or has no examples; b is undefined then. Call it between batches_next and
 * batches_used. May wait for the reader of the data, but asks no other process. Errors of the data's
 * readers. */
enum err_code batches_peek(struct batches *f, uint64_t k, struct batch *b, bool *known,
    struct err *e);
/* Nanoseconds since the last call of it that were spent waiting for a range to lease. */
int64_t batches_take_idle_time(struct batches *f);
/* The examples of this worker at *step, or at the step after it when it has none there, as an epoch may
 * end: *step becomes the step that has them. They follow from the members and settings of the present
 * view. False: they are leased, or there are none. Does not block. */
bool batches_expect(const struct batches *f, uint64_t *step, struct source_range *out);
/* May a worker that is lost have pushed the present batch? Then it is not to be pushed again to the
 * partitions for which batches_is_taken is true. */
bool batches_repeats(const struct batches *f);
bool batches_is_taken(const struct batches *f, uint16_t table, uint32_t part);
/* The batch has been pushed: a range that is used up becomes done. */
void batches_used(struct batches *f);
/* Leases a range ahead and reports done ranges, when there are any. Call it before the pushes of a
 * step: the pushes of the step before have had time to get their receipts, so `await_receipts` does not
 * wait. */
enum err_code batches_lease_ahead(struct batches *f, struct err *e);
/* The next batch will be that of this step, and the steps before it that have not been made have none.
 * Reports that, when the pushes so far have receipts. Call it before the CLOCK of a skipped step: where
 * a lost worker was in its range is computed from the steps that it completed. */
enum err_code batches_skip(struct batches *f, uint64_t step, struct err *e);
/* Reports what is done and takes no more. */
enum err_code batches_finish(struct batches *f, struct err *e);

/* Epochs done so far, as a fraction. */
double batches_epoch(const struct batches *f);
/* About how many events of a stream wait for this worker, as of the last batch. */
uint64_t batches_lag(const struct batches *f);
/* How the data are read; all 0 where they are in memory. */
void batches_reading(const struct batches *f, struct source_reading *out);
/* Steps that this job will have; 0: unknown. */
uint64_t batches_total_steps(const struct batches *f);
/* Is this rank the one that evaluates during training, at this step? It is the lowest member. */
bool batches_is_evaluator(const struct batches *f, uint64_t step);

#endif
