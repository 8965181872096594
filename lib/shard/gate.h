#ifndef SHARD_GATE_H
#define SHARD_GATE_H

#include "shard/part.h"

/* The gate's side of a push: may it come in now?  Notes the step for votes.
 * OUTSIDE slots always may. */
enum shard_answer gate_push(struct shard *s, const struct push *p);

/* Has every slot given what it will give to this partition's open step?  Then
 * *examples is what the sum is to be divided by: what the contributions
 * stated, plus what slots stated at their CLOCK that did not push here.
 * The partition's lock is held. */
bool gate_complete(struct shard *s, const struct part *p, uint64_t *examples);
/* The same sum when the step is complete by its clocks. */
uint64_t gate_examples(struct shard *s, const struct part *p);

/* deterministic: have all slots before this one given theirs? */
bool gate_in_turn(struct shard *s, const struct part *p, uint32_t slot, uint64_t step);

/* bsp: close every step that is complete.  No locks held. */
void gate_close(struct shard *s);

/* Highest step that the slot has had taken by this partition, plus 1. */
static inline uint64_t part_last(const struct part *p, uint32_t slot)
{
	return slot < p->nlast ? p->last[slot] : 0;
}

#endif
