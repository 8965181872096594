/* SPDX-License-Identifier: ISC */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "session/control.h"
#include "core/buf.h"
#include "core/clock.h"
#include "core/json.h"
#include "core/num.h"
#include "core/plain.h"
#include "ctl.h"
#include "rundir/learning.h"
#include "rundir/result.h"
#include "rundir/rundir.h"

#define TIMEOUT (5 * NSEC_PER_SEC)

struct options {
	const char *dir;
	bool json;
};

static const struct opt opts[] = {
	CTL_OPT_CLUSTER(struct options, dir),
	CTL_OPT_JSON(struct options, json),
};

/* How much of the data in blocks is done, and of how much. */
static void print_data(const json_t *s)
{
	double bytes = json_num(s, "data_bytes", 0), epochs = json_num(s, "data_epochs", 0),
	       examples = json_num(s, "epoch_examples", 0);
	char done[16], all[16];

	if (bytes <= 0)
		return;
	num_count(json_num(s, "data_done_bytes", 0), done);
	num_count(bytes * epochs, all);
	printf(", data %sB", done);
	if (epochs > 0)
		printf("/%sB", all);
	if (examples > 0) {
		num_count(examples, all);
		printf(" (%s examples an epoch)", all);
	}
}

/* Parts that the status does not have are left out of the line. Text that another process wrote
 * goes through plain_print. */
static void print_cluster_line(const json_t *s)
{
	int64_t total = json_int(s, "steps_total", 0), workers = json_int(s, "workers_wanted", 0);
	int64_t servers = json_int(s, "servers_wanted", 0), tries;
	const json_t *loss = json_object_get(s, "train_loss"),
	             *failing = json_object_get(s, "start_failing");
	const char *waiting = json_str(s, "waiting_for", ""), *reason = json_str(s, "reason", "");
	char rate[16], figure[32];

	printf("cluster %s: %s", json_str(s, "name", "?"), json_str(s, "state", "?"));
	if (*reason)
		plain_print(stdout, " (%s)", reason);
	if (*waiting)
		plain_print(stdout, ", waiting for %s", waiting);
	tries = json_int(failing, "tries", 0);
	if (failing)
		plain_print(stdout, ", cannot start %s (%lld %s, %.0f s): %s",
		    json_str(failing, "id", "?"), (long long)tries, tries == 1 ? "try" : "tries",
		    json_num(failing, "since_seconds", 0), json_str(failing, "because", "?"));
	if (workers > 0) {
		printf(", step %lld", (long long)json_int(s, "step", 0));
		if (total > 0)
			printf("/%lld", (long long)total);
	}
	print_data(s);
	if (json_is_number(loss)) {
		num_digits(json_number_value(loss), 4, figure);
		printf(", train loss %s", figure);
	}
	if (json_num(s, "examples_per_second", 0) > 0) {
		num_count(json_num(s, "examples_per_second", 0), rate);
		printf(", %s examples/s", rate);
	}
	printf(", %lld/%lld server%s", (long long)json_int(s, "servers", 0), (long long)servers,
	    NUM_S(servers));
	if (json_int(s, "replicas_present", 0) > 0 &&
	    json_int(s, "replicas_present", 0) < json_int(s, "replicas", 0))
		printf(", %lld/%lld replicas", (long long)json_int(s, "replicas_present", 0),
		    (long long)json_int(s, "replicas", 0));
	if (workers > 0)
		printf(", %lld/%lld worker%s",
		    (long long)(json_int(s, "workers", 0) + json_int(s, "workers_done", 0)),
		    (long long)workers, NUM_S(workers));
	if (json_int(s, "best_step", -1) >= 0) {
		num_digits(json_num(s, "best_value", 0), 4, figure);
		printf(", best %s %s at step %lld", json_str(s, "best_metric", "?"), figure,
		    (long long)json_int(s, "best_step", 0));
	} else if (json_is_object(json_object_get(s, "best_eval"))) {
		struct buf best = BUF_INIT;

		learning_put_best(json_object_get(s, "best_eval"), &best);
		printf(", eval %s", (char *)best.data);
		buf_release(&best);
	}
	printf(", %s\n", json_str(s, "sync", "?"));
	if (*json_str(s, "ended", ""))
		printf("ended early: %s\n", json_str(s, "ended", ""));
}

static void print_process_rows(const json_t *list)
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

static void print_json_rows(const char *kind, const json_t *list)
{
	size_t i;
	json_t *o;

	json_array_foreach((json_t *)list, i, o)
		json_print_event(kind, o);
}

static enum err_code get_status_part(struct http_client *c, const char *path, json_t **out,
    struct err *e)
{
	return http_call(c, "GET", path, NULL, TIMEOUT, NULL, out, e);
}

/* All three documents are read before the first line is printed, so an error prints nothing on
 * stdout. */
static enum err_code show_running_status(const char *dir, bool json, struct err *e)
{
	struct http_client *client = NULL;
	json_t *status = NULL, *servers = NULL, *workers = NULL;
	enum err_code rc = control_connect(dir, &client, e);

	if (rc == ERR_OK)
		rc = get_status_part(client, "/v1/status", &status, e);
	if (rc == ERR_OK)
		rc = get_status_part(client, "/v1/servers", &servers, e);
	if (rc == ERR_OK)
		rc = get_status_part(client, "/v1/workers", &workers, e);
	if (rc == ERR_OK && json) {
		json_print_event("cluster", status);
		print_json_rows("server", json_object_get(servers, "servers"));
		print_json_rows("worker", json_object_get(workers, "workers"));
	} else if (rc == ERR_OK) {
		print_cluster_line(status);
		printf("%-12s %-9s %7s %10s  %-16s %s\n", "ID", "STATE", "PID", "STEP", "HOST",
		    "LISTEN");
		print_process_rows(json_object_get(servers, "servers"));
		print_process_rows(json_object_get(workers, "workers"));
	}
	json_decref(status);
	json_decref(servers);
	json_decref(workers);
	http_client_free(client);
	return rc;
}

/* Prints the result of a run that has ended. */
static void show_last_result(const char *dir, bool json)
{
	json_t *result = dir ? result_read(dir, NULL) : NULL;

	if (result)
		result_print(result, json);
	json_decref(result);
}

/* A run that has ended (ERR_NOTREADY) shows its last result and still exits with the code of "not
 * running". */
static int run_status(const struct ctl_cmd *self, int argc, char **argv)
{
	struct options o = { 0 };
	struct err e = { 0 };
	struct rundir_retry failing;
	enum err_code rc;
	char *dir = NULL;
	int nargs, code;

	if (!ctl_parse(self, &o, argc, argv, &nargs, &code))
		return code;
	rc = control_find(o.dir, &dir, &e);
	if (rc == ERR_OK) {
		rc = show_running_status(dir, o.json, &e);
		/* The lock is held, so a process is there, but its coordinator does not answer yet or any
		 * more. */
		if ((rc == ERR_UNREACH || rc == ERR_CLOSED) && rundir_read_retry(dir, &failing))
			rc = err_set(&e, ERR_NOTREADY,
			    "cluster \"%s\": the supervisor cannot start %s and tries again (%u %s, "
			    "%.0f s): %s",
			    dir, failing.id, failing.tries, failing.tries == 1 ? "try" : "tries",
			    (double)(clock_wall() - failing.since) / NSEC_PER_SEC, failing.error);
		else if (rc == ERR_UNREACH || rc == ERR_CLOSED)
			rc = err_set(&e, ERR_NOTREADY,
			    "cluster \"%s\" is starting or ending: the coordinator does not "
			    "answer; see ps-ctl logs",
			    dir);
	} else if (rc == ERR_NOTREADY) {
		show_last_result(dir, o.json);
	}
	code = rc == ERR_OK ? 0 : ctl_fail(&e);
	free(dir);
	return code;
}

const struct ctl_cmd ctl_cmd_status = {
	"status",
	{
	    .prog = "ps-ctl status",
	    .args = NULL,
	    .about = "print the state of the cluster, its servers and its workers",
	    .more =
	        "The exit code is 3 if the cluster is not running; the result of a run that has ended is printed\n"
	        "even then. With --json there is one object per line: the cluster, then servers, then workers.",
	    .opts = opts,
	    .nopts = CTL_COUNT(opts),
	    .examples = "  ps-ctl status\n"
	                "  ps-ctl status --json | jq -r 'select(.kind == \"worker\") | .id'\n",
	},
	run_status,
};
