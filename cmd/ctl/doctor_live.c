/* SPDX-License-Identifier: ISC */
#include "rundir/rundir.h"
#include "doctor.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/json.h"
#include "core/num.h"
#include "ctl.h"
#include "msg/words.h"
#include "state/state_store.h"

/* Checks the coordinator's reports: the figures in each process's heartbeats, and who waits for
 * whom. */

/* Seconds. Signed requests are refused beyond 60 s; with less skew only the time stamps of logs
 * disagree. */
#define SKEW_FAIL 60.0
#define SKEW_WARN 2.0
/* Seconds. Shorter waits are normal while a cluster trains. */
#define WAIT_WARN 1.0
/* Seconds by which the steps of a slow worker are longer than those of the others. Less is left to
 * ps-stat why. */
#define SLOW_WARN 1e-3
/* Waits of which each has a line of its own, at most. */
#define NAMED 64u

static json_t *get_from_coordinator(struct doctor *d, const char *path, struct err *e)
{
	json_t *answer = NULL;

	http_call(d->client, "GET", path, NULL, d->patience, NULL, &answer, e);
	return answer;
}

/* ---- each process ---- */

static void check_clock_skew(struct doctor *d, const char *id, const json_t *row)
{
	double skew = json_num(row, "clock_skew_seconds", 0), much = fabs(skew);

	if (much >= SKEW_WARN)
		doctor_add_finding(d, much >= SKEW_FAIL ? DOCTOR_FAIL : DOCTOR_WARN, DOCTOR_CAUSE,
		    "clock", id,
		    "synchronize the clocks of both hosts by NTP: timedatectl set-ntp true",
		    "%s's clock (%s) is %.1f s %s the coordinator's", id,
		    json_str(row, "host", "?"), much, skew > 0 ? "ahead of" : "behind");
}

static void check_same_version(struct doctor *d, const char *id, const json_t *row,
    const json_t *status)
{
	const char *theirs = json_str(row, "version", ""), *ours = json_str(status, "version", "");

	if (*theirs && strcmp(theirs, ours) != 0)
		doctor_add_finding(d, DOCTOR_WARN, DOCTOR_CAUSE, "versions", id,
		    "install the same pskit on every host: ps-ctl version",
		    "%s (%s) is pskit %.30s, the coordinator is %s", id, json_str(row, "host", "?"),
		    theirs, ours);
}

static void check_member_process(struct doctor *d, const json_t *row, const json_t *status,
    uint64_t others)
{
	const char *id = json_str(row, "id", "?");

	check_clock_skew(d, id, row);
	check_same_version(d, id, row, status);
	if (json_is_integer(json_object_get(row, "max_fds")))
		doctor_descriptors(d, id, (uint64_t)json_int(row, "max_fds", 0),
		    json_int(row, "open_fds", -1), others);
}

static void check_lost_server(struct doctor *d, const json_t *row)
{
	const char *id = json_str(row, "id", "?");
	enum err_cause ignored;
	char *said = doctor_last_words(d, id, &ignored);

	if (words_member(words_worker_state, row, "state") == WORKER_LOST)
		doctor_add_finding(d, DOCTOR_FAIL, DOCTOR_PLAIN, "servers", id,
		    "ps-ctl logs shows how it ended; start it again: ps-serve -C DIR --name ID, or --join FILE",
		    "%s is lost: it was on %s (pid %lld)%s%.300s", id, json_str(row, "host", "?"),
		    (long long)json_int(row, "pid", 0), said ? ", and its last message was: " : "",
		    said ? said : "");
	free(said);
}

/* The job goes on without a lost worker, so this is a warning. */
static void check_lost_worker(struct doctor *d, const json_t *row, const json_t *status)
{
	const char *id = json_str(row, "id", "?");
	int64_t here = json_int(status, "workers", 0),
	        wanted = json_int(status, "workers_wanted", 0);
	char remedy[100];

	if (words_member(words_worker_state, row, "state") != WORKER_LOST)
		return;
	snprintf(remedy, sizeof remedy,
	    "ps-ctl logs shows how it ended; ps-ctl scale workers=%lld starts another one",
	    (long long)wanted);
	doctor_add_finding(d, DOCTOR_WARN, DOCTOR_PLAIN, "workers", id, remedy,
	    "%s is lost: it was on %s (pid %lld); the job continues with %lld of %lld workers", id,
	    json_str(row, "host", "?"), (long long)json_int(row, "pid", 0), (long long)here,
	    (long long)wanted);
}

static bool is_loopback_address(const char *addr)
{
	return strncmp(addr, "127.", 4) == 0 || strncmp(addr, "localhost:", 10) == 0 ||
	    strncmp(addr, "[::1]", 5) == 0;
}

/* Reports a server that listens on a loopback address although some peer is on another host. */
static void check_reachable_address(struct doctor *d, const json_t *server, const json_t *peers)
{
	const char *host = json_str(server, "host", ""), *addr = json_str(server, "listen", "");
	const json_t *p;
	size_t i;

	json_array_foreach(peers, i, p) {
		const char *other = json_str(p, "host", "");

		if (!*other || strcmp(other, host) == 0 || !is_loopback_address(addr))
			continue;
		doctor_add_finding(d, DOCTOR_FAIL, DOCTOR_CAUSE, "names",
		    json_str(server, "id", "?"),
		    "start it with an address of its host: listen in the cluster file, or "
		    "ps-serve --listen HOST:0",
		    "%s is on %s, and %s on %s cannot reach it at %s", json_str(server, "id", "?"),
		    host, json_str(p, "id", "?"), other, addr);
		return;
	}
}

/* ---- each host ---- */

/* Compares the memory that a host has left with what its servers may still come to use together.
 * Does so for the first server of each host; for the others it does nothing. */
static void check_memory_of_servers(struct doctor *d, const json_t *servers, size_t at)
{
	const json_t *first = json_array_get(servers, at), *s;
	const char *host = json_str(first, "host", "");
	double left = json_num(first, "memory_available_bytes", 0), may = 0;
	char a[16], b[16];
	size_t i;

	json_array_foreach(servers, i, s) {
		double rest = json_num(s, "memory_bound_bytes", 0) - json_num(s, "rss_bytes", 0);

		if (strcmp(json_str(s, "host", ""), host) != 0)
			continue;
		if (i < at)
			return;
		may += rest > 0 ? rest : 0;
	}
	num_human(left, a);
	num_human(may, b);
	if (left > 0 && may > left)
		doctor_add_finding(d, DOCTOR_WARN, DOCTOR_PLAIN, "memory", host,
		    "set mem_limit, or start servers on other hosts",
		    "the servers on %s can use %sB more, but the host has %sB left", host, b, a);
}

/* ---- all together ---- */

/* True when the supervisor has started this process, which is alive and has not joined yet: the
 * user must not start another one in its place. */
static bool is_starting(const struct doctor *d, const char *id, enum why_code code)
{
	return code == WHY_NOT_JOINED && d->dir && rundir_is_supervised(d->dir) &&
	    rundir_read_pid(d->dir, id) > 0;
}

/* Reports waits: all of them while the cluster forms, otherwise those that last long or slow down
 * everything. */
static void check_who_waits(struct doctor *d, const json_t *why, bool forming)
{
	const json_t *row;
	unsigned n_single = 0;
	size_t i;

	json_array_foreach(json_object_get(why, "why"), i, row) {
		enum why_code code = why_code_by_name(json_str(row, "code", ""));
		double seconds = json_num(row, "since_seconds", 0);
		const char *who = json_str(row, "id", "?"), *whom = json_str(row, "for", "?"),
		           *because = json_str(row, "because", "");
		bool slow = strcmp(who, "everybody") == 0, starting = is_starting(d, whom, code);
		bool harmless = starting || why_code_is_harmless(code);
		const char *remedy = starting ? "wait, or see ps-ctl logs"
		                              : json_str(row, "remedy", "");
		const char *together = starting ? "they have been started and have not joined yet"
		                                : json_str(row, "together", NULL);
		char text[900];

		if (starting)
			because = "it has been started and has not joined yet";
		if (!together && n_single++ >= NAMED)
			continue;
		/* A worker that cannot begin has reported the reason: add it to the check that it
		 * belongs to. */
		if (forming && code == WHY_UNFIT) {
			snprintf(text, sizeof text, "%s waits for %s: %s", who, whom, because);
			doctor_add_message(d, DOCTOR_FAIL, DOCTOR_CAUSE, whom,
			    err_cause_by_name(json_str(row, "cause", "")), text);
		} else if (forming || seconds >= (slow ? SLOW_WARN : WAIT_WARN)) {
			doctor_add_finding(d, forming && !harmless ? DOCTOR_FAIL : DOCTOR_WARN,
			    DOCTOR_PLAIN, slow ? "slow" : "waits", whom, remedy,
			    "%s waits for %s (%.1f s): %s", who, whom, seconds, because);
			if (together)
				doctor_share_line(d, who, together, seconds);
		}
	}
}

/* Reports the last failed checkpoint, unless a later one succeeded. */
static void check_failed_checkpoints(struct doctor *d, const json_t *status, const json_t *events)
{
	const char *failed = NULL;
	const json_t *o;
	size_t i;

	json_array_foreach(json_object_get(events, "events"), i, o) {
		enum event_kind kind = event_kind_by_name(json_str(o, "event", ""));

		if (kind == EVENT_checkpoint_failed)
			failed = json_str(o, "text", "");
		else if (kind == EVENT_checkpoint)
			failed = NULL;
	}
	if (failed)
		doctor_add_message(d, DOCTOR_FAIL, DOCTOR_CAUSE, "checkpoints",
		    err_cause_by_name(json_str(status, "checkpoint_cause", "")), failed);
}

/* Rows that do not fit into ram= are on the server's disk. */
static void check_disk_of_rows(struct doctor *d, const json_t *row)
{
	const char *id = json_str(row, "id", "?"), *error = json_str(row, "disk_error", "");

	if (*error)
		doctor_add_finding(d, DOCTOR_FAIL, DOCTOR_CAUSE, "disk", id,
		    "make room on that disk, raise disk= of sparse, or end the server: its replicas go on",
		    "%s on %s cannot use its disk: %s", id, json_str(row, "host", "?"), error);
}

static void check_refused_sessions(struct doctor *d, const json_t *row)
{
	int64_t n = json_int(row, "auth_failures", 0);

	if (n)
		doctor_add_finding(d, DOCTOR_WARN, DOCTOR_PLAIN, "keys", json_str(row, "id", "?"),
		    "its log names the peers (connection refused); a process of this cluster needs a line "
		    "in authorized_keys or a new join file: ps-ctl invite",
		    "%s has refused %lld connection%s of unknown peers", json_str(row, "id", "?"),
		    (long long)n, NUM_S(n));
}

/* The arrays are rows of the coordinator, borrowed. Each subject gets its OK last, which
 * doctor_add_ok drops when a check has found something. A worker's descriptors are judged with 0
 * peers, a relay's with all workers. */
static void check_reported_processes(struct doctor *d, const json_t *status, const json_t *servers,
    const json_t *workers, const json_t *relays)
{
	uint64_t others = json_array_size(servers) + json_array_size(workers) +
	    json_array_size(relays);
	const json_t *row;
	size_t i;

	json_array_foreach(servers, i, row) {
		check_member_process(d, row, status, others);
		check_lost_server(d, row);
		check_reachable_address(d, row, workers);
		check_reachable_address(d, row, servers);
		check_memory_of_servers(d, servers, i);
		check_refused_sessions(d, row);
		check_disk_of_rows(d, row);
		doctor_refused_pushes(d, json_str(row, "id", "?"),
		    json_int(row, "pushes_refused", 0));
	}
	json_array_foreach(workers, i, row) {
		check_member_process(d, row, status, 0);
		check_lost_worker(d, row, status);
	}
	json_array_foreach(relays, i, row)
		check_member_process(d, row, status, json_array_size(workers));
	doctor_add_ok(d, "clock", "all clocks are within %.0f s", SKEW_WARN);
	doctor_add_ok(d, "versions", "all are pskit %s, protocol %lld",
	    json_str(status, "version", "?"), (long long)json_int(status, "protocol", 0));
	doctor_add_ok(d, "files", "every process may open enough descriptors");
	doctor_add_ok(d, "memory", "the hosts have enough for all servers");
	doctor_add_ok(d, "names", "every address is reachable from the hosts that use it");
}

/* Reports a failed job with the reason that it gave. */
static void check_job_state(struct doctor *d, const json_t *status)
{
	if (words_member(words_phase, status, "state") == PHASE_FAILED)
		doctor_add_message(d, DOCTOR_FAIL, DOCTOR_CAUSE, "job",
		    err_cause_by_name(json_str(status, "cause", "")),
		    json_str(status, "reason", "the job failed"));
}

/* Reports partitions that have fewer replicas than the cluster should keep, unless they are being
 * copied. */
static void check_replicas(struct doctor *d, const json_t *status)
{
	int64_t wanted = json_int(status, "replicas", 1),
	        present = json_int(status, "replicas_present", wanted),
	        servers = json_int(status, "servers", 0);
	char remedy[100];

	if (present <= 0 || present >= wanted || json_int(status, "partitions_moving", 0) > 0)
		return;
	snprintf(remedy, sizeof remedy, "start another server: ps-ctl scale servers=%lld",
	    (long long)wanted);
	doctor_add_finding(d, DOCTOR_WARN, DOCTOR_PLAIN, "replicas", "cluster", remedy,
	    "partitions have %lld of %lld replicas; %lld server%s here", (long long)present,
	    (long long)wanted, (long long)servers, servers == 1 ? " is" : "s are");
}

/* Reports what a coordinator that stands by would not have after a change-over. The state names what its own
 * run directory lacks. */
static void check_standbys(struct doctor *d, const json_t *status)
{
	const json_t *list = json_object_get(status, "standbys"), *record;
	struct state_standby s;
	size_t i;

	json_array_foreach(list, i, record)
		if (state_standby_decode(record, &s) && !s.shares)
			doctor_add_finding(d, DOCTOR_WARN, DOCTOR_PLAIN, "standbys", s.host,
			    "give both coordinators one run directory on a shared file system (-C), or the same "
			    "keys as credentials and checkpoint_to",
			    "the coordinator that stands by at %s (%s) has a run directory of its own, %s: it has "
			    "the state, but not the events, the keys and the checkpoints that are made in this one",
			    s.data, s.host, s.run_dir);
	if (json_array_size(list))
		doctor_add_ok(d, "standbys", "%zu coordinator%s by, with this run directory",
		    json_array_size(list), json_array_size(list) == 1 ? " stands" : "s stand");
}

/* Each document is a request of its own and may be missing; the checks treat a missing one as
 * empty. */
static void check_cluster(struct doctor *d, const json_t *status)
{
	json_t *servers = get_from_coordinator(d, "/v1/servers", NULL),
	       *workers = get_from_coordinator(d, "/v1/workers", NULL),
	       *relays = get_from_coordinator(d, "/v1/relays", NULL);
	json_t *why = get_from_coordinator(d, "/v1/why", NULL),
	       *events = get_from_coordinator(d, "/v1/events", NULL);
	bool forming = words_member(words_phase, status, "state") == PHASE_FORMING;
	int64_t here = json_int(status, "servers", 0);

	check_job_state(d, status);
	check_replicas(d, status);
	check_standbys(d, status);
	doctor_learning(d, status);
	check_failed_checkpoints(d, status, events);
	check_reported_processes(d, status, json_object_get(servers, "servers"),
	    json_object_get(workers, "workers"), json_object_get(relays, "relays"));
	check_who_waits(d, why, forming);
	doctor_add_ok(d, "servers", "%lld of %lld %s here", (long long)here,
	    (long long)json_int(status, "servers_wanted", 0), here == 1 ? "is" : "are");
	doctor_add_ok(d, "waits", "no process waits for long");
	json_decref(servers);
	json_decref(workers);
	json_decref(relays);
	json_decref(why);
	json_decref(events);
}

void doctor_live(struct doctor *d)
{
	struct err e = { 0 };
	json_t *status = get_from_coordinator(d, "/v1/status", &e);
	char text[700];

	if (status) {
		check_cluster(d, status);
	} else {
		snprintf(text, sizeof text, "cannot ask the coordinator: %s", e.msg);
		doctor_add_message(d, DOCTOR_FAIL, DOCTOR_PLAIN, "coordinator", e.cause, text);
		http_client_free(d->client);
		d->client = NULL;
	}
	json_decref(status);
}
