/* SPDX-License-Identifier: ISC */
#include <stdio.h>
#include <string.h>

#include "tests/sim/control.h"
#include "tests/sim/parts.h"

int ps_serve_main(int argc, char **argv);

/* Relays, which sum the pushes of their workers in a step of bsp. The zone of a worker says through which one
 * it pushes; with several relays, one may push through another. They are killed at any time: a relay has
 * no push of which its workers do not keep the gradient (ps-consistency(7), Relays). */

#define RELAYS_MAX 3
#define FIRST_SLOT 17

static const char *const names[RELAYS_MAX] = { "relay-0", "relay-1", "relay-2" };
static const char *const files[RELAYS_MAX] = { "relay-0.join", "relay-1.join", "relay-2.join" };

static struct {
	unsigned n;
	bool kills;
	const char *zone[RELAYS_MAX];
	struct proc *proc[RELAYS_MAX];
	unsigned invited; /* relays whose join file has been written */
} y;

static void ask_for_file(void *ctx);

static void start_relay(unsigned i)
{
	y.proc[i] = proc_start(FIRST_SLOT + i, names[i], ps_serve_main,
	    (const char *[]){ "ps-serve", "--relay", "--join", files[i], "--zone", y.zone[i],
	        "--threads", "1", NULL });
}

/* Starts a relay again after its death, whatever it died of. */
static void look_after_relays(void *ctx)
{
	(void)ctx;
	if (scenario_has_failed())
		return;
	for (unsigned i = 0; i < y.invited; i++)
		if (!y.proc[i]->alive)
			start_relay(i);
	event_at(sim_now + (20 + sim_below(400)) * MSEC, look_after_relays, NULL);
}

static void kill_relay(void *ctx)
{
	unsigned i = sim_below(y.n);

	(void)ctx;
	if (scenario_is_peace())
		return;
	if (y.proc[i] && y.proc[i]->alive)
		proc_kill(y.proc[i]);
	event_at(sim_now + (50 + sim_below(1500)) * MSEC, kill_relay, NULL);
}

static void note_file(void *ctx, int status, const char *text)
{
	(void)ctx;
	sim_trace("judge      < join file of %s: %d", names[y.invited], status);
	if (status == 200) {
		disk_put(files[y.invited], text, strlen(text));
		start_relay(y.invited++);
	}
	if (y.invited < y.n && !scenario_is_peace())
		event_at(sim_now + 20 * MSEC, ask_for_file, NULL);
}

static void ask_for_file(void *ctx)
{
	char body[64];

	(void)ctx;
	snprintf(body, sizeof body, "{\"role\":\"relay\",\"name\":\"%s\"}", names[y.invited]);
	control_send(0, "POST", "/v1/invite", body, note_file, NULL);
}

void relays_leave_out(void)
{
	memset(&y, 0, sizeof y);
}

void relays_draw(void)
{
	relays_leave_out();
	if (sim_chance(30))
		y.n = 1 + sim_below(RELAYS_MAX);
	y.kills = sim_chance(60);
	y.zone[0] = y.n == 2 && sim_chance(50) ? "dc" : "dc/a";
	y.zone[1] = y.zone[0][2] ? "dc/b" : "dc/a";
	y.zone[2] = "dc";
}

bool relays_are_drawn(void)
{
	return y.n != 0;
}

/* Two workers of three share a zone. */
const char *relays_zone(unsigned rank)
{
	return !y.n ? NULL : rank == 2 ? "dc/b" : "dc/a";
}

void relays_begin(void)
{
	if (!y.n)
		return;
	sim_trace("judge      > %u relays, kills %d", y.n, y.kills);
	ask_for_file(NULL);
	look_after_relays(NULL);
	if (y.kills)
		event_at(sim_now + (300 + sim_below(1500)) * MSEC, kill_relay, NULL);
}
