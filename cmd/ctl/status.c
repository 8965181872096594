#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/plain.h"
#include "ctl.h"
#include "launch/rundir.h"
#include "result.h"

#define TIMEOUT (5 * NSEC_PER_SEC)

struct options {
	const char *dir;
	bool json;
};

static const struct opt opts[] = {
	CTL_OPT_CLUSTER(struct options, dir),
	CTL_OPT_JSON(struct options, json),
};

static void print_cluster(const json_t *s)
{
	int64_t total = json_int(s, "steps_total", 0), workers = json_int(s, "workers_wanted", 0);
	const json_t *loss = json_object_get(s, "train_loss");
	const char *waiting = json_str(s, "waiting_for", ""), *reason = json_str(s, "reason", "");
	char rate[16];

	printf("cluster %s: %s", json_str(s, "name", "?"), json_str(s, "state", "?"));
	if (*reason)
		plain_print(stdout, " (%s)", reason);
	if (*waiting)
		plain_print(stdout, ", waiting for %s", waiting);
	if (workers > 0) {
		printf(", step %lld", (long long)json_int(s, "step", 0));
		if (total > 0)
			printf("/%lld", (long long)total);
	}
	if (json_is_number(loss))
		printf(", loss %.4g", json_number_value(loss));
	if (json_num(s, "examples_per_second", 0) > 0) {
		ctl_count(json_num(s, "examples_per_second", 0), rate);
		printf(", %s examples/s", rate);
	}
	printf(", %lld/%lld servers", (long long)json_int(s, "servers", 0),
	       (long long)json_int(s, "servers_wanted", 0));
	if (workers > 0)
		printf(", %lld/%lld workers", (long long)(json_int(s, "workers", 0) +
		       json_int(s, "workers_done", 0)), (long long)workers);
	printf(", %s\n", json_str(s, "sync", "?"));
}

static void print_rows(const json_t *list)
{
	size_t i;
	json_t *o;

	json_array_foreach((json_t *)list, i, o) {
		const char *host = json_str(o, "host", ""), *listen = json_str(o, "listen", "");

		plain_print(stdout, "%-12s %-9s %7lld %10lld  %-16s %s\n", json_str(o, "id", "?"),
		       json_str(o, "state", "?"), (long long)json_int(o, "pid", 0),
		       (long long)json_int(o, "step", 0), *host ? host : "-", *listen ? listen : "-");
	}
}

static void print_lines(const char *kind, const json_t *list)
{
	size_t i;
	json_t *o;

	json_array_foreach((json_t *)list, i, o)
		ctl_line(kind, o);
}

static enum err_code get(struct http_client *c, const char *path, json_t **out, struct err *e)
{
	return http_call(c, "GET", path, NULL, TIMEOUT, NULL, out, e);
}

static enum err_code show(const char *dir, bool json, struct err *e)
{
	struct http_client *client = NULL;
	json_t *status = NULL, *servers = NULL, *workers = NULL;
	enum err_code rc = ctl_connect(dir, &client, e);

	if (rc == ERR_OK)
		rc = get(client, "/v1/status", &status, e);
	if (rc == ERR_OK)
		rc = get(client, "/v1/servers", &servers, e);
	if (rc == ERR_OK)
		rc = get(client, "/v1/workers", &workers, e);
	if (rc == ERR_OK && json) {
		ctl_line("cluster", status);
		print_lines("server", json_object_get(servers, "servers"));
		print_lines("worker", json_object_get(workers, "workers"));
	} else if (rc == ERR_OK) {
		print_cluster(status);
		printf("%-12s %-9s %7s %10s  %-16s %s\n", "ID", "STATE", "PID", "STEP", "HOST", "LISTEN");
		print_rows(json_object_get(servers, "servers"));
		print_rows(json_object_get(workers, "workers"));
	}
	json_decref(status);
	json_decref(servers);
	json_decref(workers);
	http_client_free(client);
	return rc;
}

/* Of a run that has ended there is still the result. */
static void show_last(const char *dir, bool json)
{
	json_t *result = dir ? result_read(dir, NULL) : NULL;

	if (result)
		result_print(result, json);
	json_decref(result);
}

static int run(const struct ctl_cmd *self, int argc, char **argv)
{
	struct options o = { 0 };
	struct err e = { 0 };
	enum err_code rc;
	char *dir = NULL;
	int nargs, code;

	if (!ctl_parse(self, &o, argc, argv, &nargs, &code))
		return code;
	rc = rundir_find(o.dir, &dir, &e);
	if (rc == ERR_OK) {
		rc = show(dir, o.json, &e);
		/* Its lock is held, so it is there, but not yet or no longer up. */
		if (rc == ERR_UNREACH || rc == ERR_CLOSED)
			rc = err_set(&e, ERR_NOTREADY, "cluster \"%s\" is starting or ending: its coordinator "
			             "does not answer; see ps-ctl logs", dir);
	} else if (rc == ERR_NOTREADY) {
		show_last(dir, o.json);
	}
	code = rc == ERR_OK ? 0 : ctl_fail(&e);
	free(dir);
	return code;
}

const struct ctl_cmd ctl_cmd_status = {
	"status",
	{
		.prog = "ps-ctl status", .args = NULL,
		.about = "the cluster, its servers and its workers as they stand",
		.more = "Exit code 3 when the cluster is not running; the result of a run that has ended "
		        "is printed all\nthe same.  With --json one object a line: the cluster, then "
		        "servers, then workers.",
		.opts = opts, .nopts = CTL_COUNT(opts),
		.examples = "  ps-ctl status\n"
		            "  ps-ctl status --json | jq -r 'select(.kind == \"worker\") | .id'\n",
	},
	run,
};
