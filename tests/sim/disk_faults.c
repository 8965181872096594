/* SPDX-License-Identifier: ISC */
#include <string.h>

#include "tests/sim/parts.h"

/* Writes that are short, and power cuts that leave zeros at the end of a file, where the file system had made
 * room for what was not written yet. Disks that are full for a while, or broken. The coordinator's may be full: nothing changes in the cluster
 * until there is room (ps-consistency(7), Loss of the coordinator). That of a server may be full or broken:
 * it writes nothing but its part of a checkpoint, which is then dropped. It can read a secret that changes later, unless
 * the secret is renewed by force: if it misses two of them, nobody knows its own any more. */

static struct {
	bool any;
	unsigned gap; /* milliseconds between two of them, at most */
} d;

/* The process may have ended meanwhile, and another one of its member have come: that has no fault. */
static void mend_disk(void *ctx)
{
	struct proc *p = ctx;

	if (p->alive && (p->disk_full || p->disk_broken))
		sim_trace("judge      > the disk of %s is as before", p->name);
	p->disk_full = p->disk_broken = false;
}

/* The first start needs room for the state. A coordinator that is started again waits for it. */
static bool may_break(const struct member *m)
{
	size_t n;

	return m->kind != COORDINATOR ||
	    (disk_get("/c.run/state.json", &n) && !resume_is_under_way());
}

static void break_disk(void *ctx)
{
	struct member *m = sim_chance(60) ? scenario_coordinator()
	                                  : scenario_server(sim_below(scenario_servers()));

	(void)ctx;
	if (scenario_is_peace())
		return;
	if (m->proc && m->proc->alive && !m->down && !m->finished && may_break(m)) {
		m->proc->disk_full = m->kind == COORDINATOR || sim_chance(50) ||
		    orders_force_secret();
		m->proc->disk_broken = !m->proc->disk_full;
		sim_trace("judge      > the disk of %s is %s", m->name,
		    m->proc->disk_full ? "full" : "broken");
		event_at(sim_now + sim_below(sim_chance(70) ? 200 : 1500) * MSEC, mend_disk,
		    m->proc);
	}
	event_at(sim_now + (1 + sim_below(d.gap)) * MSEC, break_disk, NULL);
}

void disk_faults_draw(void)
{
	memset(&d, 0, sizeof d);
	d.any = sim_chance(25);
	d.gap = 100 + sim_below(1000);
}

void disk_writes_badly(void)
{
	disk_writes_short(10);
	disk_leaves_zeros(20);
}

void disk_faults_end(void)
{
	disk_writes_short(0);
	for (unsigned i = 0; i < SERVERS_MAX; i++)
		if (scenario_server(i)->proc)
			mend_disk(scenario_server(i)->proc);
	mend_disk(scenario_coordinator()->proc);
}

void disk_faults_begin(void)
{
	if (d.any)
		event_at(sim_now + sim_below(d.gap) * MSEC, break_disk, NULL);
}
