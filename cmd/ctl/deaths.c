#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "far.h"
#include "launch/rsh.h"
#include "parts.h"
#include "restart.h"

/* What the death of a process means for the cluster. */

void runner_give_up(struct runner *r, const char *culprit, const char *fmt, ...)
{
	char who[sizeof r->culprit], why[sizeof r->reason];
	va_list ap;

	if (r->crashed)
		return;
	r->crashed = true;
	snprintf(who, sizeof who, "%s", culprit);
	va_start(ap, fmt);
	vsnprintf(why, sizeof why, fmt, ap);
	va_end(ap);
	memcpy(r->culprit, who, sizeof who);
	memcpy(r->reason, why, sizeof why);
}

/* The workers read our standard input under a name that says nothing to who
 * filled it. */
static void name_stdin(char *text)
{
	char name[40], *at;
	size_t n = (size_t)snprintf(name, sizeof name, "/proc/%d/fd/0", (int)getpid());

	while ((at = strstr(text, name)) != NULL) {
		memcpy(at, "stdin", 5);
		memmove(at + 5, at + n, strlen(at + n) + 1);
	}
}

/* Keep in mind who ended how, with its own last words if it had any to say. */
static void blame(struct runner *r, const char *id, const struct launch_event *ev, const char *how)
{
	char *log = mem_printf("%s/%s.log", r->dir, id);
	struct buf last = BUF_INIT;

	if (ev->status != 0 && (!ev->signalled || ev->status == RSH_NO_SESSION))
		launch_last_words(log, &last);
	snprintf(r->culprit, sizeof r->culprit, "%s", id);
	snprintf(r->reason, sizeof r->reason, "%s %s%s%.280s", id, how, last.len > 0 ? ": " : "",
	         last.len > 0 ? (char *)last.data : "");
	name_stdin(r->reason);
	buf_release(&last);
	free(log);
}

/* Before the job runs there is nothing that others could go on with, and one
 * that ended of its own accord would do so again. */
static bool fails_to_form(struct runner *r, const char *id, const struct launch_event *ev, const char *how, int code)
{
	if (!runner_is_forming(r) || (ev->signalled && restart_later(r, ev->child, id)))
		return runner_is_forming(r);
	blame(r, id, ev, how);
	r->code = ev->signalled ? 1 : code;
	runner_give_up(r, r->culprit, "%s%s", r->reason, ev->signalled ? " while the cluster was forming" : "");
	return true;
}

/* Others have what it held. */
static bool is_released(const struct runner *r, const char *id)
{
	const json_t *name;
	size_t i;

	json_array_foreach(json_object_get(r->status, "released"), i, name)
		if (strcmp(json_string_value(name), id) == 0)
			return true;
	return false;
}

/* With one copy of each partition, a part of the model is gone. */
static void server_ended(struct runner *r, const char *id, const struct launch_event *ev,
                         const char *how, int code)
{
	bool left = !ev->signalled && ev->status == 0, copies = r->conf->replicas > 1;

	if (left)
		runner_ask(r);
	if (left && is_released(r, id))
		return;

	if (left && runner_is_over(r))
		return;
	/* Apart, it goes on from its own state; else what it held has died with it. */
	if (strcmp(id, "coordinator") == 0 && ev->signalled && runner_is_apart(r)) {
		blame(r, id, ev, how);
		progress_say(&r->progress, "%s", r->reason);
		if (restart_later(r, ev->child, id)) {
			r->reason[0] = r->culprit[0] = 0;
			return;
		}
	}
	if (strcmp(id, runner_is_apart(r) ? "coordinator" : "server-0") == 0 && !left) {
		blame(r, id, ev, how);
		r->code = ev->signalled || !runner_is_forming(r) ? 1 : ev->status;
		runner_give_up(r, r->culprit, "%s", r->reason);
		return;
	}
	if (!left && fails_to_form(r, id, ev, how, code))
		return;
	blame(r, id, ev, how);
	if (!left) {
		progress_say(&r->progress, "%s", r->reason);
		/* Who is left decides of the job; of none nobody can. */
		if (copies && !restart_later(r, ev->child, id) && runner_count(r, "server-") == 0 &&
		    !restart_coming(r) && !runner_is_over(r))
			runner_give_up(r, r->culprit, "%s; no server is left", r->reason);
	}
	if (!copies)
		r->broken_since = r->broken_since ? r->broken_since : clock_now();
}

/* It was asked to by somebody else than us, unless all is over. */
static void worker_left(struct runner *r, const char *id)
{
	if (r->answered + RUNNER_ASK < clock_now())
		return;
	if (runner_state_is(r, "running"))
		progress_say(&r->progress, "%s has left; the others go on", id);
	else if (runner_is_forming(r))
		runner_give_up(r, id, "%s was ended while the cluster was forming", id);
}

/* The coordinator decides what the loss means; here it is only told. */
static void worker_ended(struct runner *r, const char *id, const struct launch_event *ev,
                         const char *how, int code)
{
	char said[sizeof r->reason], who[sizeof r->culprit];

	runner_ask(r);
	if (!ev->signalled && ev->status == 0) {
		worker_left(r, id);
		return;
	}
	/* After a failure every worker ends so, and the reason is the job's. */
	if (!ev->signalled && runner_state_is(r, "failed"))
		return;
	if (fails_to_form(r, id, ev, how, code))
		return;
	memcpy(said, r->reason, sizeof said);
	memcpy(who, r->culprit, sizeof who);
	blame(r, id, ev, how);
	progress_say(&r->progress, "%s", r->reason);
	/* The first is the reason of what comes after. */
	if (who[0]) {
		memcpy(r->reason, said, sizeof said);
		memcpy(r->culprit, who, sizeof who);
	}
	/* One that ended of its own accord would do so again. */
	if (ev->signalled)
		restart_later(r, ev->child, id);
}

void runner_take_children(struct runner *r)
{
	struct launch_event ev;
	char how[320];

	while (launch_wait(r->set, 0, &ev, NULL) == ERR_OK) {
		const char *id = launch_id(r->set, ev.child), *host = far_host(r, id);
		int code = ev.status;

		if (host)
			code = far_judge(r, host, &ev, how, sizeof how);
		else
			launch_how(&ev, how);
		if (r->stopping || r->nsignals > 0)
			continue;
		if (strncmp(id, "server-", 7) == 0 || strcmp(id, "coordinator") == 0)
			server_ended(r, id, &ev, how, code);
		else if (strncmp(id, "worker-", 7) == 0)
			worker_ended(r, id, &ev, how, code);
	}
}
