/* SPDX-License-Identifier: ISC */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "msg/view.h"
#include "tests/sim/parts.h"

/* Who may write the coordinator's state, as seen from outside: a book of the tenures of its owners.
 *
 * A tenure is taken when a process becomes the owner, and begins when that process reads the state that it
 * goes on from. From then on no write of another process may be accepted: its successor would not know of it
 * (state_store.h). In files a write of the former owner may still come between the two, and is read then.
 *
 * Members follow an owner by its views, the first coordinator in which is their sender. No member may follow
 * an earlier tenure after a later one. That promise rests on time: leases must not end early, and an owner
 * that was stopped must see its clock before it sends (ownership.h). */

#define MEMBERS 1024 /* pids are below */

struct holder {
	int pid;
	unsigned life, slot;
};

static struct {
	struct holder holder;
	unsigned number; /* of the present tenure; 0: none was taken */
	bool begun;
	int64_t begun_at;
	int64_t revision;            /* of the last write in files */
	unsigned of_slot[SLOTS_MAX]; /* the last tenure of each slot */
	unsigned followed[MEMBERS];  /* the tenure that each member follows */
	unsigned life_that[MEMBERS]; /* in this life of it */
	bool early;                  /* leases may end early */
	unsigned writes, refused;
} t;

void tenures_reset(void)
{
	memset(&t, 0, sizeof t);
}

void tenures_may_end_early(void)
{
	t.early = true;
}

bool tenures_are_contested(int pid)
{
	return t.number > 1 || (t.number && t.holder.pid != pid);
}

static bool is_holder(int pid, unsigned life)
{
	return t.holder.pid == pid && t.holder.life == life;
}

void tenures_take(int pid, unsigned life, unsigned slot)
{
	t.holder = (struct holder){ pid, life, slot };
	t.of_slot[slot] = ++t.number;
	t.begun = false;
	sim_trace("judge      < tenure %u is that of pid %d", t.number, pid);
}

void tenures_begin(int pid, unsigned life)
{
	if (!is_holder(pid, life) || t.begun)
		return;
	t.begun = true;
	t.begun_at = sim_now;
}

void tenures_write(int pid, unsigned life, const char *what)
{
	t.writes++;
	if (t.begun && !is_holder(pid, life))
		scenario_fail(
		    "TWO OWNERS: %s of pid %d is accepted in tenure %u, which is that of pid %d",
		    what, pid, t.number, t.holder.pid);
}

/* ---- the state in files ---- */

/* The number after "revision" in a state file. */
static int64_t read_revision(void)
{
	size_t n = 0;
	const char *text = disk_get("c.run/state.json", &n), *at;
	static const char key[] = "\"revision\":";
	int64_t last = -1;

	/* That of the index is the last one. */
	for (at = text; at && (at = memmem(at, n - (size_t)(at - text), key, sizeof key - 1));
	     at += sizeof key - 1)
		last = strtoll(at + sizeof key - 1, NULL, 10) > last
		    ? strtoll(at + sizeof key - 1, NULL, 10)
		    : last;
	return last;
}

static void note_write(void)
{
	int64_t revision = read_revision();

	tenures_write(proc_current->pid, proc_current->life, "state.json");
	if (revision <= t.revision)
		scenario_fail("TWO OWNERS: state.json has revision %lld after %lld",
		    (long long)revision, (long long)t.revision);
	t.revision = revision;
}

static void note_disk(enum disk_event event, const char *name)
{
	if (!proc_current)
		return;
	if (strcmp(name, "coordinator.owner") == 0 && event == DISK_REPLACED)
		tenures_take(proc_current->pid, proc_current->life, proc_current->slot);
	else if (strcmp(name, "state.json") == 0 && event == DISK_REPLACED)
		note_write();
	else if (strcmp(name, "state.json") == 0)
		tenures_begin(proc_current->pid, proc_current->life);
}

void tenures_watch_files(void)
{
	disk_watch("c.run", note_disk);
}

/* ---- members ---- */

/* The slot of the coordinator that has sent the view; SLOTS_MAX: that of none. */
static unsigned slot_of_sender(const char *coordinators)
{
	unsigned port;

	if (!coordinators || sscanf(coordinators, "127.0.0.1:%u", &port) != 1)
		return SLOTS_MAX;
	return port == OWNER_PORT    ? COORDINATOR_SLOT
	    : port == OWNER_PORT + 1 ? STANDBY_SLOT
	                             : SLOTS_MAX;
}

static void note_view(const struct proc *p, unsigned slot)
{
	unsigned i = (unsigned)p->pid % MEMBERS, tenure = t.of_slot[slot];

	if (t.life_that[i] == p->life && tenure < t.followed[i] && !t.early)
		scenario_fail("FOLLOWED BACK: %s follows tenure %u after tenure %u", p->name,
		    tenure, t.followed[i]);
	t.followed[i] = tenure;
	t.life_that[i] = p->life;
}

enum err_code __wrap_view_decode(const json_t *json, const struct view **out, struct err *e);
enum err_code __wrap_view_decode(const json_t *json, const struct view **out, struct err *e)
{
	enum err_code rc = view_decode(json, out, e);
	unsigned slot = rc || !owners_are_drawn() ? SLOTS_MAX
	                                          : slot_of_sender((*out)->coordinators);

	if (slot < SLOTS_MAX)
		note_view(proc_current, slot);
	return rc;
}

/* ---- owners ---- */

void tenures_let_in(int64_t looked_at)
{
	unsigned slot = proc_current->slot;

	if (owners_are_drawn() && (slot == COORDINATOR_SLOT || slot == STANDBY_SLOT) && !t.early &&
	    t.begun && looked_at > t.begun_at && !is_holder(proc_current->pid, proc_current->life))
		scenario_fail(
		    "PAST ITS TIME: %s lets members in in tenure %u, which is that of pid %d",
		    proc_current->name, t.number, t.holder.pid);
}
