#ifndef SHARD_HAND_H
#define SHARD_HAND_H

#include "shard/gate.h"

/* A relay's partitions, which hand on what they sum.  The partition's lock is held. */

/* The open step's sum goes up, and the next is open. */
void hand_close(struct shard *s, struct part *p);
/* Somebody is at `step`: what is open of a step before goes up as it is, and who is
 * late goes alone.  Nothing happens when there is no room for another sum. */
void hand_jump(struct shard *s, struct part *p, uint64_t step);
/* Nothing has come, and nothing is announced, of the steps below this. */
void hand_skip(struct part *p, uint64_t step);
/* The slot is in the open sum; examples 0: its push was refused. */
void hand_share(struct part *p, uint32_t slot, uint32_t examples, uint64_t incarnation);

/* Are the values of this step here? */
enum shard_answer hand_shows(struct part *p, uint64_t step);
enum shard_answer hand_rows(struct part *p, uint64_t step, const uint8_t *ids, uint32_t n, float *out);
/* Floats a row: its values, and of which step they are and were asked for. */
uint32_t hand_stride(uint32_t cols);

#endif
