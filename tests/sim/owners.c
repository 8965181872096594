/* SPDX-License-Identifier: ISC */
#include <stdio.h>
#include <string.h>

#include "tests/sim/control.h"
#include "tests/sim/parts.h"

/* A second coordinator, which stands by (ps-serve --standby), and what is done to the two of them and to the
 * store of their state: the shared run directory, or etcd (etcd.c). The hosts of both have the run directory.
 *
 *   kill      the owner dies, or the one that stands by, or both, and is started again as a standby
 *   stop      the owner stands still, mostly for longer than the time that it owns the state for, and wakes
 *   isolate   the owner's host reaches nobody, or is reached by nobody, nor does it reach the store
 *   far       the owner does not reach the store
 *   away      nobody reaches it
 *
 * Other faults go on meanwhile. The judge asks the coordinator that began to take requests last. */

enum strike { KILL_OWNER, KILL_STANDBY, KILL_BOTH, STOP, ISOLATE, FAR, AWAY, STRIKES };

static const char *const names[STRIKES] = { "the owner dies", "the standby dies", "both die",
	"the owner stands still", "the owner is isolated", "the owner does not reach the store",
	"the store is away" };

static struct {
	bool any, etcd;
	bool strikes[STRIKES];
	unsigned left; /* strikes */
	unsigned gap;  /* milliseconds between two of them, at most */
	bool under_way;
	enum strike now;
	struct member *victim;
	bool hears; /* the victim is isolated, and yet hears others */
} o;

void owners_leave_out(void)
{
	memset(&o, 0, sizeof o);
}

void owners_draw(bool in_etcd, bool is_long)
{
	owners_leave_out();
	o.any = true;
	o.etcd = in_etcd;
	for (int i = 0; i < STRIKES; i++)
		o.strikes[i] = sim_chance(50);
	o.left = 1 + sim_below(is_long ? 8 : 3);
	o.gap = 200 + sim_below(3000);
}

bool owners_are_drawn(void)
{
	return o.any;
}

bool owners_use_etcd(void)
{
	return o.etcd;
}

bool owners_are_due(void)
{
	return o.any && (o.left || o.under_way);
}

/* ---- the faults ---- */

static struct member *other_coordinator(const struct member *m)
{
	return m == scenario_member(0) ? scenario_standby() : scenario_member(0);
}

/* Cuts the victim off from all others, or heals that. */
static void cut_victim(bool cut)
{
	for (unsigned i = 0; i < scenario_members(); i++) {
		const struct member *m = scenario_member(i);

		if (m == o.victim)
			continue;
		net_cut(o.victim->slot, m->slot, cut);
		if (!cut || !o.hears)
			net_cut(m->slot, o.victim->slot, cut);
	}
}

static void reach_store(unsigned slot, bool reaches)
{
	if (o.etcd)
		etcd_cut(slot, !reaches);
	else
		disk_cut(slot, !reaches);
}

static void end_strike(void *ctx)
{
	(void)ctx;
	if (!o.under_way)
		return;
	o.under_way = false;
	sim_trace("judge      > no longer: %s", names[o.now]);
	switch (o.now) {
	case STOP:
		scenario_wake(o.victim);
		break;
	case ISOLATE:
		cut_victim(false);
		reach_store(o.victim->slot, true);
		break;
	case FAR:
		reach_store(o.victim->slot, true);
		break;
	case AWAY:
		reach_store(COORDINATOR_SLOT, true);
		reach_store(STANDBY_SLOT, true);
		break;
	default:
		break;
	}
}

/* How long: often for less than the time after which another one takes over, which is 2 s. */
static int64_t draw_span(void)
{
	return (sim_chance(30) ? sim_below(1900) : 1900 + sim_below(4000)) * MSEC;
}

static void begin_strike(enum strike strike)
{
	struct member *owner = scenario_coordinator(), *other = other_coordinator(owner);

	sim_trace("judge      > %s (%s)", names[strike], owner->name);
	o.now = strike;
	o.victim = owner;
	o.under_way = true;
	switch (strike) {
	case KILL_OWNER:
		scenario_kill(owner);
		break;
	case KILL_STANDBY:
		if (scenario_is_well(other))
			scenario_kill(other);
		break;
	case KILL_BOTH:
		scenario_kill(owner);
		if (scenario_is_well(other))
			scenario_kill(other);
		break;
	case STOP:
		proc_pause(owner->proc, true);
		break;
	case ISOLATE:
		o.hears = sim_chance(30);
		cut_victim(true);
		reach_store(owner->slot, false);
		break;
	case FAR:
		reach_store(owner->slot, false);
		break;
	case AWAY:
		reach_store(COORDINATOR_SLOT, false);
		reach_store(STANDBY_SLOT, false);
		break;
	default:
		break;
	}
	event_at(sim_now + draw_span(), end_strike, NULL);
}

static void strike_owners(void *ctx)
{
	enum strike strike = sim_below(STRIKES);

	(void)ctx;
	if (scenario_is_peace() || !o.left)
		return;
	if (!o.under_way && o.strikes[strike] && scenario_is_well(scenario_coordinator()) &&
	    control_leader()) {
		o.left--;
		begin_strike(strike);
	}
	event_at(sim_now + (1 + sim_below(o.gap)) * MSEC, strike_owners, NULL);
}

void owners_begin(void)
{
	unsigned kinds = 0;

	if (!o.any)
		return;
	for (int i = 0; i < STRIKES; i++)
		kinds += o.strikes[i];
	o.left = kinds ? o.left : 0;
	sim_trace("judge      > a coordinator stands by, and the state is in %s",
	    o.etcd ? "etcd" : "files");
	if (o.etcd)
		etcd_draw();
	event_at(sim_now + sim_below(o.gap) * MSEC, strike_owners, NULL);
}

void owners_end(void)
{
	o.left = 0;
	end_strike(NULL);
	if (o.etcd)
		etcd_heal();
}

/* ---- the verdict ---- */

#define TIME (30 * SEC)

static bool is_one(void *ctx)
{
	(void)ctx;
	scenario_look_at_ends();
	return scenario_has_failed() || control_coordinators() == 1;
}

/* One of them leads, and the other one does not think so. */
void owners_check(void)
{
	if (!o.any)
		return;
	world_run(sim_now + TIME, is_one, NULL);
	if (control_coordinators() != 1)
		scenario_fail("ONE OWNER: %u coordinators lead %lld s after the war",
		    control_coordinators(), (long long)(TIME / SEC));
}
