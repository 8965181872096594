/* SPDX-License-Identifier: ISC */
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/json.h"
#include "core/num.h"
#include "ctl.h"
#include "msg/words.h"

/* ps-ctl scale, drain and rebalance: requests to the coordinator that move partitions or change the
 * members, with a progress bar. */

#define BAR     30
#define TIMEOUT (60 * NSEC_PER_SEC)

struct options {
	const char *dir;
	int64_t timeout;
	bool force; /* of drain */
};

static const struct opt opts[] = {
	CTL_OPT_CLUSTER(struct options, dir),
	CTL_OPT_TIMEOUT(struct options, timeout,
	    "wait at most this long until the change is complete (60s)"),
};

static const struct opt drain_opts[] = {
	CTL_OPT_CLUSTER(struct options, dir),
	CTL_OPT_TIMEOUT(struct options, timeout,
	    "wait at most this long until the change is complete (60s)"),
	{ "force", 0, OPT_FLAG, offsetof(struct options, force), NULL,
	    "also if partitions keep a single replica of several", NULL, 0, 0 },
};

struct move {
	uint64_t most; /* the largest number of partitions that were still to move */
	int64_t present, wanted, servers; /* replicas of a partition at least; living servers */
};

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
	int64_t state = words_member(words_phase, s, "state");

	return state != PHASE_RUNNING && state != PHASE_FINISHING;
}

/* A ctl_status_fn for ctl_watch_status, with a struct move. */
static enum err_code check_moved(void *move, const json_t *s, bool *done, struct err *e)
{
	uint64_t left = (uint64_t)json_int(s, "partitions_moving", 0);
	struct move *m = move;

	(void)e;
	m->most = left > m->most ? left : m->most;
	m->wanted = json_int(s, "replicas", 1);
	m->present = json_int(s, "replicas_present", m->wanted);
	m->servers = json_int(s, "servers", 0);
	show_moved_bar(s, m->most);
	*done = is_placement_settled(s) || is_job_over(s);
	if (*done && isatty(STDERR_FILENO) && m->most)
		fputc('\n', stderr);
	return ERR_OK;
}

static enum err_code await_moved(struct http_client *client, int64_t timeout, struct err *e)
{
	struct move m = { 0 };
	enum err_code rc = ctl_watch_status(client, timeout, check_moved, &m, e);

	if (!rc && m.present > 0 && m.present < m.wanted && m.servers < m.wanted)
		fprintf(stderr,
		    "note: partitions have %lld of %lld replicas, because %lld server%s left; to have "
		    "%lld again, start another server: ps-ctl scale servers=%lld\n",
		    (long long)m.present, (long long)m.wanted, (long long)m.servers,
		    m.servers == 1 ? " is" : "s are", (long long)m.wanted, (long long)m.wanted);
	return rc != ERR_TIMEOUT
	    ? rc
	    : err_set(e, rc, "still in progress after %.0f s: ps-ctl status shows how much is done",
	          (double)timeout / NSEC_PER_SEC);
}

/* POST body (released here) to route of the cluster, and show how the partitions move until all are
 * in place and all requested members are there. Returns the exit code; 124 after the timeout. */
static int move_partitions(const struct options *o, const char *route, json_t *body)
{
	struct http_client *client = NULL;
	struct err e = { 0 };
	enum err_code rc = ctl_reach(o->dir, &client, &e);

	if (rc == ERR_OK)
		rc = ctl_call(o->dir, client,
		    &(struct ctl_call){ .path = route, .body = body, .repeatable = true },
		    o->timeout, NULL, &e);
	if (rc == ERR_OK)
		rc = await_moved(client, o->timeout, &e);
	http_client_free(client);
	json_decref(body);
	return rc == ERR_OK ? 0 : ctl_fail(&e);
}

/* Makes the body {"servers":N,"workers":N} from the words "servers=N" and "workers=N". Returns
 * NULL after reporting a wrong word. */
static json_t *parse_targets(const struct ctl_cmd *self, char **word, int n)
{
	json_t *body = json_object();

	for (int i = 0; i < n; i++) {
		const char *is = strchr(word[i], '=');
		int64_t value;

		if ((strncmp(word[i], "servers=", 8) != 0 &&
		        strncmp(word[i], "workers=", 8) != 0) ||
		    !num_int(is + 1, 1, 65535, &value)) {
			ctl_report_misuse(self,
			    "\"%s\": must be servers=N or workers=N, with N from 1 on", word[i]);
			json_decref(body);
			return NULL;
		}
		word[i][7] = 0;
		json_object_set_new(body, word[i], json_integer(value));
	}
	return body;
}

static int run_scale(const struct ctl_cmd *self, int argc, char **argv)
{
	struct options o = { .timeout = TIMEOUT };
	int nargs, code;
	json_t *body;

	if (!ctl_parse(self, &o, argc, argv, &nargs, &code))
		return code;
	body = parse_targets(self, argv + 1, nargs);
	return body ? move_partitions(&o, "/v1/scale", body) : 2;
}

const struct ctl_cmd ctl_cmd_scale = {
	"scale",
	{
	    .prog = "ps-ctl scale",
	    .args = "servers=N|workers=N ...",
	    .about = "change the number of servers and workers of a running cluster",
	    .more =
	        "The supervisor starts new processes, or processes join with join files. Partitions are moved to\n"
	        "new servers and away from servers that leave, while training continues. The command returns when\n"
	        "all partitions are on their servers, and all wanted servers and workers\n"
	        "take part.",
	    .opts = opts,
	    .nopts = CTL_COUNT(opts),
	    .min_args = 1,
	    .max_args = 2,
	    .examples = "  ps-ctl scale servers=4\n  ps-ctl scale servers=2 workers=6\n",
	},
	run_scale,
};

static int run_drain(const struct ctl_cmd *self, int argc, char **argv)
{
	struct options o = { .timeout = TIMEOUT };
	int nargs, code;

	if (!ctl_parse(self, &o, argc, argv, &nargs, &code))
		return code;
	return move_partitions(&o, "/v1/drain",
	    json_pack("{s:s, s:b}", "server", argv[1], "force", o.force));
}

const struct ctl_cmd ctl_cmd_drain = {
	"drain",
	{
	    .prog = "ps-ctl drain",
	    .args = "SERVER",
	    .about = "move all partitions of a server to others, and let it leave",
	    .more =
	        "Its partitions are moved to the other servers while training continues. Then its process ends.\n"
	        "With replicas, a server is refused without which all partitions would have a single replica.",
	    .opts = drain_opts,
	    .nopts = CTL_COUNT(drain_opts),
	    .min_args = 1,
	    .max_args = 1,
	    .examples = "  ps-ctl drain server-1\n",
	},
	run_drain,
};

static int run_rebalance(const struct ctl_cmd *self, int argc, char **argv)
{
	struct options o = { .timeout = TIMEOUT };
	int nargs, code;

	if (!ctl_parse(self, &o, argc, argv, &nargs, &code))
		return code;
	return move_partitions(&o, "/v1/rebalance", json_object());
}

const struct ctl_cmd ctl_cmd_rebalance = {
	"rebalance",
	{
	    .prog = "ps-ctl rebalance",
	    .args = NULL,
	    .about = "balance the load of the servers",
	    .more =
	        "Runs of partitions are moved from servers with much load to servers with little, while training\n"
	        "continues.  This also happens automatically when a server joins.",
	    .opts = opts,
	    .nopts = CTL_COUNT(opts),
	    .min_args = 0,
	    .max_args = 0,
	    .examples = "  ps-ctl rebalance\n",
	},
	run_rebalance,
};
