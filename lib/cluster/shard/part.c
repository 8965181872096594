/* SPDX-License-Identifier: ISC */
#include "core/fail.h"
#include "ckpt/read.h"
#include "layout/values.h"
#include "codec/codec.h"
#include "core/clock.h"
#include "core/mem.h"
#include "format/safetensors.h"
#include "math/copy.h"
#include "math/vec.h"
#include "shard/past_values.h"
#include "shard/repl.h"
#include "shard/settings_epoch.h"
#include "shard/shard_ops.h"
#include "shard/robust.h"
#include "shard/row_policy_state.h"

void part_state_vectors(float *state, size_t n, size_t width, const struct optim_rule *rule,
    float *out[static OPTIM_VECTORS_MAX])
{
	for (unsigned k = 0; k < rule->nvectors; k++) {
		out[k] = state;
		state += optim_vector_floats(rule, k, n, width);
	}
}

void part_init_state(const struct optim_rule *rule, size_t n, size_t width, float *state)
{
	float *vector[OPTIM_VECTORS_MAX];

	part_state_vectors(state, n, width, rule, vector);
	for (unsigned k = 0; k < rule->nvectors; k++)
		for (size_t i = 0; i < optim_vector_floats(rule, k, n, width); i++)
			vector[k][i] = rule->vector_init[k];
}

/* Reads the partition's slice of the tensor that has the table's name in a safetensors file.
 * Opens the file again for each partition. ERR_CONFIG when the tensor is missing or has another
 * number of elements; errors of safetensors_open and safetensors_read. */
static enum err_code init_from_file(struct part *p, const char *path, struct err *e)
{
	const struct safetensors_tensor *t;
	struct safetensors *st;
	enum err_code rc = safetensors_open(path, &st, e);

	if (rc)
		return rc;
	t = safetensors_find(st, p->table->name);
	if (!t)
		rc = err_set(e, ERR_CONFIG, "job.init: \"%s\" has no tensor \"%s\"", path,
		    p->table->name);
	else if (t->count != table_elements(p->table))
		rc = err_set(e, ERR_CONFIG,
		    "job.init: tensor \"%s\" of \"%s\" has %llu elements, but the model needs "
		    "%llu",
		    p->table->name, path, (unsigned long long)t->count,
		    (unsigned long long)table_elements(p->table));
	else
		rc = safetensors_read(st, t, table_part_begin(p->table, p->index), p->n, p->dense.w,
		    e);
	safetensors_close(st);
	return rc;
}

struct part *part_new(struct shard *s, const struct table *t, uint32_t index)
{
	struct part *p = mem_alloc(sizeof *p);

	mutex_init(&p->lock, LOCK_PART);
	p->table = t;
	p->index = index;
	p->n = t->sparse ? 0 : table_part_elements(t, index);
	p->sparse.store = t->sparse ? row_store_of(t, s->cfg.spill)->make(t, s->cfg.spill) : NULL;
	p->ops_data = s->ops->part_bytes ? mem_alloc(s->ops->part_bytes) : NULL;
	p->chain.next = p->chain.joining = NO_SERVER;
	p->chain.sent_last = &p->chain.sent;
	return p;
}

/* Smaller partitions are not published: sending them costs no more than looking them up. */
#define PUBLISHED_LEAST (16u << 10)
_Static_assert(PART_ELEMENTS * sizeof(float) <= PUBLISHED_BYTES,
    "a place has room for a partition");

/* Allocates dense.w: in published memory, unless the partition is small or larger than a place. */
static void alloc_values(struct part *p, struct published *published)
{
	size_t bytes = p->n * sizeof *p->dense.w;

	p->dense.w = bytes < PUBLISHED_LEAST ? NULL : published_take(published, bytes);
	if (p->dense.w)
		p->dense.published = published;
	else
		p->dense.w = mem_try_array(p->n, sizeof *p->dense.w);
}

static void free_values(struct part *p)
{
	if (p->dense.published)
		published_give(p->dense.published, p->dense.w);
	else
		free(p->dense.w);
	p->dense.published = NULL;
}

/* Fills *e with the table and the partition that memory is wanted for. */
static enum err_code set_part_nomem(const struct part *p, struct err *e)
{
	return err_set(e, ERR_NOMEM, "no memory for table \"%s\": partition %u of %u",
	    p->table->name, p->index, p->table->nparts);
}

enum err_code part_alloc(struct part *p, struct shard *s, struct err *e)
{
	const struct shard_config *cfg = &s->cfg;
	enum err_code rc;

	mutex_assert_held(&p->lock);
	part_release_values(s, p);
	if (!p->settings)
		settings_epoch_begin(p,
		    p->table->since ? settings_epoch_at(s, p->table->since)
		                    : settings_epoch_by_number(s, 0));
	if (p->table->sparse) {
		s->ops->alloc_rows(p, cfg);
		return ERR_OK;
	}
	rc = budget_book(p, s, e);
	if (rc) {
		part_release_values(s, p);
		return rc;
	}
	alloc_values(p, cfg->published);
	p->dense.state = mem_try_array((size_t)p->n * p->optim.rule->nvectors + 1,
	    sizeof *p->dense.state);
	p->dense.prev = cfg->deterministic ? mem_try_array(p->n, sizeof *p->dense.prev) : NULL;
	p->dense.changes = part_logs_changes(p, cfg) ? change_log_new(p->n, p->version) : NULL;
	if (p->dense.w && p->dense.state && (p->dense.prev || !cfg->deterministic) &&
	    (p->dense.changes || !part_logs_changes(p, cfg)))
		return ERR_OK;
	part_release_values(s, p);
	return set_part_nomem(p, e);
}

/* Will an accumulator come back when a record in `sent` is acknowledged? */
static bool spare_comes_back(const struct part *p)
{
	for (const struct repl_record *c = p->chain.sent; c; c = c->next)
		if (c->kind == REPL_SUM && c->nbody)
			return true;
	return false;
}

enum err_code part_alloc_head(struct part *p, const struct shard *s, struct err *e)
{
	mutex_assert_held(&p->lock);
	/* Outside of bsp an accumulator is needed only while an earlier bsp is not finished. */
	if (!settings_epoch_closes_step(s, p->step) &&
	    !sync_sums_steps(&settings_epoch_last(s)->mode) && !p->dense.acc)
		return ERR_OK;
	if (p->table->sparse) {
		if (!p->sparse.acc)
			p->sparse.acc = rows_new(p->table->cols * (uint32_t)sizeof(float));
		return ERR_OK;
	}
	if (!p->dense.acc)
		p->dense.acc = mem_try_array(p->n, sizeof *p->dense.acc);
	if (!p->dense.spare && p->chain.next != NO_SERVER && !spare_comes_back(p))
		p->dense.spare = mem_try_array(p->n, sizeof *p->dense.spare);
	return p->dense.acc && (p->dense.spare || p->chain.next == NO_SERVER || spare_comes_back(p))
	    ? ERR_OK
	    : set_part_nomem(p, e);
}

enum err_code part_init(struct part *p, struct shard *s, struct err *e)
{
	const struct shard_config *cfg = &s->cfg;
	const struct ckpt_table *t = cfg->restore ? ckpt_table_find(cfg->restore, p->table->name)
	                                          : NULL;
	enum err_code rc = part_alloc(p, s, e);

	mutex_assert_held(&p->lock);
	p->step = p->table->since;
	p->prev_same = true;
	/* Partitions after the checkpoint's last one have rows that were added to the table
	 * since. */
	if (rc || (t && p->index < t->parts))
		return rc ? rc : restore_part(p, cfg, t, e);
	if (p->table->sparse)
		return ERR_OK;
	if (fill_table_of(cfg, p->table))
		; /* fill_table brings the values. */
	else if (p->table->init == TABLE_FILE)
		rc = init_from_file(p, cfg->first, e);
	else
		init_fill(p->table, table_part_begin(p->table, p->index), p->n, p->dense.w);
	part_init_state(p->optim.rule, p->n, 1, p->dense.state);
	return rc;
}

void part_release_values(struct shard *s, struct part *p)
{
	mutex_assert_held(&p->lock);
	s->ops->release_values(p);
	atomic_fetch_sub(&s->budget.used, p->booked);
	p->booked = 0;
	free_values(p);
	free(p->dense.state);
	free(p->dense.acc);
	free(p->dense.spare);
	free(p->dense.prev);
	change_log_free(p->dense.changes);
	p->dense.changes = NULL;
	past_values_free(p);
	p->dense.w = p->dense.state = p->dense.acc = p->dense.spare = p->dense.prev = NULL;
	part_rows_free(p);
	robust_free(p);
	p->sum.examples = p->sum.uncounted = 0;
	p->sum.contributions = 0;
	p->saved.full_mark = 0;
}

void part_free(struct shard *s, struct part *p)
{
	if (!p)
		return;
	mutex_lock(&p->lock);
	repl_drop_all(p);
	snapshot_drop(p);
	part_release_values(s, p);
	mutex_unlock(&p->lock);
	mutex_destroy(&p->lock);
	if (p->sparse.store)
		p->sparse.store->ops->free(p->sparse.store);
	free(p->pushes.last);
	free(p->pushes.refused);
	free(p->pushes.announced);
	s->ops->free_part(p);
	free(p->ops_data);
	free(p);
}

/* ---- pushes that were taken, refused and announced ---- */

/* Makes room for the rank in `last`. Ranks may be added one by one, and there may be thousands, so
 * capacity grows by half. */
static void grow_last(struct part *p, uint32_t rank)
{
	size_t n = (size_t)rank + 1;

	if (n > p->pushes.cap_last) {
		p->pushes.cap_last = n > p->pushes.cap_last + p->pushes.cap_last / 2
		    ? n
		    : p->pushes.cap_last + p->pushes.cap_last / 2;
		p->pushes.last = mem_regrow(p->pushes.last, p->pushes.cap_last,
		    sizeof *p->pushes.last);
	}
	memset(p->pushes.last + p->pushes.nlast, 0, (n - p->pushes.nlast) * sizeof *p->pushes.last);
	p->pushes.nlast = n;
}

/* The rank's announcements; makes room for them. */
static struct announced *rank_announced(struct part *p, uint32_t rank)
{
	if (rank >= p->pushes.nannounced) {
		size_t n = rank < p->pushes.nlast ? p->pushes.nlast : (size_t)rank + 1;

		p->pushes.announced = mem_regrow(p->pushes.announced, n,
		    sizeof *p->pushes.announced);
		memset(p->pushes.announced + p->pushes.nannounced, 0,
		    (n - p->pushes.nannounced) * sizeof *p->pushes.announced);
		p->pushes.nannounced = n;
	}
	return &p->pushes.announced[rank];
}

/* Shifts a window of steps by any number: C leaves shifts by 64 and more undefined. */
static uint64_t shift_bits(uint64_t bits, uint64_t by)
{
	return by < 64 ? bits << by : 0;
}

void part_set_last(struct part *p, uint32_t rank, uint64_t last)
{
	mutex_assert_held(&p->lock);
	if (rank >= p->pushes.nlast)
		grow_last(p, rank);
	p->pushes.pending -= part_expected_end(p, rank) > p->pushes.last[rank];
	/* The bits of `refused` are relative to `last`, so they move with it. */
	if (rank < p->pushes.nrefused && last >= p->pushes.last[rank])
		p->pushes.refused[rank] = shift_bits(p->pushes.refused[rank],
		    last - p->pushes.last[rank]);
	else if (rank < p->pushes.nrefused)
		p->pushes.refused[rank] = p->pushes.last[rank] - last < 64
		    ? p->pushes.refused[rank] >> (p->pushes.last[rank] - last)
		    : 0;
	p->pushes.last[rank] = last;
	p->pushes.pending += part_expected_end(p, rank) > p->pushes.last[rank];
}

uint64_t part_refused_bits(const struct part *p, uint32_t rank)
{
	mutex_assert_held(&p->lock);
	return rank < p->pushes.nrefused ? p->pushes.refused[rank] : 0;
}

void part_set_refused_bits(struct part *p, uint32_t rank, uint64_t bits)
{
	mutex_assert_held(&p->lock);
	if (rank >= p->pushes.nlast)
		grow_last(p, rank);
	if (bits && rank >= p->pushes.nrefused) {
		p->pushes.refused = mem_regrow(p->pushes.refused, p->pushes.nlast,
		    sizeof *p->pushes.refused);
		memset(p->pushes.refused + p->pushes.nrefused, 0,
		    (p->pushes.nlast - p->pushes.nrefused) * sizeof *p->pushes.refused);
		p->pushes.nrefused = p->pushes.nlast;
	}
	if (rank < p->pushes.nrefused)
		p->pushes.refused[rank] = bits;
}

void part_set_refused(struct part *p, uint32_t rank, uint64_t step)
{
	uint64_t ago = p->pushes.last[rank] - 1 - step;

	mutex_assert_held(&p->lock);
	if (ago < 64)
		part_set_refused_bits(p, rank, part_refused_bits(p, rank) | UINT64_C(1) << ago);
}

bool part_was_refused(const struct part *p, uint32_t rank, uint64_t step)
{
	uint64_t bits = part_refused_bits(p, rank);

	mutex_assert_held(&p->lock);
	return bits && step < p->pushes.last[rank] && p->pushes.last[rank] - 1 - step < 64 &&
	    (bits >> (p->pushes.last[rank] - 1 - step) & 1);
}

/* `pending` counts the ranks with end > last. Every function that changes `end` or `last` of a rank
 * subtracts the rank's old contribution first and adds the new one at the end. */
void part_merge_expected(struct part *p, uint32_t rank, uint64_t end, uint64_t steps)
{
	struct announced *a;
	uint64_t top;

	mutex_assert_held(&p->lock);
	if (rank >= p->pushes.nlast)
		grow_last(p, rank);
	if (!end)
		return;
	a = rank_announced(p, rank);
	p->pushes.pending -= a->end > p->pushes.last[rank];
	top = end > a->end ? end : a->end;
	a->steps = shift_bits(a->steps, top - a->end) | shift_bits(steps, top - end);
	a->end = top;
	p->pushes.pending += a->end > p->pushes.last[rank];
}

void part_expect(struct part *p, uint32_t rank, uint64_t end)
{
	mutex_assert_held(&p->lock);
	part_merge_expected(p, rank, end, 1);
}

bool part_withdraw(struct part *p, uint32_t rank, uint64_t step)
{
	struct announced *a;

	mutex_assert_held(&p->lock);
	if (!part_is_expected(p, rank, step))
		return false;
	a = &p->pushes.announced[rank];
	p->pushes.pending -= a->end > part_taken_end(p, rank);
	a->steps &= ~(UINT64_C(1) << (a->end - 1 - step));
	for (; a->steps && !(a->steps & 1); a->end--)
		a->steps >>= 1;
	if (!a->steps)
		a->end = 0;
	p->pushes.pending += a->end > part_taken_end(p, rank);
	return true;
}

bool part_is_expected(const struct part *p, uint32_t rank, uint64_t step)
{
	uint64_t end = part_expected_end(p, rank);

	mutex_assert_held(&p->lock);
	return end > step && end - 1 - step < PART_EXPECT_WINDOW &&
	    (p->pushes.announced[rank].steps >> (end - 1 - step) & 1);
}

/* ---- what may be acknowledged ---- */

/* Everything is safe when no replica after this one counts. Else a change is safe when its record
 * has left the queue: the safe step, version and number are the ones before the oldest queued
 * record. */
void part_update_safe(struct part *p)
{
	uint64_t step = p->step, version = p->version, seq = p->chain.next_seq;

	mutex_assert_held(&p->lock);
	for (const struct repl_record *c = p->chain.required ? p->chain.sent : NULL; c;
	     c = c->next) {
		if (c->kind == REPL_STATE)
			continue;
		if (c->seq <= seq)
			seq = c->seq - 1;
		if (c->kind != REPL_PUSH && c->step < step)
			step = c->step;
		/* A refused push and a step without a sum have made no version. */
		if (c->nbody && c->version <= version)
			version = c->version - 1;
	}
	atomic_store(&p->chain.safe_step, step);
	atomic_store(&p->chain.safe_version, version);
	atomic_store(&p->chain.safe_seq, seq);
}

/* ---- the way of storing shown values ---- */

/* The first updates of a trial find the values where the other way has left them. */
#define UNTIMED (STORE_TRIAL / 2)

enum store_way part_store_way(const struct store_timer *t)
{
	if (t->updates < STORE_TRIAL)
		return STORE_PLAIN;
	return t->updates < 2 * STORE_TRIAL ? STORE_PAST_CACHES : t->faster;
}

/* Readers read from memory what was stored past the caches, which is not in these times. So this
 * way must be clearly faster: it takes three quarters of the time or less. */
static enum store_way compare_ways(const struct store_timer *t)
{
	return t->least[STORE_PAST_CACHES] < t->least[STORE_PLAIN] / 4 * 3 ? STORE_PAST_CACHES
	                                                                   : STORE_PLAIN;
}

void part_store_took(struct store_timer *t, int64_t took)
{
	int64_t *least = &t->least[part_store_way(t)];
	bool timed = t->updates < 2 * STORE_TRIAL && t->updates % STORE_TRIAL >= UNTIMED;

	if (timed && (*least == 0 || took < *least))
		*least = took;
	t->updates++;
	if (t->updates == 2 * STORE_TRIAL)
		t->faster = compare_ways(t);
	if (t->updates == STORE_PERIOD)
		*t = (struct store_timer){ .faster = t->faster };
}

/* ---- the update ---- */

/* The hyperparameters of a step: the settings epoch's, with the learning rate scheduled. */
static struct optim_hyper hyper_for_step(const struct part *p, uint64_t step)
{
	struct optim_hyper h = *p->optim.hyper;

	h.lr *= (float)schedule_factor(&p->settings->schedule, step);
	return h;
}

/* Values that are updated aside at a time: they stay in the first-level cache. */
#define ASIDE 2048u

/* Applies the rule to all values of a dense partition, with the gradient g. The number of the
 * update, from which rules such as Adam compute their bias correction, counts from rule_began. A
 * rule of whole tables changes nearly every value, so its changes are not logged one by one. The
 * caller changes p->version and p->step.
 *
 * Values whose changes are logged, or which are stored past the caches, are updated aside, in a
 * copy. */
static void update_dense(struct part *p, const struct optim_hyper *h,
    const struct optim_gradient *g)
{
	const struct optim_rule *rule = p->optim.rule;
	bool shown = p->dense.published, logs = p->dense.changes && !rule->whole_tables;
	enum store_way way = shown ? part_store_way(&p->dense.store) : STORE_PLAIN;
	bool aside = (logs || way == STORE_PAST_CACHES) && !rule->whole_tables;
	size_t piece = aside ? ASIDE : p->n;
	float *vector[OPTIM_VECTORS_MAX], copy[ASIDE];
	int64_t begin = shown ? clock_now() : 0;

	if (shown)
		part_begin_change(p);
	for (size_t at = 0; at < p->n; at += piece) {
		size_t n = p->n - at < piece ? p->n - at : piece;
		struct optim_gradient some = { g->values + at, g->scale, g->examples, g->touching,
			0 };
		float *w = p->dense.w + at;

		for (unsigned k = 0; k < rule->nvectors; k++)
			vector[k] = p->dense.state + k * (size_t)p->n + at;
		if (aside)
			memcpy(copy, w, n * sizeof *copy);
		rule->step(h, p->version + 1 - p->rule_began, p->table->decay, n, aside ? copy : w,
		    vector, &some);
		if (logs)
			change_log_note(p->dense.changes, p->version + 1, at, n, w, copy);
		if (aside && way == STORE_PAST_CACHES)
			copy_past_caches(w, copy, n);
		else if (aside)
			memcpy(w, copy, n * sizeof *copy);
	}
	if (shown) {
		part_end_change(p);
		part_store_took(&p->dense.store, clock_now() - begin);
	}
	if (p->dense.changes && !logs)
		change_log_reset(p->dense.changes, p->version + 1);
}

/* The mean gradient of a sum, for the rule. */
static struct optim_gradient mean_of_sum(const float *sum, const struct part_sum_size *size)
{
	return (struct optim_gradient){ sum, size->divisor ? 1.0f / (float)size->divisor : 0.0f,
		size->examples ? size->examples : 1, 0, 0 };
}

/* ---- bsp ---- */

bool part_accumulate(struct part *p, const struct shard *s, const struct push *push)
{
	float weight = p->table->reduced ? 1.0f : (float)push->examples;

	mutex_assert_held(&p->lock);
	if (s->aggregates_robustly) {
		if (!robust_keep(p, push))
			return false;
	} else if (p->table->sparse) {
		if (!part_rows_accumulate(p, push))
			return false;
	} else {
		const struct codec *codec = codec_by_id(push->codec);
		const float *g = codec->raw_values ? codec->raw_values(push->payload, p->n) : NULL;

		/* The first contribution of a step overwrites what an earlier step left in acc. */
		if (!p->sum.contributions && g) {
			vec_axpy_first(p->n, weight, g, p->dense.acc);
		} else {
			if (!p->sum.contributions)
				memset(p->dense.acc, 0, p->n * sizeof *p->dense.acc);
			codec->add(push->payload, push->len, p->n, weight, p->dense.acc);
		}
	}
	p->sum.examples += push->examples;
	if (push->nrows && !push->touching)
		p->sum.uncounted += push->examples;
	/* A sparse push without rows contributes examples whose gradient is zero, but nothing to
	 * the sum. */
	p->sum.contributions += !p->table->sparse || push->nrows;
	return true;
}

/* Keeps the values of before the step, for pulls that still ask for them. */
static void keep_previous(struct part *p, bool changes)
{
	p->prev_same = !changes;
	p->prev_version = p->version;
	if (p->dense.prev && changes)
		memcpy(p->dense.prev, p->dense.w, p->n * sizeof *p->dense.w);
	if (p->sparse.prev)
		rows_clear(p->sparse.prev);
}

bool part_update(struct part *p, uint64_t step, const float *sum, uint32_t nrows,
    const uint8_t *ids, const uint8_t *touching, const struct part_sum_size *size)
{
	struct optim_gradient g = mean_of_sum(sum, size);
	struct optim_hyper h = hyper_for_step(p, step);

	mutex_assert_held(&p->lock);
	keep_previous(p, sum != NULL);
	if (sum && !p->table->sparse) {
		update_dense(p, &h, &g);
	} else if (sum) {
		row_policy_state_set_step(p, step);
		if (!part_rows_update(p, &h, ids, nrows, touching, &g))
			return false;
	}
	p->version += sum != NULL;
	p->step = step + 1;
	return true;
}

bool part_apply_sum(struct part *p, const struct part_sum_size *size)
{
	struct optim_gradient g = mean_of_sum(NULL, size);
	struct optim_hyper h;
	bool fits;

	mutex_assert_held(&p->lock);
	FAIL_POINT("part_close");
	if (!p->sum.contributions || !p->table->sparse)
		return part_update(p, p->step, p->sum.contributions ? p->dense.acc : NULL, 0, NULL,
		    NULL, size);
	h = hyper_for_step(p, p->step);
	keep_previous(p, true);
	row_policy_state_set_step(p, p->step);
	fits = part_rows_update_from_sum(p, &h, &g);
	p->version++;
	p->step++;
	return fits;
}

void part_clear_sum(struct part *p)
{
	mutex_assert_held(&p->lock);
	if (p->sum.contributions && p->table->sparse)
		rows_clear(p->sparse.acc);
	if (p->sum.has_touching)
		rows_clear(p->sparse.touched);
	p->sum.has_touching = false;
	if (p->sum.ngradients)
		robust_reopen(p);
	p->sum.examples = 0;
	p->sum.contributions = 0;
}

/* ---- ssp, asp, and pushes from outside ---- */

bool part_apply_push(struct part *p, const struct push *push, uint64_t rate_divisor)
{
	mutex_assert_held(&p->lock);
	const struct codec *codec = codec_by_id(push->codec);
	/* 256 KiB on the stack: every thread that takes pushes needs a stack with room for it. */
	float dense[PART_ELEMENTS], *large = NULL;
	struct optim_hyper h = hyper_for_step(p, push->step);
	bool good = true;

	h.lr /= (float)rate_divisor;
	if (p->table->sparse) {
		/* A push from outside has no step; apply_push_on_arrival or repl_in.c has set the
		 * clock. */
		if (push->rank != SHARD_OUTSIDE)
			row_policy_state_set_step(p, push->step);
		good = part_rows_apply(p, &h, push);
	} else {
		if (p->n > PART_ELEMENTS)
			large = mem_array(p->n, sizeof *large);
		update_dense(p, &h,
		    &(struct optim_gradient){
		        codec_decode(codec, push->payload, push->len, p->n, large ? large : dense),
		        1.0f, push->examples ? push->examples : 1, 0, 0 });
		free(large);
	}
	p->version += good && (!p->table->sparse || push->nrows);
	return good;
}
