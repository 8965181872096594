#ifndef SERVER_SPARSE_H
#define SERVER_SPARSE_H

#include "codec/codec.h"
#include "server/state.h"

/* Queue n rows of a sparse partition at this step as the answer `out` (its head without
 * codec, flags, len and total), by a codec that is for pulls.  Of those that are had as
 * of since[i] (codec/since.h; NULL: none is) only what has changed, where that is less. */
enum shard_answer sparse_answer(struct peer *p, uint64_t step, const struct codec *codec, const uint8_t *ids, uint32_t n,
    const uint64_t *since, struct record *out);

#endif
