/* SPDX-License-Identifier: ISC */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/json.h"
#include "core/mem.h"
#include "far.h"
#include "parts.h"
#include "restart.h"
#include "supervisor/rsh.h"

/* Decides what follows the end of a process: a restart, a report to the coordinator, or giving
 * up. */

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

/* The workers open our standard input as /proc/PID/fd/0 (local_replace_stdin).  Write "stdin" for
 * that path in a message to the user. */
static void replace_stdin_path(char *text)
{
	char name[40], *at;
	size_t n = (size_t)snprintf(name, sizeof name, "/proc/%d/fd/0", (int)getpid());

	while ((at = strstr(text, name)) != NULL) {
		memcpy(at, "stdin", 5);
		memmove(at + 5, at + n, strlen(at + n) + 1);
	}
}

/* Store the process in r->culprit and, in r->reason, how it ended with the last line of its log.
 * After a signal the log does not explain the end and is not read. */
static void record_culprit(struct runner *r, const char *id, const struct launch_event *ev,
    const char *how)
{
	char *log = mem_printf("%s/%s.log", r->dir, id);
	struct buf last = BUF_INIT;

	if (ev->status != 0 && (!ev->signalled || ev->status == RSH_NO_SESSION))
		launch_last_words(log, &last);
	snprintf(r->culprit, sizeof r->culprit, "%s", id);
	snprintf(r->reason, sizeof r->reason, "%s %s%s%.280s", id, how, last.len > 0 ? ": " : "",
	    last.len > 0 ? (char *)last.data : "");
	replace_stdin_path(r->reason);
	buf_release(&last);
	free(log);
}

/* Handle the end of a process while the cluster forms: schedule a restart if a signal killed it,
 * else give up, because a process that exits on its own would do so again and the job needs all of
 * them. Returns false when the cluster is not forming, and nothing was done. */
static bool fail_if_forming(struct runner *r, const char *id, const struct launch_event *ev,
    const char *how, int code)
{
	if (!runner_is_forming(r) || (ev->signalled && restart_schedule(r, ev->child, id)))
		return runner_is_forming(r);
	record_culprit(r, id, ev, how);
	r->code = ev->signalled ? 1 : code;
	runner_give_up(r, r->culprit, "%s%s", r->reason,
	    ev->signalled ? " while the cluster was forming" : "");
	return true;
}

/* Has the coordinator released this server, so that others hold its partitions? */
static bool is_released_server(const struct runner *r, const char *id)
{
	const json_t *name;
	size_t i;

	json_array_foreach(json_object_get(r->status, "released"), i, name)
		if (strcmp(json_string_value(name), id) == 0)
			return true;
	return false;
}

/* A server or the coordinator has ended; code is the exit code of a run that fails by it.  With
 * replicas the server is restarted, or the others go on.  With one copy of each partition the lost
 * part of the model cannot be replaced: broken_since starts the wait for the coordinator to fail
 * the job. */
static void handle_server_end(struct runner *r, const char *id, const struct launch_event *ev,
    const char *how, int code)
{
	bool left = !ev->signalled && ev->status == 0, copies = r->conf->replicas > 1;

	if (left)
		runner_poll_status(r);
	if (left && is_released_server(r, id))
		return;

	if (left && runner_is_job_over(r))
		return;
	/* A coordinator of its own is restarted and continues from RUN/state.json.  One inside
	 * server-0 has lost the partitions that it held, and ends the run below. */
	if (strcmp(id, "coordinator") == 0 && ev->signalled && runner_has_separate_coordinator(r)) {
		record_culprit(r, id, ev, how);
		progress_say(&r->progress, "%s", r->reason);
		if (restart_schedule(r, ev->child, id)) {
			r->reason[0] = r->culprit[0] = 0;
			return;
		}
	}
	if (strcmp(id, runner_has_separate_coordinator(r) ? "coordinator" : "server-0") == 0 &&
	    !left) {
		record_culprit(r, id, ev, how);
		r->code = ev->signalled || !runner_is_forming(r) ? 1 : ev->status;
		runner_give_up(r, r->culprit, "%s", r->reason);
		return;
	}
	if (!left && fail_if_forming(r, id, ev, how, code))
		return;
	record_culprit(r, id, ev, how);
	if (!left) {
		progress_say(&r->progress, "%s", r->reason);
		/* The coordinator decides about the job while any server is left. */
		if (copies && !restart_schedule(r, ev->child, id) &&
		    runner_count_alive(r, "server-") == 0 && !restart_is_pending(r) &&
		    !runner_is_job_over(r))
			runner_give_up(r, r->culprit, "%s; no server is left", r->reason);
	}
	if (!copies)
		r->broken_since = r->broken_since ? r->broken_since : clock_now();
}

/* A worker has exited with code 0.  Unless the job is over, someone other than the runner asked it
 * to; nothing is concluded from an old status. */
static void handle_worker_leave(struct runner *r, const char *id)
{
	if (r->answered + RUNNER_ASK < clock_now())
		return;
	if (runner_state_is(r, "running"))
		progress_say(&r->progress, "%s has left; the others go on", id);
	else if (runner_is_forming(r))
		runner_give_up(r, id, "%s was ended while the cluster was forming", id);
}

static bool is_member_id(const char *id)
{
	return strcmp(id, "coordinator") == 0 || strncmp(id, "server-", 7) == 0 ||
	    strncmp(id, "worker-", 7) == 0;
}

/* A worker has ended.  The coordinator decides what its loss means for the job; here it is
 * reported to the user, and restarted if a signal killed it. */
static void handle_worker_end(struct runner *r, const char *id, const struct launch_event *ev,
    const char *how, int code)
{
	char said[sizeof r->reason], who[sizeof r->culprit];

	runner_poll_status(r);
	if (!ev->signalled && ev->status == 0) {
		handle_worker_leave(r, id);
		return;
	}
	/* After the job has failed every worker exits with an error; the job's reason is the one
	 * to report. */
	if (!ev->signalled && runner_state_is(r, "failed"))
		return;
	if (fail_if_forming(r, id, ev, how, code))
		return;
	memcpy(said, r->reason, sizeof said);
	memcpy(who, r->culprit, sizeof who);
	record_culprit(r, id, ev, how);
	progress_say(&r->progress, "%s", r->reason);
	/* Keep the first culprit: later ends are often its consequence. */
	if (who[0]) {
		memcpy(r->reason, said, sizeof said);
		memcpy(r->culprit, who, sizeof who);
	}
	/* A worker that exits on its own would do so again. */
	if (ev->signalled)
		restart_schedule(r, ev->child, id);
}

/* The coordinator itself sees only that a process is silent; report how the process ended, for the
 * events. The end of the coordinator is reported to its successor, at the next status that it
 * answers. */
static void note_end_to_report(struct runner *r, const char *id, const char *how)
{
	snprintf(r->ended_id, sizeof r->ended_id, "%s", id);
	snprintf(r->ended_how, sizeof r->ended_how, "%s", how);
	if (strcmp(id, runner_has_separate_coordinator(r) ? "coordinator" : "server-0") != 0)
		runner_send_end_report(r);
}

void runner_send_end_report(struct runner *r)
{
	json_t *body;

	if (!r->ended_id[0])
		return;
	body = json_pack("{s:s, s:s}", "id", r->ended_id, "how", r->ended_how);
	http_call(r->client, "POST", "/v1/ended", body, RUNNER_ASK, NULL, NULL, NULL);
	json_decref(body);
	r->ended_id[0] = 0;
}

void runner_reap_children(struct runner *r)
{
	struct launch_event ev;
	char how[320];

	while (launch_wait(r->set, 0, &ev, NULL) == ERR_OK) {
		const char *id = launch_id(r->set, ev.child), *host = far_host(r, id);
		int code = ev.status;

		if (host)
			code = far_translate_end(r, host, &ev, how, sizeof how);
		else
			launch_how(&ev, how);
		if (r->stopping || r->nsignals > 0)
			continue;
		if (ev.signalled && is_member_id(id))
			note_end_to_report(r, id, how);
		if (strncmp(id, "server-", 7) == 0 || strcmp(id, "coordinator") == 0)
			handle_server_end(r, id, &ev, how, code);
		else if (strncmp(id, "worker-", 7) == 0)
			handle_worker_end(r, id, &ev, how, code);
	}
}
