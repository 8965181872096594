/* SPDX-License-Identifier: ISC */
#include "pausing.h"

#include <stdio.h>

#include "core/json.h"

const struct opt pausing_opts[PAUSING_OPTS] = {
	CTL_OPT_CLUSTER(struct pausing_options, dir),
	CTL_OPT_TIMEOUT(struct pausing_options, timeout,
	    "how long to wait until every worker does (60s)"),
	CTL_OPT_JSON(struct pausing_options, json),
};

struct wait {
	bool pause;
	int64_t step;
};

/* A ctl_status_fn for ctl_watch_status: done when every present worker rests, or none does. */
static enum err_code check_paused(void *ctx, const json_t *s, bool *done, struct err *e)
{
	struct wait *w = ctx;
	const char *state = json_str(s, "state", "");
	int64_t resting = json_int(s, "resting", 0);

	w->step = json_int(s, "step", 0);
	*done = json_flag(s, "paused") == w->pause &&
	    (w->pause ? resting >= json_int(s, "workers", 0) : resting == 0);
	return strcmp(state, "running") == 0 ? ERR_OK
	                                     : err_set(e, ERR_NOTREADY, "the job is %s", state);
}

static enum err_code await_paused(struct http_client *client, struct wait *w, int64_t timeout,
    struct err *e)
{
	enum err_code rc = ctl_watch_status(client, timeout, check_paused, w, e);

	return rc != ERR_TIMEOUT
	    ? rc
	    : err_set(e, rc, "told so, but after %.0f s not every worker %s: ps-stat why tells who",
	          (double)timeout / NSEC_PER_SEC, w->pause ? "rests" : "goes on");
}

static void print_paused(const struct pausing_options *o, bool pause, int64_t step)
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

int pausing(const struct ctl_cmd *self, bool pause, int argc, char **argv)
{
	struct pausing_options o = { .timeout = 60 * NSEC_PER_SEC };
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
		rc = http_call(client, "POST", "/v1/pause", body, CTL_CALL, NULL, NULL, &e);
	if (rc == ERR_OK)
		rc = await_paused(client, &w, o.timeout, &e);
	if (rc == ERR_OK)
		print_paused(&o, pause, w.step);
	http_client_free(client);
	json_decref(body);
	return rc == ERR_OK ? 0 : ctl_fail(&e);
}
