/* SPDX-License-Identifier: ISC */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conf/conf_key.h"
#include "conf/conf_unused.h"
#include "core/json.h"
#include "core/mem.h"
#include "core/num.h"
#include "ctl.h"
#include "msg/words.h"

struct options {
	const char *dir;
	int64_t timeout;
	const char *at;
	bool dry_run, json;
};

static const struct opt opts[] = {
	CTL_OPT_CLUSTER(struct options, dir),
	CTL_OPT_TIMEOUT(struct options, timeout,
	    "wait at most this long until all workers use the settings (60s)"),
	{ "at", 0, OPT_STR, offsetof(struct options, at), "step=N",
	    "change the settings when the job reaches step N, and return immediately", NULL, 0, 0 },
	{ "dry-run", 0, OPT_FLAG, offsetof(struct options, dry_run), NULL,
	    "print the changes, but do not make them", NULL, 0, 0 },
	CTL_OPT_JSON(struct options, json),
};

/* Makes the body {"set":{"codec":"topk:0.01"}} from words like "codec=topk:0.01". Returns NULL
 * after reporting a wrong word. */
static json_t *parse_assignments(const struct ctl_cmd *self, char **word, int n)
{
	json_t *set = json_object();

	for (int i = 0; i < n; i++) {
		char *is = strchr(word[i], '=');

		if (!is || is == word[i]) {
			char advice[OPT_ADVICE];

			if (!is && ctl_advise(&self->usage, word[i], NULL, advice))
				ctl_report_misuse(self, "\"%s\": must be key=value; %s", word[i],
				    advice);
			else
				ctl_report_misuse(self, "\"%s\": must be key=value", word[i]);
			json_decref(set);
			return NULL;
		}
		*is = 0;
		json_object_set_new(set, word[i], json_string(is + 1));
		*is = '=';
	}
	return json_pack("{s:o}", "set", set);
}

/* Adds --dry-run and --at to the body. Returns false after reporting a wrong --at. */
static bool add_request_options(const struct ctl_cmd *self, const struct options *o, json_t *body)
{
	uint64_t step;

	if (o->dry_run)
		json_object_set_new(body, "dry_run", json_true());
	if (!o->at)
		return true;
	if (strncmp(o->at, "step=", 5) != 0 || !num_uint(o->at + 5, INT64_MAX, &step)) {
		ctl_report_misuse(self, "--at: must be step=N, got \"%s\"", o->at);
		return false;
	}
	json_object_set_new(body, "at", json_integer((json_int_t)step));
	return true;
}

static enum err_code check_settings_applied(void *ctx, const json_t *s, bool *done, struct err *e)
{
	int64_t state = words_member(words_phase, s, "state");

	*done = (json_int(s, "settings", 0) >= *(const int64_t *)ctx &&
	            json_int(s, "settings_step", -1) >= 0) ||
	    json_flag(s, "paused");
	if (!*done && state != PHASE_RUNNING && state != PHASE_FORMING)
		return err_set(e, ERR_NOTREADY,
		    "the change was accepted, but the job was %s before all workers applied it",
		    words_text(words_phase, state));
	return ERR_OK;
}

/* Waits until every worker has reported that it uses these settings (their number). Does not wait
 * while the job is paused: the workers will use them when they resume. */
static enum err_code await_settings(struct http_client *client, int64_t settings, int64_t timeout,
    struct err *e)
{
	enum err_code rc = ctl_watch_status(client, timeout, check_settings_applied, &settings, e);

	return rc != ERR_TIMEOUT
	    ? rc
	    : err_set(e, rc,
	          "the change is made, but after %.0f s not every worker has begun a step with it: "
	          "ps-stat why names the others",
	          (double)timeout / NSEC_PER_SEC);
}

/* Prints the changes of a dry run, as "job.lr: 0.1 would be 0.01". */
static void print_dry_run(const json_t *changes)
{
	const char *key;
	json_t *v;

	if (!json_object_size(changes))
		puts("no setting would change");
	json_object_foreach((json_t *)(uintptr_t)changes, key, v) {
		char *from = json_dumps(json_object_get(v, "from"),
		    JSON_ENCODE_ANY | JSON_REAL_PRECISION(9));
		char *to = json_dumps(json_object_get(v, "to"),
		    JSON_ENCODE_ANY | JSON_REAL_PRECISION(9));

		printf("%s: %s would be %s\n", key, from, to);
		free(from);
		free(to);
	}
}

/* Prints what the coordinator answered: from which step on the settings are in force, or what a dry
 * run would change. */
static void print_set_answer(const struct options *o, char **word, int n, json_t *answer)
{
	const json_t *step = json_object_get(answer, "step"),
	             *planned = json_object_get(answer, "planned");

	if (o->json) {
		json_print_event("set", answer);
		return;
	}
	if (o->dry_run) {
		print_dry_run(json_object_get(answer, "changes"));
		return;
	}
	for (int i = 0; i < n; i++)
		printf("%s%s", i ? " " : "", word[i]);
	if (planned)
		printf(": planned for step %lld\n", (long long)json_integer_value(planned));
	else if (json_is_integer(step))
		printf(": from step %lld on\n", (long long)json_integer_value(step));
	else
		puts(": from now on");
}

/* The assignments of the command line. */
struct named_keys {
	char **word;
	int n;
};

static void print_unused_key(void *ctx, const char *key, const char *why)
{
	const struct named_keys *named = ctx;

	for (int i = 0; i < named->n; i++) {
		char *word = mem_printf("%.*s", (int)strcspn(named->word[i], "="), named->word[i]);
		const struct conf_key *k = conf_key_find(word, NULL);

		if (k && strcmp(k->path, key) == 0)
			fprintf(stderr, "ps-ctl: %s is set, but changes nothing: %s\n", key, why);
		free(word);
	}
}

/* Tells which of the assignments change nothing with the settings that the job has now: a constant that its
 * update rule does not have, and the like. */
static void report_unused_keys(const struct options *o, struct http_client *client, char **word,
    int n)
{
	const struct ctl_call get = { .method = "GET", .path = "/v1/config", .repeatable = true };
	json_t *config = NULL;
	struct conf c;
	struct err e = { 0 };
	bool known = true;

	if (ctl_call(o->dir, client, &get, 10 * NSEC_PER_SEC, &config, &e) ||
	    conf_from_json(config, &c, &e)) {
		json_decref(config);
		return;
	}
	/* A change that is planned or only tried is not in the answer. */
	for (int i = 0; i < n; i++)
		known &= conf_set(&c, word[i], &e) == ERR_OK;
	if (known)
		conf_unused(&c, print_unused_key, &(struct named_keys){ word, n });
	conf_release(&c);
	json_decref(config);
}

/* One timeout covers the request and the wait for the workers. When the request used all of it, the
 * wait gets 1 ns: it looks once. */
static int run_set(const struct ctl_cmd *self, int argc, char **argv)
{
	struct options o = { .timeout = 60 * NSEC_PER_SEC };
	struct http_client *client = NULL;
	json_t *body, *answer = NULL;
	int64_t begun = clock_now(), left;
	int nargs, code;
	struct err e = { 0 };
	enum err_code rc;

	if (!ctl_parse(self, &o, argc, argv, &nargs, &code))
		return code;
	body = parse_assignments(self, argv + 1, nargs);
	if (!body || !add_request_options(self, &o, body)) {
		json_decref(body);
		return 2;
	}
	rc = ctl_reach(o.dir, &client, &e);
	if (rc == ERR_OK)
		rc = ctl_call(o.dir, client,
		    &(struct ctl_call){ .path = "/v1/set", .body = body, .repeatable = true },
		    o.timeout, &answer, &e);
	left = begun + o.timeout - clock_now();
	/* An answer with a step means a change that workers apply there. Changes that are immediate,
	 * planned for later or only tried have none. */
	if (rc == ERR_OK && json_is_integer(json_object_get(answer, "step")))
		rc = await_settings(client, json_int(answer, "settings", 0), left > 0 ? left : 1,
		    &e);
	if (rc == ERR_OK) {
		print_set_answer(&o, argv + 1, nargs, answer);
		report_unused_keys(&o, client, argv + 1, nargs);
	}
	http_client_free(client);
	json_decref(body);
	json_decref(answer);
	return rc == ERR_OK ? 0 : ctl_fail(&e);
}

const struct ctl_cmd ctl_cmd_set = {
	"set",
	{
	    .prog = "ps-ctl set",
	    .args = "key=value ...",
	    .about = "change settings while the job runs",
	    .more =
	        "All named keys change, or none. They change at the same step on all servers and workers. The\n"
	        "command returns when all workers use the new settings, and prints the first step with these\n"
	        "settings. ps-ctl show KEY tells whether a key is live.",
	    .opts = opts,
	    .nopts = CTL_COUNT(opts),
	    .min_args = 1,
	    .max_args = 64,
	    .examples =
	        "  ps-ctl set lr=0.01\n  ps-ctl set sync=ssp:3 codec=topk:0.01\n  ps-ctl set --at "
	        "step=1000 optimizer=adam lr=0.001\n",
	},
	run_set,
};
