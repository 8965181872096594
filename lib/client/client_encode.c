#include <math.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"
#include "client/client_state.h"
#include "kern/vec.h"

/* What of a dense gradient travels.  With feedback what an encoding leaves out is kept,
 * and added to the table's next gradient (Seide et al. 2014; Karimireddy et al., "Error
 * Feedback Fixes SignSGD", ICML 2019). */

/* Deep gradient compression begins with a quarter of the values, and comes to the
 * fraction that is asked for in so many steps. */
#define WARM_UP 500
#define WARM_FRACTION 0.25

/* What is kept of a table, by element: zeroes to begin with. */
static float *kept_of(float ***kept, size_t *n, const struct table *t)
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

float *encode_kept(struct client *c, const struct table *t, bool velocity)
{
	return velocity ? kept_of(&c->velocity, &c->nvelocities, t) : kept_of(&c->residual, &c->nresiduals, t);
}

static float *residual_of(struct client *c, const struct doubt *d)
{
	return kept_of(&c->residual, &c->nresiduals, d->table) + table_part_begin(d->table, d->part);
}

/* Momentum correction: what is left is not a sum of gradients but of velocities
 * (Lin et al., "Deep Gradient Compression", ICLR 2018, equation 5). */
static float *velocity(struct client *c, const struct doubt *d)
{
	float *u = kept_of(&c->velocity, &c->nvelocities, d->table) + table_part_begin(d->table, d->part);

	vec_xpay(d->n, d->g, c->cfg.coding.momentum, u);
	return u;
}

static double argument(const struct codec *codec, double arg, uint64_t step)
{
	double part = (double)step / WARM_UP;

	if (!codec->momentum || part >= 1 || arg >= WARM_FRACTION)
		return arg;
	return pow(WARM_FRACTION, 1 - part) * pow(arg, part);
}

/* left: the partition's residual, NULL when there is none; keep: it takes what is left out now. */
static void encode(struct client *c, struct doubt *d, const struct codec *codec, float *left, bool keep)
{
	double arg = argument(codec, c->cfg.coding.codec.arg, d->step);
	const float *x = d->g;
	float *u = NULL;

	/* What is not finite is the server's to refuse, as it is. */
	if ((!codec->lossy && !vec_sumsq(d->n, left)) || !vec_all_finite(d->n, d->g))
		return;
	if (codec->momentum)
		x = u = velocity(c, d);
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
	/* Factor masking: what has been sent has no velocity any more. */
	if (u && left)
		vec_mask(d->n, left, u);
}

void encode_push(struct client *c, struct doubt *d)
{
	const struct client_coding *coding = &c->cfg.coding;
	const struct codec *codec = coding->codec.codec ? coding->codec.codec : codec_by_id(0);
	bool keep = coding->feedback && codec->lossy;
	/* What another coding has left out goes with the first push by one that keeps nothing. */
	bool before = d->table->id < c->nresiduals && c->residual[d->table->id];
	int64_t begin;

	/* Raw values travel from where they are. */
	if (!codec->lossy && !before)
		return;
	begin = clock_now();
	encode(c, d, codec, keep || before ? residual_of(c, d) : NULL, keep);
	encoded_since(c, begin);
}

void encode_again(struct client *c, const struct doubt *d)
{
	const struct codec *codec = codec_by_id(d->codec);

	if (d->body && c->cfg.coding.feedback)
		codec->add(d->body, d->len, d->n, 1, residual_of(c, d));
}

static void grow_kept(float **kept, size_t n, size_t table, uint64_t had, uint64_t elements)
{
	if (table >= n || !kept[table])
		return;
	kept[table] = mem_regrow(kept[table], elements, sizeof(float));
	memset(kept[table] + had, 0, (elements - had) * sizeof(float));
}

void encode_grown(struct client *c, const struct table *had, const struct table *t)
{
	grow_kept(c->residual, c->nresiduals, t->id, table_elements(had), table_elements(t));
	grow_kept(c->velocity, c->nvelocities, t->id, table_elements(had), table_elements(t));
}

void encode_forget(struct client *c)
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
