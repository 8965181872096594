/* SPDX-License-Identifier: ISC */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/buf.h"
#include "core/clock.h"
#include "core/json.h"
#include "core/suggest.h"
#include "ctl.h"
#include "session/control.h"
#include "rundir/rundir.h"

static const struct ctl_cmd *const table[] = {
#define CTL(name) &ctl_cmd_##name,
#include "ctl.def"
#undef CTL
};

const struct ctl_cmd *ctl_at(size_t i)
{
	return i < CTL_COUNT(table) ? table[i] : NULL;
}

const struct ctl_cmd *ctl_find(const char *name)
{
	for (size_t i = 0; i < CTL_COUNT(table); i++)
		if (strcmp(table[i]->name, name) == 0)
			return table[i];
	return NULL;
}

const char *ctl_suggest(const char *name)
{
	const char *names[CTL_COUNT(table)];

	for (size_t i = 0; i < CTL_COUNT(table); i++)
		names[i] = table[i]->name;
	return suggest(name, names, CTL_COUNT(table));
}

bool ctl_parse(const struct ctl_cmd *self, void *o, int argc, char **argv, int *nargs, int *code)
{
	struct opt_spec spec = self->usage;
	enum opt_result r;

	spec.advise = ctl_advise;
	r = opt_parse(&spec, o, argc, argv, nargs);

	*code = r == OPT_EXIT_USAGE ? 2 : 0;
	return r == OPT_GO;
}

int ctl_fail(const struct err *e)
{
	return err_report("ps-ctl", e);
}

int ctl_report_misuse(const struct ctl_cmd *self, const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "%s: ", self->usage.prog);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fprintf(stderr, " (see %s -h)\n", self->usage.prog);
	return 2;
}

/* At most 16 actions; the first member of each struct must be its name. */
const void *ctl_action(const struct ctl_cmd *self, const char *word, const void *actions, size_t n,
    size_t size)
{
	const char *names[16] = { NULL }, *near;
	struct buf list = BUF_INIT;

	for (size_t i = 0; i < n; i++) {
		const void *a = (const char *)actions + i * size;

		names[i] = *(const char *const *)a;
		if (strcmp(names[i], word) == 0)
			return a;
	}
	near = suggest(word, names, n);
	for (size_t i = 0; i < n; i++)
		buf_printf(&list, "%s%s", i == 0 ? "" : i + 1 < n ? ", " : " and ", names[i]);
	if (near)
		ctl_report_misuse(self, "unknown action \"%.60s\"; did you mean \"%s\"?", word,
		    near);
	else
		ctl_report_misuse(self, "unknown action \"%.60s\"; the actions are %s", word,
		    (char *)list.data);
	buf_release(&list);
	return NULL;
}

enum err_code ctl_reach(const char *dir, struct http_client **client, struct err *e)
{
	char *run = NULL;
	enum err_code rc = control_find(dir, &run, e);

	*client = NULL;
	if (!rc)
		rc = control_connect(run, client, e);
	free(run);
	return rc;
}

/* Pause before the next attempt to reach a coordinator that is being started again. */
#define TRY_AGAIN (100 * NSEC_PER_MSEC)
/* How long the coordinator of a cluster that is watched may be away: longer than the longest pause before a
 * restart (supervisor/policy.h). */
#define AWAY_MOST (15 * NSEC_PER_SEC)

static bool is_run_alive(const char *dir)
{
	char *run = NULL;
	bool alive = !control_find(dir, &run, NULL);

	free(run);
	return alive;
}

static void wait_before_retry(void)
{
	nanosleep(&(struct timespec){ 0, TRY_AGAIN }, NULL);
}

/* Says that an error is the answer to a request that was made twice. */
static void note_repetition(struct err *e)
{
	err_prefix(e,
	    "the coordinator ended before it answered, and was asked again; the first "
	    "request may have been done");
}

/* Makes a request until `end`, each time for at most `timeout`, while no coordinator listens or, if it may be
 * repeated, the connection breaks, as long as the supervisor lives, which starts the coordinator again. */
static enum err_code call_until(const char *dir, struct http_client *client,
    const struct ctl_call *r, int64_t timeout, int64_t end, json_t **answer, struct err *e)
{
	bool broke = false;

	for (;;) {
		int64_t left = end - clock_now();
		enum err_code rc = http_call(client, r->method ? r->method : "POST", r->path,
		    r->body, left > 0 && left < timeout ? left : timeout, NULL, answer, e);

		broke |= rc == ERR_CLOSED;
		if ((rc != ERR_UNREACH && !(r->repeatable && rc == ERR_CLOSED)) ||
		    end - clock_now() <= TRY_AGAIN || !is_run_alive(dir)) {
			if (rc && e && broke && r->repeatable && r->body)
				note_repetition(e);
			return rc;
		}
		if (e)
			*e = (struct err){ 0 };
		wait_before_retry();
	}
}

enum err_code ctl_call(const char *dir, struct http_client *client, const struct ctl_call *r,
    int64_t timeout, json_t **answer, struct err *e)
{
	return call_until(dir, client, r, timeout, clock_now() + timeout, answer, e);
}

enum err_code ctl_request(const char *dir, const struct ctl_call *r, int64_t timeout,
    json_t **answer, struct err *e)
{
	struct http_client *client = NULL;
	enum err_code rc = ctl_reach(dir, &client, e);

	if (!rc)
		rc = ctl_call(dir, client, r, timeout, answer, e);
	http_client_free(client);
	return rc;
}

enum err_code ctl_request_soon(const char *dir, const struct ctl_call *r, int64_t timeout,
    json_t **answer, struct err *e)
{
	struct http_client *client = NULL;
	enum err_code rc = ctl_reach(dir, &client, e);

	if (!rc)
		rc = call_until(dir, client, r, timeout, clock_now() + AWAY_MOST, answer, e);
	http_client_free(client);
	return rc;
}

enum err_code ctl_next_status(struct http_client *client, int64_t *rev, json_t **status,
    struct err *e)
{
	char path[64] = "/v1/status";
	enum err_code rc;

	if (*rev >= 0)
		snprintf(path, sizeof path, "/v1/status?rev=%lld&wait=0.2", (long long)*rev);
	rc = http_call(client, "GET", path, NULL, CTL_CALL, NULL, status, e);
	if (!rc)
		*rev = json_int(*status, "rev", 0);
	return rc;
}

enum err_code ctl_run_dir(const char *opt, char **dir, struct err *e)
{
	enum err_code rc = control_find(opt, dir, e);

	return rc == ERR_NOTREADY && *dir ? ERR_OK : rc;
}

int ctl_act_on_run(const char *opt, bool living, ctl_run_fn *act, void *options)
{
	struct err e = { 0 };
	char *dir = NULL;
	enum err_code rc = living ? control_find(opt, &dir, &e) : ctl_run_dir(opt, &dir, &e);

	if (rc == ERR_OK)
		rc = act(options, dir, &e);
	free(dir);
	return rc == ERR_OK ? 0 : ctl_fail(&e);
}

enum err_code ctl_watch_status(struct http_client *client, int64_t timeout, ctl_status_fn *look,
    void *ctx, struct err *e)
{
	int64_t end = clock_now() + timeout, rev = -1, answered = clock_now();

	while (clock_now() < end) {
		json_t *s = NULL;
		bool done = false;
		enum err_code rc = ctl_next_status(client, &rev, &s, e);

		/* A coordinator that is merely slow may answer the next request: wait until the end. */
		if (rc == ERR_TIMEOUT)
			continue;
		if ((rc == ERR_UNREACH || rc == ERR_CLOSED) && clock_now() - answered < AWAY_MOST) {
			rev = -1;
			wait_before_retry();
			continue;
		}
		answered = clock_now();
		if (!rc)
			rc = look(ctx, s, &done, e);
		json_decref(s);
		if (rc || done)
			return rc;
	}
	return err_set(e, ERR_TIMEOUT, "not done within %.0f s", (double)timeout / NSEC_PER_SEC);
}
