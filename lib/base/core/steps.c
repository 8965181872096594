/* SPDX-License-Identifier: ISC */
#include "core/steps.h"

static void add_to_top(struct steps_top *t, uint64_t step)
{
	t->n++;
	if (step > t->first) {
		t->second = t->first;
		t->first = step;
	} else if (step > t->second) {
		t->second = step;
	}
}

void steps_add(struct steps *s, uint64_t step, bool active)
{
	if (active)
		add_to_top(&s->active, step);
	/* A rank that no worker has held reports nothing. */
	if (active || step)
		add_to_top(&s->all, step);
}

/* The greatest step without one occurrence of `own`. */
static uint64_t greatest_other(const struct steps_top *t, uint64_t own)
{
	return own == t->first ? t->second : t->first;
}

bool steps_absurd(uint64_t step, uint64_t others)
{
	return step > STEPS_LEAP && (step - STEPS_LEAP) / STEPS_RATIO > others;
}

bool steps_believe(const struct steps *s, uint64_t added, bool active, uint64_t step)
{
	bool counted = active || added;

	if (s->active.n > active)
		return !steps_absurd(step,
		    active ? greatest_other(&s->active, added) : s->active.first);
	if (s->all.n > counted)
		return !steps_absurd(step, counted ? greatest_other(&s->all, added) : s->all.first);
	return true;
}
