#include "coord/why.h"

#include <math.h>

#include "base/json.h"
#include "base/mem.h"

/* A worker whose own part of a step takes so much longer than that of the one in the middle,
 * and so many seconds. */
#define SLOW 1.5
#define SLOW_BY 1e-3
#define SLOW_STEPS 10u

/* What of a step is a worker's own, not the others'. */
static const char *const own_key[] = { "data_seconds", "compute_seconds", "encode_seconds", "push_seconds" };
#define OWN_KEYS (sizeof own_key / sizeof *own_key)

static double own_seconds(const struct member_worker *w)
{
	double own = 0;

	for (size_t i = 0; i < OWN_KEYS; i++)
		own += json_num(w->stats, own_key[i], 0);
	return own;
}

/* The one that takes most. */
static const char *most_of(const struct member_worker *w)
{
	size_t most = 0;

	for (size_t i = 1; i < OWN_KEYS; i++)
		if (json_num(w->stats, own_key[i], 0) > json_num(w->stats, own_key[most], 0))
			most = i;
	return own_key[most];
}

static double own_part(const struct member_worker *w)
{
	int64_t steps = json_int(w->stats, "step", 0) - (int64_t)w->from;

	return w->state == WORKER_ACTIVE && steps >= (int64_t)SLOW_STEPS ? own_seconds(w) / (double)steps : NAN;
}

/* So many of the workers need less than x. */
static double middle(const struct coord *c)
{
	double best = NAN;
	unsigned n = 0, at = c->nworkers;

	for (unsigned i = 0; i < c->nworkers; i++)
		n += own_part(&c->worker[i]) >= 0;
	for (unsigned i = 0; i < c->nworkers; i++) {
		double x = own_part(&c->worker[i]);
		unsigned below = 0;

		for (unsigned k = 0; x >= 0 && k < c->nworkers; k++)
			below += own_part(&c->worker[k]) < x || (own_part(&c->worker[k]) == x && k < i);
		/* The lower one of the two in the middle. */
		if (x >= 0 && n > 1 && below == (n - 1) / 2 && at != i)
			best = x;
	}
	return best;
}

void why_stragglers(struct why *y)
{
	const struct coord *c = y->c;
	double usual = c->nworkers <= 256 ? middle(c) : NAN;

	for (unsigned i = 0; usual >= 0 && coord_needed(c, 1 << 30) > 0 && i < c->nworkers; i++) {
		const struct member_worker *w = &c->worker[i];
		double own = own_part(w);
		const char *most = most_of(w);
		char id[24];

		if (!(own > SLOW * usual) || own - usual < SLOW_BY)
			continue;
		snprintf(id, sizeof id, "worker-%u", i);
		why_say(y, &(struct reason){ "everybody", id, (int64_t)worker_step(w), own - usual },
		    "sync=ssp:S or backup=1 let the others go on; a smaller batch there is less work",
		    "each step takes it %.3g ms of its own, the others %.3g; %.0f %% of that is %.*s", own * 1e3, usual * 1e3,
		    100 * json_num(w->stats, most, 0) / own_seconds(w), (int)strcspn(most, "_"), most);
	}
}
