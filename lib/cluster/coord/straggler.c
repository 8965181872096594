/* SPDX-License-Identifier: ISC */
#include "coord/straggler.h"

#include <math.h>

#include "core/clock.h"

/* The length of a half window. */
#define HALF_WINDOW (2 * NSEC_PER_SEC)

/* A worker is slow if its own part of a step takes SLOW times as long as the median worker's, and
 * at least SLOW_BY seconds longer. */
#define SLOW    1.5
#define SLOW_BY 1e-3
/* At faster steps it is slow if its part takes FAST_SLOW times as long, the others wait for at
 * least FAST_WAIT of their time, and it waits less than they do by at least FAST_APART of a
 * step. */
#define FAST_SLOW  1.2
#define FAST_WAIT  0.2
#define FAST_APART 0.15

const char *const straggler_part_name[STRAGGLER_PARTS] = { "data", "compute", "encode", "push" };

/* ---- the window ---- */

static struct straggler_costs subtract_costs(const struct straggler_costs *a,
    const struct straggler_costs *b)
{
	struct straggler_costs d = { .steps = a->steps - b->steps,
		.wait = a->wait - b->wait,
		.pull = a->pull - b->pull };

	for (int i = 0; i < STRAGGLER_PARTS; i++)
		d.part[i] = a->part[i] - b->part[i];
	return d;
}

/* Waits until both halves have enough steps: the steps of a slow job take longer than a second. */
void straggler_note(struct straggler_window *w, const struct straggler_costs *totals, int64_t now)
{
	if (w->next_at && totals->steps < w->next.steps)
		*w = (struct straggler_window){ 0 };
	if (w->next_at &&
	    (now - w->next_at < HALF_WINDOW || totals->steps - w->next.steps < STRAGGLER_STEPS))
		return;
	if (w->next_at)
		w->begin = w->next;
	w->next = *totals;
	w->next_at = now;
}

struct straggler_costs straggler_since(const struct straggler_window *w,
    const struct straggler_costs *totals)
{
	return subtract_costs(totals, &w->begin);
}

/* ---- the judgement ---- */

static double own_seconds(const struct straggler_costs *c)
{
	double own = 0;

	for (int i = 0; i < STRAGGLER_PARTS; i++)
		own += c->part[i];
	return own;
}

/* NaN: there are not enough steps. */
static double own_per_step(const struct straggler_costs *c)
{
	return c->steps >= STRAGGLER_STEPS ? own_seconds(c) / c->steps : NAN;
}

/* The median of own_per_step; NaN with fewer than two workers. */
static double find_usual(const struct straggler_costs *cost, size_t n)
{
	size_t known = 0;

	for (size_t i = 0; i < n; i++)
		known += own_per_step(&cost[i]) >= 0;
	for (size_t i = 0; i < n && known > 1; i++) {
		double x = own_per_step(&cost[i]);
		size_t below = 0;

		for (size_t k = 0; x >= 0 && k < n; k++)
			below += own_per_step(&cost[k]) < x ||
			    (own_per_step(&cost[k]) == x && k < i);
		/* With an even number, take the lower one of the two in the middle. */
		if (x >= 0 && below == (known - 1) / 2)
			return x;
	}
	return NAN;
}

/* The sums of the wait of a step, and of the share of the time that is waited for, over some
 * workers. */
struct waits {
	double per_step, share;
	size_t n;
};

static void add_wait(struct waits *sum, const struct straggler_costs *c)
{
	double all = own_seconds(c) + c->wait + c->pull;

	if (!(c->steps >= STRAGGLER_STEPS) || !(all > 0))
		return;
	sum->per_step += c->wait / c->steps;
	sum->share += c->wait / all;
	sum->n++;
}

/* all: the waits of all workers, this one included. */
static void judge_worker(const struct straggler_costs *c, double usual, const struct waits *all,
    struct straggler *out)
{
	double step = (own_seconds(c) + c->wait + c->pull) / c->steps, apart = NAN;
	struct waits own = { 0 };

	*out = (struct straggler){ .own = own_per_step(c), .usual = usual, .others_wait = NAN };
	for (int i = 1; i < STRAGGLER_PARTS; i++)
		if (c->part[i] > c->part[out->most])
			out->most = (enum straggler_part)i;
	out->part = c->part[out->most] / own_seconds(c);
	add_wait(&own, c);
	if (own.n && all->n > 1) {
		double others = (double)(all->n - 1);

		out->others_wait = (all->share - own.share) / others;
		apart = (all->per_step - own.per_step) / others - own.per_step;
	}
	out->slow = (out->own > SLOW * usual && out->own - usual >= SLOW_BY) ||
	    (out->own > FAST_SLOW * usual && out->others_wait >= FAST_WAIT &&
	        apart >= FAST_APART * step);
}

void straggler_judge(const struct straggler_costs *cost, size_t n, struct straggler *out)
{
	double usual = find_usual(cost, n);
	struct waits all = { 0 };

	for (size_t i = 0; i < n; i++)
		add_wait(&all, &cost[i]);
	for (size_t i = 0; i < n; i++)
		judge_worker(&cost[i], usual, &all, &out[i]);
}
