/* SPDX-License-Identifier: ISC */
#include <string.h>

#include "tests/sim/parts.h"

/* The time of day of a process jumps, forwards and backwards, by milliseconds or hours. Nothing that a cluster
 * decides may depend on it. */

static struct {
	bool any;
} c;

static void move_clock(void *ctx)
{
	struct member *m = sim_chance(40) ? scenario_coordinator()
	                                  : scenario_server(sim_below(scenario_servers()));
	int64_t by = sim_below(sim_chance(50) ? 7200 : 3) * SEC + sim_below(1000) * MSEC;

	(void)ctx;
	if (scenario_is_peace())
		return;
	if (m->proc && m->proc->alive) {
		m->proc->clock_skew += sim_chance(50) ? by : -by;
		sim_trace("judge      > the clock of %s is off by %lld ms", m->name,
		    (long long)(m->proc->clock_skew / MSEC));
	}
	event_at(sim_now + (50 + sim_below(1000)) * MSEC, move_clock, NULL);
}

void clocks_leave_out(void)
{
	memset(&c, 0, sizeof c);
}

void clocks_draw(void)
{
	c.any = sim_chance(25);
}

void clocks_begin(void)
{
	if (c.any)
		event_at(sim_now + sim_below(1000) * MSEC, move_clock, NULL);
}
