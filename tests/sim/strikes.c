/* SPDX-License-Identifier: ISC */
#include <stdio.h>
#include <string.h>

#include "tests/sim/parts.h"

/* Strikes at moments that chance rarely meets: while replicas are copied, between a worker's loss and its
 * decision, when somebody has just joined. Then the coordinator or a server dies, or connections of the coordinator break. Its
 * events say when; each seed waits for some kinds of them. And once in a run the coordinator may lose all servers
 * at once. */

#define LOOK_EVERY (2 * MSEC)

static const char *const moments[] = { "copying", "copied", "layout", "worker_lost",
	"worker_joined", "server_joined", "members" };
#define MOMENTS (sizeof moments / sizeof *moments)

static struct {
	bool any, cuts_off, breaks;
	bool waits_for[MOMENTS];
	unsigned percent; /* of the moments are used */
	size_t seen;      /* bytes of the events that were read */
} k;

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

/* Reads the events that have been written since the last look. A power cut may take some. */
static void look_at_events(void *ctx)
{
	size_t n = 0;
	const char *text = disk_get("c.run/events.jsonl", &n);

	(void)ctx;
	if (scenario_is_peace())
		return;
	if (text && n > k.seen && has_moment(text + k.seen, n - k.seen) && sim_chance(k.percent))
		event_at(sim_now + (sim_chance(50) ? 0 : sim_below(40) * MSEC), strike, NULL);
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

void strikes_leave_out(void)
{
	memset(&k, 0, sizeof k);
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
	if (k.any)
		look_at_events(NULL);
	if (k.cuts_off)
		event_at(sim_now + (300 + sim_below(2000)) * MSEC, begin_silence, NULL);
}

void strikes_end(void)
{
	if (k.cuts_off)
		scenario_cut_coordinator_off(false);
}
