#include <stdlib.h>

#include "base/mem.h"
#include "client/client_state.h"
#include "kern/vec.h"

/* What of a dense gradient travels.  With feedback what an encoding leaves out is kept,
 * and added to the table's next gradient (Seide et al. 2014; Karimireddy et al., "Error
 * Feedback Fixes SignSGD", ICML 2019). */

static float *residual_of(struct client *c, const struct table *t)
{
	if (t->id >= c->nresiduals) {
		c->residual = mem_regrow(c->residual, (size_t)t->id + 1, sizeof *c->residual);
		while (c->nresiduals <= t->id)
			c->residual[c->nresiduals++] = NULL;
	}
	if (!c->residual[t->id])
		c->residual[t->id] = mem_array(table_elements(t), sizeof(float));
	return c->residual[t->id];
}

void encode_push(struct client *c, struct doubt *d)
{
	const struct codec_spec *spec = &c->cfg.codec;
	const float *x = d->g;
	float *left = NULL;

	/* What is not finite is the server's to refuse, as it is. */
	if (!spec->codec || !spec->codec->lossy || !vec_all_finite(d->n, d->g))
		return;
	if (c->cfg.feedback) {
		left = residual_of(c, d->table) + table_part_begin(d->part);
		vec_add(d->n, d->g, left);
		x = left;
	}
	d->codec = spec->codec->id;
	d->body = mem_alloc(spec->codec->bound(spec->arg, d->n));
	d->len = spec->codec->encode(spec->arg, &c->rng, x, d->n, d->body);
	if (left)
		spec->codec->add(d->body, d->len, d->n, -1, left);
}

void encode_again(struct client *c, const struct doubt *d)
{
	const struct codec *codec = codec_by_id(d->codec);

	if (d->body && !d->table->sparse && c->cfg.feedback)
		codec->add(d->body, d->len, d->n, 1, residual_of(c, d->table) + table_part_begin(d->part));
}

void encode_free(struct client *c)
{
	for (size_t i = 0; i < c->nresiduals; i++)
		free(c->residual[i]);
	free(c->residual);
}
