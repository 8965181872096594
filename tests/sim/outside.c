/* SPDX-License-Identifier: ISC */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "tests/sim/control.h"
#include "tests/sim/parts.h"

int ledger_main(int argc, char **argv);

/* A program outside of the job (tests/fault/ledger_outside.c): it pushes to a table of its own, is killed
 * and started again, and its pushes are counted as those of the workers are. */

#define RUNS_MAX 8 /* as LEDGER_RANKS: each run has a row of the table */
#define CELLS    "32"
#define SLOT     12

static struct {
	bool any, made, kills, over;
	struct proc *proc;
	unsigned runs;
} o;

static void kill_program(void *ctx)
{
	struct proc *p = ctx;

	if (p == o.proc && p->alive && !scenario_is_peace())
		proc_kill(p);
}

static void start_program(void *ctx)
{
	char run[8];

	(void)ctx;
	if (o.runs == RUNS_MAX || scenario_is_peace()) {
		o.over = true;
		return;
	}
	snprintf(run, sizeof run, "%u", o.runs++);
	o.proc = proc_start(SLOT, "outside", ledger_main,
	    (const char *[]){ "ledger", "outside", "-C", "c.run", "--book", "outside", "--rank",
	        run, "--cells", CELLS, NULL });
	if (o.kills)
		event_at(sim_now + (20 + sim_below(1000)) * MSEC, kill_program, o.proc);
}

static void ask_for_table(void *ctx);

static void note_table(void *ctx, int status, const char *text)
{
	(void)ctx;
	(void)text;
	sim_trace("judge      < table of the program outside: %d %.120s", status, text);
	/* 400: it exists, by an order whose answer was lost. */
	if (status != 200 && status != 400) {
		event_at(sim_now + 50 * MSEC, ask_for_table, NULL);
		return;
	}
	o.made = true;
	if (!o.proc)
		start_program(NULL);
}

static void ask_for_table(void *ctx)
{
	(void)ctx;
	if (scenario_is_peace())
		return;
	control_send(0, "POST", "/v1/tables",
	    "{\"add\":{\"name\":\"outside\",\"rows\":8,\"cols\":" CELLS "}}", note_table, NULL);
}

void outside_draw(void)
{
	memset(&o, 0, sizeof o);
	o.any = sim_chance(40);
	o.kills = sim_chance(50);
}

void outside_leave_out(void)
{
	o.any = false;
}

void outside_begin(void)
{
	if (o.any)
		ask_for_table(NULL);
}

void outside_end(void)
{
	if (o.proc && o.proc->alive)
		proc_signal(o.proc, SIGTERM);
}

bool outside_is_over(void)
{
	struct proc *p = o.proc;

	if (!o.any || !p || o.over)
		return true;
	if (p->alive)
		return false;
	if (p->code > 0 && (strstr(p->last, "WRONG SUM") || strstr(p->last, "WENT BACK")))
		scenario_fail("OUTSIDE: %s", p->last);
	if (p->code == 0 || scenario_is_peace()) {
		o.over = true;
		return true;
	}
	/* It was killed, or the cluster was away for too long. */
	o.proc = NULL;
	event_at(sim_now + sim_below(300) * MSEC, start_program, NULL);
	return false;
}

void outside_check(void)
{
	if (!o.any || !o.runs)
		return;
	scenario_compare("outside-check", "outside", CELLS);
}
