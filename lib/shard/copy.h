#ifndef SHARD_COPY_H
#define SHARD_COPY_H

#include "shard/gate.h"

/* What a copy's head begins with: version, examples, how many slots follow, rows
 * in the body, by which settings the update is made, the lower half of the highest step
 * that an update was of where the table has a policy. */
#define COPY_HEAD 32
/* What stands before a state's slots: rows of the step before, whether it changed nothing,
 * updates of before its rule. */
#define COPY_STATE_HEAD 16

/* The sending side of a partition's copies; its lock is held. */

/* The open step has been closed with (or without) a sum, which is still in the
 * accumulator: tell the next copy.  explicit_step: also when there was none. */
void copy_sum(struct shard *s, struct part *p, uint64_t step, uint64_t examples, bool explicit_step);
/* The step is closed, and what it brought has been told. */
void copy_step(struct shard *s, struct part *p, uint64_t step);
/* A push was applied (or refused: version is as it was). */
void copy_push(struct shard *s, struct part *p, const struct push *push, bool refused);
/* The same of a relay, with who is in it: to SHARD_UPSTREAM. */
void copy_up(struct shard *s, struct part *p, uint64_t step);
/* What was sent first is had. */
void copy_drop_first(struct part *p);
/* What a copy took goes on as it came. */
void copy_pass_on(struct shard *s, struct part *p, const struct copy *c, const uint8_t *head, size_t nhead,
    const uint8_t *body, size_t nbody);
/* Is there room for one more? */
bool copy_may_send(const struct part *p);
/* What is safe, after something has changed. */
void copy_settle(struct part *p);
/* Drop all that waits for the next copy. */
void copy_forget(struct part *p);
/* The next copy is another server now; what it lacks is sent to it. */
void copy_redirect(struct shard *s, struct part *p, uint16_t to, uint64_t process);

#endif
