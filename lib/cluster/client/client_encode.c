/* SPDX-License-Identifier: ISC */
#include <math.h>
#include <stdlib.h>

#include "client/client_state.h"
#include "core/clock.h"
#include "core/mem.h"
#include "math/vec.h"

/* Encoding of dense gradients. With error feedback, the difference between a gradient and its
 * encoding is kept as the table's residual and added to its next gradient (Seide et al. 2014;
 * Karimireddy et al., "Error Feedback Fixes SignSGD", ICML 2019). */

/* Deep gradient compression starts with a quarter of the values, and reaches the configured
 * fraction after this many steps. */
#define WARM_UP       500
#define WARM_FRACTION 0.25

/* The table's array in a list of residuals or velocities, made of zeroes when there is none. */
static float *table_feedback(float ***kept, size_t *n, const struct table *t)
{
	if (t->id >= *n) {
		*kept = mem_regrow(*kept, (size_t)t->id + 1, sizeof **kept);
		while (*n <= t->id)
			(*kept)[(*n)++] = NULL;
	}
	if (!(*kept)[t->id])
		(*kept)[t->id] = mem_array(table_elements(t), sizeof(float));
	return (*kept)[t->id];
}

float *client_encode_residual(struct client *c, const struct table *t, bool velocity)
{
	return velocity ? table_feedback(&c->velocity, &c->nvelocities, t)
	                : table_feedback(&c->residual, &c->nresiduals, t);
}

static float *part_residual(struct client *c, const struct inflight_push *d)
{
	return table_feedback(&c->residual, &c->nresiduals, d->table) +
	    table_part_begin(d->table, d->part);
}

/* Momentum correction: accumulate velocities instead of gradients (Lin et al., "Deep Gradient
 * Compression", ICLR 2018, equation 5). Returns the partition's velocity, updated by this
 * gradient. */
static float *update_velocity(struct client *c, const struct inflight_push *d)
{
	float *u = table_feedback(&c->velocity, &c->nvelocities, d->table) +
	    table_part_begin(d->table, d->part);

	vec_xpay(d->n, d->g, c->cfg.coding.momentum, u);
	return u;
}

/* The codec's argument at this step: for codecs with momentum it falls from WARM_FRACTION to
 * the configured one, exponentially. */
static double warm_up_argument(const struct codec *codec, double arg, uint64_t step)
{
	double part = (double)step / WARM_UP;

	if (!codec->momentum || part >= 1 || arg >= WARM_FRACTION)
		return arg;
	return pow(WARM_FRACTION, 1 - part) * pow(arg, part);
}

/* Encode a push into d->body. left: the partition's residual, or NULL. keep: store the values
 * that this encoding leaves out as the new residual; else the old one is used up, and zeroed. */
static void encode_body(struct client *c, struct inflight_push *d, const struct codec *codec,
    float *left, bool keep)
{
	double arg = warm_up_argument(codec, c->cfg.coding.codec.arg, d->step);
	const float *x = d->g;
	float *u = NULL;

	/* Send values that are not finite as they are: the server refuses them. The same way
	 * go lossless pushes with a residual of zeroes. */
	if ((!codec->lossy && vec_sumsq(d->n, left) <= 0) || !vec_all_finite(d->n, d->g))
		return;
	if (codec->momentum)
		x = u = update_velocity(c, d);
	if (left) {
		vec_add(d->n, x, left);
		x = left;
	}
	d->codec = codec->id;
	d->body = mem_alloc(codec->bound(arg, d->n));
	d->len = codec->encode(arg, &c->rng, x, d->n, d->body);
	if (keep)
		codec->add(d->body, d->len, d->n, -1, left);
	else if (left)
		memset(left, 0, d->n * sizeof *left);
	/* Factor masking: zero the velocity of the values that were sent. */
	if (u && left)
		vec_mask(d->n, left, u);
}

void client_encode_push(struct client *c, struct inflight_push *d)
{
	const struct client_coding *coding = &c->cfg.coding;
	const struct codec *codec = coding->codec.codec ? coding->codec.codec : codec_by_id(0);
	bool keep = coding->feedback && codec->lossy;
	/* A residual that an earlier coding left is sent with the first push, even by a codec
	 * that keeps none. */
	bool before = d->table->id < c->nresiduals && c->residual[d->table->id];
	int64_t begin;

	/* Raw values are sent from the caller's memory, without a copy. */
	if (!codec->lossy && !before)
		return;
	begin = clock_now();
	encode_body(c, d, codec, keep || before ? part_residual(c, d) : NULL, keep);
	client_encode_count_time(c, begin);
}

void client_encode_restore_residual(struct client *c, const struct inflight_push *d)
{
	const struct codec *codec = codec_by_id(d->codec);

	if (d->body && c->cfg.coding.feedback)
		codec->add(d->body, d->len, d->n, 1, part_residual(c, d));
}

static void grow_feedback(float **kept, size_t n, size_t table, uint64_t had, uint64_t elements)
{
	if (table >= n || !kept[table])
		return;
	kept[table] = mem_regrow(kept[table], elements, sizeof(float));
	memset(kept[table] + had, 0, (elements - had) * sizeof(float));
}

void client_encode_grow_residual(struct client *c, const struct table *had, const struct table *t)
{
	grow_feedback(c->residual, c->nresiduals, t->id, table_elements(had), table_elements(t));
	grow_feedback(c->velocity, c->nvelocities, t->id, table_elements(had), table_elements(t));
}

void client_encode_free_residuals(struct client *c)
{
	for (size_t i = 0; i < c->nresiduals; i++)
		free(c->residual[i]);
	for (size_t i = 0; i < c->nvelocities; i++)
		free(c->velocity[i]);
	free(c->residual);
	free(c->velocity);
	c->residual = c->velocity = NULL;
	c->nresiduals = c->nvelocities = 0;
}
