/* SPDX-License-Identifier: ISC */
#include "shard/settings_epoch.h"

#include "core/mem.h"
#include "shard/past_values.h"
#include "shard/repl.h"

/* Epochs that stay in the list although no step needs them: a record of replication, or a push that
 * is repeated, may be of one of them. */
#define SETTINGS_EPOCHS_KEPT 64u

/* The list, which is replaced and never changed. */
struct settings_epochs {
	unsigned n;
	const struct settings_epoch *at[];
};

/* ---- the list ---- */

/* Makes a list of r and the epochs of `before`, without its first ones. */
static struct settings_epochs *new_settings_epoch_list(const struct settings_epochs *before,
    unsigned without, const struct settings_epoch *r)
{
	unsigned keep = before ? before->n - without : 0;
	struct settings_epochs *list = mem_alloc(sizeof *list + (keep + 1) * sizeof *list->at);
	struct settings_epoch *copy = mem_alloc(sizeof *copy);

	*copy = *r;
	list->n = keep + 1;
	if (keep)
		memcpy(list->at, before->at + without, keep * sizeof *list->at);
	list->at[keep] = copy;
	return list;
}

void settings_epochs_init(struct shard *s)
{
	const struct shard_config *c = &s->cfg;
	struct settings_epoch first = { .number = c->settings,
		.mode = c->mode,
		.rule = c->rule,
		.hyper = c->hyper,
		.schedule = c->schedule,
		.tables = c->tables };

	atomic_store(&s->settings_epochs, new_settings_epoch_list(NULL, 0, &first));
	s->gate.settings = first.number;
}

static void free_epoch(const struct settings_epoch *r)
{
	free((void *)(uintptr_t)r);
}

void settings_epochs_release(struct shard *s)
{
	struct settings_epochs *l = atomic_load(&s->settings_epochs);

	for (unsigned i = 0; i < l->n; i++)
		free_epoch(l->at[i]);
	free(l);
	for (unsigned i = 0; i < s->unlisted.n; i++)
		free_epoch(s->unlisted.epoch[i]);
	free(s->unlisted.epoch);
}

unsigned settings_epochs_held(const struct shard *s)
{
	return atomic_load(&s->settings_epochs)->n + s->unlisted.n;
}

const struct settings_epoch *settings_epoch_last(const struct shard *s)
{
	const struct settings_epochs *l = atomic_load(&s->settings_epochs);

	return l->at[l->n - 1];
}

const struct settings_epoch *settings_epoch_at(const struct shard *s, uint64_t step)
{
	const struct settings_epochs *l = atomic_load(&s->settings_epochs);
	unsigned i = l->n - 1;

	while (i && l->at[i]->step > step)
		i--;
	return l->at[i];
}

bool settings_epoch_closes_step(const struct shard *s, uint64_t step)
{
	return sync_sums_steps(&settings_epoch_at(s, step)->mode);
}

const struct settings_epoch *settings_epoch_by_number(const struct shard *s, uint32_t number)
{
	const struct settings_epochs *l = atomic_load(&s->settings_epochs);
	unsigned i = l->n - 1;

	if (number > l->at[i]->number)
		return NULL;
	while (i && l->at[i]->number > number)
		i--;
	return l->at[i];
}

/* Do others replace these settings at the same step, so that they hold at none? */
static bool epoch_is_empty(const struct settings_epochs *l, unsigned i)
{
	return i + 1 < l->n && l->at[i + 1]->step <= l->at[i]->step;
}

uint64_t settings_epoch_sums_end(const struct shard *s, uint64_t step)
{
	const struct settings_epochs *l = atomic_load(&s->settings_epochs);

	for (unsigned i = 0; i < l->n; i++)
		if (l->at[i]->step > step && !sync_sums_steps(&l->at[i]->mode) &&
		    !epoch_is_empty(l, i))
			return l->at[i]->step;
	return SYNC_NEVER;
}

uint64_t settings_epoch_sums_from(const struct shard *s, uint64_t step)
{
	const struct settings_epochs *l = atomic_load(&s->settings_epochs);
	uint64_t from = 0;

	for (unsigned i = 1; i < l->n && l->at[i]->step <= step; i++)
		if (!sync_sums_steps(&l->at[i - 1]->mode))
			from = l->at[i]->step;
	return from;
}

uint64_t settings_epoch_unclosed_from(const struct shard *s, uint64_t step)
{
	const struct settings_epochs *l = atomic_load(&s->settings_epochs);
	uint64_t from = 0;

	for (unsigned i = 1; i < l->n && l->at[i]->step <= step; i++)
		if (sync_sums_steps(&l->at[i - 1]->mode) && !sync_sums_steps(&l->at[i]->mode))
			from = l->at[i]->step;
	return from;
}

uint64_t settings_epoch_unclosed_end(const struct shard *s, uint64_t step)
{
	const struct settings_epochs *l = atomic_load(&s->settings_epochs);

	for (unsigned i = 0; i < l->n; i++)
		if (l->at[i]->step > step && sync_sums_steps(&l->at[i]->mode) &&
		    !epoch_is_empty(l, i))
			return l->at[i]->step;
	return SYNC_NEVER;
}

uint64_t settings_epoch_closed_before(const struct shard *s, uint64_t step)
{
	const struct settings_epochs *l = atomic_load(&s->settings_epochs);
	uint64_t closed = 0;

	for (unsigned i = 0; i < l->n && (!i || l->at[i]->step <= step); i++)
		if (sync_sums_steps(&l->at[i]->mode))
			closed = step;
		else if (i && sync_sums_steps(&l->at[i - 1]->mode))
			closed = l->at[i]->step;
	return closed;
}

/* ---- the gate: one mode after the other ---- */

/* The first epoch after the one in force that has another mode; NULL when there is none. The gate's
 * lock is held. */
static const struct settings_epoch *next_mode_settings_epoch(struct shard *s)
{
	const struct settings_epochs *l = atomic_load(&s->settings_epochs);

	mutex_assert_held(&s->gate.lock);
	for (unsigned i = 0; i < l->n; i++)
		if (l->at[i]->number > s->gate.settings &&
		    !sync_same(&l->at[i]->mode, &s->gate.sync.mode))
			return l->at[i];
	return NULL;
}

/* Sets the step at which the gate changes its mode next. The gate's lock is held. */
static void plan_mode_change(struct shard *s)
{
	const struct settings_epoch *next = next_mode_settings_epoch(s);

	mutex_assert_held(&s->gate.lock);
	s->gate.sync.next_mode_from = next ? next->step : SYNC_NEVER;
}

/* ---- which epochs are needed ---- */

/* Finds the oldest open step of a partition. */
static bool find_open_step(struct shard *s, struct part *p, void *ctx)
{
	uint64_t *oldest = ctx;

	if (p->ready && settings_epoch_closes_step(s, p->step) && p->step < *oldest)
		*oldest = p->step;
	return true;
}

/* The number of the first epochs of the list that may leave it: others follow them before the
 * oldest step that a worker or a partition has open, and the gate is not to change to their
 * mode. */
static unsigned count_unneeded_epochs(struct shard *s)
{
	const struct settings_epochs *l = atomic_load(&s->settings_epochs);
	const struct settings_epoch *next;
	uint64_t oldest = SYNC_NEVER;
	unsigned n = 0;

	if (l->n < SETTINGS_EPOCHS_KEPT)
		return 0;
	shard_each(s, find_open_step, &oldest);
	mutex_lock(&s->gate.lock);
	if (sync_completed(&s->gate.sync) < oldest)
		oldest = sync_completed(&s->gate.sync);
	next = next_mode_settings_epoch(s);
	while (l->n - n >= SETTINGS_EPOCHS_KEPT && l->at[n + 1]->step <= oldest &&
	    (!next || l->at[n]->number < next->number))
		n++;
	mutex_unlock(&s->gate.lock);
	return n;
}

/* Takes note of the first n epochs of the list, which are leaving it. */
static void unlist_epochs(struct shard *s, unsigned n)
{
	const struct settings_epochs *l = atomic_load(&s->settings_epochs);
	struct unlisted_epochs *u = &s->unlisted;

	if (!n)
		return;
	u->epoch = mem_grow(u->epoch, &u->room, (size_t)u->n + n, sizeof *u->epoch);
	memcpy(u->epoch + u->n, l->at, n * sizeof *l->at);
	u->n += n;
}

/* Moves the unlisted epochs that the partition uses to the front of the unlisted ones. *ctx: how
 * many are there. */
static bool keep_epoch_in_use(struct shard *s, struct part *p, void *ctx)
{
	struct unlisted_epochs *u = &s->unlisted;
	unsigned *used = ctx;

	for (unsigned i = *used; i < u->n; i++)
		if (u->epoch[i] == p->settings) {
			u->epoch[i] = u->epoch[*used];
			u->epoch[(*used)++] = p->settings;
			break;
		}
	return true;
}

/* Frees the unlisted epochs that no partition uses. Others may have read the earlier list while
 * they held the lock of a partition or of the gate, so it has no readers, either, when each of
 * these locks was free once. */
static void free_unused_epochs(struct shard *s)
{
	struct unlisted_epochs *u = &s->unlisted;
	unsigned used = 0;

	shard_each(s, keep_epoch_in_use, &used);
	mutex_lock(&s->gate.lock);
	mutex_unlock(&s->gate.lock);
	while (u->n > used)
		free_epoch(u->epoch[--u->n]);
}

void shard_add_epoch(struct shard *s, const struct settings_epoch *r)
{
	struct settings_epochs *before = atomic_load(&s->settings_epochs);
	unsigned n;

	if (r->number <= settings_epoch_last(s)->number)
		return;
	n = count_unneeded_epochs(s);
	unlist_epochs(s, n);
	atomic_store(&s->settings_epochs, new_settings_epoch_list(before, n, r));
	mutex_lock(&s->gate.lock);
	plan_mode_change(s);
	mutex_unlock(&s->gate.lock);
	free_unused_epochs(s);
	free(before);
}

/* ---- a change of the mode ---- */

/* At a change of mode: the partition's steps count from the first step of the new mode on. A
 * replica that is not the head of a bsp partition still gets records of the steps before, and
 * continues with them. */
static bool enter_mode(struct shard *s, struct part *p, void *ctx)
{
	const struct settings_epoch *r = ctx;

	if (!p->ready || p->step >= r->step ||
	    (settings_epoch_closes_step(s, p->step) && !p->chain.head))
		return true;
	p->step = r->step;
	p->prev_same = true;
	part_update_safe(p);
	return true;
}

void settings_epoch_enter_mode(struct shard *s, struct part *p)
{
	const struct settings_epochs *l = atomic_load(&s->settings_epochs);
	uint32_t number;

	mutex_assert_held(&p->lock);
	if (settings_epoch_closes_step(s, p->step))
		return;
	mutex_lock(&s->gate.lock);
	/* While a thread changes the mode, its sweep may have missed this partition: use the next
	 * mode. */
	number = s->gate.changing_mode ? next_mode_settings_epoch(s)->number : s->gate.settings;
	mutex_unlock(&s->gate.lock);
	/* This server may have gone through more than one mode. A bsp between them has steps that
	 * the partition must close, even if it gets no push in them: pulls of later steps wait for
	 * that. */
	for (unsigned i = 0; i < l->n && l->at[i]->number <= number; i++)
		if (l->at[i]->step > p->step && sync_sums_steps(&l->at[i]->mode)) {
			enter_mode(s, p, (void *)(uintptr_t)l->at[i]);
			return;
		}
}

/* Allocates what the head of a bsp chain needs before its first push. All servers have agreed on
 * the change, so without memory this one ends. */
static bool alloc_sums(struct shard *s, struct part *p, void *ctx)
{
	(void)ctx;
	if (!p->ready || !p->chain.head)
		return true;
	if (part_alloc_head(p, s, NULL))
		mem_fail();
	return true;
}

void settings_epoch_change_mode(struct shard *s)
{
	struct gate *g = &s->gate;

	mutex_lock(&g->lock);
	while (!g->changing_mode && sync_may_change_mode(&g->sync)) {
		const struct settings_epoch *next = next_mode_settings_epoch(s);

		g->changing_mode = true;
		mutex_unlock(&g->lock);
		shard_each(s, enter_mode, (void *)(uintptr_t)next);
		if (sync_sums_steps(&next->mode))
			shard_each(s, alloc_sums, NULL);
		mutex_lock(&g->lock);
		g->changing_mode = false;
		g->settings = next->number;
		g->sync.mode = next->mode;
		if (sync_sums_steps(&next->mode) && g->sync.closed < next->step)
			g->sync.closed = next->step;
		g->nslowest = 0;
		plan_mode_change(s);
	}
	mutex_unlock(&g->lock);
}

/* ---- a partition: one rule after the other ---- */

int settings_epoch_find_state(const struct optim_rule *rule, unsigned k,
    const struct optim_rule *before)
{
	for (unsigned i = 0; i < before->nvectors; i++)
		if (strcmp(rule->vector_name[k], before->vector_name[i]) == 0)
			return (int)i;
	return -1;
}

bool settings_epoch_keeps_state(const struct optim_rule *rule, const struct optim_rule *before)
{
	for (unsigned k = 0; k < rule->nvectors; k++)
		if (settings_epoch_find_state(rule, k, before) >= 0)
			return true;
	return false;
}

void settings_epoch_carry_state(const struct optim_rule *rule, const struct optim_rule *before,
    size_t n, size_t width, float *from, float *to)
{
	float *had[OPTIM_VECTORS_MAX], *vector[OPTIM_VECTORS_MAX];

	part_init_state(rule, n, width, to);
	part_state_vectors(from, n, width, before, had);
	part_state_vectors(to, n, width, rule, vector);
	for (unsigned k = 0; k < rule->nvectors; k++) {
		int was = settings_epoch_find_state(rule, k, before);

		if (was >= 0)
			memcpy(vector[k], had[was],
			    optim_vector_floats(rule, k, n, width) * sizeof *to);
	}
}

/* Replaces the optimizer state by the state of `rule`. The block has one float more than needed,
 * because a rule may have no state at all. */
static void convert_dense_state(struct part *p, const struct optim_rule *rule)
{
	/* All servers have agreed on the change, so without memory this one ends. */
	float *state = mem_try_array((size_t)p->n * rule->nvectors + 1, sizeof *state);

	if (!state)
		mem_fail();
	settings_epoch_carry_state(rule, p->optim.rule, p->n, 1, p->dense.state, state);
	free(p->dense.state);
	p->dense.state = state;
}

struct table_rules_choice settings_epoch_rule(const struct settings_epoch *r, const struct table *t)
{
	return table_rules_choose(&r->tables, t->name, r->rule, &r->hyper);
}

void settings_epoch_begin(struct part *p, const struct settings_epoch *r)
{
	mutex_assert_held(&p->lock);
	p->settings = r;
	p->optim = settings_epoch_rule(r, p->table);
}

void settings_epoch_set(struct shard *s, struct part *p, const struct settings_epoch *r)
{
	const struct optim_rule *before = p->optim.rule, *rule;

	mutex_assert_held(&p->lock);
	if (r->number <= p->settings->number)
		return;
	rule = settings_epoch_rule(r, p->table).rule;
	if (rule != before) {
		if (part_has_rows(p))
			part_rows_set_rule(p, s, rule);
		else
			convert_dense_state(p, rule);
		if (!settings_epoch_keeps_state(rule, before))
			p->rule_began = p->version;
	}
	settings_epoch_begin(p, r);
	if (!stale_needs_values(&r->mode.stale))
		past_values_free(p);
	budget_rebook(p, s);
}
