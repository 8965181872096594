#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/json.h"
#include "ctl.h"
#include "ending.h"
#include "launch/rundir.h"
#include "result.h"

#define TERM_GRACE (5 * NSEC_PER_SEC)

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

/* Ask for it; false when there is nobody to ask. */
static bool ask(const char *dir)
{
	struct http_client *client = NULL;
	json_t *body = json_pack("{s:s}", "why", "ps-ctl stop");
	enum err_code rc = ctl_connect(dir, &client, NULL);

	if (rc == ERR_OK)
		rc = http_call(client, "POST", "/v1/stop", body, 2 * NSEC_PER_SEC, NULL, NULL, NULL);
	http_client_free(client);
	json_decref(body);
	/* Where the connection broke it may have been obeyed. */
	return rc == ERR_OK || rc == ERR_CLOSED;
}

/* supervised: by a process that writes a result. */
static int report(const char *dir, bool forced, bool supervised, bool json)
{
	json_t *result = result_read(dir, NULL);
	int code = result || forced || !supervised ? 0 : 1;

	if (!result)
		result = result_of_status(NULL, "stopped", forced ? "ended by force, before a result was written" :
		                          supervised ? "no result was written" : NULL);
	if (*json_str(result, "unsaved", "")) {
		fprintf(stderr, "ps-ctl: the model is not saved: %s\n", json_str(result, "unsaved", ""));
		code = 1;
	}
	result_print(result, json);
	json_decref(result);
	return code;
}

static int stop(const struct options *o, const char *dir)
{
	struct err e = { 0 };
	bool forced = false, supervised = ending_ask(dir);

	/* Who supervises it knows what is to be saved before. */
	if ((!supervised && !ask(dir)) || !ending_wait(dir, o->timeout)) {
		fprintf(stderr, "ps-ctl: %s does not end by itself; ending its processes\n", dir);
		forced = true;
		if (ending_force(dir, TERM_GRACE, &e) != ERR_OK)
			return ctl_fail(&e);
	}
	return report(dir, forced, supervised, o->json);
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
