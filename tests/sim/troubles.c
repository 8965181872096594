/* SPDX-License-Identifier: ISC */
#include <signal.h>
#include <string.h>

#include "tests/sim/parts.h"

/* Troubles of which no replica is lost, so that they may come at any time:
 *
 *   links     some ways between two processes are slower than all others, for the whole run
 *   naps      a server stands still, or a server or worker hears nothing of the coordinator, for less than the time
 *             after which it is lost, and then has several layouts to catch up with
 *   sleep     all processes stand still at once, as on a machine that is suspended
 *   leavers   a worker has no more data while the others go on */

#define SLOWEST 16 /* ways that are slow, at most */

static struct {
	unsigned slow;
	bool naps, sleeps, leaves, breaks;
	struct member *napping;
	bool cut;        /* it does not hear the coordinator */
	unsigned from;   /* ... which is in this slot */
	int64_t wake_at; /* when all stand still */
} t;

/* ---- slow ways ---- */

static unsigned slot_of_anyone(void)
{
	return sim_chance(30) ? scenario_coordinator()->slot
	    : sim_chance(60)  ? scenario_server(sim_below(scenario_servers()))->slot
	                      : scenario_worker(sim_below(WORKERS_MAX))->slot;
}

static void slow_ways(void)
{
	for (unsigned i = 0; i < t.slow; i++) {
		unsigned from = slot_of_anyone(), to = slot_of_anyone();
		int64_t lag = (1 + sim_below(sim_chance(70) ? 10 : 120)) * MSEC;

		if (from == to)
			continue;
		/* A connection to the coordinator that breaks must come back soon. */
		if (t.breaks && lag > 10 * MSEC)
			lag = 10 * MSEC;
		sim_trace("judge      > the way %u - %u takes %lld ms", from, to,
		    (long long)(lag / MSEC));
		net_lag(from, to, lag);
	}
}

/* ---- naps ---- */

static void end_nap(void *ctx)
{
	struct member *m = t.napping;

	(void)ctx;
	t.napping = NULL;
	if (!m)
		return;
	if (t.cut)
		net_cut(t.from, m->slot, false);
	else if (m->proc->paused)
		proc_pause(m->proc, false);
}

static void begin_nap(void *ctx)
{
	bool deaf = sim_chance(60), worker = deaf && sim_chance(50);
	struct member *m = worker ? scenario_worker(sim_below(WORKERS_MAX))
	                          : scenario_server(sim_below(scenario_servers()));

	(void)ctx;
	if (scenario_is_peace())
		return;
	if (!t.napping && scenario_is_well(m)) {
		t.napping = m;
		t.cut = deaf;
		sim_trace("judge      > %s %s", m->name,
		    t.cut ? "does not hear the coordinator" : "stands still");
		t.from = scenario_coordinator()->slot;
		if (t.cut)
			net_cut(t.from, m->slot, true);
		else
			proc_pause(m->proc, true);
		event_at(sim_now + (20 + sim_below(sim_chance(50) ? 200 : 900)) * MSEC, end_nap,
		    NULL);
	}
	event_at(sim_now + (20 + sim_below(800)) * MSEC, begin_nap, NULL);
}

/* ---- sleep ---- */

static void wake_member(void *ctx)
{
	struct member *m = ctx;

	if (!m->sleeps)
		return;
	m->sleeps = false;
	if (m->proc->alive && m != t.napping)
		proc_pause(m->proc, false);
}

/* They wake one after the other. */
static void wake_all(void *ctx)
{
	unsigned spread = sim_chance(50) ? 1 : 400;

	(void)ctx;
	for (unsigned i = 0; i < scenario_members(); i++)
		event_at(sim_now + sim_below(spread) * MSEC, wake_member, scenario_member(i));
}

/* Not while somebody is away already, who would be back before the others. */
static void send_to_sleep(void *ctx)
{
	bool away = t.napping != NULL;

	(void)ctx;
	if (scenario_is_peace())
		return;
	for (unsigned i = 0; i < scenario_members(); i++)
		away |= !scenario_member(i)->finished && !scenario_is_well(scenario_member(i));
	if (away) {
		event_at(sim_now + 50 * MSEC, send_to_sleep, NULL);
		return;
	}
	sim_trace("judge      > all stand still");
	for (unsigned i = 0; i < scenario_members(); i++) {
		struct member *m = scenario_member(i);

		if (!m->proc || !m->proc->alive)
			continue;
		m->sleeps = true;
		proc_pause(m->proc, true);
	}
	t.wake_at = sim_now + (500 + sim_below(6000)) * MSEC;
	event_at(t.wake_at, wake_all, NULL);
}

bool troubles_let_start(void)
{
	return !t.wake_at || sim_now >= t.wake_at + 400 * MSEC || scenario_is_peace();
}

/* ---- leavers ---- */

/* It may be lost before it is known to be done. */
static void lose_leaver(void *ctx)
{
	if (!scenario_is_peace())
		scenario_pause_worker(ctx);
}

static void end_early(void *ctx)
{
	struct member *m = ctx;

	if (scenario_is_peace() || !m->proc || !m->proc->alive)
		return;
	proc_signal(m->proc, SIGTERM);
	if (sim_chance(50))
		event_at(sim_now + sim_below(30) * MSEC, lose_leaver, m);
}

void troubles_leave_out(void)
{
	memset(&t, 0, sizeof t);
}

void troubles_draw(bool breaks)
{
	troubles_leave_out();
	t.breaks = breaks;
	t.slow = sim_chance(40) ? 1 + sim_below(SLOWEST) : 0;
	/* A server whose connection breaks while it stands still is lost. */
	t.naps = sim_chance(50) && !breaks;
	t.sleeps = sim_chance(25) && !breaks;
	t.leaves = sim_chance(25);
}

void troubles_keep_workers(void)
{
	t.leaves = false;
}

void troubles_begin(void)
{
	slow_ways();
	if (t.naps)
		event_at(sim_now + sim_below(500) * MSEC, begin_nap, NULL);
	if (t.sleeps)
		event_at(sim_now + (50 + sim_below(1500)) * MSEC, send_to_sleep, NULL);
	if (t.leaves)
		event_at(sim_now + (100 + sim_below(1000)) * MSEC, end_early, scenario_worker(0));
}

void troubles_end(void)
{
	end_nap(NULL);
	for (unsigned i = 0; i < scenario_members(); i++)
		wake_member(scenario_member(i));
	net_lag_nobody();
}
