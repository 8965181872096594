#include "supervisor.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "ctl.h"
#include "launch/daemon.h"
#include "launch/rundir.h"
#include "result.h"
#include "rollback.h"

/* A disk that is full may have room later on. */
#define RETRY NSEC_PER_SEC

struct outcome {
	json_t *result;
	bool written;
	int64_t next;                   /* when to try again to write it */
};

static void report_failure(int ready, int code, const char *reason)
{
	json_t *o = json_pack("{s:i, s:s}", "code", code, "reason", reason);
	char *text = json_text(o);

	daemon_ready(ready, text);
	free(text);
	json_decref(o);
}

/* Try to write it, unless that has been done; say why not, once. */
static void write_result(struct runner *r, struct outcome *o)
{
	struct err e = { 0 };

	if (o->written || clock_now() < o->next)
		return;
	o->written = result_write(r->dir, o->result, &e) == ERR_OK;
	if (!o->written && !o->next)
		progress_say(&r->progress, "warning: %s", e.msg);
	o->next = clock_now() + RETRY;
}

static void save(struct runner *r, bool with_model, struct outcome *o)
{
	struct buf text = BUF_INIT;

	o->result = runner_result(r);
	if (with_model)
		runner_export(r, o->result);
	write_result(r, o);
	result_sentence(o->result, &text);
	progress_say(&r->progress, "%s", (char *)text.data);
	buf_release(&text);
}

static bool is_up(enum runner_state s)
{
	return s == RUNNER_FORMING || s == RUNNER_RUNNING;
}

/* Until the job is over, then until the cluster is stopped. */
static enum runner_state stay(struct runner *r)
{
	struct outcome o = { 0 };
	enum runner_state state;

	do
		state = runner_turn(r);
	while (is_up(state) || (state == RUNNER_FAILED && rollback(r)));
	save(r, state == RUNNER_DONE || (state == RUNNER_FAILED && runner_is_whole(r)), &o);
	while (!r->crashed && !r->asked && (state == RUNNER_DONE || state == RUNNER_FAILED)) {
		write_result(r, &o);
		state = runner_turn(r);
	}
	json_decref(o.result);
	return state;
}

/* Until the cluster is ready: true, and the caller knows. */
static bool become_ready(struct runner *r, int ready)
{
	struct outcome o = { 0 };
	enum runner_state state;
	const char *reason;

	do
		state = runner_turn(r);
	while (state == RUNNER_FORMING && !runner_waits_for_others(r));
	if (is_up(state) || state == RUNNER_DONE) {
		daemon_ready(ready, "ready");
		return true;
	}
	/* What the coordinator says, unless this side knows of a death. */
	reason = r->reason[0] ? r->reason : json_str(r->status, "reason", "");
	save(r, false, &o);
	json_decref(o.result);
	runner_stop(r, reason);
	report_failure(ready, r->code ? r->code : 1, *reason ? reason : "stopped before it was ready");
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
		report_failure(ready, err_exit_code(rc), e.msg);
		return err_exit_code(rc);
	}
	if (become_ready(r, ready)) {
		enum runner_state state = stay(r);

		runner_stop(r, state == RUNNER_SIGNALLED ? "the supervisor got a signal" : "stopped");
		code = r->crashed || r->unstored[0] ? 1 : 0;
	} else {
		code = 1;
	}
	progress_say(&r->progress, "all processes have ended");
	runner_close(r);
	return code;
}
