/* SPDX-License-Identifier: ISC */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/buf.h"
#include "core/json.h"
#include "core/mem.h"
#include "core/names.h"
#include "ctl.h"

/* ps-ctl freeze: change the setting job.frozen, the list of tables that the job must not update. */

struct options {
	const char *dir;
	int64_t timeout;
	bool off, json;
};

static const struct opt opts[] = {
	CTL_OPT_CLUSTER(struct options, dir),
	{ "off", 0, OPT_FLAG, offsetof(struct options, off), NULL, "train the tables again", NULL,
	    0, 0 },
	CTL_OPT_TIMEOUT(struct options, timeout, "wait at most this long for the decision (60s)"),
	CTL_OPT_JSON(struct options, json),
};

static void add_name(struct buf *b, const char *name, size_t n)
{
	if (b->len)
		buf_puts(b, ",");
	buf_append(b, name, n);
}

static bool is_operand(char **word, int n, const char *at)
{
	for (int i = 0; i < n; i++)
		if (names_is(at, word[i]))
			return true;
	return false;
}

/* The new value of job.frozen: the present one with the operands added or, with off, removed. To
 * be freed. */
static char *make_frozen_list(const char *now, char **word, int n, bool off)
{
	struct buf b = BUF_INIT;

	for (const char *at = names_first(now); at; at = names_next(at))
		if (!is_operand(word, n, at))
			add_name(&b, at, strcspn(at, ","));
	for (int i = 0; i < n && !off; i++)
		if (!is_operand(word, i, word[i]))
			add_name(&b, word[i], strlen(word[i]));
	if (!b.len)
		buf_puts(&b, "none");
	return (char *)b.data;
}

/* The present value of job.frozen, to be freed; NULL with e on failure. */
static char *get_frozen(struct http_client *client, const struct options *o, struct err *e)
{
	const struct ctl_call get = { .method = "GET", .path = "/v1/config", .repeatable = true };
	json_t *config = NULL;
	char *now = NULL;

	if (ctl_call(o->dir, client, &get, o->timeout, &config, e) == ERR_OK)
		now = mem_strdup(json_str(json_object_get(config, "job"), "frozen", "none"));
	json_decref(config);
	return now;
}

/* Request the change. Called again after each answer, because another client may have changed the
 * list between our read and our write; *done when the list then is as requested. */
static enum err_code change_frozen(struct http_client *client, const struct options *o, char **word,
    int n, json_t **answer, bool *done, struct err *e)
{
	char *now = get_frozen(client, o, e), *list;
	enum err_code rc;
	json_t *body;

	if (!now)
		return e->code;
	for (int i = 0; i < n && o->off && !*answer; i++)
		if (!names_has(now, word[i])) {
			free(now);
			return err_set(e, ERR_NOTFOUND, "table \"%.60s\" is not frozen", word[i]);
		}
	list = make_frozen_list(now, word, n, o->off);
	*done = *answer && strcmp(list, now) == 0;
	free(now);
	if (*done) {
		free(list);
		return ERR_OK;
	}
	json_decref(*answer);
	*answer = NULL;
	body = json_pack("{s:{s:s}}", "set", "job.frozen", list);
	rc = ctl_call(o->dir, client,
	    &(struct ctl_call){ .path = "/v1/set", .body = body, .repeatable = true }, o->timeout,
	    answer, e);
	if (rc == ERR_OK)
		json_object_set_new(*answer, "frozen", json_string(list));
	free(list);
	json_decref(body);
	return rc;
}

/* change_frozen is called again after each answer, until the list that it reads is as requested. */
static int run_freeze(const struct ctl_cmd *self, int argc, char **argv)
{
	struct options o = { .timeout = 60 * NSEC_PER_SEC };
	struct http_client *client = NULL;
	json_t *answer = NULL;
	bool done = false;
	int nargs, code;
	struct err e = { 0 };
	enum err_code rc;

	if (!ctl_parse(self, &o, argc, argv, &nargs, &code))
		return code;
	for (int i = 1; i <= nargs; i++)
		if (strchr(argv[i], ',') || !*argv[i])
			return ctl_report_misuse(self,
			    "\"%.60s\": must be the name of a table; separate several names by blanks",
			    argv[i]);
	rc = ctl_reach(o.dir, &client, &e);
	while (rc == ERR_OK && !done)
		rc = change_frozen(client, &o, argv + 1, nargs, &answer, &done, &e);
	if (rc == ERR_OK && o.json)
		json_print_event("set", answer);
	else if (rc == ERR_OK)
		printf("frozen: %s, from step %lld on\n", json_str(answer, "frozen", ""),
		    (long long)json_int(answer, "step", 0));
	http_client_free(client);
	json_decref(answer);
	return rc == ERR_OK ? 0 : ctl_fail(&e);
}

const struct ctl_cmd ctl_cmd_freeze = {
	"freeze",
	{
	    .prog = "ps-ctl freeze",
	    .args = "TABLE ...",
	    .about = "keep tables unchanged while the job continues",
	    .more =
	        "The change takes effect at the same step on all workers. The key job.frozen has the names of the\n"
	        "tables.",
	    .opts = opts,
	    .nopts = CTL_COUNT(opts),
	    .min_args = 1,
	    .max_args = 64,
	    .examples = "  ps-ctl freeze w0 b0\n  ps-ctl freeze --off w0\n",
	},
	run_freeze,
};
