/* SPDX-License-Identifier: ISC */
#include "server/service.h"

#include <string.h>

#include "core/clock.h"
#include "server/server_coordinator.h"
#include "server/server_role.h"

#define SAY_EVERY (2 * NSEC_PER_SEC)
/* The pace of tests until the server is ready. */
#define READY_EVERY (50 * NSEC_PER_MSEC)

void service_open(struct service *v, struct server *s)
{
	*v = (struct service){ .server = s };
	notify_open(&v->notify);
	v->pinged_at = clock_now();
}

/* Send the first line of text if it is news. */
static void send_service_state(struct service *v, const char *text, bool ready)
{
	char line[sizeof v->last_line];

	snprintf(line, sizeof line, "%s", text);
	line[strcspn(line, "\n")] = 0;
	if (!ready && strcmp(line, v->last_line) == 0)
		return;
	notify_say(&v->notify, "%sSTATUS=%s", ready ? "READY=1\n" : "", line);
	memcpy(v->last_line, line, sizeof line);
}

/* Have all event loops turned since this function returned true last? Healthy loops turn within a
 * second. Every loop counts its turns. A loop whose count is the same as last time hangs, or has
 * not had time to turn yet. */
static bool all_loops_turn(struct server *s)
{
	uint64_t ticks = s->coordinator ? s->cfg.coordinator->turns(s->coordinator) : 0;
	bool all = !s->coordinator || ticks != s->turns_seen;

	for (unsigned i = 0; i < s->nio_threads; i++)
		all &= atomic_load(&s->io_thread[i].turns) != s->io_thread[i].turns_seen;
	/* Only when all have turned are the counts stored: until then a fast loop counts as
	 * turned. */
	for (unsigned i = 0; all && i < s->nio_threads; i++)
		s->io_thread[i].turns_seen = atomic_load(&s->io_thread[i].turns);
	if (all)
		s->turns_seen = ticks;
	return all;
}

/* Describes the state of the server in a line. True when it is ready to serve: a coordinator that
 * listens, a store or a relay that has joined. */
static bool describe_server(struct server *s, char *out, size_t size)
{
	bool there;

	if (s->coordinator) {
		s->cfg.coordinator->describe(s->coordinator, out, size);
		return true;
	}
	there = s->agent && agent_is_up(s->agent);
	if (!there)
		snprintf(out, size, "the coordinator cannot be reached");
	return there && s->cfg.role->describe(s, out, size);
}

/* Sends the state's line, and READY when the server has become ready for the first time. */
static void report_state(struct service *v, int64_t now)
{
	char text[sizeof v->last_line];
	bool ready = describe_server(v->server, text, sizeof text);

	send_service_state(v, text, ready && !v->ready);
	v->ready |= ready;
	v->said_at = now;
}

int64_t service_turn(struct service *v)
{
	int64_t now = clock_now(), due, ping = v->notify.watchdog / 4;

	if (v->notify.fd < 0)
		return 0;
	due = v->said_at + (v->ready ? SAY_EVERY : READY_EVERY);
	if (!v->stopping && now >= due) {
		report_state(v, now);
		due = now + (v->ready ? SAY_EVERY : READY_EVERY);
	}
	/* If a loop hangs, send nothing: the service manager then ends the process. */
	if (ping && now >= v->pinged_at + ping && all_loops_turn(v->server)) {
		notify_say(&v->notify, "WATCHDOG=1");
		v->pinged_at = now;
	}
	if (ping && now + ping < due)
		due = now + ping;
	return due;
}

void service_reloading(struct service *v)
{
	notify_say(&v->notify, "RELOADING=1\nMONOTONIC_USEC=%lld", (long long)(clock_now() / 1000));
}

void service_reloaded(struct service *v)
{
	notify_say(&v->notify, "READY=1");
}

void service_stopping(struct service *v, int64_t grace_ns)
{
	v->stopping = true;
	notify_say(&v->notify, "STOPPING=1\nSTATUS=leaving\nEXTEND_TIMEOUT_USEC=%lld",
	    (long long)(grace_ns / 1000));
}

void service_close(struct service *v, const struct err *why)
{
	if (!v->stopping)
		notify_say(&v->notify, "STOPPING=1\nSTATUS=%.*s",
		    (int)strcspn(why->code ? why->msg : "over", "\n"),
		    why->code ? why->msg : "over");
	notify_close(&v->notify);
}
