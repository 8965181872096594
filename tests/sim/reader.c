/* SPDX-License-Identifier: ISC */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "tests/sim/parts.h"

int ps_serve_main(int argc, char **argv);
int ledger_main(int argc, char **argv);

/* A read replica of the cluster, and a program that reads the ledger from it (tests/fault/ledger_watch.c),
 * or from the cluster itself. No value may go back, also over restarts of the replica; and after the war
 * the model must have every value that was seen. */

#define REPLICA_SLOT 13
#define READER_SLOT  14

static struct {
	bool any, direct, kills, ending, over;
	struct proc *replica, *reader;
} r;

static void start_replica(void *ctx)
{
	(void)ctx;
	if (!r.ending)
		r.replica = proc_start(REPLICA_SLOT, "replica", ps_serve_main,
		    (const char *[]){ "ps-serve", "--read-only", "c.run", "-C", "read.run",
		        "--fresh", "20ms", "--threads", "1", NULL });
}

static void kill_replica(void *ctx)
{
	(void)ctx;
	if (scenario_is_peace())
		return;
	if (r.replica->alive) {
		proc_kill(r.replica);
		/* It gets another secret, with which the program begins again from what it has seen. */
		if (r.reader && r.reader->alive)
			proc_signal(r.reader, SIGTERM);
		event_at(sim_now + sim_below(200) * MSEC, start_replica, NULL);
	}
	event_at(sim_now + (100 + sim_below(1500)) * MSEC, kill_replica, NULL);
}

static void start_reader(void *ctx)
{
	size_t n;

	(void)ctx;
	if (scenario_is_peace())
		return;
	if (!r.direct && !disk_get("read.run/cluster.json", &n)) {
		event_at(sim_now + 50 * MSEC, start_reader, NULL);
		return;
	}
	r.reader = proc_start(READER_SLOT, "reader", ledger_main,
	    (const char *[]){ "ledger", "watch", "-C", r.direct ? "c.run" : "read.run", "--book",
	        "reader", NULL });
}

void reader_draw(void)
{
	memset(&r, 0, sizeof r);
	r.any = sim_chance(30);
	r.direct = sim_chance(30);
	r.kills = sim_chance(50);
}

void reader_leave_out(void)
{
	r.any = false;
}

void reader_begin(void)
{
	if (!r.any)
		return;
	if (!r.direct) {
		start_replica(NULL);
		if (r.kills)
			event_at(sim_now + (200 + sim_below(1500)) * MSEC, kill_replica, NULL);
	}
	start_reader(NULL);
}

void reader_end(void)
{
	if (r.reader && r.reader->alive)
		proc_signal(r.reader, SIGTERM);
}

bool reader_is_over(void)
{
	struct proc *p = r.reader;

	if (r.replica && !r.replica->alive && r.replica->code > 0 && !r.ending) {
		/* The cluster had no model yet, or was away for too long. */
		sim_trace("judge      < replica: %s", r.replica->last);
		r.replica->code = -1;
		event_at(sim_now + 100 * MSEC, start_replica, NULL);
	}
	if (!p || r.over)
		return true;
	if (p->alive)
		return false;
	if (p->code)
		scenario_fail("READER: %s", p->last);
	r.over = p->code || scenario_is_peace();
	if (!r.over) {
		r.reader = NULL;
		event_at(sim_now + 200 * MSEC, start_reader, NULL);
	}
	return true;
}

void reader_check(void)
{
	size_t n;

	r.ending = true;
	if (disk_get("reader/seen", &n))
		scenario_compare("watch-check", "reader", "2");
}
