/* SPDX-License-Identifier: ISC */
#include <string.h>

#include "tests/sim/examples.h"
#include "tests/sim/parts.h"

/* After the war all partitions have all replicas again. And each replica has everything: the ledger is compared, or the examples are counted, once more
 * when a server has died. */

#define TIME (60 * SEC) /* in which replicas are made */

static bool is_whole(void *ctx)
{
	(void)ctx;
	return scenario_is_whole();
}

static void ask_again(void *ctx)
{
	if (scenario_has_failed() || *(bool *)ctx)
		return;
	scenario_ask_for_replicas();
	event_at(sim_now + 40 * MSEC, ask_again, ctx);
}

/* Waits until all replicas are there. */
static bool await_replicas(void)
{
	static bool over;

	over = false;
	ask_again(&over);
	world_run(sim_now + TIME, is_whole, NULL);
	over = true;
	if (!scenario_is_whole()) {
		scenario_trace_state();
		scenario_fail("REPLICAS: there are not all replicas %lld s after the war",
		    (long long)(TIME / SEC));
	}
	return !scenario_has_failed();
}

void replicas_check(void)
{
	struct member *m = scenario_server(sim_below(scenario_servers()));

	if (!await_replicas() || scenario_replicas() < 2 || !scenario_is_well(m))
		return;
	sim_trace("judge      > the model without %s", m->name);
	proc_kill(m->proc);
	m->down = true;
	if (examples_are_drawn())
		examples_check();
	else
		scenario_compare("check", resume_books(), "64");
}
