/* SPDX-License-Identifier: ISC */
#include "coord/why.h"

#include <math.h>

#include "core/mem.h"

/* A worker is slow if its own part of a step takes SLOW times as long as the median worker's, and
 * at least SLOW_BY seconds longer. Figures count after SLOW_STEPS steps. */
#define SLOW       1.5
#define SLOW_BY    1e-3
#define SLOW_STEPS 10u

/* The parts of a step that depend on the worker alone, and their seconds. */
#define OWN_PARTS 4u
static const char *const own_part[OWN_PARTS] = { "data", "compute", "encode", "push" };

static double own_part_seconds(const struct coord_member_worker *w, size_t part)
{
	const double seconds[OWN_PARTS] = { w->figures.data_seconds, w->figures.compute_seconds,
		w->figures.encode_seconds, w->figures.push_seconds };

	return seconds[part];
}

static double own_work_seconds(const struct coord_member_worker *w)
{
	double own = 0;

	for (size_t i = 0; i < OWN_PARTS; i++)
		own += own_part_seconds(w, i);
	return own;
}

static size_t find_costliest_part(const struct coord_member_worker *w)
{
	size_t most = 0;

	for (size_t i = 1; i < OWN_PARTS; i++)
		if (own_part_seconds(w, i) > own_part_seconds(w, most))
			most = i;
	return most;
}

static double own_seconds_per_step(const struct coord_member_worker *w)
{
	int64_t steps = w->figures.step - (int64_t)w->from;

	return w->state == WORKER_ACTIVE && steps >= (int64_t)SLOW_STEPS
	    ? own_work_seconds(w) / (double)steps
	    : NAN;
}

/* The median of own_seconds_per_step; NAN with fewer than two workers. */
static double median_own_seconds(const struct coord *c)
{
	double best = NAN;
	unsigned n = 0, at = c->nworkers;

	for (unsigned i = 0; i < c->nworkers; i++)
		n += own_seconds_per_step(&c->worker[i]) >= 0;
	for (unsigned i = 0; i < c->nworkers; i++) {
		double x = own_seconds_per_step(&c->worker[i]);
		unsigned below = 0;

		for (unsigned k = 0; x >= 0 && k < c->nworkers; k++)
			below += own_seconds_per_step(&c->worker[k]) < x ||
			    (own_seconds_per_step(&c->worker[k]) == x && k < i);
		/* With an even number, take the lower one of the two in the middle. */
		if (x >= 0 && n > 1 && below == (n - 1) / 2 && at != i)
			best = x;
	}
	return best;
}

void coord_why_stragglers(struct why *y)
{
	const struct coord *c = y->c;
	double usual = c->nworkers <= 256 ? median_own_seconds(c) : NAN;

	for (unsigned i = 0; usual >= 0 && coord_needed_step(c, 1 << 30) > 0 && i < c->nworkers;
	     i++) {
		const struct coord_member_worker *w = &c->worker[i];
		double own = own_seconds_per_step(w);
		size_t most = find_costliest_part(w);
		char id[24];

		if (!(own > SLOW * usual) || own - usual < SLOW_BY)
			continue;
		snprintf(id, sizeof id, "worker-%u", i);
		coord_why_add(y,
		    &(struct reason){ "everybody", id, (int64_t)coord_worker_step(w), own - usual,
		        NULL },
		    "sync=ssp:S or backup=1 let the others continue; a smaller batch is less work",
		    "a step takes it %.3g ms without waiting, the others %.3g ms; %.0f %% of "
		    "that is %s",
		    own * 1e3, usual * 1e3, 100 * own_part_seconds(w, most) / own_work_seconds(w),
		    own_part[most]);
	}
}
