/* SPDX-License-Identifier: ISC */
#ifndef COORD_STRAGGLER_H
#define COORD_STRAGGLER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Which workers are slow, by the time that their steps took in a window of the last seconds: at
 * fast steps no single wait is long enough to be noticed, but together they may take most of the
 * time. A worker that is slow works longer on a step than the others, and waits less than they do,
 * because its push arrives last. Pure: no clock; the owner's lock covers the windows. */

/* The parts of a step that depend on the worker alone. */
enum straggler_part {
	STRAGGLER_DATA,
	STRAGGLER_COMPUTE,
	STRAGGLER_ENCODE,
	STRAGGLER_PUSH,
	STRAGGLER_PARTS
};
extern const char *const straggler_part_name[STRAGGLER_PARTS];

/* The time that steps took a worker: totals in seconds. */
struct straggler_costs {
	double steps; /* below STRAGGLER_STEPS: not enough to judge */
	double part[STRAGGLER_PARTS];
	double wait; /* for others, and for the answers of servers */
	double pull; /* receiving the answers */
};
#define STRAGGLER_STEPS 10.0

/* The totals of a worker at two moments in the past, the later one being the next begin of the
 * window. Zeroes, the state of a worker that has just joined: the window begins with its first
 * step. */
struct straggler_window {
	struct straggler_costs begin, next;
	int64_t next_at; /* of `next`; 0: none yet */
};
/* Note the totals of a worker at a time, in ns. */
void straggler_note(struct straggler_window *w, const struct straggler_costs *totals, int64_t now);
/* The costs since the window began: two to four seconds ago, or as long as STRAGGLER_STEPS steps
 * take. */
struct straggler_costs straggler_since(const struct straggler_window *w,
    const struct straggler_costs *totals);

/* The judgement of one worker. */
struct straggler {
	bool slow;
	double own, usual; /* seconds of its own work in a step, and of the median worker's */
	enum straggler_part most; /* the costliest part of its own work, */
	double part;              /* and its share, 0 to 1 */
	double others_wait; /* the share of their time for which the others wait; NaN: not known */
};
/* Judge each of n workers by its costs; out has n places. */
void straggler_judge(const struct straggler_costs *cost, size_t n, struct straggler *out);

#endif
