/* SPDX-License-Identifier: ISC */
#include <stdio.h>
#include <string.h>

#include "tests/sim/parts.h"

/* Strikes at moments that chance rarely meets: while replicas are copied, or between a worker's loss and its
 * decision, the coordinator or a server dies. The coordinator's events say when. And once in a run the
 * coordinator may lose all servers at once. */

#define LOOK_EVERY (2 * MSEC)

static struct {
	bool any, cuts_off;
	unsigned percent; /* of the moments are used */
	size_t seen;      /* bytes of the events that were read */
} k;

static bool has_event(const char *at, size_t n, const char *event)
{
	char word[64];

	snprintf(word, sizeof word, "\"event\":\"%s\"", event);
	return memmem(at, n, word, strlen(word)) != NULL;
}

static void strike(void)
{
	sim_trace("judge      > strike");
	if (sim_chance(60))
		scenario_kill_coordinator();
	else
		scenario_kill_a_server();
}

/* Reads the events that have been written since the last look. A power cut may take some. */
static void look_at_events(void *ctx)
{
	size_t n = 0;
	const char *text = disk_get("c.run/events.jsonl", &n);

	(void)ctx;
	if (scenario_is_peace())
		return;
	if (text && n > k.seen &&
	    (has_event(text + k.seen, n - k.seen, "copying") ||
	        has_event(text + k.seen, n - k.seen, "worker_lost")) &&
	    sim_chance(k.percent))
		strike();
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

void strikes_draw(void)
{
	strikes_leave_out();
	k.any = sim_chance(40);
	k.percent = 20 + sim_below(60);
	k.cuts_off = sim_chance(8);
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
