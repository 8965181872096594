/* SPDX-License-Identifier: ISC */
#include "supervisor/run_end.h"

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
#include "format/safetensors.h"
#include "msg/run_result.h"
#include "rundir/best_checkpoint.h"
#include "rundir/result.h"
#include "rundir/rundir.h"
#include "supervisor/members.h"

#define MODEL "model.safetensors"
/* An export may take this long, or the deadline if that is longer. */
#define EXPORT_MIN    (60 * NSEC_PER_SEC)
#define RESTART_PAUSE (50 * NSEC_PER_MSEC)
/* How long processes may take to leave after the coordinator has asked them to. Parts of it bound
 * the later waits of run_end_processes. */
#define LEAVE_GRACE (2 * NSEC_PER_SEC)
#define CRASH_GRACE NSEC_PER_SEC
/* How long the checkpoint after a signal may take. */
#define SAVE_GRACE (12 * NSEC_PER_SEC)
/* How often a long upload is reported. */
#define TELL_AGAIN (10 * NSEC_PER_SEC)

/* Has the coordinator answered within the last second? A request to one that hangs would only
 * cost time in which signals are not handled. */
static bool has_answered_lately(const struct supervisor *s)
{
	return s->policy.answered + SUPERVISOR_ASK > clock_now();
}

/* Adds the damaged checkpoints that were passed over: "step-000000000020: the reason; ...". */
static void set_passed_over(const struct supervisor *s, json_t *result)
{
	struct buf text = BUF_INIT;
	const char *path;
	json_t *why;

	json_object_foreach(s->damaged, path, why)
		buf_printf(&text, "%s%s: %s", text.len ? "; " : "", path_basename(path),
		    json_string_value(why));
	if (text.len)
		run_result_set_passed_over(result, (char *)text.data);
	buf_release(&text);
}

json_t *run_end_result(struct supervisor *s)
{
	json_t *result = NULL, *whole;
	char why[200], said[200];

	if (!s->policy.failed && has_answered_lately(s))
		http_call(s->client, "GET", "/v1/result", NULL, SUPERVISOR_ASK, NULL, &result,
		    NULL);
	if (!result)
		result = run_result_of_status(cluster_status_document(s->status),
		    s->status ? words_text(words_phase, s->status->state)
		        : s->policy.stopping || s->policy.first_signal ? "stopped"
		                                                       : "failed",
		    s->status ? err_cause_by_name(s->status->cause) : CAUSE_UNKNOWN,
		    s->status ? s->status->reason : NULL);
	if (s->policy.failed) {
		run_result_set_state(result, "failed", s->cause, s->reason);
	} else if (!result_has_state(result, PHASE_DONE) &&
	    !result_has_state(result, PHASE_FAILED)) {
		struct run_result told;

		run_result_decode(result, &told);
		if (s->policy.first_signal) {
			snprintf(why, sizeof why, "SIG%s", sigabbrev_np(s->policy.first_signal));
		} else {
			members_read_stop_reason(s->dir, said, sizeof said);
			snprintf(why, sizeof why, "%s",
			    *told.reason             ? told.reason
			        : s->policy.stopping ? "ps-ctl stop"
			        : *said              ? said
			                             : "asked to stop");
		}
		run_result_set_state(result, "stopped", CAUSE_UNKNOWN, why);
	}
	run_result_set_failed_checkpoints(result, s->failed_checkpoints, s->checkpoint_error);
	set_passed_over(s, result);
	whole = result_with_header(result);
	json_decref(result);
	return whole;
}

bool run_end_has_all_partitions(const struct supervisor *s)
{
	return !s->policy.failed && !s->policy.lost_since && !s->policy.data_lost;
}

/* ---- the model ---- */

/* Write the last line of a child's log to out or, without one, how it ended. Returns the cause. */
static enum err_cause describe_child_failure(const char *log, const struct launch_event *ev,
    char out[static SUPERVISOR_REASON])
{
	struct buf last = BUF_INIT;
	enum err_cause cause;
	char how[64];

	launch_how(ev, how);
	cause = launch_last_words(log, &last);
	snprintf(out, SUPERVISOR_REASON, "%s", last.len > 0 ? (char *)last.data : how);
	buf_release(&last);
	return cause;
}

/* Wait for the export to end, and set s->unsaved when it fails. A signal or the limit ends the
 * wait; then the process is killed and its partial file removed. */
static void await_export_process(struct supervisor *s, size_t child, const char *log)
{
	int64_t limit = s->conf->deadline > EXPORT_MIN ? s->conf->deadline : EXPORT_MIN;
	int64_t end = clock_now() + limit;
	unsigned seen = s->policy.signals;
	struct launch_event how;

	while (launch_alive(s->set, child) && s->policy.signals == seen && clock_now() < end) {
		/* Restart a coordinator that is killed meanwhile: the export waits for it. */
		supervisor_start_due(s);
		supervisor_wait_event(s,
		    policy_restart_is_pending(&s->policy) ? clock_now() + RESTART_PAUSE : end);
	}
	how = launch_status(s->set, child);
	if (launch_alive(s->set, child)) {
		launch_signal(s->set, child, SIGKILL);
		end = clock_now() + NSEC_PER_SEC;
		while (launch_alive(s->set, child) && clock_now() < end)
			supervisor_wait_event(s, end);
		file_remove_torn(s->dir, MODEL);
		snprintf(s->unsaved, sizeof s->unsaved, "%s",
		    s->policy.signals > seen ? "interrupted"
		                             : "it took longer than its time "
		                               "limit");
	} else if (how.signalled || how.status != 0) {
		s->unsaved_cause = describe_child_failure(log, &how, s->unsaved);
	}
}

/* Say in the result of a failed job when the saved model has values that are not finite. */
static void note_nonfinite_model(const char *model, json_t *result)
{
	int64_t n = safetensors_count_nonfinite(model);
	struct run_result told;
	char *reason;

	if (n <= 0)
		return;
	run_result_decode(result, &told);
	reason = mem_printf("%s; model.safetensors has %lld value%s that %s not finite",
	    told.reason, (long long)n, NUM_S(n), n == 1 ? "is" : "are");
	run_result_set_state(result, "failed",
	    *told.cause ? err_cause_by_name(told.cause) : CAUSE_LOSS, reason);
	free(reason);
}

/* Export the model of `from`, a run directory or a checkpoint, to RUN/model.safetensors. A child
 * process does it, so that signals are still handled meanwhile. */
static void run_export_process(struct supervisor *s, const char *from, const char *model)
{
	const char *words[] = { "ps-ctl", "-C", from, "export", "all", "-o", "safetensors",
		"--file", model, NULL };
	char *log = rundir_path(s->dir, "export.log");
	struct err e = { 0 };
	size_t child;

	if (members_start_tool(s, "export", words, &child, &e) == ERR_OK) {
		await_export_process(s, child, log);
	} else {
		snprintf(s->unsaved, sizeof s->unsaved, "%.390s", e.msg);
		s->unsaved_cause = e.cause;
	}
	unlink(log);
	free(log);
}

/* Returns the checkpoint that has the model to save, a fresh string; NULL: the servers have it. */
static char *find_best_checkpoint(struct supervisor *s, const json_t *result)
{
	int64_t missing;
	char *path = best_checkpoint_find(s->dir, result, &missing);

	if (missing >= 0)
		progress_say(&s->progress,
		    "warning: there is no checkpoint of the best step, %lld; the model of "
		    "%s is saved",
		    (long long)missing, path ? "an earlier one" : "the last step");
	return path;
}

void run_end_export_model(struct supervisor *s, json_t *result)
{
	char *model = rundir_path(s->dir, MODEL), *best;

	/* A worker whose loss became infinite or NaN has already written its last good model
	 * there; the best one is better. */
	best = find_best_checkpoint(s, result);
	if (best || access(model, F_OK) != 0)
		run_export_process(s, best ? best : s->dir, model);
	free(best);
	if (s->unsaved[0])
		progress_say(&s->progress, "warning: the model is not saved: %s", s->unsaved);
	else if (result_has_state(result, PHASE_FAILED))
		note_nonfinite_model(model, result);
	run_result_set_unsaved(result, s->unsaved_cause, s->unsaved);
	free(model);
}

void run_end_export_newest_checkpoint(struct supervisor *s)
{
	char *model = rundir_path(s->dir, MODEL), *checkpoints = rundir_path(s->dir, "checkpoints");
	struct ckpt_entry *list = NULL;
	size_t n = 0, at;

	if (ckpt_list(checkpoints, false, &list, &n, NULL) == ERR_OK) {
		for (at = n; at > 0 && !list[at - 1].whole; at--)
			;
		if (at > 0)
			run_export_process(s, list[at - 1].path, model);
	}
	if (s->unsaved[0])
		progress_say(&s->progress, "warning: the model is only in a checkpoint: %s",
		    s->unsaved);
	s->unsaved[0] = 0;
	ckpt_list_free(list, n);
	free(checkpoints);
	free(model);
}

/* ---- the end of the processes ---- */

/* Wait until all processes have ended or `grace` is over. With `servers` wait only for the
 * servers: without them no process asks the others to stop. False when a signal came before all
 * had ended. */
static bool await_ends(struct supervisor *s, int64_t grace, bool servers)
{
	int64_t end = clock_now() + grace;
	unsigned seen = s->policy.signals;

	while (launch_running(s->set) > 0 && clock_now() < end && s->policy.signals == seen &&
	    !(servers && policy_count_alive(&s->policy, POLICY_SERVER) == 0))
		supervisor_wait_event(s, end);
	return s->policy.signals == seen || launch_running(s->set) == 0;
}

/* Is the process stopped by SIGSTOP or by a debugger? It would not handle SIGTERM. */
static bool is_frozen_process(pid_t pid)
{
	char path[40], *state = NULL;
	struct buf text = BUF_INIT;
	bool frozen;

	snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
	/* The state follows the program's name, which is in parentheses and may contain any
	 * character. */
	if (file_read(path, 4096, &text, NULL) == ERR_OK && text.len > 0)
		state = strrchr((char *)text.data, ')');
	frozen = state && strlen(state) > 2 && (state[2] == 'T' || state[2] == 't');
	buf_release(&text);
	return frozen;
}

static bool has_frozen_child(const struct supervisor *s)
{
	for (size_t i = 0; i < launch_count(s->set); i++)
		if (launch_alive(s->set, i) && is_frozen_process(launch_pid(s->set, i)))
			return true;
	return false;
}

/* Takes a checkpoint, if the job runs, and ends the job at its step. */
static bool take_checkpoint(struct supervisor *s)
{
	const char *words[] = { "ps-ctl", "-C", s->dir, "checkpoint", "--stop", "--timeout", "10s",
		NULL };
	unsigned seen = s->policy.signals;
	struct err e = { 0 };
	bool saved = false;
	size_t child;
	char *log;

	if (has_frozen_child(s))
		return false;
	/* The job may have begun to run since the last poll. */
	supervisor_poll_status(s);
	log = rundir_path(s->dir, "checkpoint.log");
	/* A child process does it, so that a further signal is handled meanwhile. */
	if ((conf_trains(s->conf) || (s->status && s->status->tables > 0)) &&
	    s->policy.job == POLICY_JOB_RUNNING &&
	    members_start_tool(s, "checkpoint", words, &child, &e) == ERR_OK) {
		int64_t end = clock_now() + SAVE_GRACE;
		struct launch_event how;

		while (
		    launch_alive(s->set, child) && s->policy.signals == seen && clock_now() < end)
			supervisor_wait_event(s, end);
		if (launch_alive(s->set, child)) {
			launch_signal(s->set, child, SIGKILL);
		} else {
			how = launch_status(s->set, child);
			saved = !how.signalled && how.status == 0;
			if (!saved && s->policy.signals == seen) {
				describe_child_failure(log, &how, s->checkpoint_error);
				s->failed_checkpoints++;
				progress_say(&s->progress,
				    "warning: cannot take the last checkpoint: %s",
				    s->checkpoint_error);
			}
		}
	}
	unlink(log);
	free(log);
	/* The last answer may be of long before, and the result is to be that of the end. */
	if (saved)
		supervisor_poll_status(s);
	return saved;
}

bool run_end_take_checkpoint(struct supervisor *s)
{
	return !s->policy.failed && take_checkpoint(s);
}

/* Say how the user continues the run. */
static void say_how_to_continue(struct supervisor *s)
{
	char *checkpoints = rundir_path(s->dir, "checkpoints"), *newest = NULL;

	if (ckpt_newest_by_manifest(checkpoints, NULL, NULL, NULL, &newest, NULL) == ERR_OK)
		progress_say(&s->progress,
		    "the run is given up; to continue it from %s, start it as before with "
		    "--resume auto",
		    path_basename(newest));
	free(newest);
	free(checkpoints);
}

void run_end_save_given_up(struct supervisor *s)
{
	if (!policy_gave_up_coordinator(&s->policy))
		return;
	progress_say(&s->progress,
	    "%s, and has used up its restarts (--max-restarts %lld): saving what the servers have",
	    s->reason, (long long)s->policy.max_restarts);
	if (supervisor_revive_coordinator(s, SAVE_GRACE) && take_checkpoint(s))
		run_end_export_newest_checkpoint(s);
	else
		progress_say(&s->progress, "warning: no checkpoint could be taken");
	say_how_to_continue(s);
}

/* Name the live processes after `what`. Kill those that are frozen or, with all, every one. */
static void name_remaining_processes(struct supervisor *s, const char *what, bool all)
{
	struct buf names = BUF_INIT;

	for (size_t i = 0; i < launch_count(s->set); i++) {
		bool frozen;

		if (!launch_alive(s->set, i))
			continue;
		frozen = is_frozen_process(launch_pid(s->set, i));
		buf_printf(&names, "%s%s%s", names.len ? ", " : "", launch_id(s->set, i),
		    frozen ? " (frozen)" : "");
		if (frozen || all)
			launch_signal(s->set, i, SIGKILL);
	}
	if (names.len)
		progress_say(&s->progress, "%s %s", what, (char *)names.data);
	buf_release(&names);
}

/* Upload the checkpoints that the store of checkpoint_to lacks, because the coordinator, which
 * uploads them during the run, has ended. A signal ends the upload; sets s->unstored on
 * failure. */
static void upload_missing_checkpoints(struct supervisor *s)
{
	char *timeout = mem_printf("%lldms", (long long)(s->conf->deadline / NSEC_PER_MSEC)),
	     *at = conf_checkpoint_uri(s->conf);
	const char *words[] = { "ps-ctl", "-C", s->dir, "checkpoint", "push", "--timeout", timeout,
		NULL };
	char *log = rundir_path(s->dir, "store.log");
	int64_t tell_at = clock_now() + NSEC_PER_SEC;
	unsigned seen = s->policy.signals;
	struct launch_event how;
	struct err e = { 0 };
	size_t child;

	if (!at)
		goto out;
	if (members_start_tool(s, "store", words, &child, &e) != ERR_OK) {
		snprintf(s->unstored, sizeof s->unstored, "%.390s", e.msg);
		goto out;
	}
	while (launch_alive(s->set, child) && s->policy.signals == seen) {
		supervisor_wait_event(s, tell_at);
		if (clock_now() < tell_at)
			continue;
		progress_say(&s->progress, "copying checkpoints to %s (a signal ends this)", at);
		tell_at = clock_now() + TELL_AGAIN;
	}
	if (launch_alive(s->set, child)) {
		snprintf(s->unstored, sizeof s->unstored, "interrupted");
		launch_stop_all(s->set, LEAVE_GRACE);
	} else {
		how = launch_status(s->set, child);
		if (how.signalled || how.status != 0)
			describe_child_failure(log, &how, s->unstored);
		else
			unlink(log);
	}
	if (s->unstored[0])
		progress_say(&s->progress,
		    "warning: not all checkpoints were copied to %s; the others are in "
		    "%s/checkpoints: %s",
		    at, s->dir, s->unstored);
out:
	free(timeout);
	free(at);
	free(log);
}

/* When the job is done, the user's programs have until the deadline to finish by themselves, for
 * example to store their results. */
static void await_user_programs(struct supervisor *s)
{
	int64_t now = clock_now(), end = now + s->conf->deadline, say = now + LEAVE_GRACE;

	if (!conf_is_named(s->conf->job.command) || s->policy.job != POLICY_JOB_DONE)
		return;
	while (policy_count_alive(&s->policy, POLICY_WORKER) > 0 && now < end &&
	    !s->policy.signals && !s->policy.stopping) {
		supervisor_wait_event(s, say < end ? say : end);
		now = clock_now();
		if (now >= say && policy_count_alive(&s->policy, POLICY_WORKER) > 0) {
			progress_say(&s->progress,
			    "the job is done, but %zu of its programs %s on; they are stopped "
			    "after %.0f s",
			    policy_count_alive(&s->policy, POLICY_WORKER),
			    policy_count_alive(&s->policy, POLICY_WORKER) == 1 ? "goes" : "go",
			    (double)(end - now) / NSEC_PER_SEC);
			say = end;
		}
	}
}

void run_end_processes(struct supervisor *s, const char *why)
{
	json_t *body = json_pack("{s:s}", "why", why);
	bool waits_for_workers, reported_result;

	supervisor_read_signals(s);
	await_user_programs(s);
	waits_for_workers = s->policy.signals < 2;
	supervisor_expect_ends(s);
	progress_clear_line(&s->progress);
	reported_result = waits_for_workers && !s->policy.failed &&
	    supervisor_is_coordinator_alive(s) &&
	    http_call(s->client, "POST", "/v1/stop", body, SUPERVISOR_ASK, NULL, NULL, NULL) ==
	        ERR_OK;
	json_decref(body);
	/* While the cluster forms, processes that have not joined do not get the coordinator's
	 * stop. */
	if (reported_result && s->policy.job != POLICY_JOB_FORMING)
		waits_for_workers = await_ends(s, LEAVE_GRACE, true) &&
		    await_ends(s, LEAVE_GRACE / 8, false);
	if (waits_for_workers && launch_running(s->set) > 0) {
		launch_signal_all(s->set, SIGTERM);
		waits_for_workers = await_ends(s, s->policy.failed ? CRASH_GRACE : LEAVE_GRACE / 4,
		    false);
	}
	if (waits_for_workers && launch_running(s->set) > 0) {
		name_remaining_processes(s, "waiting for", false);
		waits_for_workers = await_ends(s, LEAVE_GRACE, false);
	}
	if (waits_for_workers && launch_running(s->set) > 0)
		name_remaining_processes(s, "killing", true);
	launch_stop_all(s->set, 0);
	if (waits_for_workers)
		upload_missing_checkpoints(s);
}
