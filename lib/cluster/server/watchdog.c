/* SPDX-License-Identifier: ISC */
#include <stdio.h>

#include "server/server_coordinator.h"
#include "server/server_role.h"

/* Every loop counts its turns. A loop whose count is the same as last time stands still, or has
 * not had time to turn yet. */
bool watchdog_turns(struct server *s)
{
	uint64_t ticks = s->coordinator ? s->cfg.coordinator->turns(s->coordinator) : 0;
	bool all = !s->coordinator || ticks != s->turns_seen;

	for (unsigned i = 0; i < s->nio_threads; i++)
		all &= atomic_load(&s->io_thread[i].turns) != s->io_thread[i].turns_seen;
	/* Only when all have turned are the counts stored: until then a fast loop counts as
	 * turned. */
	for (unsigned i = 0; all && i < s->nio_threads; i++)
		s->io_thread[i].turns_seen = atomic_load(&s->io_thread[i].turns);
	if (all)
		s->turns_seen = ticks;
	return all;
}

bool watchdog_describe(struct server *s, char *out, size_t size)
{
	bool there;

	if (s->coordinator) {
		s->cfg.coordinator->describe(s->coordinator, out, size);
		return true;
	}
	there = s->agent && agent_is_up(s->agent);
	if (!there)
		snprintf(out, size, "the coordinator cannot be reached");
	return there && s->cfg.role->describe(s, out, size);
}
