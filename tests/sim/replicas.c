/* SPDX-License-Identifier: ISC */
#include <stdio.h>
#include <string.h>

#include "tests/sim/control.h"
#include "tests/sim/examples.h"
#include "tests/sim/parts.h"

/* After the war all partitions have all replicas again. And each replica has everything: the ledger is compared, or the examples are counted, once more
 * when a server has died. */

#define TIME (60 * SEC) /* in which replicas are made */

struct answer {
	int status; /* -1: it has not come */
	char text[200];
};

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

static bool is_answered(void *ctx)
{
	return ((const struct answer *)ctx)->status >= 0;
}

static void note_answer(void *ctx, int status, const char *text)
{
	struct answer *a = ctx;

	a->status = status;
	snprintf(a->text, sizeof a->text, "%s", text);
}

/* Nothing changes any more, so that a checkpoint can be taken. A coordinator that was started again just now may first
 * have to hear of its servers. */
static void take_checkpoint(void)
{
	static struct answer a;

	for (int try = 0; try < 100; try++) {
		a.status = -1;
		control_send(0, "POST", "/v1/checkpoints", "{}", note_answer, &a);
		world_run(sim_now + 2 * TIME, is_answered, &a);
		if (a.status != 503 || !strstr(a.text, "notready"))
			break;
		world_run(sim_now + 100 * MSEC, NULL, NULL);
	}
	/* The job has failed: all workers were lost at once (tests/RECORD.md, Open). */
	if (a.status == 503 && strstr(a.text, "notready"))
		sim_trace("judge      < no checkpoint: %s", a.text);
	else if (a.status != 200)
		scenario_fail("LAST STEP: a checkpoint after the job: %d %s", a.status, a.text);
}

void replicas_check(void)
{
	struct member *m = scenario_server(sim_below(scenario_servers()));

	if (await_replicas())
		take_checkpoint();
	if (scenario_has_failed() || scenario_replicas() < 2 || !scenario_is_well(m))
		return;
	sim_trace("judge      > the model without %s", m->name);
	proc_kill(m->proc);
	m->down = true;
	if (examples_are_drawn())
		examples_check();
	else
		scenario_compare("check", resume_books(), "64");
}
