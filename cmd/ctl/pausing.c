#include "pausing.h"

#include <stdio.h>

#include "base/json.h"

const struct opt pausing_opts[PAUSING_OPTS] = {
	CTL_OPT_CLUSTER(struct pausing_options, dir),
	CTL_OPT_TIMEOUT(struct pausing_options, timeout, "how long to wait until every worker does (60s)"),
	CTL_OPT_JSON(struct pausing_options, json),
};

/* Every worker, of those that are there. */
static bool is_settled(const json_t *s, bool pause)
{
	int64_t resting = json_int(s, "resting", 0);

	return json_flag(s, "paused") == pause && (pause ? resting >= json_int(s, "workers", 0) : resting == 0);
}

static enum err_code follow(struct http_client *client, bool pause, int64_t timeout, int64_t *step, struct err *e)
{
	int64_t end = clock_now() + timeout, rev = -1;
	enum err_code rc = ERR_OK;
	bool settled = false;

	while (rc == ERR_OK && !settled && clock_now() < end) {
		json_t *s = NULL;

		rc = ctl_next_status(client, &rev, &s, e);
		settled = rc == ERR_OK && is_settled(s, pause);
		*step = json_int(s, "step", 0);
		if (rc == ERR_OK && strcmp(json_str(s, "state", ""), "running") != 0)
			rc = err_set(e, ERR_NOTREADY, "the job is %s", json_str(s, "state", ""));
		json_decref(s);
	}
	if (rc == ERR_OK && !settled)
		rc = err_set(e, ERR_TIMEOUT, "told so, but after %.0f s not every worker %s: ps-stat why tells who",
		             (double)timeout / NSEC_PER_SEC, pause ? "rests" : "goes on");
	return rc;
}

static void show(const struct pausing_options *o, bool pause, int64_t step)
{
	json_t *line;

	if (o->json) {
		line = json_pack("{s:I}", "step", (json_int_t)step);
		ctl_line(pause ? "paused" : "resumed", line);
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
	enum err_code rc;
	int64_t step = 0;
	int nargs, code;

	if (!ctl_parse(self, &o, argc, argv, &nargs, &code)) {
		json_decref(body);
		return code;
	}
	rc = ctl_reach(o.dir, &client, &e);
	if (rc == ERR_OK)
		rc = http_call(client, "POST", "/v1/pause", body, CTL_CALL, NULL, NULL, &e);
	if (rc == ERR_OK)
		rc = follow(client, pause, o.timeout, &step, &e);
	if (rc == ERR_OK)
		show(&o, pause, step);
	http_client_free(client);
	json_decref(body);
	return rc == ERR_OK ? 0 : ctl_fail(&e);
}
