#include "base/mem.h"
#include "shard/copy.h"

/* A picture of all partitions of which this server is the last copy, as they
 * are between two steps.  A partition is copied before the first update after
 * that, or when somebody comes round to it; so nobody waits for the picture. */

struct snap {
	struct ckpt_part part;
	uint64_t *ids, *last;
	float *values;                  /* parameters, then slot after slot */
};

void snap_free(struct part *p)
{
	if (!p->snap)
		return;
	free(p->snap->ids);
	free(p->snap->last);
	free(p->snap->values);
	free(p->snap);
	p->snap = NULL;
}

struct by_id {
	uint64_t id;
	const float *row;
};

static int ascending(const void *a, const void *b)
{
	const struct by_id *x = a, *y = b;

	return (x->id > y->id) - (x->id < y->id);
}

/* Rows by id, and their columns slot after slot. */
static void copy_rows(struct snap *s, const struct part *p, size_t n, unsigned nslots)
{
	struct by_id *order = mem_array(n + 1, sizeof *order);
	size_t cols = p->table->cols;

	for (size_t i = 0; i < n; i++)
		order[i].row = rows_at(p->rows, i, &order[i].id);
	qsort(order, n, sizeof *order, ascending);
	for (size_t i = 0; i < n; i++) {
		s->ids[i] = order[i].id;
		for (unsigned k = 0; k <= nslots; k++)
			memcpy(s->values + (k * n + i) * cols, order[i].row + k * cols, cols * sizeof(float));
	}
	free(order);
}

static bool copy_part(const struct shard *sh, struct part *p)
{
	unsigned nslots = sh->cfg.rule->nslots;
	size_t n = p->table->sparse ? rows_count(p->rows) : p->n, each = n * (p->table->sparse ? p->table->cols : 1);
	struct snap *s = mem_alloc(sizeof *s);

	p->snap = s;
	s->values = mem_try_array(each * (1 + nslots) + 1, sizeof *s->values);
	s->ids = p->table->sparse ? mem_try_array(n + 1, sizeof *s->ids) : NULL;
	s->last = mem_array(p->nlast + 1, sizeof *s->last);
	if (!s->values || (p->table->sparse && !s->ids)) {
		snap_free(p);
		return false;
	}
	if (p->table->sparse) {
		copy_rows(s, p, n, nslots);
	} else {
		memcpy(s->values, p->w, n * sizeof *p->w);
		memcpy(s->values + n, p->state, n * nslots * sizeof *p->state);
	}
	if (p->nlast)
		memcpy(s->last, p->last, p->nlast * sizeof *p->last);
	s->part = (struct ckpt_part){ .table = p->table->name, .sparse = p->table->sparse, .part = p->index,
		.cols = p->table->cols, .n = n, .ids = s->ids, .w = s->values, .nslots = nslots, .version = p->version,
		.step = p->step, .last = s->last, .nlast = p->nlast };
	for (unsigned k = 0; k < nslots; k++)
		s->part.slot[k] = s->values + (k + 1) * each;
	return true;
}

void snap_before_update(struct shard *s, struct part *p, uint64_t step)
{
	struct snaps *x = &s->snaps;

	if (!atomic_load(&x->on) || p->snap || !p->here || !p->tail || (x->by_step && step < x->step))
		return;
	if (!copy_part(s, p))
		atomic_store(&x->failed, true);
}

typedef bool part_fn(struct shard *s, struct part *p, void *ctx);

/* False as soon as fn says so of a partition that belongs in the picture. */
static bool each(struct shard *s, part_fn *fn, void *ctx)
{
	bool go_on = true;

	for (uint32_t t = 0; go_on && t < atomic_load(&s->ntables); t++) {
		struct shard_table *table = atomic_load(&s->table[t]);

		for (uint32_t i = 0; go_on && table && i < table->shape.nparts; i++) {
			struct part *p = atomic_load(&table->part[i]);

			if (!p)
				continue;
			pthread_mutex_lock(&p->lock);
			if (p->here && p->tail)
				go_on = fn(s, p, ctx);
			pthread_mutex_unlock(&p->lock);
		}
	}
	return go_on;
}

static bool in_time(struct shard *s, struct part *p, void *ctx)
{
	(void)ctx;
	return p->snap || p->step <= s->snaps.step;
}

bool shard_snap_begin(struct shard *s, uint64_t step)
{
	shard_snap_end(s);
	s->snaps.step = step;
	s->snaps.by_step = s->cfg.mode.kind == SYNC_bsp;
	atomic_store(&s->snaps.failed, false);
	atomic_store(&s->snaps.on, true);
	if (!s->snaps.by_step || each(s, in_time, NULL))
		return true;
	shard_snap_end(s);
	return false;
}

static bool take(struct shard *s, struct part *p, void *ctx)
{
	bool *all = ctx;

	if (p->snap)
		return true;
	/* What the next copy has not yet is not counted, and so not shown. */
	if (s->snaps.by_step ? p->step >= s->snaps.step : atomic_load(&p->safe_version) == p->version) {
		if (!copy_part(s, p))
			atomic_store(&s->snaps.failed, true);
	} else {
		*all = false;
	}
	return true;
}

enum shard_answer shard_snap_take(struct shard *s)
{
	bool all = true;

	if (!atomic_load(&s->snaps.on))
		return SHARD_ELSEWHERE;
	each(s, take, &all);
	if (atomic_load(&s->snaps.failed))
		return SHARD_BAD;
	return all ? SHARD_OK : SHARD_HOLD;
}

struct listing {
	struct ckpt_part *out;
	size_t n, cap;
};

static bool list(struct shard *s, struct part *p, void *ctx)
{
	struct listing *l = ctx;

	(void)s;
	if (!p->snap)
		return true;
	if (l->n == l->cap) {
		l->cap = l->cap ? l->cap * 2 : 64;
		l->out = mem_regrow(l->out, l->cap, sizeof *l->out);
	}
	l->out[l->n++] = p->snap->part;
	return true;
}

size_t shard_snap_parts(struct shard *s, struct ckpt_part **out)
{
	struct listing l = { 0 };

	each(s, list, &l);
	*out = l.out;
	return l.n;
}

void shard_snap_clocks(struct shard *s, void (*fn)(void *ctx, uint32_t slot, uint64_t clock, bool active), void *ctx)
{
	pthread_mutex_lock(&s->gate.lock);
	for (uint32_t i = 0; i < s->gate.sync.nslots; i++)
		fn(ctx, i, s->gate.sync.slot[i].clock, s->gate.sync.slot[i].active);
	pthread_mutex_unlock(&s->gate.lock);
}

void shard_snap_end(struct shard *s)
{
	atomic_store(&s->snaps.on, false);
	for (uint32_t t = 0; t < atomic_load(&s->ntables); t++) {
		struct shard_table *table = atomic_load(&s->table[t]);

		for (uint32_t i = 0; table && i < table->shape.nparts; i++) {
			struct part *p = atomic_load(&table->part[i]);

			if (!p)
				continue;
			pthread_mutex_lock(&p->lock);
			snap_free(p);
			pthread_mutex_unlock(&p->lock);
		}
	}
}
