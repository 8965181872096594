/* SPDX-License-Identifier: ISC */
#include "shard/past_values.h"

#include "codec/codec.h"
#include "core/mem.h"
#include "math/vec.h"

struct past_values {
	const struct stale_ops *ops;
	/* The versions that are kept: from `first` to before `end`, at most cap. */
	uint64_t first, end, cap;
	/* cap copies of the n values, version v at v % cap * n; then the gradient that is being
	 * compensated; then the state of ops, if it has any. */
	float *w, *g, *square;
};

static unsigned versions_kept(const struct shard *s)
{
	return s->cfg.ranks < 1                ? 1
	    : s->cfg.ranks < PAST_VERSIONS_MAX ? s->cfg.ranks
	                                       : PAST_VERSIONS_MAX;
}

/* Returns the number of arrays of n floats in `w` of struct past_values. */
static size_t past_arrays(const struct shard *s, const struct stale_ops *ops)
{
	return (size_t)versions_kept(s) + 1 + (ops->has_square ? 1 : 0);
}

uint64_t past_values_bytes(const struct shard *s, const struct stale *stale, size_t n)
{
	return stale_needs_values(stale) ? past_arrays(s, stale->ops) * n * sizeof(float) : 0;
}

void past_values_free(struct part *p)
{
	if (p->dense.past)
		free(p->dense.past->w);
	free(p->dense.past);
	p->dense.past = NULL;
}

/* Returns the past values of the partition, and makes them if there are none. NULL: no memory. */
static struct past_values *ensure_past(const struct shard *s, struct part *p,
    const struct stale_ops *ops)
{
	struct past_values *past = p->dense.past;
	size_t n = p->n;

	if (past && past->ops == ops)
		return past;
	past_values_free(p);
	past = mem_alloc(sizeof *past);
	*past = (struct past_values){ .ops = ops, .cap = versions_kept(s) };
	past->w = mem_try_array(past_arrays(s, ops) * n, sizeof *past->w);
	if (!past->w) {
		free(past);
		return NULL;
	}
	past->g = past->w + past->cap * n;
	past->square = ops->has_square ? past->g + n : NULL;
	if (past->square)
		memset(past->square, 0, n * sizeof *past->square);
	p->dense.past = past;
	return past;
}

/* Keeps the present values, in place of the oldest version's if there is no room. */
static void keep_present(struct past_values *past, const struct part *p)
{
	memcpy(past->w + p->version % past->cap * p->n, p->dense.w, p->n * sizeof *p->dense.w);
	past->end = p->version + 1;
	if (past->end - past->first > past->cap)
		past->first = past->end - past->cap;
}

/* The values of version `pulled`, or of the oldest one that is kept. The present values where the
 * gradient is not stale, or nothing is kept. */
static const float *find_past(const struct past_values *past, const struct part *p, uint64_t pulled)
{
	uint64_t version = pulled > past->first ? pulled : past->first;

	if (version >= past->end)
		return p->dense.w;
	return past->w + version % past->cap * p->n;
}

static void replace_gradient(struct past_values *past, const struct part *p,
    const struct stale *stale, struct push *push)
{
	const struct codec *codec = codec_by_id(push->codec);
	const float *g = codec_decode(codec, push->payload, push->len, p->n, past->g);

	if (g != past->g)
		memcpy(past->g, g, p->n * sizeof *g);
	stale->ops->compensate(p->n, stale->lambda, p->dense.w, find_past(past, p, push->pulled),
	    past->square, past->g);
	if (!vec_all_bounded(p->n, past->g))
		return;
	push->codec = codec_by_name("raw")->id;
	push->payload = (const uint8_t *)past->g;
	push->len = p->n * sizeof *past->g;
}

bool past_values_compensate(struct shard *s, struct part *p, const struct stale *stale,
    struct push *push)
{
	struct past_values *past;

	mutex_assert_held(&p->lock);
	if (p->table->sparse || !stale_needs_values(stale))
		return true;
	past = ensure_past(s, p, stale->ops);
	if (!past)
		return false;
	/* Another server was the head, or values were assigned: the versions before are not
	 * known. */
	if (past->end != p->version)
		past->first = past->end = p->version;
	if (push->rank != SHARD_OUTSIDE)
		replace_gradient(past, p, stale, push);
	keep_present(past, p);
	return true;
}
