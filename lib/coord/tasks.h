#ifndef COORD_TASKS_H
#define COORD_TASKS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Data dealt out by leases (ssp and asp): each epoch's order of examples is
 * cut into ranges; a worker leases one, says when it is done, and what a dead
 * worker held is leased again.  So each range is trained on at least once an
 * epoch, and exactly once when nobody dies.  Pure; the owner locks. */
struct tasks;

struct task {
	uint64_t id, epoch, begin, end;
};

/* epochs 0: no end. */
struct tasks *tasks_new(uint64_t examples, uint64_t range, uint64_t epochs);
void tasks_free(struct tasks *t);

/* All before this place is done; of a range that it is within, nothing. */
void tasks_begin_at(struct tasks *t, uint64_t epoch, uint64_t offset);

/* The next range for this worker; false when none is to be had now. */
bool tasks_lease(struct tasks *t, uint32_t worker, struct task *out);
/* True when this worker held it (a lease that was taken back is not counted). */
bool tasks_done(struct tasks *t, uint32_t worker, uint64_t id);
/* Take back all that a worker holds.  True: there was something. */
bool tasks_return(struct tasks *t, uint32_t worker);
/* All ranges of all epochs are done. */
bool tasks_finished(const struct tasks *t);
/* Of what the worker holds, take back all but these. */
bool tasks_keep(struct tasks *t, uint32_t worker, const uint64_t *id, size_t n);
/* How far it is; and a fresh one made to go on from there.  held: who has leased
 * what still has it; else that is leased again. */
json_t *tasks_to_json(const struct tasks *t);
void tasks_from_json(struct tasks *t, const json_t *j, bool held);
void tasks_count(const struct tasks *t, uint64_t *done, uint64_t *leased, uint64_t *total);

#endif
