#ifndef SHARD_GATE_H
#define SHARD_GATE_H

#include "shard/part.h"

/* Is this slot not, or no more, of this incarnation?  The gate's lock is held. */
bool gate_fences(const struct sync *sync, uint32_t slot, uint64_t incarnation);
/* The gate's side of a push: may it come in now?  Notes the step for votes.
 * OUTSIDE slots always may. */
/* *barred: it may be taken, but as one that was refused. */
enum shard_answer gate_push(struct shard *s, const struct push *p, bool *barred);
/* Its own fault: count it. */
void gate_refused(struct shard *s, uint32_t slot);

/* Has every slot given what it will give to this partition's open step, and can
 * the next copy be told of it?  Then
 * *examples is what the sum is to be divided by: what the contributions
 * stated, plus what slots stated at their CLOCK that did not push here.
 * The partition's lock is held. */
bool gate_complete(struct shard *s, struct part *p, uint64_t *examples);
/* Make the open step's update, and tell the next copy.  The partition's lock is
 * held. */
void gate_close_part(struct shard *s, struct part *p, uint64_t examples);

/* A slot was lost at the step before the open one, or this server has become the
 * head since: tell the next copy that the step is closed.  The partition's lock is held. */
void gate_recap(struct shard *s, struct part *p);

/* deterministic: have all slots before this one given theirs? */
bool gate_in_turn(struct shard *s, const struct part *p, uint32_t slot, uint64_t step);

/* bsp: close every step that is complete.  No locks held. */
void gate_close(struct shard *s);
/* The partition has closed a step by itself; its lock is held.  True when it was
 * the last that the clocks had passed: then shard_settle. */
bool gate_caught_up(struct shard *s, struct part *p);

/* bsp, with the lock of a partition that is a copy: go on over steps in which
 * nobody pushed to it. */
void gate_pass(struct shard *s, struct part *p);
/* Steps below this were closed somewhere: who takes part in them cannot change. */
void gate_seen(struct shard *s, uint64_t step);
/* ssp: is a push still to come that a pull at this step must have? */
bool gate_owed(struct shard *s, const struct part *p, uint64_t step);

/* Highest step that the slot has had taken by this partition, plus 1. */
static inline uint64_t part_last(const struct part *p, uint32_t slot)
{
	return slot < p->nlast ? p->last[slot] : 0;
}

#endif
