#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "ctl.h"

struct options {
	const char *dir;
	int64_t timeout;
	bool json;
};

static const struct opt opts[] = {
	CTL_OPT_CLUSTER(struct options, dir),
	CTL_OPT_TIMEOUT(struct options, timeout, "how long to wait until all workers go by it (60s)"),
	CTL_OPT_JSON(struct options, json),
};

/* {"set":{"codec":"topk:0.01"}} of "codec=topk:0.01". */
static json_t *wishes(const struct ctl_cmd *self, char **word, int n)
{
	json_t *set = json_object();

	for (int i = 0; i < n; i++) {
		char *is = strchr(word[i], '=');

		if (!is || is == word[i]) {
			ctl_misuse(self, "\"%s\": must be key=value", word[i]);
			json_decref(set);
			return NULL;
		}
		*is = 0;
		json_object_set_new(set, word[i], json_string(is + 1));
		*is = '=';
	}
	return json_pack("{s:o}", "set", set);
}

struct wait {
	int64_t settings, step;         /* step: from which on all go by these settings, or later ones; -1: not yet */
};

static enum err_code look(void *ctx, const json_t *s, bool *done, struct err *e)
{
	struct wait *w = ctx;
	const char *state = json_str(s, "state", "");

	if (json_int(s, "settings", 0) >= w->settings)
		w->step = json_int(s, "settings_step", -1);
	*done = w->step >= 0;
	if (!*done && strcmp(state, "running") != 0 && strcmp(state, "forming") != 0)
		return err_set(e, ERR_NOTREADY, "the job is %s before every worker has begun a step with it", state);
	return ERR_OK;
}

/* Until every worker has said from which step on it goes by them. */
static enum err_code follow(struct http_client *client, struct wait *w, int64_t timeout, struct err *e)
{
	enum err_code rc = ctl_until(client, timeout, look, w, e);

	return rc != ERR_TIMEOUT ? rc :
	    err_set(e, rc, "set, but after %.0f s not every worker has begun a step with it: ps-stat why tells who is behind",
	            (double)timeout / NSEC_PER_SEC);
}

static void show(const struct options *o, char **word, int n, int64_t step)
{
	json_t *line;

	if (o->json) {
		line = json_pack("{s:I}", "step", (json_int_t)step);
		ctl_line("set", line);
		json_decref(line);
		return;
	}
	for (int i = 0; i < n; i++)
		printf("%s%s", i ? " " : "", word[i]);
	printf(": from step %lld on\n", (long long)step);
}

static int run(const struct ctl_cmd *self, int argc, char **argv)
{
	struct options o = { .timeout = 60 * NSEC_PER_SEC };
	struct http_client *client = NULL;
	json_t *body, *answer = NULL;
	int nargs, code;
	struct wait w = { .step = -1 };
	struct err e = { 0 };
	enum err_code rc;

	if (!ctl_parse(self, &o, argc, argv, &nargs, &code))
		return code;
	body = wishes(self, argv + 1, nargs);
	if (!body)
		return 2;
	rc = ctl_reach(o.dir, &client, &e);
	if (rc == ERR_OK)
		rc = http_call(client, "POST", "/v1/set", body, CTL_CALL, NULL, &answer, &e);
	w.settings = json_int(answer, "settings", 0);
	if (rc == ERR_OK)
		rc = follow(client, &w, o.timeout, &e);
	if (rc == ERR_OK)
		show(&o, argv + 1, nargs, w.step);
	http_client_free(client);
	json_decref(body);
	json_decref(answer);
	return rc == ERR_OK ? 0 : ctl_fail(&e);
}

const struct ctl_cmd ctl_cmd_set = {
	"set",
	{
		.prog = "ps-ctl set", .args = "key=value ...",
		.about = "change settings while the job runs",
		.more = "codec, feedback, filter, quota_bytes and quota_pushes can change; all that are named do, or none.  Returns when every worker\n"
		        "goes by them, and says from which step on.",
		.opts = opts, .nopts = CTL_COUNT(opts), .min_args = 1, .max_args = 64,
		.examples = "  ps-ctl set codec=topk:0.01\n  ps-ctl set codec=int8 feedback=off\n",
	},
	run,
};
