#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "client/resume.h"
#include "ctl.h"
#include "local.h"
#include "result.h"
#include "rollback.h"
#include "runner.h"

struct options {
	struct opt_list set;
	bool json;
	int64_t max_restarts;
	const char *resume, *exec;
};

static const struct opt opts[] = {
	{ "set", 's', OPT_LIST, offsetof(struct options, set), "KEY=VALUE",
	  "change a key of the cluster file, for this run", NULL, 0, 0 },
	CTL_OPT_JSON(struct options, json),
	CTL_OPT_RESTARTS(struct options, max_restarts),
	CTL_OPT_RESUME(struct options, resume),
	LOCAL_OPT_EXEC(struct options, exec),
};

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
		return r->unsaved[0] ? 1 : 0;
	case RUNNER_SIGNALLED:
		/* What was reached is kept, for --resume auto. */
		return r->saved ? 75 : 128 + r->first_signal;
	case RUNNER_STOPPED:
		/* With nothing to train there was nothing to miss. */
		return r->conf->has_job ? 1 : 0;
	default:
		return r->code ? r->code : 1;
	}
}

static const char *why(enum runner_state state)
{
	return state == RUNNER_DONE ? "done" : state == RUNNER_FAILED ? "failed" :
	       state == RUNNER_SIGNALLED ? "stopped by a signal" : "stopped";
}

static int run_cluster(struct runner *r, const struct conf *conf, const char *dir, const struct options *o)
{
	enum runner_state state = RUNNER_FAILED;
	struct err e = { 0 };
	json_t *result = NULL;
	enum err_code rc = runner_open(r, conf, dir, NULL, &e);
	int code;

	if (rc == ERR_OK)
		rc = runner_start(r, &e);
	if (rc == ERR_OK) {
		if (!conf->has_job)
			progress_say(&r->progress, "no job: the servers run until a signal (run directory %s)",
			             dir);
		result = watch(r, &state);
		runner_stop(r, why(state));
	}
	code = rc == ERR_OK ? exit_code(r, state) : ctl_fail(&e);
	runner_close(r);
	/* On a terminal the result says it. */
	if (result_is(result, "failed") && (o->json || !isatty(STDOUT_FILENO)))
		fprintf(stderr, "ps-ctl: %s\n", json_str(result, "reason", "failed"));
	/* When this line is read nothing runs any more. */
	if (result)
		result_print(result, o->json);
	json_decref(result);
	return code;
}

static int run(const struct ctl_cmd *self, int argc, char **argv)
{
	struct options o = { .max_restarts = -1 };
	struct runner r;
	struct err e = { 0 };
	struct conf conf;
	char *dir = NULL;
	const char *file;
	int nargs, code, lock = -1;

	if (!ctl_parse(self, &o, argc, argv, &nargs, &code))
		return code;
	file = nargs ? argv[1] : NULL;
	if (!local_may_go(self->usage.prog, file, o.exec, &code))
		return code;
	if (local_load(file, &o.set, o.exec, &conf, &dir, &e) != ERR_OK) {
		code = ctl_fail(&e);
	} else {
		local_name_stdin(&conf);
		bool watched = runner_signals(&r, &e) == ERR_OK;

		r.max_restarts = o.max_restarts;
		if (!watched || resume_prepare(&conf, dir, o.resume, &lock, &r.resume, &e) != ERR_OK)
			code = ctl_fail(&e);
		else
			code = run_cluster(&r, &conf, dir, &o);
	}
	if (lock >= 0)
		close(lock);
	free(dir);
	conf_release(&conf);
	opt_list_release(&o.set);
	return code;
}

const struct ctl_cmd ctl_cmd_run = {
	"run",
	{
		.prog = "ps-ctl run", .args = "[FILE]",
		.about = "start a cluster, show its progress, wait, stop it and print the result",
		.more = "FILE is a cluster file; \"cluster\" finds cluster.json.  Its run directory NAME.run "
		        "beside it gets\nlogs, result.json and model.safetensors.  The last line of standard "
		        "output is the result.\nSIGINT and SIGTERM stop the cluster (exit code 75 with a checkpoint, else 128+N), a "
		        "second one at once.  Nothing is left\nrunning, however it ends.",
		.opts = opts, .nopts = CTL_COUNT(opts), .max_args = 1,
		.examples = "  ps-ctl run cluster\n"
		            "  ps-ctl run cluster --set lr=0.01 --set workers=4 --json | tail -n 1 | jq .eval\n"
		            "  ps-ctl run --exec \"python3 train.py\" --set workers=2\n",
	},
	run,
};
