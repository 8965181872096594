/* SPDX-License-Identifier: ISC */
#include "shard/robust.h"

#include "codec/codec.h"
#include "core/mem.h"
#include "math/order.h"

uint64_t robust_bytes(const struct part *p, const struct shard_config *cfg)
{
	return aggregate_compares(&cfg->aggregate)
	    ? (uint64_t)cfg->ranks * (p->n * sizeof(float) + sizeof *p->sum.gradients)
	    : 0;
}

bool robust_has_room(struct part *p, struct shard *s, uint32_t rank)
{
	uint64_t need = p->n * sizeof(float) + sizeof *p->sum.gradients;

	mutex_assert_held(&p->lock);
	if (rank == SHARD_OUTSIDE || rank < s->cfg.ranks ||
	    (rank < p->sum.ngradients && p->sum.gradients[rank].g))
		return true;
	if (rank >= ORDER_MAX ||
	    (s->budget.limit && atomic_load(&s->budget.used) + need > s->budget.limit)) {
		atomic_store(&s->budget.full, true);
		return false;
	}
	atomic_fetch_add(&s->budget.used, need);
	p->booked += need;
	return true;
}

bool robust_keep(struct part *p, const struct push *push)
{
	const struct codec *codec = codec_by_id(push->codec);
	struct rank_gradient *k;
	const float *g;

	mutex_assert_held(&p->lock);
	if (p->table->sparse || push->rank >= ORDER_MAX)
		return false;
	if (push->rank >= p->sum.ngradients) {
		size_t n = (size_t)push->rank + 1;

		p->sum.gradients = mem_regrow(p->sum.gradients, n, sizeof *p->sum.gradients);
		memset(p->sum.gradients + p->sum.ngradients, 0,
		    (n - p->sum.ngradients) * sizeof *p->sum.gradients);
		p->sum.ngradients = n;
	}
	k = &p->sum.gradients[push->rank];
	if (!k->g && !(k->g = mem_try_array(p->n, sizeof *k->g)))
		return false;
	g = codec_decode(codec, push->payload, push->len, p->n, k->g);
	if (g != k->g)
		memcpy(k->g, g, p->n * sizeof *k->g);
	k->examples = push->examples;
	return true;
}

/* The examples of which n gradients were made. The array takes 32 KiB of stack. */
static uint64_t count_examples(const struct aggregate_in *in)
{
	double v[ORDER_MAX];
	uint64_t sum = 0;
	uint32_t most;

	for (uint32_t i = 0; i < in->n; i++)
		v[i] = in->examples[i];
	most = (uint32_t)order_middle(in->n, v);
	for (uint32_t i = 0; i < in->n; i++)
		sum += in->examples[i] < most ? in->examples[i] : most;
	return sum;
}

struct part_sum_size robust_combine(struct shard *s, struct part *p)
{
	mutex_assert_held(&p->lock);
	/* 48 KiB on the stack, with the partition's lock held; the aggregator may add 128 KiB. */
	uint32_t examples[ORDER_MAX];
	const float *gradient[ORDER_MAX];
	struct aggregate_in in = { .len = p->n, .gradient = gradient, .examples = examples };

	for (uint32_t i = 0; i < p->sum.ngradients; i++)
		if (p->sum.gradients[i].examples) {
			examples[in.n] = p->sum.gradients[i].examples;
			gradient[in.n++] = p->sum.gradients[i].g;
		}
	if (!in.n)
		return (struct part_sum_size){ 0, 0 };
	return (struct part_sum_size){ count_examples(&in),
		s->cfg.aggregate.ops->combine(&s->cfg.aggregate, &in, p->dense.acc) };
}

void robust_reopen(struct part *p)
{
	mutex_assert_held(&p->lock);
	for (size_t i = 0; i < p->sum.ngradients; i++)
		p->sum.gradients[i].examples = 0;
}

void robust_free(struct part *p)
{
	for (size_t i = 0; i < p->sum.ngradients; i++)
		free(p->sum.gradients[i].g);
	free(p->sum.gradients);
	p->sum.gradients = NULL;
	p->sum.ngradients = 0;
}
