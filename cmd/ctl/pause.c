/* SPDX-License-Identifier: ISC */
#include <stdio.h>

#include "core/json.h"
#include "ctl.h"
#include "msg/words.h"

/* ps-ctl pause and resume: have all workers rest before their next step, or go on. */

struct options {
	const char *dir;
	int64_t timeout;
	bool json;
};

static const struct opt opts[] = {
	CTL_OPT_CLUSTER(struct options, dir),
	CTL_OPT_TIMEOUT(struct options, timeout, "wait at most this long for all workers (60s)"),
	CTL_OPT_JSON(struct options, json),
};

struct wait {
	bool pause;
	int64_t step;
};

/* A ctl_status_fn for ctl_watch_status: done when every present worker rests, or none does. */
static enum err_code check_paused(void *ctx, const json_t *s, bool *done, struct err *e)
{
	struct wait *w = ctx;
	int64_t state = words_member(words_phase, s, "state");
	int64_t resting = json_int(s, "resting", 0);

	w->step = json_int(s, "step", 0);
	*done = json_flag(s, "paused") == w->pause &&
	    (w->pause ? resting >= json_int(s, "workers", 0) : resting == 0);
	return state == PHASE_RUNNING
	    ? ERR_OK
	    : err_set(e, ERR_NOTREADY, "the job is %s", words_text(words_phase, state));
}

static enum err_code await_paused(struct http_client *client, struct wait *w, int64_t timeout,
    struct err *e)
{
	enum err_code rc = ctl_watch_status(client, timeout, check_paused, w, e);

	return rc != ERR_TIMEOUT
	    ? rc
	    : err_set(e, rc,
	          "the job is told to %s, but after %.0f s not every worker has done so: ps-stat "
	          "why names the others",
	          w->pause ? "pause" : "resume", (double)timeout / NSEC_PER_SEC);
}

static void print_paused(const struct options *o, bool pause, int64_t step)
{
	json_t *line;

	if (o->json) {
		line = json_pack("{s:I}", "step", (json_int_t)step);
		json_print_event(pause ? "paused" : "resumed", line);
		json_decref(line);
	} else {
		printf("%s at step %lld\n", pause ? "paused" : "resumed", (long long)step);
	}
}

/* Pause or resume all workers, and wait until all of them do so. Returns the exit code. */
static int pause_or_resume(const struct ctl_cmd *self, bool pause, int argc, char **argv)
{
	struct options o = { .timeout = 60 * NSEC_PER_SEC };
	struct http_client *client = NULL;
	json_t *body = json_pack("{s:b}", "paused", pause);
	struct err e = { 0 };
	struct wait w = { .pause = pause };
	enum err_code rc;
	int nargs, code;

	if (!ctl_parse(self, &o, argc, argv, &nargs, &code)) {
		json_decref(body);
		return code;
	}
	rc = ctl_reach(o.dir, &client, &e);
	if (rc == ERR_OK)
		rc = ctl_call(o.dir, client,
		    &(struct ctl_call){ .path = "/v1/pause", .body = body, .repeatable = true },
		    o.timeout, NULL, &e);
	if (rc == ERR_OK)
		rc = await_paused(client, &w, o.timeout, &e);
	if (rc == ERR_OK)
		print_paused(&o, pause, w.step);
	http_client_free(client);
	json_decref(body);
	return rc == ERR_OK ? 0 : ctl_fail(&e);
}

static int run_pause(const struct ctl_cmd *self, int argc, char **argv)
{
	return pause_or_resume(self, true, argc, argv);
}

const struct ctl_cmd ctl_cmd_pause = {
	"pause",
	{
	    .prog = "ps-ctl pause",
	    .args = NULL,
	    .about = "pause the workers before their next step",
	    .more =
	        "Servers and workers keep their state, and the pause survives a restart of the coordinator. The\n"
	        "command returns when all workers rest; ps-ctl resume lets them continue.",
	    .opts = opts,
	    .nopts = CTL_COUNT(opts),
	    .min_args = 0,
	    .max_args = 0,
	    .examples = "  ps-ctl pause && ps-ctl checkpoint && ps-ctl resume\n",
	},
	run_pause,
};

static int run_resume(const struct ctl_cmd *self, int argc, char **argv)
{
	return pause_or_resume(self, false, argc, argv);
}

const struct ctl_cmd ctl_cmd_resume = {
	"resume",
	{
	    .prog = "ps-ctl resume",
	    .args = NULL,
	    .about = "let the workers continue after ps-ctl pause",
	    .opts = opts,
	    .nopts = CTL_COUNT(opts),
	    .min_args = 0,
	    .max_args = 0,
	    .examples = "  ps-ctl resume\n",
	},
	run_resume,
};
