#include "shard/part.h"

/* Figures about a shard; a partition's lock is held while it is looked at. */

static void count_part(const struct shard *s, struct part *p, struct shard_stats *out)
{
	unsigned nslots = s->cfg.rule->nslots;

	if (p->rows) {
		uint64_t floats = rows_count(p->rows) * p->table->cols;

		out->rows += rows_count(p->rows);
		out->parameters += floats;
		out->parameter_bytes += floats * 4;
		out->state_bytes += rows_bytes(p->rows) - floats * 4;
	} else {
		out->parameters += p->n;
		out->parameter_bytes += (uint64_t)p->n * 4;
		out->state_bytes += (uint64_t)p->n * nslots * 4;
	}
	out->unsent += p->nsent;
}

static void each_part(struct shard *s, void (*fn)(const struct shard *s, struct part *p, void *ctx), void *ctx)
{
	for (uint32_t t = 0; t < atomic_load(&s->ntables); t++) {
		struct shard_table *table = atomic_load(&s->table[t]);

		for (uint32_t i = 0; table && i < table->shape.nparts; i++) {
			struct part *p = atomic_load(&table->part[i]);

			if (!p)
				continue;
			pthread_mutex_lock(&p->lock);
			if (p->here)
				fn(s, p, ctx);
			pthread_mutex_unlock(&p->lock);
		}
	}
}

static void add_stats(const struct shard *s, struct part *p, void *ctx)
{
	count_part(s, p, ctx);
}

void shard_stats(struct shard *s, struct shard_stats *out)
{
	*out = (struct shard_stats){ .pulls = atomic_load(&s->pulls) };
	for (int i = 0; i <= PUSH_SPLIT; i++)
		out->status[i] = atomic_load(&s->status[i]);
	each_part(s, add_stats, out);
	out->closed = shard_step(s);
}

static void add_bytes(const struct shard *s, struct part *p, void *ctx)
{
	uint64_t copies = 1 + s->cfg.rule->nslots + (p->acc != NULL) + (p->spare != NULL) + (p->prev != NULL);

	*(uint64_t *)ctx += p->rows ? rows_bytes(p->rows) : p->n * 4 * copies;
}

uint64_t shard_bytes(struct shard *s)
{
	uint64_t sum = 0;

	each_part(s, add_bytes, &sum);
	return sum;
}

const struct hist *shard_staleness(const struct shard *s)
{
	return &s->staleness;
}

const struct hist *shard_apply_time(const struct shard *s)
{
	return &s->apply_time;
}
