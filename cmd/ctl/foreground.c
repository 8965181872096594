/* SPDX-License-Identifier: ISC */
#include "foreground.h"

#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "core/json.h"
#include "ctl.h"
#include "meeting.h"
#include "rundir/result.h"
#include "rollback.h"

/* Wait until the run is over, and save its model and result.  Returns the result, a new
 * reference. */
static json_t *watch_run(struct runner *r, enum runner_state *state)
{
	json_t *result;
	struct err e = { 0 };

	do
		*state = runner_wait_state(r);
	while (*state == RUNNER_FORMING || *state == RUNNER_RUNNING ||
	    (*state == RUNNER_FAILED && rollback(r)));
	progress_clear_line(&r->progress);
	r->saved = *state == RUNNER_SIGNALLED && !r->asked && runner_take_checkpoint(r);
	if (r->saved || runner_was_stopped_remotely(r, *state))
		runner_export_newest_checkpoint(r);
	result = runner_result(r);
	if (*state == RUNNER_DONE || (*state == RUNNER_FAILED && runner_has_all_partitions(r)))
		runner_export_model(r, result);
	if (r->nsignals > 0 && result_has_state(result, "stopped"))
		*state = RUNNER_SIGNALLED;
	if (result_write(r->dir, result, &e) != ERR_OK)
		progress_say(&r->progress, "warning: %s", e.msg);
	return result;
}

static int choose_exit_code(const struct runner *r, enum runner_state state)
{
	switch (state) {
	case RUNNER_DONE:
		return r->unsaved[0] || r->unstored[0] ? 1 : 0;
	case RUNNER_SIGNALLED:
		/* 75 tells that a checkpoint was saved, from which --resume auto continues. */
		return r->saved ? 75 : 128 + r->first_signal;
	case RUNNER_STOPPED:
		/* A cluster without a job has nothing that a stop could leave unfinished. */
		return conf_trains(r->conf) ? 1 : 0;
	default:
		return r->code ? r->code : 1;
	}
}

static const char *name_end(enum runner_state state)
{
	return state == RUNNER_DONE     ? "done"
	    : state == RUNNER_FAILED    ? "failed"
	    : state == RUNNER_SIGNALLED ? "stopped by a signal"
	                                : "stopped";
}

int foreground(struct runner *r, const struct conf *conf, const char *dir, bool json)
{
	enum runner_state state = RUNNER_FAILED;
	struct err e = { 0 };
	json_t *result = NULL;
	enum err_code rc = runner_open(r, conf, dir, NULL, &e);
	int code;

	if (rc == ERR_OK)
		rc = runner_start(r, &e);
	if (rc == ERR_OK) {
		if (!conf_trains(conf))
			progress_say(&r->progress,
			    "no job: the servers run until a signal (run directory %s)", dir);
		result = watch_run(r, &state);
		runner_end_processes(r, name_end(state));
	}
	code = rc == ERR_OK ? choose_exit_code(r, state) : ctl_fail(&e);
	if (r->meeting)
		meeting_close(r,
		    rc == ERR_OK ? json_str(result, "reason", json_str(result, "state", ""))
		                 : e.msg);
	runner_close(r);
	/* On a terminal the result line has the reason. */
	if (result_has_state(result, "failed") && (json || !isatty(STDOUT_FILENO)))
		fprintf(stderr, "ps-ctl: %s\n", json_str(result, "reason", "failed"));
	/* Print the result last: whoever reads it may rely on all processes having ended. */
	if (result)
		result_print(result, json);
	json_decref(result);
	return code;
}
