/* SPDX-License-Identifier: ISC */
#include "supervisor.h"

#include <stdlib.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/json.h"
#include "core/log.h"
#include "ctl.h"
#include "rundir/result.h"
#include "rollback.h"
#include "rundir/rundir.h"
#include "supervisor/daemon.h"

/* Pause between attempts to write the result, for example while a disk is full. */
#define RETRY NSEC_PER_SEC

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

/* Write the result unless it is written or an attempt is not due yet.  The first failure is
 * reported. */
static void write_result_once(struct runner *r, struct outcome *o)
{
	struct err e = { 0 };

	if (o->written || clock_now() < o->next)
		return;
	o->written = result_write(r->dir, o->result, &e) == ERR_OK;
	if (!o->written && !o->next)
		progress_say(&r->progress, "warning: %s", e.msg);
	o->next = clock_now() + RETRY;
}

/* Take the result, export the model if asked to, write the result file and report the outcome. */
static void save_outcome(struct runner *r, bool with_model, struct outcome *o)
{
	struct buf text = BUF_INIT;

	o->result = runner_result(r);
	if (with_model)
		runner_export_model(r, o->result);
	write_result_once(r, o);
	result_sentence(o->result, &text);
	progress_say(&r->progress, "%s", (char *)text.data);
	buf_release(&text);
}

static bool is_forming_or_running(enum runner_state s)
{
	return s == RUNNER_FORMING || s == RUNNER_RUNNING;
}

/* Run until the job is over and save its outcome; then serve until the cluster is stopped. */
static enum runner_state stay_until_stopped(struct runner *r)
{
	struct outcome o = { 0 };
	enum runner_state state;

	do
		state = runner_wait_state(r);
	while (is_forming_or_running(state) || (state == RUNNER_FAILED && rollback(r)));
	r->saved = state == RUNNER_SIGNALLED && !r->asked && runner_take_checkpoint(r);
	if (r->saved || runner_was_stopped_remotely(r, state))
		runner_export_newest_checkpoint(r);
	save_outcome(r,
	    state == RUNNER_DONE || (state == RUNNER_FAILED && runner_has_all_partitions(r)), &o);
	while (!r->crashed && !r->asked && (state == RUNNER_DONE || state == RUNNER_FAILED)) {
		write_result_once(r, &o);
		state = runner_wait_state(r);
	}
	json_decref(o.result);
	return state;
}

/* Wait until the cluster is ready and report it to the caller.  False when it failed or was
 * stopped: then all processes have ended and the reason is reported. */
static bool wait_until_ready(struct runner *r, int ready)
{
	struct outcome o = { 0 };
	enum runner_state state;
	const char *reason;

	do
		state = runner_wait_state(r);
	while (state == RUNNER_FORMING && !runner_waits_for_others(r));
	if (is_forming_or_running(state) || state == RUNNER_DONE) {
		daemon_report(ready, "ready");
		return true;
	}
	/* The death of a process, if one was seen, explains more than the coordinator's reason. */
	reason = r->reason[0] ? r->reason : json_str(r->status, "reason", "");
	save_outcome(r, false, &o);
	json_decref(o.result);
	runner_end_processes(r, reason);
	send_failure(ready, r->code ? r->code : 1,
	    *reason ? reason : "stopped before it was ready");
	return false;
}

int supervise(struct runner *r, const struct conf *conf, const char *dir, int lock, int ready)
{
	struct log log;
	struct err e = { 0 };
	enum err_code rc;
	int code = 0;

	log_init(&log, "supervisor", STDERR_FILENO, LOG_LEVEL_INFO);
	rc = rundir_lock_owner(lock, &e);
	if (rc == ERR_OK)
		rc = runner_open(r, conf, dir, &log, &e);
	if (rc == ERR_OK)
		rc = runner_start(r, &e);
	if (rc != ERR_OK) {
		log_error(&log, "%s", e.msg);
		runner_close(r);
		send_failure(ready, err_exit_code(rc), e.msg);
		return err_exit_code(rc);
	}
	if (wait_until_ready(r, ready)) {
		enum runner_state state = stay_until_stopped(r);

		runner_end_processes(r,
		    state == RUNNER_SIGNALLED ? "the supervisor got a signal"
		        : r->asked            ? "ps-ctl stop"
		                              : "stopped");
		code = r->crashed || r->unstored[0] ? 1 : 0;
	} else {
		code = 1;
	}
	progress_say(&r->progress, "all processes have ended");
	runner_close(r);
	return code;
}
