/* SPDX-License-Identifier: ISC */
#include <math.h>
#include <stdlib.h>

#include "client/client_state.h"
#include "codec/codec.h"
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
	client_assert_owner(c);
	return velocity ? table_feedback(&c->feedback.velocity, &c->feedback.nvelocities, t)
	                : table_feedback(&c->feedback.residual, &c->feedback.nresiduals, t);
}

static float *part_residual(struct client *c, const struct request *r)
{
	return table_feedback(&c->feedback.residual, &c->feedback.nresiduals, r->table) +
	    table_part_begin(r->table, r->part);
}

/* Momentum correction: accumulate velocities instead of gradients (Lin et al., "Deep Gradient
 * Compression", ICLR 2018, equation 5). Returns the partition's velocity, updated by this
 * gradient. */
static float *update_velocity(struct client *c, const struct request *r)
{
	float *u = table_feedback(&c->feedback.velocity, &c->feedback.nvelocities, r->table) +
	    table_part_begin(r->table, r->part);

	vec_xpay(r->n, r->push.g, c->cfg.coding.momentum, u);
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

/* Encode a push into r->push.body. left: the partition's residual, or NULL. keep: store the values
 * that this encoding leaves out as the new residual; else the old one is used up, and zeroed. */
static void encode_body(struct client *c, struct request *r, const struct codec *codec, float *left,
    bool keep)
{
	double arg = warm_up_argument(codec, c->cfg.coding.codec.arg, r->step);
	const float *x = r->push.g;
	float *u = NULL;

	/* Values that are not finite are sent unencoded, so that the server refuses them. So are
	 * lossless pushes that have no residual to add. */
	if ((!codec->lossy && vec_sumsq(r->n, left) <= 0) || !vec_all_finite(r->n, r->push.g))
		return;
	if (codec->momentum)
		x = u = update_velocity(c, r);
	if (left) {
		vec_add(r->n, x, left);
		x = left;
	}
	r->push.codec = codec->id;
	r->push.body = mem_alloc(codec->bound(arg, r->n));
	r->push.len = codec->encode(arg, &c->rng, x, r->n, r->push.body);
	if (keep)
		codec->add(r->push.body, r->push.len, r->n, -1, left);
	else if (left)
		memset(left, 0, r->n * sizeof *left);
	/* Factor masking: zero the velocity of the values that were sent. */
	if (u && left)
		vec_mask(r->n, left, u);
}

void client_encode_push(struct request *r)
{
	struct client *c = r->client;
	const struct client_coding *coding = &c->cfg.coding;
	const struct codec_spec *spec = &coding->codec;
	/* Raw values where the job's codec could make more than a record holds: a fraction of more
	 * than four ninths of a whole table has more bytes than all its values. */
	bool fits = spec->codec && spec->codec->bound(spec->arg, r->n) <= RECORD_MAX;
	const struct codec *codec = fits ? spec->codec : codec_by_id(0);
	bool keep = coding->feedback && codec->lossy;
	/* A residual that an earlier coding left is sent with the first push, even by a codec
	 * that keeps none. */
	bool before = r->table->id < c->feedback.nresiduals && c->feedback.residual[r->table->id];
	int64_t begin;

	/* Raw values are sent from the caller's memory, without a copy. */
	if (!codec->lossy && !before)
		return;
	begin = clock_now();
	encode_body(c, r, codec, keep || before ? part_residual(c, r) : NULL, keep);
	client_encode_count_time(c, begin);
}

void client_encode_give_back(struct request *r)
{
	client_assert_owner(r->client);
	if (r->push.body && r->client->cfg.coding.feedback)
		codec_by_id(r->push.codec)
		    ->add(r->push.body, r->push.len, r->n, 1, part_residual(r->client, r));
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
	client_assert_owner(c);
	grow_feedback(c->feedback.residual, c->feedback.nresiduals, t->id, table_elements(had),
	    table_elements(t));
	grow_feedback(c->feedback.velocity, c->feedback.nvelocities, t->id, table_elements(had),
	    table_elements(t));
}

void client_encode_free_residuals(struct client *c)
{
	for (size_t i = 0; i < c->feedback.nresiduals; i++)
		free(c->feedback.residual[i]);
	for (size_t i = 0; i < c->feedback.nvelocities; i++)
		free(c->feedback.velocity[i]);
	free(c->feedback.residual);
	free(c->feedback.velocity);
	c->feedback.residual = c->feedback.velocity = NULL;
	c->feedback.nresiduals = c->feedback.nvelocities = 0;
}
