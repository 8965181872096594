#include "moving.h"

#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

#include "base/json.h"

#define BAR 30

const struct opt moving_opts[MOVING_OPTS] = {
	CTL_OPT_CLUSTER(struct moving_options, dir),
	CTL_OPT_TIMEOUT(struct moving_options, timeout, "how long to wait until it is done (60s)"),
};

bool moving_parse(const struct ctl_cmd *self, struct moving_options *o, int argc, char **argv, int *nargs, int *code)
{
	*o = (struct moving_options){ .timeout = 60 * NSEC_PER_SEC };
	return ctl_parse(self, o, argc, argv, nargs, code);
}

static void show(const json_t *s, uint64_t most)
{
	uint64_t left = (uint64_t)json_int(s, "partitions_moving", 0);
	int full = most ? (int)((most - left) * BAR / most) : BAR;

	if (!isatty(STDERR_FILENO) || !most)
		return;
	fprintf(stderr, "\r[%.*s%.*s] %llu of %llu partitions moved, %lld servers, %lld workers ", full,
	        "##############################", BAR - full, "                              ",
	        (unsigned long long)(most - left), (unsigned long long)most, (long long)json_int(s, "servers", 0),
	        (long long)json_int(s, "workers", 0));
}

/* Nothing moves, nobody is called for, nobody is on the way out. */
static bool is_settled(const json_t *s)
{
	return json_int(s, "partitions_moving", 0) == 0 && json_array_size(json_object_get(s, "called")) == 0 &&
	       !json_flag(s, "scaling");
}

static bool is_over(const json_t *s)
{
	const char *state = json_str(s, "state", "");

	return strcmp(state, "running") != 0 && strcmp(state, "finishing") != 0;
}

/* most: partitions that were still to move when most were. */
static enum err_code look(void *most, const json_t *s, bool *done, struct err *e)
{
	uint64_t left = (uint64_t)json_int(s, "partitions_moving", 0), *m = most;

	(void)e;
	*m = left > *m ? left : *m;
	show(s, *m);
	*done = is_settled(s) || is_over(s);
	if (*done && isatty(STDERR_FILENO) && *m)
		fputc('\n', stderr);
	return ERR_OK;
}

static enum err_code follow(struct http_client *client, int64_t timeout, struct err *e)
{
	uint64_t most = 0;
	enum err_code rc = ctl_until(client, timeout, look, &most, e);

	return rc != ERR_TIMEOUT ? rc : err_set(e, rc, "it goes on after %.0f s: ps-ctl status tells how far it is",
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
		rc = follow(client, timeout, &e);
	http_client_free(client);
	json_decref(body);
	return rc == ERR_OK ? 0 : ctl_fail(&e);
}
