#ifndef SERVER_DENSE_H
#define SERVER_DENSE_H

#include "codec/codec.h"
#include "server/state.h"

/* Queue a dense partition's values of this step as the answer `out` (its head without
 * codec, flags, len and total), by a codec that is for pulls.  Only what has changed
 * after version `since`, where that is known and not the larger part; UINT64_MAX: all. */
enum shard_answer dense_answer(struct peer *p, uint64_t step, const struct codec *codec, uint64_t since, struct record *out);
/* That it may be shown at this step, or nothing but the head; what the update rule keeps
 * of it, vector k. */
enum shard_answer dense_tell(struct peer *p, uint64_t step, bool shown, struct record *out);
enum shard_answer dense_state(struct peer *p, uint64_t step, uint64_t k, struct record *out);

#endif
