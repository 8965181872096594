#ifndef SHARD_REGIME_H
#define SHARD_REGIME_H

#include "shard/part.h"

/* Inside of a shard: by what pushes are taken, step for step.  The list only grows, and is
 * read without a lock; what it holds stays until the shard is freed.  A partition goes from
 * one to the next with the first update that is of it, and never back: so copies, which hear
 * from the first of the chain by which one an update was made, have the same bits. */

/* That of a step; the last that was decided; by its number (NULL: not heard of yet). */
const struct regime *regime_at(const struct shard *s, uint64_t step);
const struct regime *regime_last(const struct shard *s);
const struct regime *regime_numbered(const struct shard *s, uint32_t number);
/* Does a step go by bsp? */
static inline bool regime_is_bsp(const struct shard *s, uint64_t step)
{
	return regime_at(s, step)->mode.kind == SYNC_bsp;
}
/* From this step, which is bsp, on: the first that is not. */
uint64_t regime_bsp_end(const struct shard *s, uint64_t step);
/* Steps that must be closed before one is shown: in bsp those before it, else those of a bsp
 * that ended before. */
uint64_t regime_closed_before(const struct shard *s, uint64_t step);

void regimes_begin(struct shard *s);
void regimes_end(struct shard *s);

/* The k-th vector that a rule keeps: which one of another rule's goes on as that, by its
 * name; -1: none does. */
int regime_slot(const struct optim_rule *rule, unsigned k, const struct optim_rule *before);
/* What a rule keeps of n values, from what another has kept of them: what goes on, else what it
 * begins with.  Vector after vector, as part_slots has them. */
void regime_carry(const struct optim_rule *rule, const struct optim_rule *before, size_t n, const float *from, float *to);
/* Does any go on? */
bool regime_keeps(const struct optim_rule *rule, const struct optim_rule *before);
/* The partition's next updates are made by this one, where it is not behind it: what its rule
 * keeps begins, or goes on.  The partition's lock is held. */
void part_turn(struct shard *s, struct part *p, const struct regime *r);

/* Another mode is due, or the one in force is over: turn, where all before it is done.  No
 * locks held. */
void gate_turn(struct shard *s);
/* A partition that has come from a server where the mode had not turned yet.  Its lock is
 * held. */
void gate_enter(struct shard *s, struct part *p);

#endif
