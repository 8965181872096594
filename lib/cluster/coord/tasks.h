/* SPDX-License-Identifier: ISC */
#ifndef COORD_TASKS_H
#define COORD_TASKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "msg/state.h"

/* How many ranges a worker may hold at once: the one it trains on, and the next one. The limit
 * bounds the coordinator's state and the cost of each lease. */
#define TASKS_HELD_MAX 2u

/* Training data in leases, for ssp and asp: each epoch's order of examples is cut into ranges.  A
 * worker leases a range, trains on it and reports it as done; the ranges of a lost worker are
 * leased again.  Every range is trained on at least once an epoch, and exactly once when no
 * worker is lost.  Pure: no clock, thread or lock; the owner serialises the calls.
 *
 *   state      event                                                  next state
 *   unleased   tasks_lease                                            leased by one worker
 *   leased     tasks_done by that worker                              done
 *   leased     tasks_return, or tasks_keep without the range's id     unleased, and next in turn
 */
struct tasks;

struct task {
	uint64_t id, epoch, begin, end;
};

/* `examples` is cut into ranges of `range` examples. epochs 0: without end. */
/* Create and free the leases of a job. tasks_free(NULL) is fine. */
struct tasks *tasks_new(uint64_t examples, uint64_t range, uint64_t epochs);
void tasks_free(struct tasks *t);

/* Begin at this place: all ranges before it are done, and the range that contains it is leased
 * whole. */
void tasks_begin_at(struct tasks *t, uint64_t epoch, uint64_t offset);

/* A change of the leases. A log of all changes, in order, can restore them. */
enum task_event { TASK_LEASED, TASK_DONE, TASK_RETURNED };
struct task_change {
	enum task_event event;
	uint64_t id;
	uint32_t worker;
};
/* Call changed(ctx, change) for each later change, except for those of tasks_replay. */
void tasks_watch(struct tasks *t, void (*changed)(void *ctx, const struct task_change *c),
    void *ctx);
/* Repeat a logged change. False: it does not follow from the present state. */
bool tasks_replay(struct tasks *t, const struct task_change *c);

/* May this worker lease one more range, or does it hold TASKS_HELD_MAX already? */
bool tasks_may_lease(const struct tasks *t, uint32_t worker);
/* Lease the next range. False: none is available now, or the worker holds TASKS_HELD_MAX. */
bool tasks_lease(struct tasks *t, uint32_t worker, struct task *out);
/* Mark a range as done. False: this worker does not hold it (a lease taken back is not counted). */
bool tasks_done(struct tasks *t, uint32_t worker, uint64_t id);
/* Take back all leases of a worker. True: it had some. */
bool tasks_return(struct tasks *t, uint32_t worker);
/* Are all ranges of all epochs done? */
bool tasks_finished(const struct tasks *t);
/* Take back the worker's leases except for the n listed ones. True: there were some. */
bool tasks_keep(struct tasks *t, uint32_t worker, const uint64_t *id, size_t n);
/* Save the leases; load them into a fresh struct. held: leased ranges stay with their workers;
 * otherwise they are to be leased again. */
struct state_tasks *tasks_save(const struct tasks *t); /* for state_tasks_free */
void tasks_load(struct tasks *t, const struct state_tasks *s, bool held);
/* Numbers of ranges done, leased now, and in all (UINT64_MAX without end). */
void tasks_count(const struct tasks *t, uint64_t *done, uint64_t *leased, uint64_t *total);

#endif
