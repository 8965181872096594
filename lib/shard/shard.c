#include "base/clock.h"
#include "base/mem.h"
#include "codec/codec.h"
#include "shard/gate.h"

enum err_code shard_new(const struct shard_config *cfg, struct shard **out, struct err *e)
{
	struct shard *s = mem_alloc(sizeof *s);

	s->cfg = *cfg;
	s->table = mem_try_array(SHARD_TABLES, sizeof *s->table);
	if (!s->table) {
		free(s);
		return err_set(e, ERR_NOMEM, "no memory for the table of tables");
	}
	pthread_mutex_init(&s->gate.lock, NULL);
	sync_init(&s->gate.sync, cfg->mode);
	*out = s;
	return ERR_OK;
}

static void free_table(struct shard_table *table)
{
	for (uint32_t i = 0; i < table->shape.nparts; i++)
		part_free(table->part[i]);
	free(table->part);
	free(table);
}

void shard_free(struct shard *s)
{
	if (!s)
		return;
	for (uint32_t t = 0; t < s->ntables; t++) {
		struct shard_table *table = s->table[t];

		if (table)
			free_table(table);
	}
	free((void *)s->table);
	sync_release(&s->gate.sync);
	pthread_mutex_destroy(&s->gate.lock);
	free(s);
}

enum err_code shard_install(struct shard *s, const struct layout *l, struct err *e)
{
	for (size_t t = 0; t < l->ntables; t++) {
		const struct table *shape = &l->table[t];
		struct shard_table *table;

		if (atomic_load(&s->table[t]) || !shape->nruns)
			continue;
		table = mem_alloc(sizeof *table);
		table->shape = *shape;
		table->shape.run = NULL;
		table->shape.nruns = 0;
		table->part = mem_array(shape->nparts, sizeof *table->part);
		for (uint32_t i = 0; i < shape->nparts; i++) {
			if (table_owner(shape, i) != s->cfg.self)
				continue;
			table->part[i] = part_new(&s->cfg, &table->shape, i, e);
			if (!table->part[i]) {
				free_table(table);
				return e ? e->code : ERR_NOMEM;
			}
		}
		/* Published whole: readers need no lock from here on. */
		atomic_store(&s->table[t], table);
		if (t >= atomic_load(&s->ntables))
			atomic_store(&s->ntables, (uint32_t)t + 1);
	}
	return ERR_OK;
}

static struct part *find(struct shard *s, uint16_t table, uint32_t part)
{
	struct shard_table *t = atomic_load(&s->table[table]);

	return t && part < t->shape.nparts ? t->part[part] : NULL;
}

const struct table *shard_table(struct shard *s, uint16_t table)
{
	struct shard_table *t = atomic_load(&s->table[table]);

	return t ? &t->shape : NULL;
}

/* ---- push ---------------------------------------------------------------- */

static void set_last(struct part *p, uint32_t slot, uint64_t last)
{
	if (slot >= p->nlast) {
		p->last = mem_regrow(p->last, slot + 1, sizeof *p->last);
		memset(p->last + p->nlast, 0, (slot + 1 - p->nlast) * sizeof *p->last);
		p->nlast = slot + 1;
	}
	p->last[slot] = last;
}

static enum shard_answer finish_push(struct shard *s, const struct part *p, const struct push *push, struct receipt *r,
    enum push_status status)
{
	*r = (struct receipt){ .table = push->table, .part = push->part, .step = push->step,
		.status = (uint8_t)status, .version = p->version };
	if (status == PUSH_APPLIED && p->version > push->pulled + 1)
		r->staleness = (uint32_t)(p->version - 1 - push->pulled);
	atomic_fetch_add_explicit(&s->status[status], 1, memory_order_relaxed);
	if (status == PUSH_APPLIED || status == PUSH_MERGED)
		hist_add(&s->staleness, r->staleness);
	return SHARD_OK;
}

static enum shard_answer push_bsp(struct shard *s, struct part *p, const struct push *push, bool finite,
    struct receipt *r)
{
	uint64_t examples;

	if (push->step < p->step || part_last(p, push->slot) > push->step)
		return finish_push(s, p, push, r, part_last(p, push->slot) > push->step ? PUSH_DUPLICATE : PUSH_LATE);
	if (push->step > p->step ||
	    (s->cfg.deterministic && !gate_in_turn(s, p, push->slot, push->step))) {
		p->waited = true;
		return SHARD_HOLD;
	}
	if (finite && !part_accumulate(p, &s->cfg, push))
		return SHARD_BAD;
	set_last(p, push->slot, push->step + 1);
	/* All that this step will bring is here: make the update while the
	 * partition is in the cache.  Pulls still wait for the clocks. */
	if (gate_complete(s, p, &examples))
		part_close(p, &s->cfg, examples);
	return finish_push(s, p, push, r, finite ? PUSH_MERGED : PUSH_REFUSED);
}

static enum shard_answer push_at_once(struct shard *s, struct part *p, const struct push *push, bool finite,
    struct receipt *r)
{
	bool outside = push->slot == SHARD_OUTSIDE;

	if (!outside && part_last(p, push->slot) > push->step)
		return finish_push(s, p, push, r, PUSH_DUPLICATE);
	if (finite && !part_apply(p, &s->cfg, push))
		return SHARD_BAD;
	if (!outside)
		set_last(p, push->slot, push->step + 1);
	return finish_push(s, p, push, r, finite ? PUSH_APPLIED : PUSH_REFUSED);
}

enum shard_answer shard_push(struct shard *s, const struct push *push, struct receipt *r)
{
	struct part *p = find(s, push->table, push->part);
	const struct codec *codec = codec_by_id(push->codec);
	enum codec_check check;
	enum shard_answer a;
	int64_t begin = clock_now();
	bool wake;

	if (!p || !codec || (push->slot != SHARD_OUTSIDE && push->examples == 0))
		return SHARD_BAD;
	/* Before the lock: the bytes are the caller's own. */
	check = codec->check(push->payload, push->len, p->table->sparse ? (size_t)push->nrows * p->table->cols : p->n);
	if (check == CODEC_MALFORMED)
		return SHARD_BAD;
	a = gate_push(s, push);
	if (a != SHARD_OK)
		return a;
	pthread_mutex_lock(&p->lock);
	if (s->cfg.mode.kind == SYNC_bsp && push->slot != SHARD_OUTSIDE)
		a = push_bsp(s, p, push, check == CODEC_GOOD, r);
	else
		a = push_at_once(s, p, push, check == CODEC_GOOD, r);
	wake = a == SHARD_OK && p->waited;
	if (wake)
		p->waited = false;
	pthread_mutex_unlock(&p->lock);
	hist_add(&s->apply_time, (uint64_t)(clock_now() - begin));
	if (wake)
		s->cfg.wake(s->cfg.ctx);
	return a;
}

uint64_t shard_version(struct shard *s, uint16_t table, uint32_t part)
{
	struct part *p = find(s, table, part);
	uint64_t v;

	if (!p)
		return 0;
	pthread_mutex_lock(&p->lock);
	v = p->version;
	pthread_mutex_unlock(&p->lock);
	return v;
}

/* ---- pull ---------------------------------------------------------------- */

/* Deterministic runs pull the version of their step exactly: a worker that
 * was replaced may ask for one step ago. */
static bool wants_previous(const struct shard *s, const struct part *p, uint64_t step)
{
	return s->cfg.deterministic && step != SYNC_NEVER && step + 1 == p->step && !p->prev_same;
}

enum shard_answer shard_pull(struct shard *s, uint16_t table, uint32_t part, uint64_t step, float *out, uint64_t *version)
{
	struct part *p = find(s, table, part);

	if (!p || p->table->sparse)
		return SHARD_BAD;
	pthread_mutex_lock(&p->lock);
	memcpy(out, wants_previous(s, p, step) ? p->prev : p->w, p->n * sizeof *out);
	*version = p->version;
	pthread_mutex_unlock(&p->lock);
	atomic_fetch_add_explicit(&s->pulls, 1, memory_order_relaxed);
	return SHARD_OK;
}

enum shard_answer shard_pull_rows(struct shard *s, uint16_t table, uint32_t part, uint64_t step, const uint8_t *ids,
    uint32_t n, float *out, uint64_t *version)
{
	struct part *p = find(s, table, part);
	uint32_t cols;
	bool previous;

	if (!p || !p->table->sparse)
		return SHARD_BAD;
	cols = p->table->cols;
	pthread_mutex_lock(&p->lock);
	previous = wants_previous(s, p, step);
	for (uint32_t i = 0; i < n; i++, out += cols) {
		const float *row = NULL;
		uint64_t id;

		memcpy(&id, ids + (size_t)i * 8, sizeof id);
		if (previous)
			row = rows_get(p->prev_rows, id);
		if (!row)
			row = rows_get(p->rows, id);
		if (row)
			memcpy(out, row, cols * sizeof *out);
		else
			init_fill(p->table, init_row_place(p->table, id), cols, out);
	}
	*version = p->version;
	pthread_mutex_unlock(&p->lock);
	atomic_fetch_add_explicit(&s->pulls, 1, memory_order_relaxed);
	return SHARD_OK;
}

static int by_id(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

enum shard_answer shard_scan(struct shard *s, uint16_t table, uint32_t part, bool begin, uint64_t after, uint32_t *n,
    uint8_t *ids, float *out, bool *more, uint64_t *version)
{
	struct part *p = find(s, table, part);
	uint64_t *all, id;
	size_t count = 0, cols;

	if (!p || !p->table->sparse)
		return SHARD_BAD;
	cols = p->table->cols;
	pthread_mutex_lock(&p->lock);
	all = mem_array(rows_count(p->rows) + 1, sizeof *all);
	for (size_t i = 0; i < rows_count(p->rows); i++) {
		rows_at(p->rows, i, &id);
		if (begin || id > after)
			all[count++] = id;
	}
	qsort(all, count, sizeof *all, by_id);
	*more = count > *n;
	if (count < *n)
		*n = (uint32_t)count;
	for (size_t i = 0; i < *n; i++) {
		memcpy(ids + i * 8, &all[i], 8);
		memcpy(out + i * cols, rows_get(p->rows, all[i]), cols * sizeof *out);
	}
	*version = p->version;
	pthread_mutex_unlock(&p->lock);
	free(all);
	return SHARD_OK;
}

/* ---- figures --------------------------------------------------------------- */

static void count_part(const struct shard *s, struct part *p, struct shard_stats *out)
{
	unsigned nslots = s->cfg.rule->nslots;

	pthread_mutex_lock(&p->lock);
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
	pthread_mutex_unlock(&p->lock);
}

void shard_stats(struct shard *s, struct shard_stats *out)
{
	*out = (struct shard_stats){ .pulls = atomic_load(&s->pulls) };
	for (int i = 0; i <= PUSH_SPLIT; i++)
		out->status[i] = atomic_load(&s->status[i]);
	for (uint32_t t = 0; t < atomic_load(&s->ntables); t++) {
		struct shard_table *table = atomic_load(&s->table[t]);

		for (uint32_t i = 0; table && i < table->shape.nparts; i++)
			if (table->part[i])
				count_part(s, table->part[i], out);
	}
	out->closed = shard_step(s);
}

static uint64_t part_bytes(const struct shard *s, struct part *p)
{
	uint64_t copies = 1 + s->cfg.rule->nslots + (p->acc != NULL) + (p->prev != NULL), bytes;

	pthread_mutex_lock(&p->lock);
	bytes = p->rows ? rows_bytes(p->rows) : p->n * 4 * copies;
	pthread_mutex_unlock(&p->lock);
	return bytes;
}

uint64_t shard_bytes(struct shard *s)
{
	uint64_t sum = 0;

	for (uint32_t t = 0; t < atomic_load(&s->ntables); t++) {
		struct shard_table *table = atomic_load(&s->table[t]);

		for (uint32_t i = 0; table && i < table->shape.nparts; i++)
			if (table->part[i])
				sum += part_bytes(s, table->part[i]);
	}
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
