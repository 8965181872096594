/* SPDX-License-Identifier: ISC */
#ifndef CORE_STEPS_H
#define CORE_STEPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Decides which of the steps that workers report can be believed. Pure.
 *
 * A worker may report any step. Where workers do not wait for each other, the only measure are the
 * others: a step is absurd when it is more than STEPS_LEAP + STEPS_RATIO * the greatest step of the
 * others. The others are the active workers; if there is no other active one, all that ever
 * reported a step. A worker without others is believed.
 *
 * Honest workers never come so far apart: one would take more than a thousand steps for each of the
 * other's, and be sixteen million ahead. */
#define STEPS_LEAP  (UINT64_C(1) << 24)
#define STEPS_RATIO 1024u
/* Every step is below this; a record with a greater one is refused. */
#define STEPS_END (UINT64_C(1) << 62)
/* The greatest step in a message: the first one after all steps that a job can reach. Small sums of
 * it fit into an int64_t. */
#define STEPS_MOST ((int64_t)STEPS_END)

/* The two greatest of some steps: enough to compare each step with the greatest of the others. */
struct steps_top {
	size_t n;
	uint64_t first, second;
};

/* The steps of all workers. Begin with zeroes and add each worker once. */
struct steps {
	struct steps_top active, all;
};

/* Adds a worker's step. */
void steps_add(struct steps *s, uint64_t step, bool active);
/* May the worker that was added with the step `added` be at `step`? */
bool steps_believe(const struct steps *s, uint64_t added, bool active, uint64_t step);
/* Is the step absurd when `others` is the greatest of the others? */
bool steps_absurd(uint64_t step, uint64_t others);

#endif
