#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/json.h"
#include "ctl.h"
#include "ending.h"
#include "launch/rundir.h"
#include "result.h"

#define TERM_GRACE (5 * NSEC_PER_SEC)
#define PACE_MS 50

struct options {
	const char *dir;
	int64_t timeout;
	bool json;
};

static const struct opt opts[] = {
	CTL_OPT_CLUSTER(struct options, dir),
	CTL_OPT_TIMEOUT(struct options, timeout, "how long it may take to end by itself (30s)"),
	CTL_OPT_JSON(struct options, json),
};

/* A job that is over is still being saved: the model comes from the servers. */
static void let_it_save(struct http_client *client, const char *dir, int64_t end)
{
	json_t *s = NULL, *result = NULL;
	bool over;

	if (!ctl_supervised(dir) ||
	    http_call(client, "GET", "/v1/status", NULL, 2 * NSEC_PER_SEC, NULL, &s, NULL) != ERR_OK)
		return;
	over = result_is(s, "done") || result_is(s, "failed");
	json_decref(s);
	while (over && !result && clock_now() < end && ctl_supervised(dir)) {
		result = result_read(dir, NULL);
		if (!result)
			poll(NULL, 0, PACE_MS);
	}
	json_decref(result);
}

/* Ask for it; false when there is nobody to ask. */
static bool ask(const char *dir, int64_t end)
{
	struct http_client *client = NULL;
	json_t *body = json_pack("{s:s}", "why", "ps-ctl stop");
	enum err_code rc = ctl_connect(dir, &client, NULL);

	if (rc == ERR_OK) {
		let_it_save(client, dir, end);
		rc = http_call(client, "POST", "/v1/stop", body, 2 * NSEC_PER_SEC, NULL, NULL, NULL);
	}
	http_client_free(client);
	json_decref(body);
	/* Where the connection broke it may have been obeyed. */
	return rc == ERR_OK || rc == ERR_CLOSED;
}

static int stop(const struct options *o, const char *dir)
{
	int64_t end = clock_now() + o->timeout;
	struct err e = { 0 };
	json_t *result;

	if (!ask(dir, end) || !ending_wait(dir, end - clock_now())) {
		fprintf(stderr, "ps-ctl: %s does not end by itself; ending its processes\n", dir);
		if (ending_force(dir, TERM_GRACE, &e) != ERR_OK)
			return ctl_fail(&e);
	}
	result = result_read(dir, NULL);
	if (!result)
		result = result_of_status(NULL, "stopped", "ended by force, before a result was written");
	result_print(result, o->json);
	json_decref(result);
	return 0;
}

static int run(const struct ctl_cmd *self, int argc, char **argv)
{
	struct options o = { .timeout = 30 * NSEC_PER_SEC };
	struct err e = { 0 };
	char *dir = NULL;
	int nargs, code;

	if (!ctl_parse(self, &o, argc, argv, &nargs, &code))
		return code;
	code = rundir_find(o.dir, &dir, &e) == ERR_OK ? stop(&o, dir) : ctl_fail(&e);
	free(dir);
	return code;
}

const struct ctl_cmd ctl_cmd_stop = {
	"stop",
	{
		.prog = "ps-ctl stop", .args = NULL,
		.about = "stop a cluster and print its result",
		.more = "Returns when all its processes have ended.  What does not end in time is ended "
		        "by SIGTERM, and 5 s\nlater by SIGKILL.",
		.opts = opts, .nopts = CTL_COUNT(opts),
		.examples = "  ps-ctl stop\n  ps-ctl -C fashion.run stop --timeout 5s\n",
	},
	run,
};
