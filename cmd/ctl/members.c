/* SPDX-License-Identifier: ISC */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conf/conf_key.h"
#include "core/buf.h"
#include "core/clock.h"
#include "core/file.h"
#include "core/json.h"
#include "core/mem.h"
#include "core/num.h"
#include "ctl.h"
#include "far.h"
#include "meeting.h"
#include "parts.h"
#include "restart.h"
#include "rundir/rundir.h"

/* How the processes of a cluster are started: their command lines, and on which host. */

/* How long after the start the status is polled at the faster rate. */
#define FAST_FOR  (5 * NSEC_PER_SEC)
#define WORDS     16
#define STATE_MAX (64u << 20)

/* runner_spawn() with the working directory `in`; NULL: the present one. */
static enum err_code spawn_in_dir(struct runner *r, const char *in, const char *id,
    const char *const *words, size_t *child, struct err *e)
{
	char *path = path_join(r->bin, words[0]), *log = mem_printf("%s/%s.log", r->dir, id);
	const char *argv[WORDS] = { path };
	struct launch_spec spec = { .id = id,
		.argv = (char *const *)argv,
		.log_path = log,
		.die_with_parent = true,
		.dir = in,
		.deaf = r->meeting != NULL };
	enum err_code rc;

	for (size_t n = 1; words[n] && n + 1 < CTL_COUNT(argv); n++)
		argv[n] = words[n];
	rc = launch_start(r->set, &spec, child, e);
	free(path);
	free(log);
	return rc;
}

enum err_code runner_spawn(struct runner *r, const char *id, const char *const *words,
    size_t *child, struct err *e)
{
	return spawn_in_dir(r, NULL, id, words, child, e);
}

/* The words of a command line. */
struct words {
	const char *word[WORDS];
	size_t n;
};

/* value may be NULL. */
static void add_words(struct words *w, const char *word, const char *value)
{
	w->word[w->n++] = word;
	if (value)
		w->word[w->n++] = value;
}

/* Add the options that name the cluster and the process.  On this host the cluster is named by its
 * run directory; on another one ps-ctl remote names it in PS_CLUSTER. */
static void add_cluster_words(struct words *w, const struct runner *r, const char *host,
    const char *option, const char *which)
{
	if (!host)
		add_words(w, "-C", r->dir);
	add_words(w, option, which);
	if (r->iface)
		add_words(w, "--iface", r->iface);
}

/* host: NULL for this one.  dir: the working directory there, or NULL. */
static enum err_code start_member_on(struct runner *r, const char *host, const char *dir,
    const char *id, const struct words *w, struct err *e)
{
	size_t child;

	return host ? far_spawn(r, host, dir, id, w->word, &child, e)
	            : spawn_in_dir(r, dir, id, w->word, &child, e);
}

static void add_resume_words(struct words *w, const struct runner *r)
{
	add_words(w, "--resume", r->resume ? r->resume : "none");
}

/* Read "began" from RUN/state.json (coordinator/state_file.h), which differs for each start of the
 * cluster; "" when there is no readable state. */
static void read_state_began(const struct runner *r, char out[static RUNNER_BEGAN])
{
	char *path = rundir_path(r->dir, "state.json");
	json_t *state = json_parse_file(path, STATE_MAX, NULL);

	snprintf(out, RUNNER_BEGAN, "%s", json_str(state, "began", ""));
	json_decref(state);
	free(path);
}

/* Only the first coordinator of this start gets --resume.  Once it has written its state ("began"
 * has changed), a restarted coordinator continues from that state instead. */
static enum err_code start_coordinator_process(struct runner *r, struct err *e)
{
	struct words w = { { "ps-serve", "-C", r->dir, "--coordinator", "--no-store" }, 5 };
	char began[RUNNER_BEGAN];

	if (r->advertise)
		add_words(&w, "--advertise", r->advertise);
	read_state_began(r, began);
	if (strcmp(began, r->began) == 0)
		add_resume_words(&w, r);
	return start_member_on(r, NULL, NULL, "coordinator", &w, e);
}

/* first: this is server-0, which is also the coordinator unless that is a process of its own. */
static enum err_code start_server_process(struct runner *r, const char *id, bool first,
    struct err *e)
{
	const char *host = far_host(r, id);
	struct words w = { { "ps-serve" }, 1 };

	add_cluster_words(&w, r, host, "--name", id);
	if (first && !runner_has_separate_coordinator(r)) {
		add_words(&w, "--coordinator", NULL);
		if (r->advertise)
			add_words(&w, "--advertise", r->advertise);
	}
	if (!host)
		add_resume_words(&w, r);
	return start_member_on(r, host, NULL, id, &w, e);
}

/* The keys that the cluster file or the command line sets, as "job.lr,sync"; a program's own
 * settings do not override them.  The caller frees it. */
static char *list_given_keys(const struct conf *c)
{
	struct buf b = BUF_INIT;
	size_t n;
	const struct conf_key *k = conf_keys(&n);

	for (size_t i = 0; i < n; i++)
		if (conf_given(c, &k[i]))
			buf_printf(&b, "%s%s", b.len ? "," : "", k[i].path);
	return b.data ? (char *)b.data : mem_strdup("");
}

/* Start a worker that is a program of the user (job.command); it gets its identity in the
 * environment. */
static enum err_code start_worker_command(struct runner *r, const char *dir, const char *id,
    const char *slot, struct err *e)
{
	const char *host = far_host(r, id);
	char *given = list_given_keys(r->conf), *keys = mem_printf("PSKIT_GIVEN=%s", given),
	     *cluster = mem_printf("PS_CLUSTER=%s", r->dir),
	     *worker = mem_printf("PSKIT_WORKER=%s", id),
	     *number = mem_printf("PSKIT_SLOT=%s", slot),
	     *of = mem_printf("PSKIT_WORKERS=%lld", (long long)r->conf->workers.max);
	struct words w = { { "/usr/bin/env", worker, number, of, keys }, 5 };
	enum err_code rc;

	if (!host)
		add_words(&w, cluster, NULL);
	add_words(&w, "/bin/sh", "-c");
	add_words(&w, r->conf->job.command, NULL);
	rc = start_member_on(r, host, dir, id, &w, e);
	free(given);
	free(keys);
	free(cluster);
	free(worker);
	free(number);
	free(of);
	return rc;
}

/* Start a worker: ps-work train, or the user's program (job.command). */
static enum err_code start_worker_process(struct runner *r, const char *id, const char *slot,
    struct err *e)
{
	const struct conf_job *job = &r->conf->job;
	bool has_exec = conf_is_named(job->exec), has_command = conf_is_named(job->command);
	const char *host = far_host(r, id);
	/* Paths in a program's command are relative to the directory of the run directory, as
	 * other paths are. */
	char *dir = has_exec || has_command ? path_dirname(r->dir) : NULL;
	struct words w = { { "ps-work", "train" }, 2 };
	enum err_code rc;

	add_cluster_words(&w, r, host, "--slot", slot);
	if (has_exec)
		add_words(&w, "--exec", job->exec);
	rc = has_command ? start_worker_command(r, dir, id, slot, e)
	                 : start_member_on(r, host, dir, id, &w, e);
	free(dir);
	return rc;
}

enum err_code runner_spawn_member(struct runner *r, const char *id, struct err *e)
{
	const char *number = strlen(id) > 7 ? id + 7 : "0"; /* both prefixes have seven letters */

	if (meeting_expects(r, id))
		return meeting_invite(r, id, e);
	if (strcmp(id, "coordinator") == 0)
		return start_coordinator_process(r, e);
	return strncmp(id, "server-", 7) == 0
	    ? start_server_process(r, id, strcmp(number, "0") == 0, e)
	    : start_worker_process(r, id, number, e);
}

/* Is the process alive, or is a restart of it scheduled? */
static bool is_alive_or_due(const struct runner *r, const char *id)
{
	for (size_t i = 0; i < launch_count(r->set); i++)
		if (strcmp(launch_id(r->set, i), id) == 0)
			return launch_alive(r->set, i) || (i < RUNNER_CHILDREN && r->restart[i].at);
	return false;
}

bool runner_has_own_workers(const struct runner *r)
{
	const struct conf *c = r->conf;

	return conf_trains(c) &&
	    (strcmp(c->job.model, "custom") != 0 || conf_is_named(c->job.exec) ||
	        conf_is_named(c->job.command));
}

bool runner_waits_for_others(const struct runner *r)
{
	return conf_trains(r->conf) && !r->meeting && !runner_has_own_workers(r) &&
	    json_int(r->status, "servers", 0) >= r->conf->servers;
}

/* Must workers be started from here or, in a meeting of ranks, be given their join files? */
static bool must_start_workers(const struct runner *r)
{
	return r->meeting ? conf_trains(r->conf) : runner_has_own_workers(r);
}

void runner_start_requested(struct runner *r)
{
	const json_t *id;
	struct err e;
	size_t i;

	json_array_foreach(json_object_get(r->status, "called"), i, id) {
		const char *name = json_string_value(id);

		if (!name || is_alive_or_due(r, name) ||
		    (strncmp(name, "worker-", 7) == 0 && !must_start_workers(r)))
			continue;
		if (far_has_no_slot(r, name)) {
			if (!r->full)
				progress_say(&r->progress,
				    "cannot start %s: the slots of all hosts are taken", name);
			r->full = true;
			continue;
		}
		if (runner_spawn_member(r, name, &e) != ERR_OK)
			restart_retry_later(r, name, &e);
	}
}

/* Start PREFIX0 to PREFIX(n-1), except those that are alive. */
static enum err_code start_all_named(struct runner *r, const char *prefix, int64_t n, struct err *e)
{
	enum err_code rc = ERR_OK;
	char id[32];

	for (int64_t k = 0; rc == ERR_OK && k < n; k++) {
		snprintf(id, sizeof id, "%s%lld", prefix, (long long)k);
		if (!is_alive_or_due(r, id))
			rc = runner_spawn_member(r, id, e);
	}
	return rc;
}

enum err_code runner_start_members(struct runner *r, struct err *e)
{
	enum err_code rc = start_all_named(r, "server-", r->conf->servers, e);

	if (rc == ERR_OK && must_start_workers(r))
		rc = start_all_named(r, "worker-", r->conf->workers.max, e);
	r->members_due = false;
	return rc;
}

enum err_code runner_start(struct runner *r, struct err *e)
{
	enum err_code rc = r->meeting ? meeting_create(r, e) : ERR_OK;

	r->settled = clock_now() + FAST_FOR;
	read_state_began(r, r->began);
	/* Processes on other hosts need a join file, which only a running coordinator can make. */
	r->members_due = r->hosts.n > 0 || r->meeting;
	if (rc == ERR_OK && (runner_has_separate_coordinator(r) || r->members_due))
		rc = runner_spawn_member(r,
		    runner_has_separate_coordinator(r) ? "coordinator" : "server-0", e);
	return rc == ERR_OK && !r->members_due ? runner_start_members(r, e) : rc;
}
