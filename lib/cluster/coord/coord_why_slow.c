/* SPDX-License-Identifier: ISC */
#include "coord/why.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"

/* With more workers the judgement, which is quadratic, would take too long. */
#define WORKERS_MAX 256u

struct straggler_costs coord_worker_costs(const struct coord_member_worker *w)
{
	const struct heartbeat_worker *f = &w->figures;
	int64_t steps = f->step - (int64_t)w->from;

	return (struct straggler_costs){ .steps = w->state == WORKER_ACTIVE ? (double)steps : 0,
		.part = { [STRAGGLER_DATA] = f->data_seconds,
		    [STRAGGLER_COMPUTE] = f->compute_seconds,
		    [STRAGGLER_ENCODE] = f->encode_seconds,
		    [STRAGGLER_PUSH] = f->push_seconds },
		.wait = f->wait_seconds,
		.pull = f->pull_seconds };
}

/* Judge all workers by their windows. The result, one for each, must be freed; NULL: there are too
 * many, or no mode makes one wait for another. */
static struct straggler *judge_workers(const struct coord *c)
{
	struct straggler_costs *cost;
	struct straggler *judged;

	if (c->nworkers > WORKERS_MAX || coord_needed_step(c, 1 << 30) == 0)
		return NULL;
	cost = mem_array(c->nworkers + 1, sizeof *cost);
	judged = mem_array(c->nworkers + 1, sizeof *judged);
	for (unsigned i = 0; i < c->nworkers; i++) {
		struct straggler_costs now = coord_worker_costs(&c->worker[i]);

		if (now.steps > 0)
			cost[i] = straggler_since(&c->worker[i].window, &now);
	}
	straggler_judge(cost, c->nworkers, judged);
	free(cost);
	return judged;
}

static void add_straggler(struct why *y, struct reason *r, unsigned i, const struct straggler *s)
{
	char id[24], waits[80] = "";

	snprintf(id, sizeof id, "worker-%u", i);
	/* A difference of less than a millisecond needs the reason why it matters. */
	if (s->own - s->usual < 1e-3)
		snprintf(waits, sizeof waits,
		    "the others wait for %.0f %% of their time: ", 100 * s->others_wait);
	r->whom = id;
	coord_why_add(y, r, WHY_SLOW,
	    "sync=ssp:S or backup=1 let the others continue; a smaller batch is less work",
	    "%sa step takes it %.3g ms without waiting, the others %.3g ms; %.0f %% of that is %s",
	    waits, s->own * 1e3, s->usual * 1e3, 100 * s->part, straggler_part_name[s->most]);
}

void coord_why_stragglers(struct why *y)
{
	struct straggler *judged = judge_workers(y->c);

	for (unsigned i = 0; judged && i < y->c->nworkers; i++)
		if (judged[i].slow)
			add_straggler(y,
			    &(struct reason){ .who = "everybody",
			        .step = (int64_t)coord_worker_step(&y->c->worker[i]),
			        .seconds = judged[i].own - judged[i].usual },
			    i, &judged[i]);
	free(judged);
}

bool coord_why_straggler(struct why *y, struct reason *r)
{
	struct straggler *judged = judge_workers(y->c);
	int slowest = -1;
	char id[24];

	for (unsigned i = 0; judged && i < y->c->nworkers; i++)
		if (judged[i].slow && (slowest < 0 || judged[i].own > judged[slowest].own))
			slowest = (int)i;
	snprintf(id, sizeof id, "worker-%d", slowest);
	if (slowest >= 0 && strcmp(r->who, id) == 0)
		slowest = -1;
	if (slowest >= 0)
		add_straggler(y, r, (unsigned)slowest, &judged[slowest]);
	free(judged);
	return slowest >= 0;
}
