/* SPDX-License-Identifier: ISC */
#include "shard/settings_epoch.h"

#include "core/mem.h"
#include "shard/past_values.h"
#include "shard/repl.h"
#include "shard/step_ops.h"

/* Longest list. A worker that is so many epochs behind was lost long ago. */
#define SETTINGS_EPOCHS_MAX 64u

/* The list, which is replaced and never changed, so readers need no lock. */
struct settings_epochs {
	struct settings_epochs *before; /* the list that this one replaced; freed with the shard */
	unsigned n;
	const struct settings_epoch *at[];
};

/* ---- the list ---- */

/* Makes a list of the last `keep` epochs of `before`, and r. */
static struct settings_epochs *new_settings_epoch_list(struct settings_epochs *before,
    unsigned keep, const struct settings_epoch *r)
{
	struct settings_epochs *list = mem_alloc(sizeof *list + (keep + 1) * sizeof *list->at);
	struct settings_epoch *copy = mem_alloc(sizeof *copy);

	*copy = *r;
	list->before = before;
	list->n = keep + 1;
	if (keep)
		memcpy(list->at, before->at + (before->n - keep), keep * sizeof *list->at);
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
	s->gate.settings = settings_epoch_last(s);
}

/* Each list owns the epoch that it added, which is its last one. */
void settings_epochs_release(struct shard *s)
{
	for (struct settings_epochs *l = atomic_load(&s->settings_epochs), *before; l; l = before) {
		before = l->before;
		free((void *)(uintptr_t)l->at[l->n - 1]);
		free(l);
	}
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

const struct step_ops *settings_epoch_steps(const struct shard *s, const struct part *p,
    uint64_t step)
{
	const struct settings_epoch *r = settings_epoch_at(s, step);
	struct table_rules_choice rules = r == p->settings ? p->optim
	                                                   : settings_epoch_rule(r, p->table);

	mutex_assert_held(&p->lock);
	return sync_sums_steps(&r->mode) && !rules.on_arrival ? &step_summed : &step_on_arrival;
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

uint64_t settings_epoch_sums_end(const struct shard *s, uint64_t step)
{
	const struct settings_epochs *l = atomic_load(&s->settings_epochs);

	for (unsigned i = 0; i < l->n; i++)
		if (l->at[i]->step > step && !sync_sums_steps(&l->at[i]->mode))
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
		if (l->at[i]->number > s->gate.settings->number &&
		    !sync_same(&l->at[i]->mode, &s->gate.settings->mode))
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

void shard_add_epoch(struct shard *s, const struct settings_epoch *r)
{
	struct settings_epochs *l = atomic_load(&s->settings_epochs);

	if (r->number <= settings_epoch_last(s)->number)
		return;
	atomic_store(&s->settings_epochs,
	    new_settings_epoch_list(l, l->n < SETTINGS_EPOCHS_MAX ? l->n : SETTINGS_EPOCHS_MAX - 1,
	        r));
	mutex_lock(&s->gate.lock);
	plan_mode_change(s);
	mutex_unlock(&s->gate.lock);
}

/* At a change of mode: the partition's steps count from the first step of the new mode on. A
 * replica that is not the head of a bsp partition still gets records of the steps before, and goes
 * on with those. */
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
	const struct settings_epoch *now;

	mutex_assert_held(&p->lock);
	if (settings_epoch_closes_step(s, p->step))
		return;
	mutex_lock(&s->gate.lock);
	/* While a thread changes the mode, its sweep may have missed this partition: use the next
	 * mode. */
	now = s->gate.changing_mode ? next_mode_settings_epoch(s) : s->gate.settings;
	mutex_unlock(&s->gate.lock);
	/* This server may have gone through more than one mode. A bsp between them has steps that the
	 * partition must close, even if it gets no push in them: pulls of later steps wait for that. */
	for (unsigned i = 0; i < l->n && l->at[i]->number <= now->number; i++)
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
		g->settings = next;
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

/* Replaces the optimizer state by that of `rule`. The block has one float more than needed,
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
		if (p->sparse.rows)
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
