/* SPDX-License-Identifier: ISC */
#ifndef COORD_CHECKPOINT_STEPS_H
#define COORD_CHECKPOINT_STEPS_H

#include <stdbool.h>
#include <stdint.h>

/* Chooses the steps of the checkpoints that "checkpoint_every": N asks for, which are multiples of
 * N.
 *
 * In bsp a snapshot must be requested before its step begins. The coordinator knows the present
 * step only by heartbeats, which may be 200 ms old; in that time a job with fast steps passes
 * thousands of them. When the request is late, the servers say at which step they are. From two
 * such answers in a row follows how many steps pass in the time of a request, and the next one asks
 * for a step that lies further ahead than that. So a few requests are enough at any speed, and a
 * slow job gets every multiple.
 *
 * Pure: no clock, thread or lock. */
struct checkpoint_steps {
	uint64_t every;   /* above 0 */
	uint64_t passing; /* steps that pass in the time of a request, as measured lately */
	unsigned late;    /* requests in a row that were late */
	uint64_t late_at; /* where the servers were at the last of them */
	bool counting;    /* `last` is known */
	uint64_t last;    /* step of the last checkpoint, or one at which counting began */
	uint64_t skipped; /* multiples without a checkpoint since the last report */
	unsigned reports;
};

/* Begins to count skipped multiples at this step, unless that was done already. */
void checkpoint_steps_begin(struct checkpoint_steps *s, uint64_t step);
/* A request was late: the servers are at step `at`. Returns the multiple to request next. */
uint64_t checkpoint_steps_late(struct checkpoint_steps *s, uint64_t at);
/* A checkpoint of this step has been made. */
void checkpoint_steps_made(struct checkpoint_steps *s, uint64_t step);
/* No checkpoint was made, and the job is at this step. */
void checkpoint_steps_missed(struct checkpoint_steps *s, uint64_t step);
/* How many multiples have no checkpoint; 0: too few to report. After a number it counts from
 * 0 on, and twice as many must come together before the next report. */
uint64_t checkpoint_steps_report(struct checkpoint_steps *s);

#endif
