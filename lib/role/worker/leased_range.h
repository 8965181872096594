/* SPDX-License-Identifier: ISC */
#ifndef WORKER_LEASED_RANGE_H
#define WORKER_LEASED_RANGE_H

#include "core/json.h"
#include "layout/taken.h"
#include "msg/answer.h"
#include "worker/range_source.h"

/* A range of training data that this worker has leased, and the attempts on it of workers that were lost
 * (coord/leases.h). Pure; belongs to the training thread. */

/* The place where the training on a range is or was: one batch of `batch` examples a step, from
 * example `from` of the range and the step `step` on. taken: for a lost worker, its pushes of the
 * range that the partitions have. batch 0: the worker rests at example `from`. */
struct attempt {
	uint64_t from, step, batch;
	struct taken taken;
};

struct leased_range {
	bool have;
	struct source_range units;
	struct attempt own, *earlier; /* of this worker, and of workers that were lost */
	size_t n_earlier;
	uint64_t used; /* its examples that were trained on, by any worker */
	/* of a stream: example `placed` is at `place`; -1: no worker has begun it */
	uint64_t placed;
	int64_t place;
};

/* Takes a granted range, which is to begin at the step. ERR_PROTO; then *out is empty. */
enum err_code leased_range_decode(const struct answer_task *t, uint64_t step,
    struct leased_range *out, struct err *e);
/* Frees the contents of r, which is empty then. */
void leased_range_release(struct leased_range *r);
/* [id, from, step, batch, place], as the message "lease" has it. */
json_t *leased_range_to_json(const struct leased_range *r);

/* Loads into b up to n examples of r, which s has open, from its example `at` on, which is not before
 * r->used. Those from r->used on stay ready. *known: false if there are none. Waits as
 * range_source_ops.ready does. */
enum err_code leased_range_peek(const struct leased_range *r, struct range_source *s, uint64_t at,
    uint64_t n, struct batch *b, bool *known, struct err *e);

/* May a worker that was lost have pushed the batch that begins at example r->used? */
bool leased_range_repeats(const struct leased_range *r);
/* The size of that batch. */
uint64_t leased_range_repeated_batch(const struct leased_range *r);
/* Does this partition have that batch? */
bool leased_range_is_taken(const struct leased_range *r, uint16_t table, uint32_t part);

#endif
