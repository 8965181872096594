/* SPDX-License-Identifier: ISC */
#include "shard/robust.h"

#include <math.h>

#include "codec/codec.h"
#include "core/mem.h"
#include "math/order.h"
#include "math/vec.h"
#include "shard/outliers.h"

/* The gradients to combine, in ascending order of slots: so equal gradients give equal bits, in
 * whatever order they arrived. */
struct combined {
	uint32_t n;
	uint32_t slot[ORDER_MAX];
	const float *g[ORDER_MAX];
	double norm2[ORDER_MAX], dot[ORDER_MAX];
};

uint64_t robust_bytes(const struct part *p, const struct shard_config *cfg)
{
	return cfg->robust.kind ? (uint64_t)cfg->slots * (p->n * sizeof(float) + sizeof *p->kept)
	                        : 0;
}

bool robust_has_room(struct part *p, struct shard *s, uint32_t slot)
{
	uint64_t need = p->n * sizeof(float) + sizeof *p->kept;

	if (!s->cfg.robust.kind || slot == SHARD_OUTSIDE || slot < s->cfg.slots ||
	    (slot < p->nkept && p->kept[slot].g))
		return true;
	if (slot >= ORDER_MAX ||
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
	struct kept *k;
	const float *g;

	if (p->table->sparse || push->slot >= ORDER_MAX)
		return false;
	if (push->slot >= p->nkept) {
		size_t n = (size_t)push->slot + 1;

		p->kept = mem_regrow(p->kept, n, sizeof *p->kept);
		memset(p->kept + p->nkept, 0, (n - p->nkept) * sizeof *p->kept);
		p->nkept = n;
	}
	k = &p->kept[push->slot];
	if (!k->g && !(k->g = mem_try_array(p->n, sizeof *k->g)))
		return false;
	g = codec_values(codec, push->payload, push->len, p->n, k->g);
	if (g != k->g)
		memcpy(k->g, g, p->n * sizeof *k->g);
	k->examples = push->examples;
	return true;
}

/* ---- clip ---- */

/* The weight of a gradient is its number of examples, but at most the median number: a worker
 * cannot gain weight by stating more. */
static uint32_t median_weight(const struct part *p, const struct combined *c)
{
	double v[ORDER_MAX];

	for (uint32_t i = 0; i < c->n; i++)
		v[i] = p->kept[c->slot[i]].examples;
	return (uint32_t)order_middle(c->n, v);
}

static void measure_norms(const struct part *p, struct combined *c)
{
	for (uint32_t i = 0; i < c->n; i++)
		c->norm2[i] = vec_sumsq(p->n, c->g[i]);
}

/* Sums the gradients, each shortened to X times the median length. Returns the sum of weights. */
static uint64_t combine_clipped(struct part *p, double times, struct combined *c)
{
	uint32_t most = median_weight(p, c);
	uint64_t examples = 0;
	double v[ORDER_MAX], limit2;

	measure_norms(p, c);
	memcpy(v, c->norm2, c->n * sizeof *v);
	limit2 = times * times * order_middle(c->n, v);
	for (uint32_t i = 0; i < c->n; i++) {
		uint32_t weight = p->kept[c->slot[i]].examples < most ? p->kept[c->slot[i]].examples
		                                                      : most;
		double factor = c->norm2[i] > limit2 ? sqrt(limit2 / c->norm2[i]) : 1;

		if (i)
			vec_axpy(p->n, (float)(factor * weight), c->g[i], p->acc);
		else
			vec_axpy_first(p->n, (float)(factor * weight), c->g[i], p->acc);
		examples += weight;
	}
	return examples;
}

/* ---- any aggregator ---- */

/* Combines the gradients into p->acc. Returns the divisor. */
static uint64_t combine_gradients(const struct robust *robust, struct part *p, struct combined *c)
{
	uint32_t trim = robust->trim < (c->n - 1) / 2 ? robust->trim : (c->n - 1) / 2;

	if (robust->kind == ROBUST_CLIP)
		return combine_clipped(p, robust->clip, c);
	if (robust->kind == ROBUST_MEDIAN)
		order_median(c->n, p->n, c->g, p->acc);
	else
		order_trimmed(c->n, trim, p->n, c->g, p->acc);
	return 1;
}

uint64_t robust_combine(struct shard *s, struct part *p)
{
	/* 112 KiB on the stack, with the partition's lock held; combine_clipped adds up to 64 KiB. */
	struct combined c;
	uint64_t examples;

	c.n = 0;
	for (uint32_t i = 0; i < p->nkept; i++)
		if (p->kept[i].examples) {
			c.slot[c.n] = i;
			c.g[c.n++] = p->kept[i].g;
		}
	if (!c.n)
		return 0;
	examples = combine_gradients(&s->cfg.robust, p, &c);
	if (s->watch) {
		if (s->cfg.robust.kind != ROBUST_CLIP)
			measure_norms(p, &c);
		for (uint32_t i = 0; i < c.n; i++)
			c.dot[i] = vec_dot(p->n, c.g[i], p->acc) / (double)examples;
		outliers_note(s->watch,
		    &(struct watched){ .step = p->step,
		        .elements = p->n,
		        .n = c.n,
		        .slot = c.slot,
		        .norm2 = c.norm2,
		        .dot = c.dot,
		        .sum2 = vec_sumsq(p->n, p->acc) / ((double)examples * (double)examples) });
	}
	return examples;
}

void robust_reopen(struct part *p)
{
	for (size_t i = 0; i < p->nkept; i++)
		p->kept[i].examples = 0;
}

void robust_free(struct part *p)
{
	for (size_t i = 0; i < p->nkept; i++)
		free(p->kept[i].g);
	free(p->kept);
	p->kept = NULL;
	p->nkept = 0;
}
