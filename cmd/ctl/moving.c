/* SPDX-License-Identifier: ISC */
#include "moving.h"

#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

#include "core/json.h"
#include "core/num.h"

#define BAR 30

const struct opt moving_opts[MOVING_OPTS] = {
	CTL_OPT_CLUSTER(struct moving_options, dir),
	CTL_OPT_TIMEOUT(struct moving_options, timeout, "how long to wait until it is done (60s)"),
};

bool moving_parse(const struct ctl_cmd *self, struct moving_options *o, int argc, char **argv,
    int *nargs, int *code)
{
	*o = (struct moving_options){ .timeout = 60 * NSEC_PER_SEC };
	return ctl_parse(self, o, argc, argv, nargs, code);
}

static void show_moved_bar(const json_t *s, uint64_t most)
{
	uint64_t left = (uint64_t)json_int(s, "partitions_moving", 0);
	int64_t servers = json_int(s, "servers", 0), workers = json_int(s, "workers", 0);
	int full = most ? (int)((most - left) * BAR / most) : BAR;

	if (!isatty(STDERR_FILENO) || !most)
		return;
	fprintf(stderr,
	    "\r[%.*s%.*s] %llu of %llu partition%s moved, %lld server%s, %lld worker%s ", full,
	    "##############################", BAR - full, "                              ",
	    (unsigned long long)(most - left), (unsigned long long)most, NUM_S(most),
	    (long long)servers, NUM_S(servers), (long long)workers, NUM_S(workers));
}

/* No partition moves, no process is called for, and none is about to leave. */
static bool is_placement_settled(const json_t *s)
{
	return json_int(s, "partitions_moving", 0) == 0 &&
	    json_array_size(json_object_get(s, "called")) == 0 && !json_flag(s, "scaling");
}

static bool is_job_over(const json_t *s)
{
	const char *state = json_str(s, "state", "");

	return strcmp(state, "running") != 0 && strcmp(state, "finishing") != 0;
}

/* A ctl_status_fn for ctl_watch_status.  *most: the largest number of partitions that were still to move. */
static enum err_code check_moved(void *most, const json_t *s, bool *done, struct err *e)
{
	uint64_t left = (uint64_t)json_int(s, "partitions_moving", 0), *m = most;

	(void)e;
	*m = left > *m ? left : *m;
	show_moved_bar(s, *m);
	*done = is_placement_settled(s) || is_job_over(s);
	if (*done && isatty(STDERR_FILENO) && *m)
		fputc('\n', stderr);
	return ERR_OK;
}

static enum err_code await_moved(struct http_client *client, int64_t timeout, struct err *e)
{
	uint64_t most = 0;
	enum err_code rc = ctl_watch_status(client, timeout, check_moved, &most, e);

	return rc != ERR_TIMEOUT
	    ? rc
	    : err_set(e, rc, "it goes on after %.0f s: ps-ctl status tells how far it is",
	          (double)timeout / NSEC_PER_SEC);
}

int moving(const char *dir, const char *route, json_t *body, int64_t timeout)
{
	struct http_client *client = NULL;
	struct err e = { 0 };
	enum err_code rc = ctl_reach(dir, &client, &e);

	if (rc == ERR_OK)
		rc = http_call(client, "POST", route, body, CTL_CALL, NULL, NULL, &e);
	if (rc == ERR_OK)
		rc = await_moved(client, timeout, &e);
	http_client_free(client);
	json_decref(body);
	return rc == ERR_OK ? 0 : ctl_fail(&e);
}
