#include "restart.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "parts.h"

#define RESTART_MIN (100 * NSEC_PER_MSEC)
#define RESTART_MAX (10 * NSEC_PER_SEC)

bool restart_later(struct runner *r, size_t child, const char *id)
{
	int64_t wait = RESTART_MIN;

	if (child >= RUNNER_CHILDREN || r->restarts[child] >= r->max_restarts || runner_is_over(r) ||
	    (runner_state_is(r, "finishing") && strcmp(id, "coordinator") != 0))
		return false;
	for (unsigned i = 0; i < r->restarts[child] && wait < RESTART_MAX; i++)
		wait *= 2;
	r->restarts[child]++;
	r->restart_at[child] = clock_now() + wait;
	progress_say(&r->progress, "starting %s again (%u of %lld)", id, r->restarts[child], (long long)r->max_restarts);
	return true;
}

bool restart_coming(const struct runner *r)
{
	for (size_t i = 0; i < launch_count(r->set) && i < RUNNER_CHILDREN; i++)
		if (r->restart_at[i])
			return true;
	return false;
}

void restart_due(struct runner *r)
{
	int64_t now = clock_now();
	struct err e;

	for (size_t i = 0; i < launch_count(r->set) && i < RUNNER_CHILDREN; i++) {
		const char *id = launch_id(r->set, i);

		if (!r->restart_at[i] || now < r->restart_at[i])
			continue;
		r->restart_at[i] = 0;
		if (runner_spawn_again(r, id, &e) != ERR_OK)
			progress_say(&r->progress, "cannot start %s again: %s", id, e.msg);
	}
}
