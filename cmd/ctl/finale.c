/* SPDX-License-Identifier: ISC */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ckpt/dirs.h"
#include "core/clock.h"
#include "core/file.h"
#include "core/json.h"
#include "core/launch.h"
#include "core/mem.h"
#include "core/num.h"
#include "ctl.h"
#include "parts.h"
#include "restart.h"
#include "rundir/result.h"
#include "rundir/rundir.h"
#include "saved.h"

/* How a run ends: its result, its model, and the end of all its processes (runner.h). */

#define MODEL "model.safetensors"
/* An export may take this long, or the deadline if that is longer. */
#define EXPORT_MIN   (60 * NSEC_PER_SEC)
#define RESTART_PACE (50 * NSEC_PER_MSEC)
/* How long processes may take to leave after the coordinator has told them to.  Parts of it bound
 * the later waits of runner_end_processes. */
#define LEAVE_GRACE (2 * NSEC_PER_SEC)
#define CRASH_GRACE NSEC_PER_SEC
/* How long the checkpoint after a signal may take. */
#define SAVE_GRACE (12 * NSEC_PER_SEC)
/* How often a long upload is reported. */
#define TELL_AGAIN (10 * NSEC_PER_SEC)

/* Has the coordinator answered within the last second?  A request to one that hangs would only
 * cost time in which signals are not handled. */
static bool has_answered_lately(const struct runner *r)
{
	return r->answered + RUNNER_ASK > clock_now();
}

/* Read why the job was stopped from the last line of events.jsonl, for a coordinator that has
 * ended before it could be asked.  out is "" when that event is not the job's stop. */
static void read_stop_event(const struct runner *r, char *out, size_t size)
{
	static const char before[] = "the job is stopped: ";
	char *path = rundir_path(r->dir, "events.jsonl");
	struct buf line = BUF_INIT;
	json_t *event = NULL;
	const char *text;

	out[0] = '\0';
	if (launch_tail(path, 1, &line, NULL) == ERR_OK && line.len > 0)
		event = json_loads((char *)line.data, 0, NULL);
	text = json_str(event, "text", "");
	if (strcmp(json_str(event, "event", ""), "stopped") == 0 &&
	    strncmp(text, before, strlen(before)) == 0)
		snprintf(out, size, "%s", text + strlen(before));
	json_decref(event);
	buf_release(&line);
	free(path);
}

json_t *runner_result(struct runner *r)
{
	json_t *result = NULL, *whole;
	char why[200], event[200];

	if (!r->crashed && has_answered_lately(r))
		http_call(r->client, "GET", "/v1/result", NULL, RUNNER_ASK, NULL, &result, NULL);
	if (!result)
		result = result_of_status(r->status, json_str(r->status, "state", "failed"),
		    json_str(r->status, "reason", NULL));
	if (r->crashed) {
		result_set_state(result, "failed", r->reason);
	} else if (!result_has_state(result, "done") && !result_has_state(result, "failed")) {
		const char *said = json_str(result, "reason", "");

		if (r->first_signal) {
			snprintf(why, sizeof why, "SIG%s", sigabbrev_np(r->first_signal));
		} else {
			read_stop_event(r, event, sizeof event);
			snprintf(why, sizeof why, "%s",
			    *said          ? said
			        : r->asked ? "ps-ctl stop"
			        : *event   ? event
			                   : "asked to stop");
		}
		result_set_state(result, "stopped", why);
	}
	result_set_failed_checkpoints(result, r->unmade, r->unmade_why);
	if (r->passed_over)
		json_object_set_new(result, "passed_over", json_string(r->passed_over));
	whole = result_with_header(result);
	json_decref(result);
	return whole;
}

bool runner_has_all_partitions(const struct runner *r)
{
	return !r->crashed && !r->broken_since && !json_flag(r->status, "data_lost");
}

/* ---- the model ---- */

/* Write the last line of a child's log to out or, without one, how it ended. */
static void describe_child_failure(const char *log, const struct launch_event *ev,
    char out[static RUNNER_WHY])
{
	struct buf last = BUF_INIT;
	char how[64];

	launch_how(ev, how);
	launch_last_words(log, &last);
	snprintf(out, RUNNER_WHY, "%s", last.len > 0 ? (char *)last.data : how);
	buf_release(&last);
}

/* Wait for the export to end, and set r->unsaved when it fails.  A signal or the limit ends the
 * wait; then the process is killed and its partial file removed. */
static void await_export_process(struct runner *r, size_t child, const char *log)
{
	int64_t limit = r->conf->deadline > EXPORT_MIN ? r->conf->deadline : EXPORT_MIN;
	int64_t end = clock_now() + limit;
	int seen = r->nsignals;
	struct launch_event how;

	while (launch_alive(r->set, child) && r->nsignals == seen && clock_now() < end) {
		/* Restart a coordinator that is killed meanwhile: the export waits for it. */
		restart_start_due(r);
		runner_wait_event(r, restart_is_pending(r) ? clock_now() + RESTART_PACE : end);
	}
	how = launch_status(r->set, child);
	if (launch_alive(r->set, child)) {
		launch_signal(r->set, child, SIGKILL);
		end = clock_now() + NSEC_PER_SEC;
		while (launch_alive(r->set, child) && clock_now() < end)
			runner_wait_event(r, end);
		file_remove_torn(r->dir, MODEL);
		snprintf(r->unsaved, sizeof r->unsaved, "%s",
		    r->nsignals > seen ? "interrupted" : "it took too long");
	} else if (how.signalled || how.status != 0) {
		describe_child_failure(log, &how, r->unsaved);
	}
}

/* Say in the result of a failed job when the saved model has values that are not finite. */
static void note_nonfinite_model(const char *model, json_t *result)
{
	int64_t n = saved_nonfinite(model);
	char *reason;

	if (n <= 0)
		return;
	reason = mem_printf("%s; model.safetensors has %lld value%s that %s not finite",
	    json_str(result, "reason", ""), (long long)n, NUM_S(n), n == 1 ? "is" : "are");
	result_set_state(result, "failed", reason);
	free(reason);
}

/* Export the model of `from`, a run directory or a checkpoint, to RUN/model.safetensors.  A child
 * process does it, so that signals are still handled meanwhile. */
static void run_export_process(struct runner *r, const char *from, const char *model)
{
	const char *words[] = { "ps-ctl", "-C", from, "export", "all", "-o", "safetensors",
		"--file", model, NULL };
	char *log = rundir_path(r->dir, "export.log");
	struct err e = { 0 };
	size_t child;

	if (runner_spawn(r, "export", words, &child, &e) == ERR_OK)
		await_export_process(r, child, log);
	else
		snprintf(r->unsaved, sizeof r->unsaved, "%.390s", e.msg);
	unlink(log);
	free(log);
}

void runner_export_model(struct runner *r, json_t *result)
{
	char *model = rundir_path(r->dir, MODEL);

	/* A worker whose loss became infinite or NaN has already written its last good model
	 * there. */
	if (access(model, F_OK) != 0)
		run_export_process(r, r->dir, model);
	if (r->unsaved[0])
		progress_say(&r->progress, "warning: the model is not saved: %s", r->unsaved);
	else if (result_has_state(result, "failed"))
		note_nonfinite_model(model, result);
	result_set_unsaved(result, r->unsaved);
	free(model);
}

void runner_export_newest_checkpoint(struct runner *r)
{
	char *model = rundir_path(r->dir, MODEL), *checkpoints = rundir_path(r->dir, "checkpoints");
	struct ckpt_entry *list = NULL;
	size_t n = 0, at;

	if (ckpt_list(checkpoints, false, &list, &n, NULL) == ERR_OK) {
		for (at = n; at > 0 && !list[at - 1].whole; at--)
			;
		if (at > 0)
			run_export_process(r, list[at - 1].path, model);
	}
	if (r->unsaved[0])
		progress_say(&r->progress, "warning: the model is in a checkpoint alone: %s",
		    r->unsaved);
	r->unsaved[0] = 0;
	ckpt_list_free(list, n);
	free(checkpoints);
	free(model);
}

/* ---- the end of the processes ---- */

/* Wait until all processes have ended or `grace` is over.  With `servers` wait only for the
 * servers: once they have gone, nothing tells the others to stop any more.  False when a signal
 * came before all had ended. */
static bool await_ends(struct runner *r, int64_t grace, bool servers)
{
	int64_t end = clock_now() + grace;
	int seen = r->nsignals;

	while (launch_running(r->set) > 0 && clock_now() < end && r->nsignals == seen &&
	    !(servers && runner_count_alive(r, "server-") == 0))
		runner_wait_event(r, end);
	return r->nsignals == seen || launch_running(r->set) == 0;
}

/* Is the process stopped by SIGSTOP or by a debugger?  It would not handle SIGTERM. */
static bool is_frozen_process(pid_t pid)
{
	char path[40], *state = NULL;
	struct buf text = BUF_INIT;
	bool frozen;

	snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
	/* The state follows the program's name, which stands in parentheses and may contain any
	 * character. */
	if (file_read(path, 4096, &text, NULL) == ERR_OK && text.len > 0)
		state = strrchr((char *)text.data, ')');
	frozen = state && strlen(state) > 2 && (state[2] == 'T' || state[2] == 't');
	buf_release(&text);
	return frozen;
}

static bool has_frozen_child(const struct runner *r)
{
	for (size_t i = 0; i < launch_count(r->set); i++)
		if (launch_alive(r->set, i) && is_frozen_process(launch_pid(r->set, i)))
			return true;
	return false;
}

bool runner_take_checkpoint(struct runner *r)
{
	const char *words[] = { "ps-ctl", "-C", r->dir, "checkpoint", "--timeout", "10s", NULL };
	char *log = rundir_path(r->dir, "checkpoint.log");
	int seen = r->nsignals;
	struct err e = { 0 };
	bool saved = false;
	size_t child;

	/* A child process does it, so that a further signal is handled meanwhile. */
	if ((conf_trains(r->conf) || json_int(r->status, "tables", 0) > 0) && !r->crashed &&
	    runner_state_is(r, "running") && !has_frozen_child(r) &&
	    runner_spawn(r, "checkpoint", words, &child, &e) == ERR_OK) {
		int64_t end = clock_now() + SAVE_GRACE;
		struct launch_event how;

		while (launch_alive(r->set, child) && r->nsignals == seen && clock_now() < end)
			runner_wait_event(r, end);
		if (launch_alive(r->set, child)) {
			launch_signal(r->set, child, SIGKILL);
		} else {
			how = launch_status(r->set, child);
			saved = !how.signalled && how.status == 0;
			if (!saved && r->nsignals == seen) {
				describe_child_failure(log, &how, r->unmade_why);
				r->unmade++;
				progress_say(&r->progress,
				    "warning: there is no checkpoint of this moment: %s",
				    r->unmade_why);
			}
		}
	}
	unlink(log);
	free(log);
	return saved;
}

/* Name the live processes after `what`.  Kill those that are frozen or, with all, every one. */
static void name_remaining_processes(struct runner *r, const char *what, bool all)
{
	struct buf names = BUF_INIT;

	for (size_t i = 0; i < launch_count(r->set); i++) {
		bool frozen;

		if (!launch_alive(r->set, i))
			continue;
		frozen = is_frozen_process(launch_pid(r->set, i));
		buf_printf(&names, "%s%s%s", names.len ? ", " : "", launch_id(r->set, i),
		    frozen ? " (frozen)" : "");
		if (frozen || all)
			launch_signal(r->set, i, SIGKILL);
	}
	if (names.len)
		progress_say(&r->progress, "%s %s", what, (char *)names.data);
	buf_release(&names);
}

/* Upload the checkpoints that the store of checkpoint_to lacks, because the coordinator, which
 * uploads them during the run, has ended.  A signal ends the upload; sets r->unstored on
 * failure. */
static void upload_missing_checkpoints(struct runner *r)
{
	char *timeout = mem_printf("%lldms", (long long)(r->conf->deadline / NSEC_PER_MSEC)),
	     *at = conf_checkpoint_uri(r->conf);
	const char *words[] = { "ps-ctl", "-C", r->dir, "checkpoint", "push", "--timeout", timeout,
		NULL };
	char *log = rundir_path(r->dir, "store.log");
	int64_t tell_at = clock_now() + NSEC_PER_SEC;
	int seen = r->nsignals;
	struct launch_event how;
	struct err e = { 0 };
	size_t child;

	if (!at)
		goto out;
	if (runner_spawn(r, "store", words, &child, &e) != ERR_OK) {
		snprintf(r->unstored, sizeof r->unstored, "%.390s", e.msg);
		goto out;
	}
	while (launch_alive(r->set, child) && r->nsignals == seen) {
		runner_wait_event(r, tell_at);
		if (clock_now() < tell_at)
			continue;
		progress_say(&r->progress, "copying checkpoints to %s (a signal leaves the rest)",
		    at);
		tell_at = clock_now() + TELL_AGAIN;
	}
	if (launch_alive(r->set, child)) {
		snprintf(r->unstored, sizeof r->unstored, "interrupted");
		launch_stop_all(r->set, LEAVE_GRACE);
	} else {
		how = launch_status(r->set, child);
		if (how.signalled || how.status != 0)
			describe_child_failure(log, &how, r->unstored);
		else
			unlink(log);
	}
	if (r->unstored[0])
		progress_say(&r->progress, "warning: what %s lacks is in %s/checkpoints alone: %s",
		    at, r->dir, r->unstored);
out:
	free(timeout);
	free(at);
	free(log);
}

/* When the job is done, give the user's programs the deadline to finish on their own, for example
 * to store what they have learned. */
static void await_user_programs(struct runner *r)
{
	int64_t now = clock_now(), end = now + r->conf->deadline, say = now + LEAVE_GRACE;

	if (!conf_is_named(r->conf->job.command) || !runner_state_is(r, "done"))
		return;
	while (runner_count_alive(r, "worker-") > 0 && now < end && !r->nsignals && !r->asked) {
		runner_wait_event(r, say < end ? say : end);
		now = clock_now();
		if (now >= say && runner_count_alive(r, "worker-") > 0) {
			progress_say(&r->progress,
			    "the job is done, and %zu of its programs %s on, for %.0f s at most",
			    runner_count_alive(r, "worker-"),
			    runner_count_alive(r, "worker-") == 1 ? "goes" : "go",
			    (double)(end - now) / NSEC_PER_SEC);
			say = end;
		}
	}
}

void runner_end_processes(struct runner *r, const char *why)
{
	json_t *body = json_pack("{s:s}", "why", why);
	bool patient, told;

	runner_read_signals(r);
	await_user_programs(r);
	patient = r->nsignals < 2;
	r->stopping = true;
	progress_clear_line(&r->progress);
	told = patient && !r->crashed && runner_is_coordinator_alive(r) &&
	    http_call(r->client, "POST", "/v1/stop", body, RUNNER_ASK, NULL, NULL, NULL) == ERR_OK;
	json_decref(body);
	/* While the cluster forms, processes that have not joined do not get the coordinator's
	 * stop. */
	if (told && !runner_is_forming(r))
		patient = await_ends(r, LEAVE_GRACE, true) && await_ends(r, LEAVE_GRACE / 8, false);
	if (patient && launch_running(r->set) > 0) {
		launch_signal_all(r->set, SIGTERM);
		patient = await_ends(r, r->crashed ? CRASH_GRACE : LEAVE_GRACE / 4, false);
	}
	if (patient && launch_running(r->set) > 0) {
		name_remaining_processes(r, "waiting for", false);
		patient = await_ends(r, LEAVE_GRACE, false);
	}
	if (patient && launch_running(r->set) > 0)
		name_remaining_processes(r, "killing", true);
	launch_stop_all(r->set, 0);
	if (patient)
		upload_missing_checkpoints(r);
}
