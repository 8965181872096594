/* SPDX-License-Identifier: ISC */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "msg/cluster_status.h"
#include "msg/words.h"
#include "session/control.h"
#include "core/clock.h"
#include "core/json.h"
#include "core/num.h"
#include "ctl.h"
#include "doctor.h"
#include "supervisor/progress.h"
#include "rundir/result.h"
#include "rundir/rundir.h"

#define PACE_MS 100
#define FORMS   "done|ready|step=N|workers=N|loss-below=X"

struct options {
	const char *dir, *goal;
	int64_t timeout;
};

static const struct opt opts[] = {
	CTL_OPT_CLUSTER(struct options, dir),
	{ "for", 'f', OPT_STR, offsetof(struct options, goal), "WHAT", FORMS, NULL, 0, 0 },
	CTL_OPT_TIMEOUT(struct options, timeout,
	    "wait at most this long (no limit); then the exit code is 124"),
};

struct goal {
	const char *text;
	enum { GOAL_DONE, GOAL_READY, GOAL_STEP, GOAL_WORKERS, GOAL_LOSS } kind;
	int64_t n;
	double x;
};

enum verdict { TRUE_NOW, NOT_YET, NEVER };

static bool parse_goal(const char *text, struct goal *g)
{
	g->text = text;
	if (strcmp(text, "done") == 0)
		g->kind = GOAL_DONE;
	else if (strcmp(text, "ready") == 0)
		g->kind = GOAL_READY;
	else if (strncmp(text, "step=", 5) == 0 && num_int(text + 5, 0, INT64_MAX, &g->n))
		g->kind = GOAL_STEP;
	else if (strncmp(text, "workers=", 8) == 0 && num_int(text + 8, 0, 65535, &g->n))
		g->kind = GOAL_WORKERS;
	else if (strncmp(text, "loss-below=", 11) == 0 && num_double(text + 11, &g->x))
		g->kind = GOAL_LOSS;
	else
		return false;
	return true;
}

static bool is_loss_below(const json_t *o, double x)
{
	const json_t *loss = json_object_get(o, "train_loss");

	return json_is_number(loss) && json_number_value(loss) < x;
}

/* Judges the goal by a running cluster's status. */
static enum verdict judge_status(const struct goal *g, const json_t *s)
{
	bool up = result_has_state(s, PHASE_RUNNING) || result_has_state(s, PHASE_FINISHING) ||
	    result_has_state(s, PHASE_DONE),
	     is = false;

	switch (g->kind) {
	case GOAL_DONE:
		is = result_has_state(s, PHASE_DONE);
		break;
	case GOAL_READY:
		is = up;
		break;
	case GOAL_STEP:
		is = json_int(s, "step", 0) >= g->n;
		break;
	case GOAL_WORKERS:
		is = json_int(s, "workers", 0) >= g->n;
		break;
	case GOAL_LOSS:
		is = is_loss_below(s, g->x);
		break;
	}
	return is ? TRUE_NOW : result_is_final(s) ? NEVER : NOT_YET;
}

/* Judges the goal by the result of a run that has ended: it is done, or it reached that step or
 * loss, or the goal can never become true. */
static enum verdict judge_result(const struct goal *g, const json_t *result)
{
	bool is = (g->kind == GOAL_DONE && result_has_state(result, PHASE_DONE)) ||
	    (g->kind == GOAL_STEP && json_int(result, "steps", 0) >= g->n) ||
	    (g->kind == GOAL_LOSS && is_loss_below(result, g->x));

	return is ? TRUE_NOW : NEVER;
}

static int report_never(const struct goal *g, const json_t *o)
{
	struct err e;
	const char *reason = json_str(o, "reason", "");

	err_set(&e, ERR_FAILED, "the job is %s, so \"%s\" can no longer become true%s%s",
	    json_str(o, "state", "over"), g->text, *reason ? ": " : "", reason);
	return ctl_fail(&e);
}

/* Reports a result whose model could not be saved. Returns the exit code: 1 in that case, else
 * 0. */
static int report_unsaved(const json_t *result)
{
	const char *why = json_str(result, "unsaved", "");

	if (*why)
		fprintf(stderr, "ps-ctl: the job is done, but its model is not saved: %s\n", why);
	return *why ? 1 : 0;
}

/* Judges the goal when the cluster is not running (any more). Returns the exit code; why is the
 * error to report when there is no result. */
static int judge_ended_run(const struct goal *g, const char *dir, const struct err *why)
{
	json_t *result = result_read(dir, NULL);
	int code;

	if (!result)
		return ctl_fail(why);
	code = judge_result(g, result) == TRUE_NOW ? 0 : report_never(g, result);
	if (code == 0 && g->kind == GOAL_DONE)
		code = report_unsaved(result);
	json_decref(result);
	return code;
}

/* Returns false while the supervisor has not written the result of a job that is done: the model is
 * saved after the last step, and a wait for "done" includes that. *code becomes the exit code. */
static bool is_outcome_saved(const struct goal *g, const char *dir, int *code)
{
	json_t *result;
	bool is;

	*code = 0;
	if (g->kind != GOAL_DONE || !rundir_is_supervised(dir))
		return true;
	result = result_read(dir, NULL);
	is = result != NULL;
	*code = is ? report_unsaved(result) : 0;
	json_decref(result);
	return is;
}

/* True for a failed job that its supervisor may still restart from the last checkpoint. The
 * supervisor writes the result when it will not. */
static bool may_be_restarted(const json_t *status, const char *dir)
{
	json_t *result = NULL;
	bool over = words_member(words_phase, status, "state") != PHASE_FAILED ||
	    !rundir_is_supervised(dir) || (result = result_read(dir, NULL)) != NULL;

	json_decref(result);
	return !over;
}

struct wait_watch {
	const struct goal *goal;
	const char *dir;
	int64_t end; /* clock_now() at which to give up; 0: never */
	struct http_client *client;
	json_t *status;
	struct progress progress;
};

/* Prints what the cluster waits for, if anything; steps and losses are left to ps-stat. */
static void show_wait_progress(struct wait_watch *w)
{
	struct cluster_status *status = cluster_status_decode(w->status);

	progress_read_trouble(&w->progress, w->dir);
	if (!status || w->progress.trouble[0] || *status->waiting_for)
		progress_show(&w->progress, status);
	cluster_status_free(status);
}

static int report_wait_timeout(const struct wait_watch *w, int64_t timeout)
{
	int64_t workers = json_int(w->status, "workers", 0);
	char seconds[32];
	struct err e;

	num_digits((double)timeout / NSEC_PER_SEC, 3, seconds);
	err_set(&e, ERR_TIMEOUT,
	    "the condition \"%s\" was not met within %s s: the cluster is %s, at step %lld, with "
	    "%lld worker%s",
	    w->goal->text, seconds, json_str(w->status, "state", "not answering"),
	    (long long)json_int(w->status, "step", 0), (long long)workers, NUM_S(workers));
	return ctl_fail(&e);
}

/* Gets the next status. Uses a long poll where a new revision announces every change that the goal
 * depends on, and polls every PACE_MS otherwise: steps and losses change without one. */
static void update_status(struct wait_watch *w)
{
	bool by_rev = w->status &&
	    (w->goal->kind == GOAL_DONE || w->goal->kind == GOAL_READY ||
	        w->goal->kind == GOAL_WORKERS) &&
	    !result_is_final(w->status);
	char path[80] = "/v1/status";
	json_t *reply = NULL;
	enum err_code rc;

	if (by_rev)
		snprintf(path, sizeof path, "/v1/status?rev=%lld&wait=1",
		    (long long)json_int(w->status, "rev", 0));
	else if (w->status)
		clock_sleep(PACE_MS);
	rc = http_call(w->client, "GET", path, NULL, 5 * NSEC_PER_SEC, NULL, &reply, NULL);
	if (rc == ERR_OK) {
		json_decref(w->status);
		w->status = reply;
	} else {
		clock_sleep(PACE_MS);
	}
}

/* Watches the status until the goal is true, can never become true, or the time is over. Returns
 * the exit code. */
static int watch_until_goal(struct wait_watch *w, int64_t timeout)
{
	struct err gone;

	for (;;) {
		enum verdict v;
		int code;

		update_status(w);
		v = w->status ? judge_status(w->goal, w->status) : NOT_YET;
		if (v == TRUE_NOW && is_outcome_saved(w->goal, w->dir, &code))
			return code;
		if (v == NEVER && !may_be_restarted(w->status, w->dir))
			return report_never(w->goal, w->status);
		if (!control_is_alive(w->dir)) {
			err_set(&gone, ERR_FAILED,
			    "the cluster \"%s\" has ended without a result; see ps-ctl -C "
			    "%s logs",
			    w->dir, w->dir);
			return judge_ended_run(w->goal, w->dir, &gone);
		}
		if (w->end && clock_now() >= w->end)
			return report_wait_timeout(w, timeout);
		show_wait_progress(w);
	}
}

static int wait_for_goal(const struct options *o, const struct goal *g, const char *dir)
{
	struct wait_watch w = { .goal = g, .dir = dir };
	struct err e = { 0 };
	int code;

	w.end = o->timeout > 0 ? clock_now() + o->timeout : 0;
	progress_init(&w.progress, NULL);
	progress_explain_waits(&w.progress, dir, doctor_glance);
	if (control_connect(dir, &w.client, &e) != ERR_OK)
		return ctl_fail(&e);
	code = watch_until_goal(&w, o->timeout);
	progress_clear_line(&w.progress);
	http_client_free(w.client);
	json_decref(w.status);
	return code;
}

/* Find the run directory. A cluster that was started in the background a moment ago may not have
 * made its directory yet: a wait for "ready" with a time-out begins before that, and *timeout
 * becomes what is left of it. */
static enum err_code find_run_to_wait_for(const struct goal *g, const char *opt_C, int64_t *timeout,
    char **dir, struct err *e)
{
	int64_t end = clock_now() + *timeout;
	enum err_code rc = control_find(opt_C, dir, e);

	while ((rc == ERR_NOTFOUND || rc == ERR_NOTREADY) && g->kind == GOAL_READY &&
	    *timeout > 0 && clock_now() < end) {
		clock_sleep(PACE_MS);
		free(*dir);
		*dir = NULL;
		rc = control_find(opt_C, dir, e);
	}
	if (*timeout > 0)
		*timeout = end > clock_now() ? end - clock_now() : 1;
	return rc;
}

static int run_wait(const struct ctl_cmd *self, int argc, char **argv)
{
	struct options o = { 0 };
	struct goal goal;
	struct err e = { 0 };
	enum err_code rc;
	char *dir = NULL;
	int nargs, code;

	if (!ctl_parse(self, &o, argc, argv, &nargs, &code))
		return code;
	if (!o.goal)
		return ctl_report_misuse(self, "--for is required: %s", FORMS);
	if (!parse_goal(o.goal, &goal))
		return ctl_report_misuse(self, "--for: must be %s, got \"%.60s\"", FORMS, o.goal);
	rc = find_run_to_wait_for(&goal, o.dir, &o.timeout, &dir, &e);
	if (rc == ERR_OK)
		code = wait_for_goal(&o, &goal, dir);
	else if (rc == ERR_NOTREADY && dir)
		code = judge_ended_run(&goal, dir, &e);
	else
		code = ctl_fail(&e);
	free(dir);
	return code;
}

const struct ctl_cmd ctl_cmd_wait = {
	"wait",
	{
	    .prog = "ps-ctl wait",
	    .args = NULL,
	    .about = "wait until the job is done, the cluster is ready, a step is reached ...",
	    .more =
	        "The exit code is 0 if the condition holds, 124 at the time limit, and 1 if the job ends before it\n"
	        "can hold. \"done\" also waits for the saved model and result, and holds for a run that has ended\n"
	        "successfully. \"ready\" with --timeout also waits for a cluster that has not created its run\n"
	        "directory yet.",
	    .opts = opts,
	    .nopts = CTL_COUNT(opts),
	    .examples = "  ps-ctl wait --for step=1000 --timeout 5m\n"
	                "  ps-ctl wait --for loss-below=0.3 && ps-ctl stop\n",
	},
	run_wait,
};
