#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "ctl.h"
#include "launch/launch.h"
#include "launch/rundir.h"
#include "parts.h"
#include "result.h"
#include "saved.h"

/* How a runner's cluster ends: its result, its model, and all its processes. */

#define EXPORT_MIN (60 * NSEC_PER_SEC)
/* A process may take so long to leave when it is told to, and again when it is
 * sent SIGTERM. */
#define LEAVE_GRACE (2 * NSEC_PER_SEC)
#define CRASH_GRACE NSEC_PER_SEC
/* A checkpoint after a signal. */
#define SAVE_GRACE (12 * NSEC_PER_SEC)
/* What takes long is told so often. */
#define TELL_AGAIN (10 * NSEC_PER_SEC)

/* Did it answer when it was asked last?  One that hangs would only cost time
 * in which signals are not seen. */
static bool is_answering(const struct runner *r)
{
	return r->answered + RUNNER_ASK > clock_now();
}

json_t *runner_result(struct runner *r)
{
	json_t *result = NULL, *whole;
	char why[64];

	if (!r->crashed && is_answering(r))
		http_call(r->client, "GET", "/v1/result", NULL, RUNNER_ASK, NULL, &result, NULL);
	if (!result)
		result = result_of_status(r->status, json_str(r->status, "state", "failed"),
		                          json_str(r->status, "reason", NULL));
	if (r->crashed) {
		result_set_state(result, "failed", r->reason);
	} else if (!result_is(result, "done") && !result_is(result, "failed")) {
		const char *said = json_str(result, "reason", "");

		if (r->first_signal)
			snprintf(why, sizeof why, "SIG%s", sigabbrev_np(r->first_signal));
		else
			snprintf(why, sizeof why, "%s", *said ? said : r->asked ? "ps-ctl stop" : "asked to stop");
		result_set_state(result, "stopped", why);
	}
	whole = result_whole(result);
	json_decref(result);
	return whole;
}

bool runner_is_whole(const struct runner *r)
{
	return !r->crashed && !r->broken_since && !json_flag(r->status, "data_lost");
}

/* ---- the model ----------------------------------------------------------------------- */

/* The last words of a child, or how it ended. */
static void child_failed(const char *log, const struct launch_event *ev, char out[static RUNNER_WHY])
{
	struct buf last = BUF_INIT;
	char how[64];

	launch_how(ev, how);
	launch_last_words(log, &last);
	snprintf(out, RUNNER_WHY, "%s", last.len > 0 ? (char *)last.data : how);
	buf_release(&last);
}

static void await_export(struct runner *r, size_t child, const char *log)
{
	int64_t limit = r->conf->deadline > EXPORT_MIN ? r->conf->deadline : EXPORT_MIN;
	int64_t end = clock_now() + limit;
	struct launch_event how;

	while (launch_alive(r->set, child) && r->nsignals == 0 && clock_now() < end)
		runner_pause(r, end);
	how = launch_status(r->set, child);
	if (launch_alive(r->set, child)) {
		launch_signal(r->set, child, SIGKILL);
		end = clock_now() + NSEC_PER_SEC;
		while (launch_alive(r->set, child) && clock_now() < end)
			runner_pause(r, end);
		file_remove_torn(r->dir, "model.safetensors");
		snprintf(r->unsaved, sizeof r->unsaved, "%s", r->nsignals > 0 ? "interrupted" : "it took too long");
	} else if (how.signalled || how.status != 0) {
		child_failed(log, &how, r->unsaved);
	}
}

/* Who takes such a model for a good one is to be warned. */
static void note_nonfinite(const char *model, json_t *result)
{
	int64_t n = saved_nonfinite(model);
	char *reason;

	if (n <= 0)
		return;
	reason = mem_printf("%s; model.safetensors has %lld value%s that %s not finite", json_str(result, "reason", ""),
	                    (long long)n, ctl_plural(n), n == 1 ? "is" : "are");
	result_set_state(result, "failed", reason);
	free(reason);
}

/* A process of its own does it, so that a signal still counts meanwhile. */
void runner_export(struct runner *r, json_t *result)
{
	const char *words[] = { "ps-ctl", "-C", r->dir, "export", "all", "-o", "safetensors", "--file", NULL, NULL };
	char *model = rundir_path(r->dir, "model.safetensors");
	char *log = rundir_path(r->dir, "export.log");
	struct err e = { 0 };
	size_t child;

	words[8] = model;
	/* A worker whose loss was not finite has put its last good one there. */
	if (access(model, F_OK) != 0) {
		if (runner_spawn(r, "export", words, &child, &e) == ERR_OK)
			await_export(r, child, log);
		else
			snprintf(r->unsaved, sizeof r->unsaved, "%.390s", e.msg);
		unlink(log);
	}
	if (r->unsaved[0])
		progress_say(&r->progress, "warning: the model is not saved: %s", r->unsaved);
	else if (result_is(result, "failed"))
		note_nonfinite(model, result);
	result_set_unsaved(result, r->unsaved);
	free(model);
	free(log);
}

/* ---- seeing the processes off -------------------------------------------------------- */

/* Until all have ended, or with `servers` until those have: the others will
 * not hear of the stop any more.  False when a signal wants it faster. */
static bool drain(struct runner *r, int64_t grace, bool servers)
{
	int64_t end = clock_now() + grace;
	int seen = r->nsignals;

	while (launch_running(r->set) > 0 && clock_now() < end && r->nsignals == seen &&
	       !(servers && runner_count(r, "server-") == 0))
		runner_pause(r, end);
	return r->nsignals == seen || launch_running(r->set) == 0;
}

/* Stopped by SIGSTOP, or by a debugger: it will not see SIGTERM. */
static bool is_frozen(pid_t pid)
{
	char path[40], *state = NULL;
	struct buf text = BUF_INIT;
	bool frozen;

	snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
	/* After the name, which may hold anything, in parentheses. */
	if (file_read(path, 4096, &text, NULL) == ERR_OK && text.len > 0)
		state = strrchr((char *)text.data, ')');
	frozen = state && strlen(state) > 2 && (state[2] == 'T' || state[2] == 't');
	buf_release(&text);
	return frozen;
}

static bool some_frozen(const struct runner *r)
{
	for (size_t i = 0; i < launch_count(r->set); i++)
		if (launch_alive(r->set, i) && is_frozen(launch_pid(r->set, i)))
			return true;
	return false;
}

bool runner_checkpoint(struct runner *r)
{
	const char *words[] = { "ps-ctl", "-C", r->dir, "checkpoint", "--timeout", "10s", NULL };
	char *log = rundir_path(r->dir, "checkpoint.log");
	int seen = r->nsignals;
	struct err e = { 0 };
	bool saved = false;
	size_t child;

	/* A process of its own does it, so that a further signal counts meanwhile. */
	if (conf_trains(r->conf) && !r->crashed && runner_state_is(r, "running") && !some_frozen(r) &&
	    runner_spawn(r, "checkpoint", words, &child, &e) == ERR_OK) {
		int64_t end = clock_now() + SAVE_GRACE;
		struct launch_event how;

		while (launch_alive(r->set, child) && r->nsignals == seen && clock_now() < end)
			runner_pause(r, end);
		if (launch_alive(r->set, child)) {
			launch_signal(r->set, child, SIGKILL);
		} else {
			how = launch_status(r->set, child);
			saved = !how.signalled && how.status == 0;
		}
	}
	unlink(log);
	free(log);
	return saved;
}

/* Say who is left, and kill those that cannot hear. */
static void name_the_rest(struct runner *r, const char *what, bool all)
{
	struct buf names = BUF_INIT;

	for (size_t i = 0; i < launch_count(r->set); i++) {
		bool frozen;

		if (!launch_alive(r->set, i))
			continue;
		frozen = is_frozen(launch_pid(r->set, i));
		buf_printf(&names, "%s%s%s", names.len ? ", " : "", launch_id(r->set, i),
		           frozen ? " (frozen)" : "");
		if (frozen || all)
			launch_signal(r->set, i, SIGKILL);
	}
	if (names.len)
		progress_say(&r->progress, "%s %s", what, (char *)names.data);
	buf_release(&names);
}

/* What checkpoint_to has not got yet: the coordinator's copying has ended with it. */
static void store_checkpoints(struct runner *r)
{
	char *timeout = mem_printf("%lldms", (long long)(r->conf->deadline / NSEC_PER_MSEC)), *at = conf_store(r->conf);
	const char *words[] = { "ps-ctl", "-C", r->dir, "checkpoint", "push", "--timeout", timeout, NULL };
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
		runner_pause(r, tell_at);
		if (clock_now() < tell_at)
			continue;
		progress_say(&r->progress, "copying checkpoints to %s (a signal leaves the rest)", at);
		tell_at = clock_now() + TELL_AGAIN;
	}
	if (launch_alive(r->set, child)) {
		snprintf(r->unstored, sizeof r->unstored, "interrupted");
		launch_stop_all(r->set, LEAVE_GRACE);
	} else {
		how = launch_status(r->set, child);
		if (how.signalled || how.status != 0)
			child_failed(log, &how, r->unstored);
		else
			unlink(log);
	}
	if (r->unstored[0])
		progress_say(&r->progress, "warning: what %s lacks is in %s/checkpoints alone: %s", at, r->dir, r->unstored);
out:
	free(timeout);
	free(at);
	free(log);
}

/* Programs of the user's may have more to do when the job is done: what they have learnt they may keep elsewhere. */
static void let_programs_end(struct runner *r)
{
	int64_t now = clock_now(), end = now + r->conf->deadline, say = now + LEAVE_GRACE;

	if (!conf_names(r->conf->job.command) || !runner_state_is(r, "done"))
		return;
	while (runner_count(r, "worker-") > 0 && now < end && !r->nsignals && !r->asked) {
		runner_pause(r, say < end ? say : end);
		now = clock_now();
		if (now >= say && runner_count(r, "worker-") > 0) {
			progress_say(&r->progress, "the job is done, and %zu of its programs go on, for %.0f s at most", runner_count(r, "worker-"),
			             (double)(end - now) / NSEC_PER_SEC);
			say = end;
		}
	}
}

void runner_stop(struct runner *r, const char *why)
{
	json_t *body = json_pack("{s:s}", "why", why);
	bool patient, told;

	runner_take_signals(r);
	let_programs_end(r);
	patient = r->nsignals < 2;
	r->stopping = true;
	progress_end(&r->progress);
	told = patient && !r->crashed && runner_has_coordinator(r) &&
	       http_call(r->client, "POST", "/v1/stop", body, RUNNER_ASK, NULL, NULL, NULL) == ERR_OK;
	json_decref(body);
	/* While it forms, not all are there to be told. */
	if (told && !runner_is_forming(r))
		patient = drain(r, LEAVE_GRACE, true) && drain(r, LEAVE_GRACE / 8, false);
	if (patient && launch_running(r->set) > 0) {
		launch_signal_all(r->set, SIGTERM);
		patient = drain(r, r->crashed ? CRASH_GRACE : LEAVE_GRACE / 4, false);
	}
	if (patient && launch_running(r->set) > 0) {
		name_the_rest(r, "waiting for", false);
		patient = drain(r, LEAVE_GRACE, false);
	}
	if (patient && launch_running(r->set) > 0)
		name_the_rest(r, "killing", true);
	launch_stop_all(r->set, 0);
	if (patient)
		store_checkpoints(r);
}
