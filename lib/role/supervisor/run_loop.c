/* SPDX-License-Identifier: ISC */
#include "supervisor/run_loop.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/json.h"
#include "core/log.h"
#include "msg/run_result.h"
#include "rundir/result.h"
#include "supervisor/daemon.h"
#include "supervisor/rendezvous.h"
#include "supervisor/run_end.h"

/* Pause between attempts to write the result, for example while a disk is full. */
#define RETRY NSEC_PER_SEC

static bool is_forming_or_running(enum policy_state state)
{
	return state == POLICY_FORMING || state == POLICY_RUNNING;
}

/* Wait until the job is over, rolling back where possible, and save what a signal or a stop leaves
 * of it. */
static enum policy_state wait_for_end(struct supervisor *s)
{
	enum policy_state state;

	do
		state = supervisor_wait_state(s);
	while (is_forming_or_running(state) || (state == POLICY_FAILED && supervisor_roll_back(s)));
	progress_clear_line(&s->progress);
	if (state == POLICY_FAILED)
		run_end_save_given_up(s);
	s->saved = state == POLICY_SIGNALLED && !s->policy.stopping && run_end_take_checkpoint(s);
	if (s->saved || supervisor_was_stopped_remotely(s, state))
		run_end_export_newest_checkpoint(s);
	return state;
}

/* Take the result and, of a job that has ended by itself, export the model. */
static json_t *take_result(struct supervisor *s, enum policy_state state)
{
	json_t *result = run_end_result(s);

	if (state == POLICY_DONE || (state == POLICY_FAILED && run_end_has_all_partitions(s)))
		run_end_export_model(s, result);
	return result;
}

/* Tell the tools that read the model to read the saved one from now on. If this fails, as after the
 * removal of the directory, they ask servers that end meanwhile, and report that. */
static void announce_end(const struct supervisor *s)
{
	rundir_write_ending(s->dir, NULL);
}

/* ---- in the foreground ---- */

static const char *name_end(enum policy_state state)
{
	return state == POLICY_DONE     ? "done"
	    : state == POLICY_FAILED    ? "failed"
	    : state == POLICY_SIGNALLED ? "stopped by a signal"
	                                : "stopped";
}

/* Run from the start to the end of all processes. Returns the result, a new reference. */
static json_t *run_to_end(struct supervisor *s, enum policy_state *state)
{
	struct err e = { 0 };
	json_t *result;

	if (!s->policy.trains)
		progress_say(&s->progress,
		    "there is no job: the servers run until a signal (run directory %s)", s->dir);
	*state = wait_for_end(s);
	result = take_result(s, *state);
	if (s->policy.signals > 0 && result_has_state(result, PHASE_STOPPED))
		*state = POLICY_SIGNALLED;
	announce_end(s);
	if (result_write(s->dir, result, &e) != ERR_OK)
		progress_say(&s->progress, "warning: %s", e.msg);
	run_end_processes(s, name_end(*state));
	return result;
}

enum err_code run_loop_foreground(struct supervisor *s, const struct conf *conf, const char *dir,
    bool json, int *code, struct err *e)
{
	enum policy_state state = POLICY_FAILED;
	json_t *result = NULL;
	struct run_result told;
	enum err_code rc = supervisor_open(s, conf, dir, NULL, e);

	if (rc == ERR_OK)
		rc = supervisor_start(s, e);
	if (rc == ERR_OK) {
		result = run_to_end(s, &state);
		*code = policy_exit_code(&s->policy, state, s->saved,
		    !s->unsaved[0] && !s->unstored[0]);
	}
	run_result_decode(result, &told);
	progress_tell_data(&s->progress);
	if (s->rendezvous)
		rendezvous_close(s->rendezvous,
		    rc != ERR_OK       ? e->msg
		        : *told.reason ? told.reason
		                       : words_text(words_phase, told.state));
	supervisor_close(s);
	/* On a terminal the result line has the reason. */
	if (told.state == PHASE_FAILED && (json || !isatty(STDOUT_FILENO)))
		fprintf(stderr, "ps-ctl: %s\n", *told.reason ? told.reason : "failed");
	/* Print the result last, because its reader may rely on all processes having ended. */
	if (result)
		result_print(result, json);
	json_decref(result);
	return rc;
}

/* ---- in the background ---- */

/* The result, and whether it is in RUN/result.json. */
struct outcome {
	json_t *result;
	bool written;
	int64_t next; /* when to try to write it again */
};

/* Report a failure on the pipe to ps-ctl start. */
static void send_failure(int ready, int code, const char *reason)
{
	json_t *o = json_pack("{s:i, s:s}", "code", code, "reason", reason);
	char *text = json_text(o);

	daemon_report(ready, text);
	free(text);
	json_decref(o);
}

/* Write the result unless it is written or an attempt is not due yet. The first failure is
 * reported. */
static void write_result_once(struct supervisor *s, struct outcome *o)
{
	struct err e = { 0 };

	if (o->written || clock_now() < o->next)
		return;
	o->written = result_write(s->dir, o->result, &e) == ERR_OK;
	if (!o->written && !o->next)
		progress_say(&s->progress, "warning: %s", e.msg);
	o->next = clock_now() + RETRY;
}

/* Write the result file and report the outcome in the log. */
static void save_outcome(struct supervisor *s, struct outcome *o)
{
	struct buf text = BUF_INIT;

	write_result_once(s, o);
	result_sentence(o->result, &text);
	progress_say(&s->progress, "%s", (char *)text.data);
	buf_release(&text);
}

/* In the background, the servers stay after the job is over, until the cluster is stopped. */
static bool serves_on(const struct supervisor *s, enum policy_state state)
{
	return !s->policy.failed && !s->policy.stopping &&
	    (state == POLICY_DONE || state == POLICY_FAILED);
}

/* Run until the job is over and save its outcome; then serve until the cluster is stopped. */
static enum policy_state stay_until_stopped(struct supervisor *s)
{
	enum policy_state state = wait_for_end(s);
	struct outcome o = { .result = take_result(s, state) };

	if (!serves_on(s, state))
		announce_end(s);
	save_outcome(s, &o);
	while (serves_on(s, state)) {
		write_result_once(s, &o);
		state = supervisor_wait_state(s);
	}
	announce_end(s);
	json_decref(o.result);
	return state;
}

/* Wait until the cluster is ready and report it to the caller. False when it failed or was
 * stopped: then all processes have ended and the reason is reported. */
static bool wait_until_ready(struct supervisor *s, int ready)
{
	struct outcome o = { 0 };
	enum policy_state state;
	const char *reason;

	do
		state = supervisor_wait_state(s);
	while (state == POLICY_FORMING && !supervisor_waits_for_others(s));
	if (is_forming_or_running(state) || state == POLICY_DONE) {
		daemon_report(ready, "ready");
		return true;
	}
	/* The death of a process, if one was seen, explains more than the coordinator's reason. */
	reason = s->reason[0] ? s->reason : s->status ? s->status->reason : "";
	o.result = run_end_result(s);
	announce_end(s);
	save_outcome(s, &o);
	json_decref(o.result);
	run_end_processes(s, reason);
	send_failure(ready, s->policy.code ? s->policy.code : 1,
	    *reason ? reason : "stopped before it was ready");
	return false;
}

int run_loop_background(struct supervisor *s, const struct conf *conf, const char *dir, int lock,
    int ready)
{
	struct log log;
	struct err e = { 0 };
	enum err_code rc;
	int code = 1;

	log_init(&log, "supervisor", STDERR_FILENO, LOG_LEVEL_INFO);
	rc = rundir_lock_owner(lock, &e);
	if (rc == ERR_OK)
		rc = supervisor_open(s, conf, dir, &log, &e);
	if (rc == ERR_OK)
		rc = supervisor_start(s, &e);
	if (rc != ERR_OK) {
		log_err(&log, &e);
		supervisor_close(s);
		send_failure(ready, err_exit_code(rc), e.msg);
		return err_exit_code(rc);
	}
	if (wait_until_ready(s, ready)) {
		enum policy_state state = stay_until_stopped(s);

		run_end_processes(s,
		    state == POLICY_SIGNALLED ? "the supervisor got a signal"
		        : s->policy.stopping  ? "ps-ctl stop"
		                              : "stopped");
		code = s->policy.failed || s->unstored[0] ? 1 : 0;
	}
	progress_say(&s->progress, "all processes have ended");
	supervisor_close(s);
	return code;
}
