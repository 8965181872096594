#ifndef SERVER_DENSE_H
#define SERVER_DENSE_H

#include "codec/codec.h"
#include "server/state.h"

/* Queue a dense partition's values of this step as the answer `out` (its head without
 * codec, flags, len and total), by a codec that is for pulls.  Only what has changed
 * after version `since`, where that is known and not the larger part; UINT64_MAX: all. */
enum shard_answer dense_answer(struct peer *p, uint64_t step, const struct codec *codec, uint64_t since, struct record *out);

#endif
