/* SPDX-License-Identifier: ISC */
#include "tests/sim/scenario.h"

#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/err.h"
#include "tests/sim/chain_trace.h"
#include "tests/sim/control.h"
#include "tests/sim/examples.h"
#include "tests/sim/parts.h"
#include "tests/sim/states.h"

int ps_serve_main(int argc, char **argv);
int ledger_main(int argc, char **argv);

/* The cluster of a seed: a coordinator, servers, and workers of the ledger (tests/fault/ledger.h),
 * each of which counts what it pushed and what was acknowledged.
 *
 * War: until `peace_at` something is done to the cluster every few milliseconds. The judge keeps it
 * within what replication promises to heal: with R replicas at most R - 1 servers are away, and the
 * next one goes only when all partitions have R replicas again.
 * Peace: links are whole, processes are started again, and the job has to end in time. Then the
 * ledger is compared with the model: no acknowledged push may be lost or count twice. */

#define MEMBERS_MAX (2 + SERVERS_MAX + WORKERS_MAX)
#define PEACE       (180 * SEC) /* in which the job has to end */
#define CELLS       "64"
#define LEASE       (1 * SEC)
/* Members need up to some seconds to find the coordinator that has taken over from one that was stopped. */
#define OWNERS_LEASE "8s"
#define SHORT_STEPS  50 /* acknowledged, of which each has two pushes */

struct scenario {
	uint64_t seed;
	unsigned servers, workers, replicas;
	int64_t least, most; /* delays of the links */
	const char *sync;
	bool power_cuts, kills[3], cuts, breaks, pauses, slow, checkpoints;
	unsigned backup; /* workers for which no step waits */
	bool damages;    /* bytes change on their way */
	bool votes;      /* a worker is lost, and the decision takes long */
	bool leaves;     /* the workers of a stream are ended */
	bool newcomer;   /* the last worker comes when the others train already */
	bool pairs;      /* workers die in pairs, and with servers */
	bool late;       /* somebody is started late, and the cluster forms for long */
	bool more;
	bool plain_owner;             /* the first coordinator does not stand by ... */
	const struct proc *the_plain; /* ... and ends when it is overtaken */
	bool waits;                   /* the others wait for a worker that is lost */
	unsigned gap;                 /* milliseconds between two faults, on average */
	struct member member[MEMBERS_MAX];
	unsigned nmembers;
	unsigned faults_left;
	bool is_short;
	int64_t war; /* how long it lasts at most */
	int64_t peace_at;
	bool peace;
	/* what the coordinator said last about replicas */
	bool whole, asking;
	bool isolates;           /* servers are away for a while, and live on */
	struct member *isolated; /* the one that is away now */
	bool doomed;             /* a server that is cut off and about to die */
	struct member *dying;    /* it dies now, if the answer says that it may */
	bool server_must_die;    /* if the answer says that it may */
	uintptr_t world;         /* which one of this process */
	unsigned unanswered;     /* requests of checkpoints in it */
	bool worker_pauses;      /* the worker that is hit next is not killed */
	bool worker_is_lost;     /* ... and does not return before its lease ends */
	unsigned cut_from, cut_to;
	bool is_cut, both_ways;
	bool checking;
	bool lost_host; /* of a coordinator */
	struct verdict *v;
};

static struct scenario x;

void scenario_fail(const char *fmt, ...)
{
	va_list ap;

	if (x.v->failed)
		return;
	x.v->failed = true;
	va_start(ap, fmt);
	vsnprintf(x.v->why, sizeof x.v->why, fmt, ap);
	va_end(ap);
	sim_trace("judge      ! %s", x.v->why);
}

/* ---- members ---- */

/* The worker ends after its step. */
static void end_worker(void *ctx)
{
	struct member *m = ctx;

	if (m->proc->alive)
		proc_signal(m->proc, SIGTERM);
}

/* A coordinator, where another one may stand by: always at the same address. */
static void start_coordinator(struct member *m)
{
	char listen[24];
	const char *first[] = { "ps-serve", "c.json", "--no-store", "--threads", "2", "--listen",
		listen, x.plain_owner ? NULL : "--standby", NULL };
	const char *again[] = { "ps-serve", "-C", "c.run", "--standby", "--threads", "2",
		"--listen", listen, NULL };

	snprintf(listen, sizeof listen, "127.0.0.1:%u", OWNER_PORT + (m->slot == STANDBY_SLOT));
	m->proc = proc_start(m->slot, m->name, ps_serve_main,
	    m->started_before || m->slot == STANDBY_SLOT ? again : first);
	if (x.plain_owner && !m->started_before && m->slot == COORDINATOR_SLOT)
		x.the_plain = m->proc;
}

static void start_member(struct member *m)
{
	const char *zone = m->kind == WORKER ? relays_zone((unsigned)(m->rank[0] - '0')) : NULL;
	const char *first[] = { "ps-serve", "c.json", "--no-store", "--threads", "2", NULL };
	const char *again[] = { "ps-serve", "-C", "c.run", "--coordinator", "--no-store",
		"--threads", "2", NULL };
	const char *resumes[] = { "ps-serve", "-C", "c.run", "--coordinator", "--no-store",
		"--threads", "2", "--resume", "auto", NULL };
	const char *server[] = { "ps-serve", "-C", "c.run", "--name", m->name, "--threads", "2",
		NULL };
	const char *joins[] = { "ps-serve", "--join", m->join, "--threads", "2", NULL };
	const char *worker[] = { "ledger", "work", "-C", "c.run", "--book", resume_books(),
		"--rank", m->rank, "--cells", CELLS, zone ? "--zone" : NULL, zone, NULL };

	if (m->kind == COORDINATOR && owners_are_drawn())
		start_coordinator(m);
	else if (m->kind == WORKER && examples_are_drawn())
		m->proc = examples_start_worker(m->slot, m->name, m->rank, zone);
	else
		m->proc = proc_start(m->slot, m->name,
		    m->kind == WORKER ? ledger_main : ps_serve_main,
		    m->kind == SERVER               ? (*m->join ? joins : server)
		        : m->kind == WORKER         ? worker
		        : resume_wants_checkpoint() ? resumes
		        : m->started_before         ? again
		                                    : first);
	m->started_before = true;
	m->down = false;
	if (x.peace && m->kind == WORKER && (!examples_are_drawn() || x.leaves))
		event_at(sim_now + (50 + sim_below(300)) * MSEC, end_worker, m);
}

bool scenario_is_peace(void)
{
	return x.peace || x.v->failed;
}

unsigned scenario_servers(void)
{
	return x.servers;
}

void scenario_set_servers(unsigned n)
{
	x.servers = n;
}

unsigned scenario_replicas(void)
{
	return x.replicas;
}

struct member *scenario_coordinator(void)
{
	const struct proc *leader = owners_are_drawn() ? control_leader() : NULL;

	return leader && leader == scenario_standby()->proc ? scenario_standby() : &x.member[0];
}

struct member *scenario_standby(void)
{
	return &x.member[x.nmembers - 1];
}

static bool is_coordinator(const struct member *m)
{
	return m->kind == COORDINATOR;
}

struct member *scenario_server(unsigned i)
{
	return &x.member[1 + i];
}

struct member *scenario_worker(unsigned i)
{
	return &x.member[1 + SERVERS_MAX + i % x.workers];
}

struct member *scenario_member(unsigned i)
{
	return &x.member[i];
}

unsigned scenario_members(void)
{
	return x.nmembers;
}

void scenario_start(struct member *m)
{
	start_member(m);
}

static void restart_member(void *ctx)
{
	struct member *m = ctx;

	if (!troubles_let_start())
		event_at(sim_now + 50 * MSEC, restart_member, m);
	else if (m->down && !m->finished && !resume_is_down())
		start_member(m);
}

static void restart_later(struct member *m, int64_t after)
{
	m->down = true;
	event_at(sim_now + after, restart_member, m);
}

/* Why a process has ended, by the last line that it has written: "TIME NAME error[CAUSE] TEXT" or
 * "PROGRAM[CAUSE]: TEXT". */
static enum err_cause cause_of_end(const struct proc *p)
{
	const char *at = strchr(p->last, '[');
	char name[32];

	snprintf(name, sizeof name, "%.*s", at ? (int)strcspn(at + 1, "]") : 0, at ? at + 1 : "");
	return err_cause_by_name(name);
}

/* Has a server that an order added taken the number of this one, which was away? */
static bool is_replaced(const struct member *m)
{
	bool added = false;

	for (unsigned i = 0; i < x.nmembers; i++)
		added |= x.member[i].kind == SERVER && *x.member[i].join;
	return added && m->kind == SERVER && cause_of_end(m->proc) == CAUSE_CLUSTER_FULL;
}

/* A server whose disk is broken cannot start. */
static bool is_excused(const struct member *m)
{
	return m->proc->disk_broken && cause_of_end(m->proc) == CAUSE_DISK_FAILS;
}

bool scenario_has_failed(void)
{
	return x.v->failed;
}

bool scenario_may_have_lost_workers(void)
{
	return x.lost_host;
}

bool scenario_is_bsp(void)
{
	return strcmp(x.sync, "bsp") == 0 && !orders_change_mode();
}

bool scenario_has_backup(void)
{
	return x.backup != 0;
}

static void kill_kind(bool all, enum kind kind)
{
	for (unsigned i = 0; i < x.nmembers; i++)
		if (x.member[i].proc && (all || x.member[i].kind == kind)) {
			proc_kill(x.member[i].proc);
			x.member[i].down = true;
			x.v->kills++;
		}
	x.v->faults++;
	x.server_must_die = false;
}

void scenario_kill_all(void)
{
	kill_kind(true, COORDINATOR);
}

void scenario_kill_servers(void)
{
	kill_kind(false, SERVER);
}

void scenario_start_all(void)
{
	for (unsigned i = 0; i < x.nmembers; i++) {
		/* A worker that had left the job takes part in it again. */
		if (x.member[i].kind == WORKER)
			x.member[i].finished = false;
		if (x.member[i].finished)
			continue;
		if (x.member[i].kind == COORDINATOR)
			start_member(&x.member[i]);
		else
			restart_later(&x.member[i], (20 + sim_below(50)) * MSEC);
	}
}

/* A process that ends has released all memory and descriptors. */
static void look_at_rest(const char *name, const struct proc *p)
{
	if (x.more && (p->left_allocations || p->left_descriptors))
		scenario_fail(
		    "LEFT BEHIND: %s ended with %d and left %zu allocations and %u descriptors",
		    name, p->code, p->left_allocations, p->left_descriptors);
}

/* Processes that ended by themselves. Workers may: they lost their rank while they were paused or cut
 * off, or their coordinator was away for too long. */
void scenario_look_at_ends(void)
{
	for (unsigned i = 0; i < x.nmembers && !resume_is_down(); i++) {
		struct member *m = &x.member[i];

		if (m->down || m->finished || !m->proc || m->proc->alive)
			continue;
		look_at_rest(m->name, m->proc);
		/* 3: it came when the job was over, or when no coordinator was there. */
		if (m->kind == WORKER &&
		    (m->proc->code == 0 ||
		        (m->proc->code == 3 && cause_of_end(m->proc) != CAUSE_NOT_RUNNING))) {
			m->finished = true;
			continue;
		}
		if (strstr(m->proc->last, "WRONG SUM") || strstr(m->proc->last, "WENT BACK") ||
		    strstr(m->proc->last, "CLOSED EARLY")) {
			scenario_fail("%s: %s", m->name, m->proc->last);
			m->finished = true;
			continue;
		}
		/* An order has let it go: all its partitions are on others. */
		if (m->kind == SERVER && m->leaving && m->proc->code == 0) {
			m->leaving = false;
			m->finished = m->removed;
			if (m->finished)
				continue;
		} else if (is_replaced(m) ||
		    (*m->join && (m->proc->code == 3 || m->proc->code == 6))) {
			/* 3: it asks for no number, and its own is taken until the process before
			 * it has been silent for 1.5 s (ps-consistency(7), Loss of a server).
			 * 6: it does not wait for a coordinator that is away. */
			sim_trace("judge      < %s is refused", m->name);
		} else if (m->proc == x.the_plain &&
		    (tenures_are_contested(m->proc->pid) ||
		        cause_of_end(m->proc) == CAUSE_UNREACHABLE)) {
			sim_trace("judge      < %s is overtaken: %s", m->name, m->proc->last);
		} else if (m->kind == SERVER && is_excused(m)) {
			sim_trace("judge      < %s is excused: %s", m->name, m->proc->last);
		} else if (m->kind != WORKER) {
			scenario_fail("DIED: %s ended with %d: %s", m->name, m->proc->code,
			    m->proc->last);
		}
		restart_later(m, 1 * MSEC + sim_below(200) * MSEC);
	}
}

static bool is_away(const struct member *m)
{
	return !m->finished && (m->down || m->proc->paused || m == x.isolated);
}

bool scenario_is_well(const struct member *m)
{
	return m->proc && m->proc->alive && !m->finished && !is_away(m);
}

static bool is_anyone_away(void)
{
	for (unsigned i = 0; i < x.nmembers; i++)
		if (is_away(&x.member[i]))
			return true;
	return false;
}

static bool is_kind_away(enum kind kind)
{
	for (unsigned i = 0; i < x.nmembers; i++)
		if (x.member[i].kind == kind && is_away(&x.member[i]))
			return true;
	return false;
}

/* May a member of this kind be hit now? In half of the cases others may be away at the same time. */
static bool may_hit(enum kind kind)
{
	bool alone = sim_chance(50);

	for (unsigned i = 0; i < x.nmembers; i++)
		if (is_away(&x.member[i]) && (alone || x.member[i].kind == kind) &&
		    !(kind == SERVER && x.replicas > 2) &&
		    !(kind == COORDINATOR && is_coordinator(&x.member[i])))
			return false;
	return true;
}

/* ---- what the coordinator knows ---- */

static unsigned servers_known, least_replicas;
static unsigned chain_head;        /* the server of the ledger's first partition */
static bool is_known[SERVERS_MAX]; /* it lives, and the coordinator knows this process of it */
static void kill_server(void);
static void end_doom(bool may_die);

/* The replicas of a chain on servers that live. The coordinator may not know yet that one is dead. */
static unsigned count_replicas(const json_t *chain)
{
	unsigned n = 0;
	json_t *server;
	size_t i;

	json_array_foreach(chain, i, server) {
		json_int_t id = json_integer_value(server);

		n += json_is_integer(server) && id >= 0 && id < SERVERS_MAX && is_known[id];
	}
	return n;
}

/* One replica may be lost. It is the judge's own if another one is away already. */
static bool may_lose_server(void)
{
	unsigned away = 0, leaving = 0;

	for (unsigned i = 0; i < SERVERS_MAX; i++) {
		away += is_away(scenario_server(i));
		leaving += scenario_server(i)->leaving;
	}
	if (away && leaving)
		return false;
	return away ? x.whole && least_replicas > 1 && away + 1 < x.replicas
	            : scenario_is_whole() && servers_known == x.servers;
}

static bool is_ledger(const json_t *table)
{
	const char *name = json_string_value(json_object_get(table, "name"));

	return name && strcmp(name, "ledger") == 0;
}

unsigned scenario_chain_head(void)
{
	return chain_head;
}

static void note_layout(void *ctx, int status, const char *text)
{
	json_t *j = status == 200 ? json_loads(text, 0, NULL) : NULL;
	json_t *table, *run;
	size_t i, k, runs = 0;

	(void)ctx;
	x.asking = false;
	least_replicas = x.replicas;
	json_array_foreach(json_object_get(j, "tables"), i, table)
		json_array_foreach(json_object_get(table, "runs"), k, run) {
			unsigned n = count_replicas(json_array_get(run, 2));

			if (!k && is_ledger(table))
				chain_head = (unsigned)json_integer_value(
				                 json_array_get(json_array_get(run, 2), 0)) %
				    SERVERS_MAX;
			runs++;
			if (n < least_replicas)
				least_replicas = n;
		}
	x.whole = runs != 0;
	json_decref(j);
	if (x.dying)
		end_doom(may_lose_server());
	else if (x.server_must_die && may_lose_server() && !x.peace)
		kill_server();
	x.server_must_die = false;
}

static void note_servers(void *ctx, int status, const char *text)
{
	json_t *j = status == 200 ? json_loads(text, 0, NULL) : NULL, *s;
	size_t i;

	(void)ctx;
	servers_known = 0;
	memset(is_known, 0, sizeof is_known);
	json_array_foreach(json_object_get(j, "servers"), i, s) {
		const char *state = json_string_value(json_object_get(s, "state"));
		const char *id = json_string_value(json_object_get(s, "id"));

		unsigned number;

		/* One that joins by a file may have another number than its member. */
		for (unsigned m = 0; m < x.nmembers; m++)
			if (state && id && x.member[m].kind == SERVER && x.member[m].proc &&
			    strcmp(state, "live") == 0 && sscanf(id, "server-%u", &number) == 1 &&
			    number < SERVERS_MAX &&
			    json_integer_value(json_object_get(s, "pid")) ==
			        x.member[m].proc->pid) {
				is_known[number] = scenario_is_well(&x.member[m]);
				servers_known += !x.member[m].removed;
			}
	}
	json_decref(j);
	control_send(0, "GET", "/v1/layout", NULL, note_layout, NULL);
}

static void ask_coordinator(void)
{
	if (x.asking)
		return;
	x.asking = true;
	x.whole = false;
	control_send(0, "GET", "/v1/servers", NULL, note_servers, NULL);
}

void scenario_ask_for_replicas(void)
{
	ask_coordinator();
}

bool scenario_is_whole(void)
{
	return x.whole && least_replicas >= x.replicas;
}

/* ---- faults ---- */

static struct member *choose_member(enum kind kind)
{
	unsigned n = 0;

	for (unsigned i = 0; i < x.nmembers; i++)
		n += x.member[i].kind == kind && !x.member[i].finished;
	n = sim_below(n);
	for (unsigned i = 0; i < x.nmembers; i++)
		if (x.member[i].kind == kind && !x.member[i].finished && n-- == 0)
			return &x.member[i];
	return NULL;
}

static void count_fault(void)
{
	x.v->faults++;
	x.faults_left -= x.faults_left != 0;
}

static void kill_member(struct member *m)
{
	bool is_lost = m->kind == WORKER && x.worker_is_lost;

	x.worker_is_lost &= !is_lost;
	/* An earlier answer of the coordinator about this server's replicas is out of date now. */
	if (m->kind == SERVER)
		x.server_must_die = false;
	count_fault();
	x.v->kills++;
	states_note_death(m->proc);
	if (sim_chance(50)) {
		/* Workers of the product wait up to 2 s for the answer of a coordinator that has gone without
		 * a word, which is longer than their lease. */
		if (m->kind == COORDINATOR && examples_are_drawn())
			proc_kill(m->proc);
		else
			net_lose_host(m->proc);
		x.lost_host |= m->kind == COORDINATOR && !examples_are_drawn();
		/* The coordinator's host has the run directory. */
		if (m->kind == COORDINATOR && x.power_cuts && !owners_are_drawn() &&
		    disk_lose_unsynced("c.run"))
			states_note(STATE_unsynced_lost);
	} else {
		proc_kill(m->proc);
	}
	/* It returns at once, before the lease has expired, or after. */
	restart_later(m,
	    is_lost              ? LEASE + 700 * MSEC
	        : sim_chance(60) ? sim_below(50) * MSEC
	        : sim_chance(70) ? sim_below(400) * MSEC
	                         : 1500 * MSEC);
}

static bool is_server_down(void)
{
	unsigned n = 0;

	for (unsigned i = 0; i < x.nmembers; i++)
		n += x.member[i].kind == SERVER && is_away(&x.member[i]);
	return n >= (x.replicas > 2 ? x.replicas - 1 : 1);
}

static void cut_server_off(const struct member *m, bool cut)
{
	sim_trace("judge      > %s %s the other servers", m->name,
	    cut ? "is cut off from" : "reaches");
	for (unsigned i = 0; i < x.nmembers; i++)
		if (x.member[i].kind == SERVER && &x.member[i] != m)
			net_cut(m->slot, x.member[i].slot, cut);
}

static void hit_worker(struct member *m, bool pauses);

/* A worker dies with the server, whose pushes no other server may have. */
static void kill_worker_too(void)
{
	struct member *m = choose_member(WORKER);

	if (x.pairs && x.kills[WORKER] && x.faults_left && m && scenario_is_well(m))
		hit_worker(m, false);
}

static void end_doom(bool may_die)
{
	struct member *m = x.dying;

	x.dying = NULL;
	x.doomed = false;
	if (may_die && m->proc->alive && !x.peace && x.faults_left && !is_server_down()) {
		states_note(STATE_died_cut_off);
		kill_member(m);
		kill_worker_too();
	}
	cut_server_off(m, false);
}

/* Meanwhile the coordinator may have taken the servers that this one does not reach out of its
 * chains, and it may have the only replica left. */
static void kill_doomed(void *ctx)
{
	x.dying = ctx;
	x.asking = false;
	ask_coordinator();
}

/* All may stand still by now, and wake together. */
static void wake_paused(struct member *m)
{
	if (!m->sleeps)
		proc_pause(m->proc, false);
}

static void cut_from_coordinators(const struct member *m, bool cut)
{
	for (unsigned i = 0; i < x.nmembers; i++)
		if (is_coordinator(&x.member[i]))
			net_cut(x.member[i].slot, m->slot, cut);
}

static void cut_to_coordinators(const struct member *m, bool cut)
{
	for (unsigned i = 0; i < x.nmembers; i++)
		if (is_coordinator(&x.member[i]))
			net_cut(m->slot, x.member[i].slot, cut);
}

static void end_isolation(void *ctx)
{
	struct member *m = ctx;

	if (!m || x.isolated != m)
		return;
	x.isolated = NULL;
	sim_trace("judge      > %s is not isolated any more", m->name);
	wake_paused(m);
	cut_server_off(m, false);
	cut_from_coordinators(m, false);
	cut_to_coordinators(m, false);
}

/* A server stands still, or does not reach the coordinator and perhaps the other servers, mostly for so long that it is
 * lost. Workers may still reach it: it takes pushes that no other server has, and then joins again. */
static void isolate_server(struct member *m)
{
	count_fault();
	x.isolated = m;
	if (sim_chance(30)) {
		proc_pause(m->proc, true);
	} else {
		sim_trace("judge      > %s is isolated", m->name);
		cut_to_coordinators(m, true);
		if (sim_chance(60))
			cut_from_coordinators(m, true);
		if (sim_chance(60))
			cut_server_off(m, true);
	}
	event_at(sim_now + (sim_chance(20) ? sim_below(1500) : 1550 + sim_below(900)) * MSEC,
	    end_isolation, m);
}

/* Just now all partitions had all replicas. What a server sends to the others may be stuck for a few
 * steps when it dies. */
static void kill_server(void)
{
	struct member *m = choose_member(SERVER);

	if (is_away(m) || !m->proc->alive || !x.faults_left || x.doomed || is_server_down())
		return;
	if (x.isolates && !x.isolated && sim_chance(60)) {
		isolate_server(m);
	} else if (sim_chance(60)) {
		x.doomed = true;
		cut_server_off(m, true);
		event_at(sim_now + (1 + sim_below(60)) * MSEC, kill_doomed, m);
	} else {
		kill_member(m);
		kill_worker_too();
	}
}

void scenario_wake(struct member *m)
{
	if (m->proc->alive)
		wake_paused(m);
}

static void go_on(void *ctx)
{
	wake_paused(ctx);
}

static void pause_member(struct member *m)
{
	int64_t until;

	count_fault();
	x.v->pauses++;
	proc_pause(m->proc, true);
	until = sim_now + sim_below(1500) * MSEC;
	if (until > sim_now + LEASE)
		states_note(STATE_slept_past_lease);
	event_at(until, go_on, m);
}

/* A job fails when all its workers are lost. So a worker is hit only when another one is at work,
 * or when the cluster still forms. */
static void note_workers(void *ctx, int status, const char *text)
{
	json_t *j = status == 200 ? json_loads(text, 0, NULL) : NULL, *row;
	bool forming = j != NULL;
	unsigned others = 0;
	struct member *m = ctx, *other = NULL;
	size_t i;

	json_array_foreach(json_object_get(j, "workers"), i, row) {
		const char *state = json_string_value(json_object_get(row, "state"));
		json_int_t pid = json_integer_value(json_object_get(row, "pid"));

		forming &= state && (strcmp(state, "empty") == 0 || strcmp(state, "joining") == 0);
		for (unsigned k = 0; k < x.nmembers; k++)
			if (&x.member[k] != m && x.member[k].kind == WORKER && x.member[k].proc &&
			    x.member[k].proc->pid == pid && state && strcmp(state, "active") == 0) {
				other = &x.member[k];
				others++;
			}
	}
	json_decref(j);
	if (x.peace || !x.faults_left || !m->proc->alive || !(x.pairs || may_hit(WORKER)) ||
	    is_kind_away(WORKER))
		return;
	if (!others && !forming)
		return;
	if (x.worker_pauses)
		pause_member(m);
	else
		kill_member(m);
	if (x.pairs && others > 1 && x.faults_left && other->proc->alive)
		kill_member(other);
}

static void hit_worker(struct member *m, bool pauses)
{
	x.worker_pauses = pauses;
	control_send(0, "GET", "/v1/workers", NULL, note_workers, m);
}

void scenario_pause_worker(struct member *m)
{
	if (x.faults_left && scenario_is_well(m))
		hit_worker(m, true);
}

static void kill_someone(void)
{
	enum kind kind = sim_chance(50) ? SERVER : sim_chance(50) ? WORKER : COORDINATOR;
	struct member *m = x.kills[kind] ? choose_member(kind) : NULL;

	if (!m || !m->proc || !m->proc->alive || !may_hit(kind))
		return;
	if (kind == SERVER) {
		x.server_must_die = x.replicas > 1;
		ask_coordinator();
	} else if (kind == WORKER) {
		hit_worker(m, false);
	} else {
		kill_member(m);
	}
}

void scenario_kill(struct member *m)
{
	if (m->proc->alive)
		kill_member(m);
}

bool scenario_knows_all_servers(void)
{
	return servers_known == x.servers;
}

void scenario_kill_coordinator(void)
{
	struct member *m = scenario_coordinator();

	if (x.kills[COORDINATOR] && x.faults_left && m->proc->alive && !m->proc->paused &&
	    !resume_is_under_way())
		kill_member(m);
}

void scenario_kill_a_server(void)
{
	if (!x.kills[SERVER] || x.replicas == 1 || resume_is_under_way())
		return;
	x.server_must_die = true;
	ask_coordinator();
}

void scenario_kill_a_worker(void)
{
	struct member *m = choose_member(WORKER);

	if (x.kills[WORKER] && x.faults_left && !resume_is_under_way() && m && scenario_is_well(m))
		hit_worker(m, false);
}

void scenario_lose_a_worker(void)
{
	x.worker_is_lost = true;
	/* For the death that follows. */
	x.faults_left += 2;
	scenario_kill_a_worker();
}

void scenario_cut_coordinator_off(bool cut)
{
	sim_trace("judge      > the coordinator %s the servers",
	    cut ? "does not reach" : "reaches");
	for (unsigned i = 0; i < SERVERS_MAX; i++) {
		cut_from_coordinators(scenario_server(i), cut);
		cut_to_coordinators(scenario_server(i), cut);
	}
	if (cut)
		count_fault();
}

static void pause_someone(void)
{
	struct member *m = choose_member(sim_chance(60) ? WORKER : COORDINATOR);

	if (!m || !m->proc || !m->proc->alive || !may_hit(m->kind))
		return;
	if (m->kind == WORKER)
		hit_worker(m, true);
	else
		pause_member(m);
}

static void heal_link(void *ctx)
{
	(void)ctx;
	if (!x.is_cut)
		return;
	sim_trace("judge      > the link %u - %u is whole", x.cut_from, x.cut_to);
	net_cut(x.cut_from, x.cut_to, false);
	net_cut(x.cut_to, x.cut_from, false);
	x.is_cut = false;
}

/* Links between servers, and between a server and a worker; that of the coordinator only for times
 * in which it declares nobody dead. */
static void cut_link(void)
{
	unsigned a = sim_below(x.nmembers), b = sim_below(x.nmembers);
	bool coordinator = is_coordinator(&x.member[a]) || is_coordinator(&x.member[b]);

	/* A connection that breaks while its link is cut does not come back in time. */
	if (a == b || x.is_cut || (coordinator && x.breaks))
		return;
	x.cut_from = x.member[a].slot;
	x.cut_to = x.member[b].slot;
	x.is_cut = true;
	count_fault();
	x.v->cuts++;
	net_cut(x.cut_from, x.cut_to, true);
	if (sim_chance(60))
		net_cut(x.cut_to, x.cut_from, true);
	sim_trace("judge      > the link %u - %u is cut", x.cut_from, x.cut_to);
	event_at(sim_now + sim_below(coordinator ? 500 : 2500) * MSEC, heal_link, NULL);
}

/* The connections of a link break, as in a firewall that has forgotten them. */
static void break_connections(void)
{
	unsigned a = sim_below(x.nmembers), b = sim_below(x.nmembers);

	if (a == b || !x.faults_left)
		return;
	count_fault();
	sim_trace("judge      > connections %u - %u break", x.member[a].slot, x.member[b].slot);
	net_break_connections(x.member[a].slot, x.member[b].slot);
}

/* A byte of the next data from one process to another is changed. */
static void damage_link(void)
{
	unsigned a = sim_below(x.nmembers), b = sim_below(x.nmembers);

	if (a == b || !x.faults_left)
		return;
	count_fault();
	net_damage(x.member[a].slot, x.member[b].slot);
}

void scenario_break_coordinator_off(void)
{
	bool all = sim_chance(30);
	unsigned one = sim_below(x.nmembers);
	const struct member *m = scenario_coordinator();

	if (!x.faults_left)
		return;
	count_fault();
	sim_trace("judge      > connections of the coordinator break");
	for (unsigned i = 0; i < x.nmembers; i++)
		if (&x.member[i] != m && (all || i == one))
			net_break_connections(m->slot, x.member[i].slot);
}

static void break_coordinator_off(void *ctx)
{
	(void)ctx;
	if (!scenario_is_peace())
		scenario_break_coordinator_off();
}

static void change_delays(void)
{
	count_fault();
	net_delay(x.least, x.least + sim_below(sim_chance(20) ? 20000 : 2000) * USEC);
}

struct request {
	uintptr_t world;
	char low[24];
};

static void note_checkpoint(void *ctx, int status, const char *text)
{
	struct request *r = ctx;

	sim_trace("judge      < checkpoint %d", status);
	if (!status)
		states_note(STATE_request_lost);
	if (status == 501)
		scenario_fail("NO ANSWER: a checkpoint is refused for good: %.120s", text);
	if (r->world == x.world) {
		x.unanswered--;
		if (status == 200)
			resume_note_answer(r->low, text);
	}
	free(r);
}

void scenario_take_checkpoint(void)
{
	struct request *r = calloc(1, sizeof *r);

	if (!r)
		sim_panic("no memory for a request");
	if (x.breaks && sim_chance(30))
		event_at(sim_now + sim_below(5) * MSEC, break_coordinator_off, NULL);
	r->world = x.world;
	resume_note_request(r->low);
	x.unanswered++;
	if (x.breaks)
		sim_trace("judge      > checkpoint");
	control_send(0, "POST", "/v1/checkpoints", "{}", note_checkpoint, r);
}

/* One thing of all that this seed does, if nothing else is broken. */
static void make_war(void *ctx)
{
	(void)ctx;
	if (x.peace || x.v->failed)
		return;
	if (!resume_is_under_way() && x.faults_left)
		switch (sim_below(5)) {
		case 0:
		case 1:
			kill_someone();
			break;
		case 2:
			if (x.pauses)
				pause_someone();
			break;
		case 3:
			if (x.cuts)
				cut_link();
			break;
		default:
			if (x.slow)
				change_delays();
			if (x.breaks)
				break_connections();
			if (x.damages)
				damage_link();
			if (x.checkpoints)
				scenario_take_checkpoint();
			break;
		}
	event_at(sim_now + (1 + sim_below(2 * x.gap)) * MSEC, make_war, NULL);
}

/* A program that waits for the coordinator asks it at the first moment. */
static void ask_new_coordinator(const struct proc *p)
{
	if ((p->slot == COORDINATOR_SLOT || p->slot == STANDBY_SLOT) && x.breaks && x.checkpoints &&
	    !resume_is_under_way() && sim_chance(30))
		scenario_take_checkpoint();
}

/* ---- the run ---- */

/* Two coordinators. */
static void draw_owners(bool in_etcd, bool is_long)
{
	owners_draw(in_etcd, is_long);
	x.plain_owner = sim_chance(20);
	/* A job that goes back to a checkpoint is begun by one of them. */
	resume_leave_out();
	relays_leave_out();
	orders_without_files();
	if (!x.plain_owner)
		x.kills[COORDINATOR] = true;
}

static void leave_out_more(void)
{
	resume_leave_out();
	relays_leave_out();
	strikes_leave_out();
	clocks_leave_out();
	troubles_leave_out();
}

/* Leaves out what the model of the chain cannot follow: the coordinator and the workers stay. */
static void narrow_scenario(void)
{
	x.servers = 3;
	x.workers = 2;
	x.replicas = 2 + sim_below(2);
	x.sync = "asp";
	x.kills[COORDINATOR] = x.kills[WORKER] = false;
	x.kills[SERVER] = x.cuts = x.slow = true;
	x.pauses = x.checkpoints = x.power_cuts = false;
	leave_out_more();
	/* The strike does all that is done to these clusters. */
	if (sim_chance(30)) {
		x.servers = x.replicas = 2;
		x.faults_left = 0;
		x.war = 9000 * MSEC;
		strikes_draw_returns();
	}
}

/* The faults come faster, and the war is over after the last one. */
static void shorten_scenario(void)
{
	x.servers = sim_chance(80) ? 3 : x.servers;
	x.workers = sim_chance(60) ? 2 : x.workers;
	x.gap = 2 + sim_below(8);
	x.newcomer &= x.workers > 2;
	x.is_short = true;
	x.war = (800 + sim_below(1200)) * MSEC;
	if (x.isolates)
		x.war += 2000 * MSEC;
	if (x.newcomer || x.late || x.votes)
		x.war += 2000 * MSEC;
	if (owners_are_drawn())
		x.war += 8000 * MSEC;
}

/* Draws the features and faults that --more adds. */
static void draw_more(void)
{
	x.more = true;
	net_probes_hosts();
	resume_draw();
	relays_draw();
	x.backup = sim_chance(20);
	if (strcmp(x.sync, "bsp") != 0) {
		relays_leave_out();
		x.backup = 0;
	}
	if (relays_are_drawn())
		orders_keep_secret();
	clocks_draw();
	x.votes = strikes_draw_votes();
	x.waits = sim_chance(20);
	if (resume_is_drawn()) {
		relays_leave_out();
		/* The earlier generation has a worker that has left for good. */
		troubles_keep_workers();
		x.checkpoints = true;
		orders_keep_servers();
		outside_leave_out();
		reader_leave_out();
	}
	if (resume_is_drawn() || sim_chance(25))
		disk_writes_badly();
}

/* The workers are those of the product, and no other program pushes to the job. */
static void draw_examples(void)
{
	bool bsp = strcmp(x.sync, "bsp") == 0;
	bool may_repeat = bsp && !orders_change_mode() && sim_chance(40);

	/* A deterministic job in memory is divided by steps: only its bits are compared. */
	examples_draw((bsp || orders_change_mode()) && !(may_repeat && sim_chance(60)));
	if (may_repeat) {
		examples_draw_deterministic();
		x.waits = true;
		x.backup = 0;
		relays_leave_out();
	}
	x.newcomer = false;
	if (x.more && !may_repeat && sim_chance(30)) {
		examples_draw_stream();
		/* Late pushes of a backup worker would be missed for ever. */
		x.backup = 0;
	}
	troubles_keep_workers();
	/* A push through a relay may count twice if the relay and its worker are lost together. */
	if (relays_are_drawn())
		x.kills[WORKER] = x.pauses = false;
	outside_leave_out();
	reader_leave_out();
}

static void draw_scenario(uint64_t seed, const struct scenario_limits *limits, struct verdict *v)
{
	static const char *const modes[] = { "bsp", "bsp", "ssp:3", "asp" };
	uintptr_t world = x.world + 1;
	bool isolates, more;

	memset(&x, 0, sizeof x);
	memset(v, 0, sizeof *v);
	x.world = world;
	x.v = v;
	x.seed = seed;
	world_begin(seed);
	tenures_reset();
	etcd_reset();
	x.replicas = sim_chance(20) ? 1 : 2 + sim_below(2);
	x.servers = 3 + sim_below(2);
	x.workers = 2 + sim_below(2);
	x.least = (200 + sim_below(800)) * USEC;
	x.most = x.least + (500 + sim_below(4000)) * USEC;
	x.sync = modes[sim_below(4)];
	for (int i = 0; i < 3; i++)
		x.kills[i] = sim_chance(60);
	x.power_cuts = sim_chance(50);
	x.cuts = sim_chance(50);
	x.pauses = sim_chance(50);
	x.slow = sim_chance(60);
	x.checkpoints = sim_chance(40);
	x.gap = 3 + sim_below(20);
	x.faults_left = limits->is_long ? 50 : 5 + sim_below(limits->chain ? 25 : 4);
	x.war = (limits->is_long ? 8000 + sim_below(8000) : 1000 + sim_below(4000)) * MSEC;
	if (limits->faults < x.faults_left)
		x.faults_left = limits->faults;
	examples_leave_out();
	owners_leave_out();
	if (limits->chain) {
		narrow_scenario();
		return;
	}
	x.breaks = sim_chance(40) || limits->breaks;
	x.damages = limits->damages;
	isolates = sim_chance(40) || limits->isolates;
	more = sim_chance(40) || limits->more;
	x.newcomer = sim_chance(30);
	x.pairs = sim_chance(40);
	x.late = sim_chance(15);
	orders_draw();
	outside_draw();
	reader_draw();
	disk_faults_draw();
	x.isolates = isolates && !orders_move_servers();
	x.kills[SERVER] |= x.isolates;
	leave_out_more();
	troubles_draw(x.breaks);
	strikes_draw(x.breaks);
	if (more)
		draw_more();
	/* Nothing is drawn for that, so that the other seeds stay as they are. */
	if (limits->examples || seed % 9 == 8)
		draw_examples();
	if (limits->standby || seed % 49 == 48)
		draw_owners(seed & 1, limits->is_long);
	if (!limits->is_long)
		shorten_scenario();
	/* A step waits for one worker at least. */
	if (x.workers - x.newcomer <= x.backup)
		x.backup = 0;
	/* The sum of two is the same in any order. */
	if (examples_are_deterministic() && sim_chance(70))
		x.workers = 3;
}

static void write_files(void)
{
	char text[1024], job[400];
	int n;

	if (examples_are_drawn()) {
		examples_write_data();
		examples_job(job, sizeof job);
	} else {
		snprintf(job, sizeof job,
		    "{ \"model\": \"linear\", \"data\": \"data.csv?label=y&scale=none\", "
		    "\"steps\": 1000000000, \"optimizer\": \"sgd\", \"lr\": 1 }");
	}
	n = snprintf(text, sizeof text,
	    "{ \"sync\": \"%s\", \"servers\": %u, \"workers\": \"%u:%u\", \"replicas\": %u, "
	    "\"transport\": \"tcp\", %s\"backup\": %u, \"deterministic\": %s, "
	    "\"on_worker_loss\": \"%s\", \"lease\": \"%s\", \"deadline\": \"60s\", "
	    "\"lookahead\": %u,\n"
	    "  \"job\": %s }\n",
	    x.sync, x.servers, x.workers - x.newcomer, x.workers, x.replicas,
	    owners_use_etcd() ? "\"state\": \"" ETCD_URL "\", " : "", x.backup,
	    examples_are_deterministic() ? "true" : "false", x.waits ? "wait:60s" : "shrink",
	    owners_are_drawn() ? OWNERS_LEASE : "1s", x.peace ? 0 : examples_lookahead(x.seed),
	    job);

	disk_put("c.json", text, (size_t)n);
	disk_put("data.csv", "x,y\n1,2\n2,4\n3,6\n", 16);
	sim_trace("judge      > %s, %u servers, %u workers, %u replicas, kills %d%d%d, cuts "
	          "%d, pauses %d",
	    x.sync, x.servers, x.workers, x.replicas, x.kills[0], x.kills[1], x.kills[2], x.cuts,
	    x.pauses);
}

static struct member *add_member(enum kind kind, unsigned slot, const char *name, unsigned rank)
{
	struct member *m = &x.member[x.nmembers++];

	m->kind = kind;
	m->slot = slot;
	snprintf(m->name, sizeof m->name, "%.15s", name);
	snprintf(m->rank, sizeof m->rank, "%u", rank);
	return m;
}

static void add_members(void)
{
	char name[32];

	add_member(COORDINATOR, 0, "coord", 0);
	for (unsigned i = 0; i < SERVERS_MAX; i++) {
		snprintf(name, sizeof name, "server-%u", i);
		add_member(SERVER, 1 + i, name, 0)->finished = i >= x.servers;
	}
	for (unsigned i = 0; i < x.workers; i++) {
		snprintf(name, sizeof name, "worker-%u", i);
		add_member(WORKER, 1 + SERVERS_MAX + i, name, i);
	}
	if (owners_are_drawn())
		add_member(COORDINATOR, STANDBY_SLOT, "coord-b", 0);
}

static bool has_socket(void *ctx)
{
	size_t n;

	(void)ctx;
	return disk_get("c.run/cluster.json", &n) != NULL;
}

static bool is_over(void *ctx)
{
	(void)ctx;
	scenario_look_at_ends();
	if (x.v->failed)
		return true;
	if (resume_is_under_way())
		return false;
	for (unsigned i = 0; i < x.nmembers; i++)
		if (x.member[i].kind == WORKER && !x.member[i].finished)
			return false;
	return outside_is_over() && reader_is_over();
}

static bool is_peace_or_over(void *ctx)
{
	return x.peace || is_over(ctx);
}

static void end_war(void *ctx)
{
	(void)ctx;
	if (x.peace)
		return;
	x.peace = true;
	heal_link(NULL);
	troubles_end();
	end_isolation(x.isolated);
	net_delay(50 * USEC, 500 * USEC);
	for (unsigned i = 0; i < x.nmembers; i++)
		if (x.member[i].proc && x.member[i].proc->paused)
			proc_pause(x.member[i].proc, false);
	for (unsigned i = 0; i < x.nmembers; i++)
		if (x.member[i].kind == WORKER && x.member[i].proc && !examples_are_drawn())
			event_at(sim_now + sim_below(x.is_short ? 100 : 500) * MSEC, end_worker,
			    &x.member[i]);
	owners_end();
	disk_faults_end();
	strikes_end();
	orders_end();
	outside_end();
	reader_end();
	sim_trace("judge      > peace");
}

static void count_acknowledged(void *ctx, const char *name)
{
	char path[64];
	size_t n = 0;
	const char *at, *end;

	snprintf(path, sizeof path, "books/%.50s", name);
	at = disk_get(path, &n);
	for (end = at + n; at && at < end; at++) {
		*(unsigned *)ctx += *at == 'a';
		at = memchr(at, '\n', (size_t)(end - at));
		if (!at)
			break;
	}
}

/* A short war is over when all has been done that it is to show. */
static void end_short_war(void *ctx)
{
	unsigned steps = 0;

	(void)ctx;
	if (scenario_is_peace())
		return;
	if (!x.faults_left)
		disk_list(resume_books(), count_acknowledged, &steps);
	if ((steps >= SHORT_STEPS || examples_are_drawn()) && !x.faults_left && !is_anyone_away() &&
	    !resume_is_due() && !owners_are_due())
		end_war(NULL);
	else
		event_at(sim_now + 20 * MSEC, end_short_war, NULL);
}

static bool are_checkpoints_answered(void *ctx)
{
	(void)ctx;
	return !x.unanswered;
}

/* The ledger's own comparison, as a process of the world. */
static bool is_check_over(void *ctx)
{
	return !((struct proc *)ctx)->alive;
}

uint64_t scenario_run_ledger(const char *what, const char *const *argv)
{
	struct proc *p;

	for (int try = 0; try < 3; try++) {
		unsigned long long begun, acked, lost, doubled, torn;

		p = proc_start(15, argv[1], ledger_main, argv);
		world_run(sim_now + 60 * SEC, is_check_over, p);
		if (sscanf(p->printed,
		        "begun %llu acknowledged %llu lost %llu doubled %llu torn %llu", &begun,
		        &acked, &lost, &doubled, &torn) == 5) {
			x.v->checks++;
			if (lost || doubled || torn)
				scenario_fail("%s: %s", what, p->printed);
			return acked;
		}
	}
	scenario_fail("%s cannot be compared: %s", what, p->alive ? "it hangs" : p->last);
	return 0;
}

uint64_t scenario_compare(const char *verb, const char *book, const char *cells)
{
	char what[64];

	snprintf(what, sizeof what, "LEDGER: %.40s", book);
	return scenario_run_ledger(what,
	    (const char *[]){ "ledger", verb, "-C", "c.run", "--book", book, "--cells", cells,
	        NULL });
}

static bool have_all_ended(void *ctx)
{
	(void)ctx;
	for (unsigned i = 0; i < x.nmembers; i++)
		if (x.member[i].kind != WORKER && x.member[i].proc && x.member[i].proc->alive)
			return false;
	return true;
}

/* Servers and the coordinator of a job that is over end when they are asked to, and leave nothing. */
static void end_cluster(void)
{
	for (unsigned i = x.nmembers; i-- > 0;)
		if (x.member[i].proc && x.member[i].proc->alive)
			proc_signal(x.member[i].proc, SIGTERM);
	world_run(sim_now + PEACE, have_all_ended, NULL);
	for (unsigned i = 0; i < x.nmembers && !x.v->failed; i++) {
		const struct member *m = &x.member[i];

		if (m->proc && m->proc->alive)
			scenario_fail("NO END: %s does not end", m->name);
		else if (m->proc)
			look_at_rest(m->name, m->proc);
	}
}

/* Writes the coordinator's status into the trace of a job that does not end. */
static void note_state(void *ctx, int status, const char *text)
{
	*(bool *)ctx = true;
	sim_trace("judge      < %d %.3000s", status, text);
}

static bool is_answered(void *ctx)
{
	return *(bool *)ctx;
}

void scenario_trace_state(void)
{
	static const char *const routes[] = { "/v1/workers", "/v1/servers", "/v1/layout",
		"/v1/why" };

	for (size_t i = 0; i < sizeof routes / sizeof *routes; i++) {
		bool answered = false;

		control_send(0, "GET", routes[i], NULL, note_state, &answered);
		world_run(sim_now + 5 * SEC, is_answered, &answered);
	}
}

/* Runs the job of this scenario without faults, on one server. It depends on the kind of the job alone, not on the
 * seed, and is not traced. */
static void run_undisturbed(void)
{
	bool tracing = sim_tracing;

	sim_tracing = false;
	owners_leave_out();
	world_begin(x.workers);
	x.servers = x.replicas = 1;
	x.peace = true;
	write_files();
	add_members();
	start_member(&x.member[0]);
	world_run(20 * SEC, has_socket, NULL);
	for (unsigned i = 1; i < x.nmembers; i++)
		if (!x.member[i].finished)
			start_member(&x.member[i]);
	world_run(sim_now + PEACE, is_over, NULL);
	examples_note_undisturbed();
	sim_tracing = tracing;
}

/* All events are trained on; then the workers are ended, as nothing else ends such a job. */
static void end_stream(void)
{
	if (!examples_await_stream(is_over)) {
		scenario_trace_state();
		/* The judge says how many are not. */
		examples_check();
		scenario_fail("EXAMPLES: the stream is not read to its end");
		return;
	}
	/* A job that all workers have left is failed: no server can join it. */
	if (!replicas_await())
		return;
	x.leaves = true;
	for (unsigned i = 0; i < x.nmembers; i++)
		if (x.member[i].kind == WORKER && x.member[i].proc)
			end_worker(&x.member[i]);
}

void scenario_run(uint64_t seed, const struct scenario_limits *limits, struct verdict *v)
{
	unsigned late;

	draw_scenario(seed, limits, v);
	while (examples_need_undisturbed(x.workers)) {
		run_undisturbed();
		if (v->failed)
			return;
		draw_scenario(seed, limits, v);
	}
	write_files();
	add_members();
	if (owners_are_drawn() && !owners_use_etcd())
		tenures_watch_files();
	start_member(&x.member[0]);
	if (world_run(20 * SEC, has_socket, NULL) && !has_socket(NULL))
		scenario_fail("NO START: the coordinator does not start");
	late = x.late ? 1 + sim_below(x.nmembers - 1) : 0;
	for (unsigned i = 1; i < x.nmembers && !v->failed; i++)
		if (x.newcomer && i == x.nmembers - 1)
			restart_later(&x.member[i], (2200 + sim_below(800)) * MSEC);
		else if (i == late && !x.member[i].finished)
			restart_later(&x.member[i], (300 + sim_below(1700)) * MSEC);
		else if (is_coordinator(&x.member[i]))
			restart_later(&x.member[i], sim_below(1500) * MSEC);
		else if (!x.member[i].finished)
			start_member(&x.member[i]);
	net_delay(x.least, x.most);
	witness_begin(!resume_is_drawn(), !resume_is_drawn() && !orders_change_mode());
	if (limits->chain)
		chain_trace_begin();
	x.peace_at = sim_now + x.war;
	event_at(sim_now + 20 * MSEC, make_war, NULL);
	control_on_open(ask_new_coordinator);
	if (limits->chain) {
		strikes_begin();
	} else {
		orders_begin();
		outside_begin();
		reader_begin();
		disk_faults_begin();
		resume_begin();
		relays_begin();
		strikes_begin();
		clocks_begin();
		troubles_begin();
		examples_begin();
		owners_begin();
	}
	event_at(x.peace_at, end_war, NULL);
	if (x.is_short)
		end_short_war(NULL);
	if (!v->failed)
		world_run(x.peace_at, is_peace_or_over, NULL);
	end_war(NULL);
	if (!v->failed && examples_are_a_stream())
		end_stream();
	if (!v->failed)
		world_run(sim_now + PEACE, is_over, NULL);
	if (!v->failed && !is_over(NULL)) {
		scenario_trace_state();
		scenario_fail("NO END: the job does not end");
	}
	/* The coordinator that was asked is dead, or must have answered. */
	if (!v->failed && x.breaks)
		world_run(sim_now + PEACE, are_checkpoints_answered, NULL);
	if (!v->failed && x.breaks && x.unanswered) {
		scenario_trace_state();
		scenario_fail("NO ANSWER: a request of a checkpoint has no answer");
	}
	if (limits->chain)
		chain_trace_print(limits->chain, seed);
	if (!v->failed)
		v->acknowledged = examples_are_drawn()
		    ? examples_check()
		    : scenario_compare("check", resume_books(), CELLS);
	if (!v->failed)
		owners_check();
	if (!v->failed && !limits->chain)
		replicas_check();
	if (!v->failed && !limits->chain)
		outside_check();
	if (!v->failed && !limits->chain)
		reader_check();
	if (!v->failed && x.more)
		end_cluster();
	v->virtual_ns = sim_now;
	v->deliveries = sim_deliveries;
	v->hash = sim_trace_hash();
	states_read_events("c.run/events.jsonl");
}
