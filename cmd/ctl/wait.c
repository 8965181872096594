#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/num.h"
#include "ctl.h"
#include "launch/rundir.h"
#include "progress.h"
#include "result.h"

#define PACE_MS 100
#define FORMS "done|ready|step=N|workers=N|loss-below=X"

struct options {
	const char *dir, *goal;
	int64_t timeout;
};

static const struct opt opts[] = {
	CTL_OPT_CLUSTER(struct options, dir),
	{ "for", 'f', OPT_STR, offsetof(struct options, goal), "WHAT", FORMS, NULL, 0, 0 },
	CTL_OPT_TIMEOUT(struct options, timeout, "give up after this (no limit), exit code 124"),
};

struct goal {
	const char *text;
	enum { GOAL_DONE, GOAL_READY, GOAL_STEP, GOAL_WORKERS, GOAL_LOSS } kind;
	int64_t n;
	double x;
};

enum verdict { TRUE_NOW, NOT_YET, NEVER };

static bool parse(const char *text, struct goal *g)
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

static bool below(const json_t *o, double x)
{
	const json_t *loss = json_object_get(o, "train_loss");

	return json_is_number(loss) && json_number_value(loss) < x;
}

static bool is_over(const json_t *o)
{
	return result_is(o, "done") || result_is(o, "failed") || result_is(o, "stopped");
}

/* By a living cluster's status. */
static enum verdict judge(const struct goal *g, const json_t *s)
{
	bool up = result_is(s, "running") || result_is(s, "finishing") || result_is(s, "done"), is = false;

	switch (g->kind) {
	case GOAL_DONE:
		is = result_is(s, "done");
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
		is = below(s, g->x);
		break;
	}
	return is ? TRUE_NOW : is_over(s) ? NEVER : NOT_YET;
}

/* By the result of a run that has ended: "done" stays true, and so do the
 * marks that it passed. */
static enum verdict judge_result(const struct goal *g, const json_t *result)
{
	bool is = (g->kind == GOAL_DONE && result_is(result, "done")) ||
	          (g->kind == GOAL_STEP && json_int(result, "steps", 0) >= g->n) ||
	          (g->kind == GOAL_LOSS && below(result, g->x));

	return is ? TRUE_NOW : NEVER;
}

static int say_never(const struct goal *g, const json_t *o)
{
	struct err e;
	const char *reason = json_str(o, "reason", "");

	err_set(&e, ERR_FAILED, "the job is %s, and \"%s\" cannot come true any more%s%s",
	        json_str(o, "state", "over"), g->text, *reason ? ": " : "", reason);
	return ctl_fail(&e);
}

/* 0, or 1 when the model is not where who waits will look for it. */
static int say_unsaved(const json_t *result)
{
	const char *why = json_str(result, "unsaved", "");

	if (*why)
		fprintf(stderr, "ps-ctl: the job is done, but its model is not saved: %s\n", why);
	return *why ? 1 : 0;
}

/* The cluster has ended, or was not running in the first place. */
static int after_the_end(const struct goal *g, const char *dir, const struct err *why)
{
	json_t *result = result_read(dir, NULL);
	int code;

	if (!result)
		return ctl_fail(why);
	code = judge_result(g, result) == TRUE_NOW ? 0 : say_never(g, result);
	if (code == 0 && g->kind == GOAL_DONE)
		code = say_unsaved(result);
	json_decref(result);
	return code;
}

/* What comes of a job is saved after its last step; who waits for "done"
 * waits for that, too. */
static bool saved(const struct goal *g, const char *dir, int *code)
{
	json_t *result;
	bool is;

	*code = 0;
	if (g->kind != GOAL_DONE || !ctl_supervised(dir))
		return true;
	result = result_read(dir, NULL);
	is = result != NULL;
	*code = is ? say_unsaved(result) : 0;
	json_decref(result);
	return is;
}

/* A job that has failed may be taken up again from its last checkpoint: who watches over
 * it says by the result that it will not. */
static bool may_go_on(const json_t *status, const char *dir)
{
	json_t *result = NULL;
	bool over = strcmp(json_str(status, "state", ""), "failed") != 0 || !ctl_supervised(dir) ||
	            (result = result_read(dir, NULL)) != NULL;

	json_decref(result);
	return !over;
}

struct watch {
	const struct goal *goal;
	const char *dir;
	int64_t end;                    /* 0: none */
	struct http_client *client;
	json_t *status;
	struct progress progress;
};

/* P5: say what is waited for, but leave steps and losses to ps-stat. */
static void talk(struct watch *w)
{
	if (!w->status || *json_str(w->status, "waiting_for", ""))
		progress_show(&w->progress, w->status);
}

static int timed_out(const struct watch *w, int64_t timeout)
{
	struct err e;

	err_set(&e, ERR_TIMEOUT, "\"%s\" is not true after %.3g s: the cluster is %s, at step %lld, with "
	        "%lld workers", w->goal->text, (double)timeout / NSEC_PER_SEC,
	        json_str(w->status, "state", "not answering"), (long long)json_int(w->status, "step", 0),
	        (long long)json_int(w->status, "workers", 0));
	return ctl_fail(&e);
}

/* The next status: a long poll by its revision where that tells of all that the
 * goal depends on, else a look every now and then. */
static void look(struct watch *w)
{
	bool by_rev = w->status && (w->goal->kind == GOAL_DONE || w->goal->kind == GOAL_READY ||
	                            w->goal->kind == GOAL_WORKERS) && !is_over(w->status);
	char path[80] = "/v1/status";
	json_t *reply = NULL;
	enum err_code rc;

	if (by_rev)
		snprintf(path, sizeof path, "/v1/status?rev=%lld&wait=1",
		         (long long)json_int(w->status, "rev", 0));
	else if (w->status)
		poll(NULL, 0, PACE_MS);
	rc = http_call(w->client, "GET", path, NULL, 5 * NSEC_PER_SEC, NULL, &reply, NULL);
	if (rc == ERR_OK) {
		json_decref(w->status);
		w->status = reply;
	} else {
		poll(NULL, 0, PACE_MS);
	}
}

static int follow(struct watch *w, int64_t timeout)
{
	struct err gone;

	for (;;) {
		enum verdict v;
		int code;

		look(w);
		v = w->status ? judge(w->goal, w->status) : NOT_YET;
		if (v == TRUE_NOW && saved(w->goal, w->dir, &code))
			return code;
		if (v == NEVER && !may_go_on(w->status, w->dir))
			return say_never(w->goal, w->status);
		if (!rundir_is_alive(w->dir, NULL)) {
			err_set(&gone, ERR_FAILED, "the cluster \"%s\" has ended without a result; see ps-ctl -C "
			        "%s logs", w->dir, w->dir);
			return after_the_end(w->goal, w->dir, &gone);
		}
		if (w->end && clock_now() >= w->end)
			return timed_out(w, timeout);
		talk(w);
	}
}

static int wait_for(const struct options *o, const struct goal *g, const char *dir)
{
	struct watch w = { .goal = g, .dir = dir };
	struct err e = { 0 };
	int code;

	w.end = o->timeout > 0 ? clock_now() + o->timeout : 0;
	progress_init(&w.progress, NULL);
	w.progress.dir = dir;
	if (ctl_connect(dir, &w.client, &e) != ERR_OK)
		return ctl_fail(&e);
	code = follow(&w, o->timeout);
	progress_end(&w.progress);
	http_client_free(w.client);
	json_decref(w.status);
	return code;
}

static int run(const struct ctl_cmd *self, int argc, char **argv)
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
		return ctl_misuse(self, "--for is missing: %s", FORMS);
	if (!parse(o.goal, &goal))
		return ctl_misuse(self, "--for: must be %s, got \"%.60s\"", FORMS, o.goal);
	rc = rundir_find(o.dir, &dir, &e);
	if (rc == ERR_OK)
		code = wait_for(&o, &goal, dir);
	else if (rc == ERR_NOTREADY && dir)
		code = after_the_end(&goal, dir, &e);
	else
		code = ctl_fail(&e);
	free(dir);
	return code;
}

const struct ctl_cmd ctl_cmd_wait = {
	"wait",
	{
		.prog = "ps-ctl wait", .args = NULL,
		.about = "wait until the job is done, the cluster is ready, a step is reached ...",
		.more = "Exit code 0 when it is true, 124 at the time-out, 1 when the job ends before it "
		        "can become true.\n\"done\" waits for the saved model and result, too, and is true "
		        "of a run that has ended well.",
		.opts = opts, .nopts = CTL_COUNT(opts),
		.examples = "  ps-ctl wait --for step=1000 --timeout 5m\n"
		            "  ps-ctl wait --for loss-below=0.3 && ps-ctl stop\n",
	},
	run,
};
