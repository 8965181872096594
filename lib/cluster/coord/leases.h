/* SPDX-License-Identifier: ISC */
#ifndef COORD_LEASES_H
#define COORD_LEASES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "layout/taken.h"
#include "msg/state.h"

/* The most ranges that a worker may hold at once if any worker may lease any range: the one it
 * trains on, and the next one. The limit bounds the coordinator's state and the cost of each lease.
 * leases_set_limit says how many partitions of a stream it may hold. */
#define LEASES_UNASSIGNED_MAX 2u
/* The most assigned ranges that a worker may hold. It reports them as done some steps later. */
#define LEASES_ASSIGNED_MAX 16u
/* The place of a range that nobody has begun. */
#define LEASES_NOT_BEGUN (-1)

/* Training data in leases: each epoch's order of examples (or of blocks of data) is cut into
 * ranges. A worker leases a range, trains on its examples in a fixed order and reports it as done;
 * what a lost worker has not finished is leased again. Pure: no clock, thread or lock; the owner
 * serialises the calls. In the messages of the control plane, GET /v1/tasks, the saved state and
 * manifests a leased range is a task; everywhere else it is a range, also where its units are
 * blocks.
 *
 *   state      event                                                  next state
 *   unleased   leases_give                                            leased by one worker
 *   leased     leases_advance: the worker says how far it is          leased
 *   leased     leases_note_done by that worker                        done
 *   leased     leases_take_back, or leases_keep_only without the      unleased, and next in turn
 *              range's id
 *
 * However many workers are lost, each example counts exactly once per epoch in each partition. A
 * worker trains on a range by attempts: from the example `from` of the range on, one batch of
 * `batch` examples a step, beginning at the step `step`. When it is lost, the servers say up to
 * which step each partition has taken its pushes (struct taken). From the first step that is not
 * complete on, the attempt stays with the range: the next worker trains on the same batches, and
 * pushes each only to the partitions that have not taken it in an earlier attempt.
 *
 * Streams (leases_new_stream): the data have no end. Each partition of the stream is one range
 * whose examples are its events, in order, and such a range is never done. A worker holds several
 * of them, and trains on one at a time: on the others it rests, which it says by leases_advance
 * with a batch of 0. So an attempt has no step in which its worker trained on another partition, or
 * on nothing. Where an event is in the stream cannot be computed from its number: the worker
 * reports the place (the offset of a topic, or a byte of a file) of an event with each
 * leases_advance, and the next worker reads on from there.
 *
 * Assigned ranges (leases_assign), for deterministic jobs: of n workers, worker w trains on the
 * ranges w, w + n, w + 2n, ..., through all epochs, and on nothing else. It leases them in this
 * order, uses each up before it begins the next one, and never waits for the others' ranges. So the
 * batch of a step follows from the data, the rank and the batch sizes of the steps before: no race
 * decides anything. How many examples a range has is known only to those who have read it, so a
 * place in the data is not computed from the step alone, but from a mark, a place that was
 * reported: at the step attempt.step, the rank was at the example attempt.from. A worker that
 * replaces another one in its open step leases the rank's oldest range that is not done, and passes
 * over batches from the mark to its step; then it makes the pushes of its predecessor once more,
 * and servers drop those that they have. Therefore a range must stay leased until a successor
 * cannot begin before the end of it (role/worker/lease_assigned.c), attempts are not cut where a
 * worker is lost, and a checkpoint has the marks of the moment before its first snapshot. */
struct leases;

struct lease_attempt {
	uint64_t from, step, batch;
	struct taken taken; /* of the rank of that attempt; empty for the present one */
};

/* A leased range. `attempt` is the holder's, and `earlier` are the n_earlier ones before it. In a
 * stream the example `placed`, which is not after attempt.from, is at the place `place`. */
struct lease {
	uint64_t id, epoch, begin, end;
	uint64_t placed;
	int64_t place; /* LEASES_NOT_BEGUN: no worker has reported it */
	struct lease_attempt attempt;
	struct lease_attempt *earlier;
	size_t n_earlier;
};

/* Create and free the leases of a job. `examples` (or blocks) are cut into ranges of `range`, both
 * above 0. epochs 0: without end. leases_free(NULL) is fine. */
struct leases *leases_new(uint64_t examples, uint64_t range, uint64_t epochs);
/* The leases of a stream of this many partitions. */
struct leases *leases_new_stream(uint64_t partitions);
void leases_free(struct leases *t);
/* The stream has more partitions now. Does nothing when it had as many already. */
void leases_extend(struct leases *t, uint64_t partitions);
/* Let a worker hold at most `held` ranges; at first, LEASES_UNASSIGNED_MAX. */
void leases_set_limit(struct leases *t, unsigned held);
/* The number of ranges that a worker holds. */
unsigned leases_held(const struct leases *t, uint32_t worker);

/* Assign the ranges to these workers, which begin at this step with batches of this size. Call it
 * before any other function. */
void leases_assign(struct leases *t, uint64_t workers, uint64_t step, uint64_t batch);
bool leases_are_assigned(const struct leases *t);

/* Begin at this place: all ranges before it are done, and the range that contains it is leased
 * whole. */
void leases_begin_at(struct leases *t, uint64_t epoch, uint64_t offset);

/* A change of the leases. A log of all changes, in order, can restore them. */
enum lease_event { LEASE_GIVEN, LEASE_DONE, LEASE_TAKEN_BACK, LEASE_ADVANCED };
struct lease_change {
	enum lease_event event;
	uint64_t id;
	uint32_t worker;
	/* LEASE_GIVEN has the attempt's step and batch, LEASE_ADVANCED all three. LEASE_DONE has in
	 * `from` the number of examples of the range. LEASE_TAKEN_BACK has in `step` the first step
	 * that is not complete, and in `taken` the pushes of it and of later steps. */
	uint64_t from, step, batch;
	int64_t place;             /* of example `from`, in LEASE_ADVANCED */
	const struct taken *taken; /* NULL: nothing */
};
/* Call changed(ctx, change) for each later change, except for changes by leases_replay. */
void leases_watch(struct leases *t, void (*changed)(void *ctx, const struct lease_change *c),
    void *ctx);
/* Repeat a logged change. False: it does not follow from the present state. */
bool leases_replay(struct leases *t, const struct lease_change *c);

/* May this worker lease one more range, or does it hold as many as it may? */
bool leases_may_lease(const struct leases *t, uint32_t worker);
/* Lease the next range to a worker that will begin it at this step, with batches of this size; a
 * range with earlier attempts keeps their size. batch 0: it rests at first. An assigned range keeps
 * its mark, if it has one. The result is borrowed until the next call. NULL: none is available now,
 * or the worker holds as many as it may. */
const struct lease *leases_give(struct leases *t, uint32_t worker, uint64_t step, uint64_t batch);
/* The worker reports that it continues the range in another way than it was leased: all examples
 * before `from` are trained on, by pushes with receipts, and the next step is `step`. batch 0: it
 * rests there. place: the place of example `from` in a stream; 0 for other data. Does nothing when
 * all of this is known, or when the worker does not hold the range. */
void leases_advance(struct leases *t, uint32_t worker, uint64_t id, uint64_t from, uint64_t step,
    uint64_t batch, int64_t place);
/* Mark a range, which has this many examples, as done. False: this worker does not hold it (a lease
 * taken back is not counted). */
bool leases_note_done(struct leases *t, uint32_t worker, uint64_t id, uint64_t examples);
/* Take back all leases of a worker. The pushes of its steps before `complete` are taken by all
 * partitions, and `taken` says which partitions have the pushes of later steps. True: it had
 * some. */
bool leases_take_back(struct leases *t, uint32_t worker, uint64_t complete,
    const struct taken *taken);
/* Are all ranges of all epochs done? */
bool leases_finished(const struct leases *t);
/* Take back the worker's leases except for the n listed ones; it never knew that it had them. True:
 * there were some. */
bool leases_keep_only(struct leases *t, uint32_t worker, const uint64_t *id, size_t n);
/* Save the leases; load them into a fresh struct. held: leased ranges stay with their workers;
 * otherwise they are to be leased again. */
struct state_leases *leases_save(const struct leases *t); /* for state_leases_free */
void leases_load(struct leases *t, const struct state_leases *s, bool held);
/* In place of leases_load, where the data had another number of examples (or blocks) when the
 * leases were saved: an old range is not the same as a new one. Begins the epoch again whose ranges
 * were not all done. */
void leases_load_epoch(struct leases *t, const struct state_leases *s, uint64_t examples);

/* A checkpoint takes the partitions' values at different moments, while workers train on. To know
 * which examples are in it, the attempts are recorded from before the first value is taken
 * (leases_begin_record) to after the last one (leases_recorded): then the number that each
 * partition had for each rank when its values were taken shows which batches of every attempt are
 * in them. */
void leases_begin_record(struct leases *t);
/* The leases as they are to be saved with the values: for each range that has been leased or in
 * work since leases_begin_record, the attempts since, with what the values have of them. taken: by
 * worker number, n of them. For state_leases_free; NULL: nothing is recorded. */
struct state_leases *leases_recorded(const struct leases *t, const struct taken *taken, size_t n);
void leases_end_record(struct leases *t); /* nothing is recorded any more */

/* The examples of an epoch, where the units are not examples: known once all ranges of an epoch are
 * done that began under this count; 0 before. */
uint64_t leases_epoch_examples(const struct leases *t);
/* The part of all units of all epochs that is done, in epochs. */
double leases_epochs_done(const struct leases *t);
/* Numbers of ranges done, leased now, and in all (UINT64_MAX without end). */
void leases_count(const struct leases *t, uint64_t *done, uint64_t *leased, uint64_t *total);

#endif
