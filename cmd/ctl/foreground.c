#include "foreground.h"

#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "base/json.h"
#include "ctl.h"
#include "meeting.h"
#include "result.h"
#include "rollback.h"

/* Watch until it is over, and save what has come of it. */
static json_t *watch(struct runner *r, enum runner_state *state)
{
	json_t *result;
	struct err e = { 0 };

	do
		*state = runner_turn(r);
	while (*state == RUNNER_FORMING || *state == RUNNER_RUNNING || (*state == RUNNER_FAILED && rollback(r)));
	progress_end(&r->progress);
	r->saved = *state == RUNNER_SIGNALLED && runner_checkpoint(r);
	result = runner_result(r);
	if (*state == RUNNER_DONE || (*state == RUNNER_FAILED && runner_is_whole(r)))
		runner_export(r, result);
	if (r->nsignals > 0 && result_is(result, "stopped"))
		*state = RUNNER_SIGNALLED;
	if (result_write(r->dir, result, &e) != ERR_OK)
		progress_say(&r->progress, "warning: %s", e.msg);
	return result;
}

static int exit_code(const struct runner *r, enum runner_state state)
{
	switch (state) {
	case RUNNER_DONE:
		return r->unsaved[0] || r->unstored[0] ? 1 : 0;
	case RUNNER_SIGNALLED:
		/* What was reached is kept, for --resume auto. */
		return r->saved ? 75 : 128 + r->first_signal;
	case RUNNER_STOPPED:
		/* With nothing to train there was nothing to miss. */
		return conf_trains(r->conf) ? 1 : 0;
	default:
		return r->code ? r->code : 1;
	}
}

static const char *why(enum runner_state state)
{
	return state == RUNNER_DONE ? "done" : state == RUNNER_FAILED ? "failed" :
	       state == RUNNER_SIGNALLED ? "stopped by a signal" : "stopped";
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
			progress_say(&r->progress, "no job: the servers run until a signal (run directory %s)",
			             dir);
		result = watch(r, &state);
		runner_stop(r, why(state));
	}
	code = rc == ERR_OK ? exit_code(r, state) : ctl_fail(&e);
	if (r->meeting)
		meeting_end(r, rc == ERR_OK ? json_str(result, "reason", json_str(result, "state", "")) : e.msg);
	runner_close(r);
	/* On a terminal the result says it. */
	if (result_is(result, "failed") && (json || !isatty(STDOUT_FILENO)))
		fprintf(stderr, "ps-ctl: %s\n", json_str(result, "reason", "failed"));
	/* When this line is read nothing runs any more. */
	if (result)
		result_print(result, json);
	json_decref(result);
	return code;
}
