/* SPDX-License-Identifier: ISC */
#include "data/batch/row_domain.h"

#include "core/mem.h"

enum err_code row_sampler_sample(struct row_sampler *s, struct batch *b, struct err *e)
{
	return s ? s->sample(s, b, e) : ERR_OK;
}

void row_sampler_free(struct row_sampler *s)
{
	if (s)
		s->free(s);
}

/* ---- features ---- */

static size_t count_features(const struct dataset *d)
{
	return d->cols;
}

static size_t count_used_features(const struct dataset *d)
{
	return d->nids;
}

static size_t features_of_batch(const struct batch *b, const uint64_t **id)
{
	*id = b->id;
	return b->nids;
}

static const uint32_t *features_of_slice(const struct batch_slice *s)
{
	return s->row;
}

const struct row_domain row_domain_features = {
	.rows = count_features,
	.used = count_used_features,
	.of_batch = features_of_batch,
	.of_slice = features_of_slice,
	.count_touching = batch_count_touching,
};

/* ---- counts ---- */

void row_counts_begin(struct row_counts *c)
{
	c->domain = NULL;
}

const uint32_t *row_counts_of(struct row_counts *c, const struct row_domain *domain,
    const struct batch *b)
{
	const uint64_t *id;
	size_t n = domain->of_batch(b, &id);

	if (c->domain == domain)
		return c->touching;
	if (n > c->room || !c->touching) {
		c->room = n + n / 4 + 1;
		c->touching = mem_regrow(c->touching, c->room, sizeof *c->touching);
		c->last = mem_regrow(c->last, c->room, sizeof *c->last);
	}
	domain->count_touching(b, c->touching, c->last);
	c->domain = domain;
	return c->touching;
}

void row_counts_release(struct row_counts *c)
{
	free(c->touching);
	free(c->last);
	*c = (struct row_counts){ 0 };
}
