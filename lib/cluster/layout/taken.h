/* SPDX-License-Identifier: ISC */
#ifndef LAYOUT_TAKEN_H
#define LAYOUT_TAKEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "core/json.h"

/* Which pushes of one rank the partitions have taken. A partition takes a rank's pushes in the
 * order of their steps, so one number for each partition says it all: the highest step whose push
 * was taken, plus 1.
 *
 * When a rank is lost in the middle of a step, some partitions have its push of that step and
 * others have not. The servers report this, and the worker that trains on the same examples
 * afterwards pushes them only to the partitions that lack them, so that each example counts once in
 * each.
 *
 * A list of runs of partitions with the same number. A partition may be in several runs, for its
 * replicas report it too: the greatest number holds. One that is in none has taken no push. Pure;
 * no locks. */
struct taken_run {
	uint16_t table;
	uint32_t first, count; /* partitions first .. first + count - 1 */
	uint64_t end;          /* the highest step taken, plus 1 */
};
struct taken {
	struct taken_run *run;
	size_t n;
};

void taken_release(struct taken *t);
struct taken taken_copy(const struct taken *t);

/* Adds a partition; one that follows the last one with the same number lengthens its run. */
void taken_add(struct taken *t, uint16_t table, uint32_t part, uint64_t end);
void taken_merge(struct taken *t, const struct taken *more);
/* Removes the runs that say nothing about steps from `step` on. */
void taken_drop_before(struct taken *t, uint64_t step);
/* Lowers the numbers to the numbers of `most`, partition by partition, and to `until`. */
void taken_limit(struct taken *t, const struct taken *most, uint64_t until);
/* The partition's number; 0 when it is in no run. */
uint64_t taken_of(const struct taken *t, uint16_t table, uint32_t part);
/* Has the partition taken the push of this step? */
bool taken_has(const struct taken *t, uint16_t table, uint32_t part, uint64_t step);
/* The least number of the table's partitions 0 .. parts - 1. */
uint64_t taken_least(const struct taken *t, uint16_t table, uint32_t parts);
/* The greatest number in any run; 0 without one. */
uint64_t taken_end(const struct taken *t);

/* Encodes as an array of [table, first, count, end]; a new reference. */
json_t *taken_to_json(const struct taken *t);
/* Decodes it; NULL is an empty list. *out is to be released, and is empty after an error.
 * ERR_PROTO. */
enum err_code taken_from_json(const json_t *json, struct taken *out, struct err *e);

#endif
