/* SPDX-License-Identifier: ISC */
#include <stdio.h>
#include <string.h>

#include "tests/sim/parts.h"

/* Strikes at moments that chance rarely meets: while replicas are copied, between a worker's loss and its
 * decision, when somebody has just joined. Then the coordinator or a server dies, or connections of the coordinator break. Its
 * events say when; each seed waits for some kinds of them. And once in a run the coordinator may lose all servers
 * at once.
 *
 * With --more a worker may be away for longer than its lease, while what servers say to the coordinator takes long. So there is
 * time to strike between its loss and the decision about it.
 *
 * In some traces of the chain (sim --chain) the head of two servers takes a push that does not reach the other one, is
 * lost, and joins again, with a state that does not have this push. It may not become a replica before worker 0 has told
 * the other one of the push. If it does nevertheless, the other one dies, and the push is sent to the first one again. */

#define LOOK_EVERY (2 * MSEC)

static const char *const moments[] = { "copying", "copied", "layout", "worker_lost",
	"worker_joined", "server_joined", "members" };
#define MOMENTS (sizeof moments / sizeof *moments)

static struct {
	bool any, cuts_off, breaks;
	bool waits_for[MOMENTS];
	unsigned percent; /* of the moments are used */
	size_t seen;      /* bytes of the events that were read */
	bool returns;
	bool votes;  /* a worker is lost, and the decision takes long */
	bool voting; /* it is away */
} k;

/* The servers of a return, and how far it is. */
static struct {
	enum { RESTING, LONELY, AWAY, BACK } stage;
	struct member *one, *other;
	size_t events; /* bytes of them when it began */
	int64_t until; /* it is given up then */
} back;

static bool has_event(const char *at, size_t n, const char *event)
{
	char word[64];

	snprintf(word, sizeof word, "\"event\":\"%s\"", event);
	return memmem(at, n, word, strlen(word)) != NULL;
}

static void strike(void *ctx)
{
	(void)ctx;
	if (scenario_is_peace())
		return;
	sim_trace("judge      > strike");
	if (sim_chance(20))
		scenario_kill_a_worker();
	else if (k.breaks && sim_chance(50))
		scenario_break_coordinator_off();
	else if (sim_chance(50))
		scenario_kill_coordinator();
	else
		scenario_kill_a_server();
}

static bool has_moment(const char *at, size_t n)
{
	for (size_t i = 0; i < MOMENTS; i++)
		if (k.waits_for[i] && has_event(at, n, moments[i]))
			return true;
	return false;
}

/* ---- votes ---- */

static void lag_servers(int64_t more)
{
	for (unsigned i = 0; i < SERVERS_MAX; i++) {
		net_lag(scenario_server(i)->slot, COORDINATOR_SLOT, more);
		net_lag(scenario_server(i)->slot, STANDBY_SLOT, more);
	}
}

static void end_vote(void *ctx)
{
	(void)ctx;
	if (k.voting)
		lag_servers(0);
	k.voting = false;
}

/* Its lease ends soon. */
static void begin_vote(void *ctx)
{
	(void)ctx;
	if (scenario_is_peace())
		return;
	lag_servers((40 + sim_below(100)) * MSEC);
	k.voting = true;
	event_at(sim_now + 700 * MSEC, end_vote, NULL);
}

static void lose_worker(void *ctx)
{
	(void)ctx;
	if (scenario_is_peace())
		return;
	sim_trace("judge      > a worker is to be lost");
	scenario_lose_a_worker();
	event_at(sim_now + 800 * MSEC, begin_vote, NULL);
	event_at(sim_now + (2000 + sim_below(1500)) * MSEC, lose_worker, NULL);
}

/* The coordinator or servers die between the loss and the decision. */
static void strike_vote(void *ctx)
{
	(void)ctx;
	if (scenario_is_peace() || !k.voting)
		return;
	sim_trace("judge      > strike in a vote");
	if (sim_chance(50) && scenario_is_well(scenario_coordinator()) && !resume_is_under_way()) {
		scenario_kill(scenario_coordinator());
	} else {
		scenario_kill_a_server();
		if (scenario_replicas() > 2)
			scenario_kill_a_server();
	}
}

/* Reads the events that have been written since the last look. A power cut may take some. */
static void look_at_events(void *ctx)
{
	size_t n = 0;
	const char *text = disk_get("c.run/events.jsonl", &n);

	(void)ctx;
	if (scenario_is_peace())
		return;
	if (k.any && text && n > k.seen && has_moment(text + k.seen, n - k.seen) &&
	    sim_chance(k.percent))
		event_at(sim_now + (sim_chance(50) ? 0 : sim_below(40) * MSEC), strike, NULL);
	if (text && n > k.seen && k.voting && has_event(text + k.seen, n - k.seen, "worker_lost"))
		event_at(sim_now + sim_below(30) * MSEC, strike_vote, NULL);
	k.seen = n;
	event_at(sim_now + LOOK_EVERY, look_at_events, NULL);
}

static void end_silence(void *ctx)
{
	(void)ctx;
	scenario_cut_coordinator_off(false);
}

static void begin_silence(void *ctx)
{
	(void)ctx;
	if (scenario_is_peace())
		return;
	scenario_cut_coordinator_off(true);
	event_at(sim_now + (1000 + sim_below(2000)) * MSEC, end_silence, NULL);
}

/* ---- a server that comes back ---- */

static void cut_both_ways(const struct member *a, const struct member *b, bool cut)
{
	net_cut(a->slot, b->slot, cut);
	net_cut(b->slot, a->slot, cut);
}

static void end_return(void)
{
	if (back.stage == RESTING)
		return;
	cut_both_ways(back.one, back.other, false);
	cut_both_ways(scenario_coordinator(), back.one, false);
	cut_both_ways(scenario_worker(0), back.other, false);
	back.stage = RESTING;
}

static bool has_happened(const char *event)
{
	size_t n = 0;
	const char *text = disk_get("c.run/events.jsonl", &n);

	return text && n > back.events && has_event(text + back.events, n - back.events, event);
}

/* Are both servers in the chain of the traced partition? *head: its first one. */
static bool is_chain_complete(struct member **head)
{
	bool all = scenario_is_whole() && scenario_knows_all_servers();

	*head = scenario_server(scenario_chain_head());
	scenario_ask_for_replicas();
	return all && scenario_is_well(scenario_server(0)) && scenario_is_well(scenario_server(1));
}

/* The head does not reach the other one, so it keeps what it takes for itself. */
static void begin_lonely(void)
{
	sim_trace("judge      > %s takes pushes alone", back.one->name);
	back.other = scenario_server(back.one == scenario_server(0));
	cut_both_ways(back.one, back.other, true);
	disk_get("c.run/events.jsonl", &back.events);
	back.until = sim_now + 2500 * MSEC;
	back.stage = LONELY;
}

/* The other one does not get the push of worker 0 either, when it is sent again. */
static void begin_away(void)
{
	sim_trace("judge      > %s is lost", back.one->name);
	cut_both_ways(scenario_worker(0), back.other, true);
	cut_both_ways(scenario_coordinator(), back.one, true);
	back.stage = AWAY;
}

static void begin_back(void)
{
	sim_trace("judge      > %s comes back", back.one->name);
	cut_both_ways(back.one, back.other, false);
	cut_both_ways(scenario_coordinator(), back.one, false);
	scenario_ask_for_replicas();
	back.stage = BACK;
}

static void follow_return(void *ctx)
{
	struct member *head;

	(void)ctx;
	if (scenario_is_peace())
		return;
	switch (back.stage) {
	case RESTING:
		if (is_chain_complete(&back.one))
			begin_lonely();
		break;
	case LONELY:
		begin_away();
		break;
	case AWAY:
		if (has_happened("server_lost"))
			begin_back();
		break;
	case BACK:
		if (is_chain_complete(&head) && head == back.other) {
			scenario_kill(head);
			end_return();
		}
		break;
	}
	if (back.stage != RESTING && sim_now > back.until)
		end_return();
	event_at(sim_now + (2 + sim_below(15)) * MSEC, follow_return, NULL);
}

void strikes_leave_out(void)
{
	memset(&k, 0, sizeof k);
	memset(&back, 0, sizeof back);
}

bool strikes_draw_votes(void)
{
	return k.votes = sim_chance(30);
}

void strikes_draw_returns(void)
{
	k.returns = true;
}

void strikes_draw(bool breaks)
{
	strikes_leave_out();
	k.any = sim_chance(50);
	k.breaks = breaks;
	for (size_t i = 0; i < MOMENTS; i++)
		k.waits_for[i] = sim_chance(40);
	k.percent = 20 + sim_below(60);
	/* Servers whose connections break meanwhile are lost, all of them. */
	k.cuts_off = sim_chance(8) && !breaks;
}

void strikes_begin(void)
{
	if (k.returns)
		event_at(sim_now + 100 * MSEC, follow_return, NULL);
	if (k.votes)
		event_at(sim_now + (150 + sim_below(500)) * MSEC, lose_worker, NULL);
	if (k.any || k.votes)
		look_at_events(NULL);
	if (k.cuts_off)
		event_at(sim_now + (300 + sim_below(2000)) * MSEC, begin_silence, NULL);
}

void strikes_end(void)
{
	if (k.cuts_off)
		scenario_cut_coordinator_off(false);
	end_return();
	end_vote(NULL);
}
