/* SPDX-License-Identifier: ISC */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/json.h"
#include "tests/sim/control.h"
#include "tests/sim/examples.h"
#include "tests/sim/parts.h"

/* After the war all partitions have all replicas again. And each replica has everything: the ledger is compared, or the examples are counted, once more
 * when a server has died. */

#define TIME (60 * SEC) /* in which replicas are made */

struct answer {
	int status; /* -1: it has not come */
	char text[20000];
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
	scenario_look_at_ends();
	scenario_ask_for_replicas();
	event_at(sim_now + 40 * MSEC, ask_again, ctx);
}

bool replicas_await(void)
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

/* The greatest number that follows "step": in the text. */
static uint64_t find_greatest_step(const char *text)
{
	static const char key[] = "\"step\":";
	uint64_t greatest = 0, step;

	for (const char *at = text; (at = strstr(at, key)) != NULL;) {
		at += sizeof key - 1;
		step = strtoull(at, NULL, 10);
		greatest = step > greatest ? step : greatest;
	}
	return greatest;
}

/* A checkpoint that is named by a later step than this one, the last of the job, would be taken for newer. One of a job
 * that is done has the same values as this one, and may be named by the step that a worker was at which then was lost. */
static void check_names_of_checkpoints(uint64_t last)
{
	static struct answer a;
	uint64_t named;

	a.status = -1;
	control_send(0, "GET", "/v1/checkpoints", NULL, note_answer, &a);
	world_run(sim_now + TIME, is_answered, &a);
	named = a.status == 200 ? find_greatest_step(a.text) : 0;
	if (named > last + 1 && !resume_has_damaged())
		scenario_fail("LAST STEP: a checkpoint of step %llu is older than one of step %llu",
		    (unsigned long long)named, (unsigned long long)last);
}

/* Is a checkpoint to be asked for again? A coordinator that was started again just now may first have to
 * hear of its servers, and of two coordinators the one that was asked may be overtaken after the war, and
 * give it up. */
static bool is_not_ready(const struct answer *a)
{
	if (a->status == 503 && strstr(a->text, "\"notready\""))
		return true;
	return owners_are_drawn() &&
	    (!a->status || (a->status == 503 && strstr(a->text, "\"stopped\"")));
}

/* Nothing changes any more, so that a checkpoint can be taken. */
static void take_checkpoint(void)
{
	static struct answer a;

	for (int try = 0; try < 100; try++) {
		a.status = -1;
		control_send(0, "POST", "/v1/checkpoints", "{}", note_answer, &a);
		world_run(sim_now + 2 * TIME, is_answered, &a);
		if (!is_not_ready(&a))
			break;
		world_run(sim_now + 100 * MSEC, NULL, NULL);
	}
	if (a.status != 200)
		scenario_fail("LAST STEP: a checkpoint after the job: %d %s", a.status, a.text);
	else
		check_names_of_checkpoints(find_greatest_step(a.text));
}

/* Is the job done? It may have failed where the judge has taken all workers from it at once. */
static bool is_job_done(void)
{
	static struct answer a;
	char state[24] = "", reason[100] = "";
	json_t *j;

	for (int try = 0; try < 100 && strcmp(state, "done") != 0 && strcmp(state, "failed") != 0;
	     try++) {
		a.status = -1;
		control_send(0, "GET", "/v1/status", NULL, note_answer, &a);
		world_run(sim_now + TIME, is_answered, &a);
		j = a.status == 200 ? json_loads(a.text, 0, NULL) : NULL;
		snprintf(state, sizeof state, "%s", json_str(j, "state", ""));
		snprintf(reason, sizeof reason, "%s", json_str(j, "reason", ""));
		json_decref(j);
		world_run(sim_now + 100 * MSEC, NULL, NULL);
	}
	if (strcmp(state, "done") == 0)
		return true;
	if (strcmp(state, "failed") != 0 || !scenario_may_have_lost_workers())
		scenario_fail("FAILED: the job is %s: %s", state, reason);
	sim_trace("judge      < the job is %s: %s", state, reason);
	return false;
}

void replicas_check(void)
{
	struct member *m = scenario_server(sim_below(scenario_servers()));
	/* The job of a stream was ended before its end. */
	bool done = !examples_are_a_stream() && is_job_done();

	if (replicas_await() && done)
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
