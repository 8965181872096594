#ifndef SHARD_LIFE_H
#define SHARD_LIFE_H

#include "coord/policy.h"
#include "shard/part.h"
#include "shard/sketch.h"

/* Which ids of a sparse partition get a row, and for how long, where its table has a policy.  All of it
 * follows from the updates, one after the other, and the steps they are of: so copies do the same, and what
 * is kept goes along in copies and checkpoints.  The partition's lock is held. */
struct life {
	const struct row_policy *policy;
	bool by_updates;                /* there are no steps: each update is one */
	uint64_t clock;                 /* the highest step of an update */
	uint64_t halved;                /* how often the counts would have been, by the clock */
	uint64_t looked;                /* the clock when rows were looked through last for those that expire */
	uint64_t removed;               /* the clock when rows went last, plus 1; 0: never */
	uint64_t removed_version;       /* the version that this made; of this copy alone */
	uint64_t count[LIFE_COUNTS];
	struct sketch sketch;
};

/* NULL: the table has no policy.  updates: steps are not counted. */
struct life *life_new(const struct table *t, bool updates);
void life_free(struct life *l);
size_t life_bytes(const struct life *l);
/* Bytes that counting ids will take of each of its partitions. */
uint64_t life_sketch(const struct table *t);

/* An update is made that is of this step. */
static inline void life_at(struct part *p, uint64_t step)
{
	if (p->life && !p->life->by_updates && step > p->life->clock)
		p->life->clock = step;
}

/* Of n ids, a block, which may be updated?  place: room for n, filled where it is not all; returns how many. */
uint32_t life_choose(struct part *p, const uint8_t *ids, uint32_t n, uint32_t *place);
/* They have been: n rows, of which those of `made` are new. */
void life_touch(struct part *p, float *const *row, uint32_t n, uint64_t made);
/* The step at which the row was updated last; p->seen_at is not 0.  life_set_seen: it was at this one. */
uint64_t life_seen(const struct part *p, const float *row);
void life_set_seen(const struct part *p, float *row, uint64_t step);
/* The update is made: rows that are too old, or too many, go.  False: no memory. */
bool life_turn(struct part *p);

/* As words, to be sent and saved: how many, these, and from n of them; false: they are none. */
size_t life_words(const struct life *l);
void life_put(const struct life *l, uint64_t *out);
bool life_get(struct life *l, const uint64_t *in, size_t n);

#endif
