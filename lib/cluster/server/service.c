/* SPDX-License-Identifier: ISC */
#include "server/service.h"

#include <string.h>

#include "core/clock.h"

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
	char line[sizeof v->said];

	snprintf(line, sizeof line, "%s", text);
	line[strcspn(line, "\n")] = 0;
	if (!ready && strcmp(line, v->said) == 0)
		return;
	notify_say(&v->notify, "%sSTATUS=%s", ready ? "READY=1\n" : "", line);
	memcpy(v->said, line, sizeof line);
}

/* Sends the state's line, and READY when the server has become ready for the first time. */
static void report_state(struct service *v, int64_t now)
{
	char text[sizeof v->said];
	bool ready = watchdog_describe(v->server, text, sizeof text);

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
	/* If a loop stands still, send nothing: the service manager then ends the process. */
	if (ping && now >= v->pinged_at + ping && watchdog_turns(v->server)) {
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
