/* SPDX-License-Identifier: ISC */
#include "core/clock.h"
#include "ckpt/read.h"
#include "codec/codec.h"
#include "core/mem.h"
#include "shard/copy.h"
#include "shard/outliers.h"
#include "shard/reduced.h"
#include "shard/settings_epoch.h"
#include "shard/relay_part.h"
#include "shard/robust.h"
#include "shard/row_life.h"

enum err_code shard_new(const struct shard_config *cfg, struct shard **out, struct err *e)
{
	struct shard *s = mem_alloc(sizeof *s);

	s->cfg = *cfg;
	s->budget.limit = cfg->relay ? 0 : cfg->mem_limit;
	s->table = mem_try_array(SHARD_TABLES, sizeof *s->table);
	if (!s->table) {
		free(s);
		return err_set(e, ERR_NOMEM, "no memory for the table of tables");
	}
	pthread_mutex_init(&s->gate.lock, NULL);
	sync_init(&s->gate.sync, cfg->mode);
	settings_epochs_init(s);
	if (cfg->restore && !cfg->jobless)
		s->gate.sync.closed = ckpt_step(cfg->restore);
	s->watch = cfg->watched ? outliers_new() : NULL;
	*out = s;
	return ERR_OK;
}

/* Frees a table, its partitions, and the smaller tables that it has replaced. */
static void free_table(struct shard *s, struct shard_table *table)
{
	for (uint32_t i = 0; i < table->shape.nparts; i++)
		part_free(atomic_load(&table->part[i]), &s->budget);
	for (struct shard_table *before; table; table = before) {
		before = table->before;
		free((void *)table->part);
		free(table);
	}
}

void shard_free(struct shard *s)
{
	if (!s)
		return;
	for (uint32_t t = 0; t < s->ntables; t++) {
		struct shard_table *table = s->table[t];

		if (table)
			free_table(s, table);
	}
	settings_epochs_release(s);
	free((void *)s->table);
	sync_release(&s->gate.sync);
	outliers_free(s->watch);
	pthread_mutex_destroy(&s->gate.lock);
	free(s);
}

struct part *shard_part(struct shard *s, uint16_t table, uint32_t part)
{
	struct shard_table *t = atomic_load(&s->table[table]);

	return t && part < t->shape.nparts ? atomic_load(&t->part[part]) : NULL;
}

bool shard_each(struct shard *s, part_fn *fn, void *ctx)
{
	bool go_on = true;

	for (uint32_t t = 0; go_on && t < atomic_load(&s->ntables); t++) {
		struct shard_table *table = atomic_load(&s->table[t]);

		if (table && atomic_load(&table->gone))
			continue;
		for (uint32_t i = 0; go_on && table && i < table->shape.nparts; i++) {
			struct part *p = atomic_load(&table->part[i]);

			if (!p)
				continue;
			pthread_mutex_lock(&p->lock);
			go_on = fn(s, p, ctx);
			pthread_mutex_unlock(&p->lock);
		}
	}
	return go_on;
}

const struct table *shard_table(struct shard *s, uint16_t table)
{
	struct shard_table *t = atomic_load(&s->table[table]);

	return t ? &t->shape : NULL;
}

/* ---- push ---- */

/* Computes what a receipt waits for. In bsp it waits for the step, because closing the step makes
 * the version that contains the push. A late push waits as well: a head that has been succeeded may
 * have closed a step that is open at its successor, which then waits for the push. So does a
 * refused one: a successor that does not know of it would wait for a push that the worker regards
 * as answered. A split sum is not stored anywhere, and a refused push from outside is not known to
 * any other replica, so those receipts wait for nothing. */
static struct shard_due receipt_due(struct shard *s, const struct part *p, const struct push *push,
    enum push_status status)
{
	struct shard_due due = { .tenure = atomic_load(&p->tenure) };
	bool outside = push->slot == SHARD_OUTSIDE;

	if (status == PUSH_SPLIT || (outside && status == PUSH_REFUSED))
		return due;
	if (!outside && settings_epoch_sums_step(s, push->step))
		due.steps = push->step + 1;
	else
		due.version = p->version;
	if (status == PUSH_REFUSED)
		due.seq = p->next_seq;
	return due;
}

/* Fills the receipt and counts it. */
static enum shard_answer finish_push(struct shard *s, const struct part *p, const struct push *push,
    struct receipt *r, enum push_status status)
{
	*r = (struct receipt){ .table = push->table,
		.part = push->part,
		.step = push->step,
		.status = (uint8_t)status,
		.version = p->version,
		.due = receipt_due(s, p, push, status) };
	/* A late push reports the number of steps that it is late. */
	if (status == PUSH_LATE)
		r->staleness = (uint32_t)(p->step - push->step);
	else if (status == PUSH_APPLIED && p->version > push->pulled + 1)
		r->staleness = (uint32_t)(p->version - 1 - push->pulled);
	atomic_fetch_add_explicit(&s->status[status], 1, memory_order_relaxed);
	if (status == PUSH_APPLIED || status == PUSH_MERGED)
		hist_add(&s->staleness, r->staleness);
	return SHARD_OK;
}

/* Answers a push that was taken or refused before with the same result as then. */
static enum shard_answer finish_repeated_push(struct shard *s, const struct part *p,
    const struct push *push, struct receipt *r)
{
	enum shard_answer a = finish_push(s, p, push, r, PUSH_DUPLICATE);

	if (part_was_refused(p, push->slot, push->step)) {
		r->status = PUSH_REFUSED;
		r->due = receipt_due(s, p, push, PUSH_REFUSED);
	}
	return a;
}

/* Takes a push of a bsp step; the partition's lock is held. */
static enum shard_answer push_bsp(struct shard *s, struct part *p, const struct push *push,
    bool finite, struct receipt *r)
{
	uint64_t examples;

	if (p->table->reduced &&
	    (push->step < p->step || (push->step == p->step && reduced_is_here(p))))
		return finish_push(s, p, push, r, PUSH_DUPLICATE);
	if (part_has_taken(p, push->slot, push->step))
		return finish_repeated_push(s, p, push, r);
	/* A push that comes after its relay has sent the sum of the step goes up by itself. */
	if (push->step < p->step)
		return finish_push(s, p, push, r, s->cfg.relay ? PUSH_SPLIT : PUSH_LATE);
	/* One worker must not move the others' sums to an absurd step. */
	if (s->cfg.relay && push->step > p->step && push->step - p->step > STEPS_LEAP)
		return finish_push(s, p, push, r, PUSH_SPLIT);
	if (s->cfg.relay)
		relay_part_jump(s, p, push->step);
	if (push->step > p->step ||
	    (s->cfg.deterministic && !gate_in_turn(s, p, push->slot, push->step))) {
		p->waited = true;
		return SHARD_HOLD;
	}
	if (finite && push->examples && !part_accumulate(p, &s->cfg, push))
		return SHARD_BAD;
	part_set_last(p, push->slot, push->step + 1);
	if (!finite)
		part_set_refused(p, push->slot, push->step);
	if (s->cfg.relay)
		relay_part_add_share(p, push->slot, finite ? push->examples : 0, push->incarnation);
	/* Every slot is through with the step: make the update while the partition is in the cache.
	 * Pulls still wait for the clocks. */
	if (gate_step_is_complete(s, p, &examples))
		gate_close_part(s, p, examples);
	return finish_push(s, p, push, r, finite ? PUSH_MERGED : PUSH_REFUSED);
}

/* Applies a push on arrival: ssp, asp, and pushes from outside the job. The partition's lock is
 * held. */
static enum shard_answer push_at_once(struct shard *s, struct part *p, const struct push *push,
    bool finite, struct receipt *r)
{
	bool outside = push->slot == SHARD_OUTSIDE;
	const struct settings_epoch *by = outside ? settings_epoch_last(s)
	                                          : settings_epoch_at(s, push->step);

	if (!outside && part_has_taken(p, push->slot, push->step))
		return finish_repeated_push(s, p, push, r);
	/* The open step of an earlier bsp must be closed first. */
	if (!copy_may_send(p) ||
	    (!outside && p->step < by->step && settings_epoch_sums_step(s, p->step))) {
		p->waited = true;
		return SHARD_HOLD;
	}
	snapshot_before_update(s, p, p->step);
	if (finite) {
		if (outside && p->life)
			row_life_set_step(p, shard_step(s));
		/* The update of an open bsp step must be made by that step's own settings. */
		if (!outside || !settings_epoch_sums_step(s, p->step))
			part_set_epoch(s, p, by);
		if (!part_apply(p, push))
			return SHARD_BAD;
	}
	if (!outside)
		part_set_last(p, push->slot, push->step + 1);
	if (!outside && !finite)
		part_set_refused(p, push->slot, push->step);
	copy_push(s, p, push, !finite);
	return finish_push(s, p, push, r, finite ? PUSH_APPLIED : PUSH_REFUSED);
}

static enum shard_answer push_to_head(struct shard *s, struct part *p, const struct push *push,
    bool finite, struct receipt *r)
{
	if (!p->here || !p->head || (s->cfg.relay && push->slot == SHARD_OUTSIDE))
		return SHARD_ELSEWHERE;
	/* A reduced table's parameters are computed by the workers, too, which would not see the
	 * push. And an aggregator has nothing to compare a single gradient from outside with. */
	if ((p->table->reduced || (aggregate_compares(&s->cfg.aggregate) && !p->table->added)) &&
	    push->slot == SHARD_OUTSIDE)
		return finish_push(s, p, push, r, PUSH_REFUSED);
	return push->slot != SHARD_OUTSIDE && settings_epoch_sums_step(s, push->step)
	    ? push_bsp(s, p, push, finite, r)
	    : push_at_once(s, p, push, finite, r);
}

/* Checks the encoding of a push. examples 0 is valid only for a reduced table without a payload: no
 * worker had examples, so there is no mean. */
static enum codec_check check_push(const struct part *p, const struct codec *codec,
    const struct push *push)
{
	if (push->slot != SHARD_OUTSIDE && push->examples == 0)
		return p->table->reduced && !push->len ? CODEC_GOOD : CODEC_MALFORMED;
	return codec->check(push->payload, push->len,
	    p->table->sparse ? (size_t)push->nrows * p->table->cols : p->n);
}

/* May anybody have waited for this push, which was taken when the partition was at this step?
 * Nobody has when the step goes on waiting for other slots. Waking everybody for each push would be
 * quadratic in the number of slots. */
static bool push_matters(const struct shard *s, const struct part *p, const struct push *push,
    uint64_t step)
{
	return p->step != step || push->slot == SHARD_OUTSIDE || s->cfg.deterministic ||
	    !settings_epoch_sums_step(s, push->step);
}

enum shard_answer shard_push(struct shard *s, const struct push *push, struct receipt *r)
{
	struct part *p = shard_part(s, push->table, push->part);
	const struct codec *codec = codec_by_id(push->codec);
	enum codec_check check;
	enum shard_answer a;
	int64_t begin = clock_now();
	bool wake, settle, barred, good, again;
	uint64_t step;

	if (!codec)
		return SHARD_BAD;
	if (!p)
		return shard_table(s, push->table) &&
		        push->part < shard_table(s, push->table)->nparts
		    ? SHARD_ELSEWHERE
		    : SHARD_BAD;
	/* Without the lock: the payload belongs to the caller. */
	check = check_push(p, codec, push);
	if (check == CODEC_MALFORMED)
		return SHARD_BAD;
	pthread_mutex_lock(&p->lock);
	a = gate_push(s, p, push, &barred);
	if (a != SHARD_OK) {
		pthread_mutex_unlock(&p->lock);
		return a;
	}
	step = p->step;
	again = push->slot != SHARD_OUTSIDE && part_has_taken(p, push->slot, push->step);
	good = check == CODEC_GOOD && robust_has_room(p, s, push->slot) &&
	    part_has_room(p, &s->budget, push);
	a = push_to_head(s, p, push, good && !barred, r);
	part_book_rows(p, &s->budget);
	if (a == SHARD_OK)
		p->work += push->len + PUSH_WORK;
	wake = a == SHARD_OK && p->waited && push_matters(s, p, push, step);
	if (wake)
		p->waited = false;
	settle = p->step != step && gate_caught_up(s, p);
	pthread_mutex_unlock(&p->lock);
	hist_add(&s->apply_time, (uint64_t)(clock_now() - begin));
	if (a == SHARD_OK && r->status == PUSH_REFUSED && !good && !again)
		gate_count_refused(s, push->slot);
	if (a == SHARD_OK && !again && check == CODEC_UNBOUNDED)
		atomic_fetch_add_explicit(&s->nonfinite, 1, memory_order_relaxed);
	if (settle)
		shard_settle(s);
	else if (wake)
		s->cfg.wake(s->cfg.ctx);
	return a;
}

uint64_t shard_version(struct shard *s, uint16_t table, uint32_t part)
{
	struct part *p = shard_part(s, table, part);
	uint64_t v;

	if (!p)
		return 0;
	pthread_mutex_lock(&p->lock);
	v = p->version;
	pthread_mutex_unlock(&p->lock);
	return v;
}

bool shard_is_safe(struct shard *s, uint16_t table, uint32_t part, const struct shard_due *due)
{
	struct part *p = shard_part(s, table, part);

	/* The tenure must be read last; see struct part. */
	return p && !atomic_load(&p->gone) && atomic_load(&p->safe_step) >= due->steps &&
	    atomic_load(&p->safe_version) >= due->version &&
	    atomic_load(&p->safe_seq) >= due->seq && atomic_load(&p->tenure) == due->tenure;
}

bool shard_has_left(struct shard *s, uint16_t table, uint32_t part, const struct shard_due *due)
{
	struct part *p = shard_part(s, table, part);

	return !p || atomic_load(&p->tenure) != due->tenure;
}

unsigned shard_copies(struct shard *s, uint16_t table, uint32_t part)
{
	struct part *p = shard_part(s, table, part);

	return p ? atomic_load(&p->copies) : 0;
}

/* ---- pull ---- */

enum shard_answer part_may_show(struct shard *s, struct part *p, uint64_t step)
{
	uint64_t closed = step == SYNC_NEVER ? 0 : settings_epoch_closed_before(s, step);

	if (s->cfg.relay)
		return relay_part_may_show(p, step);
	if (!p->here || !p->tail)
		return SHARD_ELSEWHERE;
	if (atomic_load(&p->safe_step) < closed ||
	    /* A joining replica that is about to count must have everything that is shown. */
	    (p->must && atomic_load(&p->safe_version) < p->version) ||
	    (step != SYNC_NEVER && gate_push_is_pending(s, p, step))) {
		p->waited = true;
		return SHARD_HOLD;
	}
	return SHARD_OK;
}

/* Deterministic runs pull exactly the version of their step. A worker that was replaced may ask for
 * one step before the open one. */
static bool wants_previous(const struct shard *s, const struct part *p, uint64_t step)
{
	return s->cfg.deterministic && step != SYNC_NEVER && step + 1 == p->step && !p->prev_same;
}

/* The values of a dense partition that a pull at this step gets; the partition's lock is held. */
static const float *shown_values(const struct shard *s, const struct part *p, uint64_t step,
    uint64_t *version)
{
	bool previous = wants_previous(s, p, step);

	*version = previous ? p->prev_version : p->version;
	return previous ? p->prev : p->w;
}

enum shard_answer shard_pull(struct shard *s, uint16_t table, uint32_t part, uint64_t step,
    float *out, uint64_t *version)
{
	struct part *p = shard_part(s, table, part);
	enum shard_answer a;

	if (!p || p->table->sparse)
		return p ? SHARD_BAD : SHARD_ELSEWHERE;
	pthread_mutex_lock(&p->lock);
	a = part_may_show(s, p, step);
	if (a == SHARD_OK)
		memcpy(out, shown_values(s, p, step, version), p->n * sizeof *out);
	pthread_mutex_unlock(&p->lock);
	atomic_fetch_add_explicit(&s->pulls, 1, memory_order_relaxed);
	return a;
}

enum shard_answer shard_may_show(struct shard *s, uint16_t table, uint32_t part, uint64_t step,
    uint64_t *version)
{
	struct part *p = shard_part(s, table, part);
	enum shard_answer a;

	if (!p || p->table->sparse)
		return p ? SHARD_BAD : SHARD_ELSEWHERE;
	pthread_mutex_lock(&p->lock);
	a = part_may_show(s, p, step);
	*version = p->version;
	pthread_mutex_unlock(&p->lock);
	return a;
}

enum shard_answer shard_pull_state(struct shard *s, uint16_t table, uint32_t part, uint64_t step,
    uint64_t k, float *out, uint64_t *version)
{
	struct part *p = shard_part(s, table, part);
	enum shard_answer a;

	if (!p || p->table->sparse || s->cfg.relay || !k)
		return p ? SHARD_BAD : SHARD_ELSEWHERE;
	pthread_mutex_lock(&p->lock);
	a = p->by && k <= p->by->rule->nslots ? part_may_show(s, p, step) : SHARD_BAD;
	if (a == SHARD_OK)
		memcpy(out, p->state + (k - 1) * p->n, p->n * sizeof *out);
	*version = p->version;
	pthread_mutex_unlock(&p->lock);
	return a;
}

enum shard_answer shard_pull_changed(struct shard *s, uint16_t table, uint32_t part, uint64_t step,
    uint64_t since, size_t most, uint32_t *place, float *out, size_t *n, uint64_t *version)
{
	struct part *p = shard_part(s, table, part);
	const float *w;
	enum shard_answer a;

	if (!p || p->table->sparse)
		return p ? SHARD_BAD : SHARD_ELSEWHERE;
	*n = SIZE_MAX;
	pthread_mutex_lock(&p->lock);
	a = part_may_show(s, p, step);
	if (a == SHARD_OK && p->stamps) {
		w = shown_values(s, p, step, version);
		/* A puller that has a later version than the one that is shown: values that changed
		 * back are not known. */
		if (since <= *version)
			*n = change_log_since(p->stamps, since, most, place);
		for (size_t i = 0; *n != SIZE_MAX && i < *n; i++)
			out[i] = w[place[i]];
	}
	pthread_mutex_unlock(&p->lock);
	if (*n != SIZE_MAX)
		atomic_fetch_add_explicit(&s->pulls, 1, memory_order_relaxed);
	return a;
}

enum shard_answer shard_pull_changed_rows(struct shard *s, uint16_t table, uint32_t part,
    uint64_t step, const uint8_t *ids, uint32_t n, const uint64_t *since, float *out,
    uint32_t *place, uint32_t *k, uint64_t *version)
{
	struct part *p = shard_part(s, table, part);
	enum shard_answer a;

	if (!p || !p->table->sparse)
		return p ? SHARD_BAD : SHARD_ELSEWHERE;
	*k = n;
	pthread_mutex_lock(&p->lock);
	a = s->cfg.relay ? relay_part_copy_rows(p, step, ids, n, out) : part_may_show(s, p, step);
	if (a == SHARD_OK && s->cfg.relay)
		*version = p->version;
	else if (a == SHARD_OK)
		*k = part_rows_show(p, wants_previous(s, p, step), ids, n, since, out, place,
		    version);
	pthread_mutex_unlock(&p->lock);
	atomic_fetch_add_explicit(&s->pulls, 1, memory_order_relaxed);
	return a;
}

enum shard_answer shard_pull_rows(struct shard *s, uint16_t table, uint32_t part, uint64_t step,
    const uint8_t *ids, uint32_t n, float *out, uint64_t *version)
{
	uint32_t k;

	return shard_pull_changed_rows(s, table, part, step, ids, n, NULL, out, NULL, &k, version);
}
