/* SPDX-License-Identifier: ISC */
#include "conf/sizing.h"

#define WORKERS_MAX        64
#define WORKERS_PER_SERVER 8

struct sizing sizing_rule(unsigned processors)
{
	int64_t workers = processors < 1 ? 1 : processors > WORKERS_MAX ? WORKERS_MAX : processors;

	return (struct sizing){ workers, (workers + WORKERS_PER_SERVER - 1) / WORKERS_PER_SERVER };
}

void sizing_begin(struct sizing_search *s, struct sizing first, bool workers, bool servers)
{
	*s = (struct sizing_search){ .workers = workers, .servers = servers };
	s->tried[0].size = first;
}

bool sizing_next(struct sizing_search *s, struct sizing *out)
{
	*out = s->tried[s->best].size;
	if (s->n == SIZING_TRIALS)
		s->stage = SIZING_END;
	if (s->stage == SIZING_WORKERS) {
		if (s->workers && out->workers > 1) {
			out->workers /= 2;
			return true;
		}
		s->stage = SIZING_SERVERS;
	}
	/* More servers than workers would have nothing to do at the same time. */
	if (s->stage == SIZING_SERVERS && s->servers && 2 * out->servers <= out->workers) {
		out->servers *= 2;
		return true;
	}
	if (s->stage != SIZING_FIRST)
		s->stage = SIZING_END;
	return s->stage == SIZING_FIRST;
}

/* Is the trial better than the best one so far? */
static bool is_accepted(const struct sizing_search *s, const struct sizing_trial *t)
{
	const struct sizing_trial *best = &s->tried[s->best];
	bool smaller = t->size.workers + t->size.servers < best->size.workers + best->size.servers;

	if (t->rate <= 0)
		return false;
	return smaller ? t->rate * (1 + SIZING_MARGIN) >= s->peak
	               : t->rate > s->peak * (1 + SIZING_MARGIN);
}

void sizing_take(struct sizing_search *s, struct sizing size, double rate)
{
	struct sizing_trial *t = &s->tried[s->n];
	bool first = s->stage == SIZING_FIRST;

	*t = (struct sizing_trial){ size, rate };
	if (first)
		s->stage = rate > 0 ? SIZING_WORKERS : SIZING_END;
	else if (is_accepted(s, t))
		s->best = s->n;
	else
		s->stage++;
	if (rate > s->peak)
		s->peak = rate;
	s->n++;
}
