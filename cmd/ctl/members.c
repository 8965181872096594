#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/num.h"
#include "conf/conf_key.h"
#include "ctl.h"
#include "far.h"
#include "meeting.h"
#include "parts.h"

/* The processes of a cluster, and how each is started: here, or on another host. */

#define FAST_FOR (5 * NSEC_PER_SEC)
#define WORDS 16

/* In the directory `in`; NULL: here. */
static enum err_code spawn_in(struct runner *r, const char *in, const char *id, const char *const *words, size_t *child,
                              struct err *e)
{
	char *path = path_join(r->bin, words[0]), *log = mem_printf("%s/%s.log", r->dir, id);
	const char *argv[WORDS] = { path };
	struct launch_spec spec = { .id = id, .argv = (char *const *)argv, .log_path = log,
	                            .die_with_parent = true, .dir = in, .deaf = r->meeting != NULL };
	enum err_code rc;

	for (size_t n = 1; words[n] && n + 1 < CTL_COUNT(argv); n++)
		argv[n] = words[n];
	rc = launch_start(r->set, &spec, child, e);
	free(path);
	free(log);
	return rc;
}

enum err_code runner_spawn(struct runner *r, const char *id, const char *const *words, size_t *child, struct err *e)
{
	return spawn_in(r, NULL, id, words, child, e);
}

/* Words of a command, one after the other. */
struct words {
	const char *word[WORDS];
	size_t n;
};

static void put(struct words *w, const char *word, const char *value)
{
	w->word[w->n++] = word;
	if (value)
		w->word[w->n++] = value;
}

/* The cluster, as that host sees it: the run directory, or what the far end has put into PS_CLUSTER; and
 * who the process is there. */
static void put_place(struct words *w, const struct runner *r, const char *host, const char *option, const char *which)
{
	if (!host)
		put(w, "-C", r->dir);
	put(w, option, which);
	if (r->iface)
		put(w, "--iface", r->iface);
}

static enum err_code start_on(struct runner *r, const char *host, const char *dir, const char *id, const struct words *w,
                              struct err *e)
{
	size_t child;

	return host ? far_spawn(r, host, dir, id, w->word, &child, e) : spawn_in(r, dir, id, w->word, &child, e);
}

static void put_resume(struct words *w, const struct runner *r)
{
	put(w, "--resume", r->resume ? r->resume : "none");
}

/* Started again, it goes on from its own state. */
static enum err_code start_coordinator(struct runner *r, bool again, struct err *e)
{
	struct words w = { { "ps-serve", "-C", r->dir, "--coordinator", "--no-store" }, 5 };

	if (r->advertise)
		put(&w, "--advertise", r->advertise);
	if (!again)
		put_resume(&w, r);
	return start_on(r, NULL, NULL, "coordinator", &w, e);
}

static enum err_code start_server(struct runner *r, const char *id, bool first, struct err *e)
{
	const char *host = far_host(r, id);
	struct words w = { { "ps-serve" }, 1 };

	put_place(&w, r, host, "--name", id);
	if (first && !runner_is_apart(r)) {
		put(&w, "--coordinator", NULL);
		if (r->advertise)
			put(&w, "--advertise", r->advertise);
	}
	if (!host)
		put_resume(&w, r);
	return start_on(r, host, NULL, id, &w, e);
}

/* The keys that the cluster file or the command line names: "job.lr,sync".  Fresh. */
static char *given_keys(const struct conf *c)
{
	struct buf b = BUF_INIT;
	size_t n;
	const struct conf_key *k = conf_keys(&n);

	for (size_t i = 0; i < n; i++)
		if (conf_given(c, &k[i]))
			buf_printf(&b, "%s%s", b.len ? "," : "", k[i].path);
	return b.data ? (char *)b.data : mem_strdup("");
}

/* A worker that is a program of the user's. */
static enum err_code start_command(struct runner *r, const char *dir, const char *id, const char *slot, struct err *e)
{
	const char *host = far_host(r, id);
	char *given = given_keys(r->conf), *keys = mem_printf("PSKIT_GIVEN=%s", given),
	     *cluster = mem_printf("PS_CLUSTER=%s", r->dir), *worker = mem_printf("PSKIT_WORKER=%s", id),
	     *number = mem_printf("PSKIT_SLOT=%s", slot), *of = mem_printf("PSKIT_WORKERS=%lld", (long long)r->conf->workers.max);
	struct words w = { { "/usr/bin/env", worker, number, of, keys }, 5 };
	enum err_code rc;

	if (!host)
		put(&w, cluster, NULL);
	put(&w, "/bin/sh", "-c");
	put(&w, r->conf->job.command, NULL);
	rc = start_on(r, host, dir, id, &w, e);
	free(given);
	free(keys);
	free(cluster);
	free(worker);
	free(number);
	free(of);
	return rc;
}

static enum err_code start_worker(struct runner *r, const char *id, const char *slot, struct err *e)
{
	const struct conf_job *job = &r->conf->job;
	bool has_exec = conf_names(job->exec), has_command = conf_names(job->command);
	const char *host = far_host(r, id);
	/* As other paths in the cluster file a program's are seen from there. */
	char *dir = has_exec || has_command ? path_dirname(r->dir) : NULL;
	struct words w = { { "ps-work", "train" }, 2 };
	enum err_code rc;

	put_place(&w, r, host, "--slot", slot);
	if (has_exec)
		put(&w, "--exec", job->exec);
	rc = has_command ? start_command(r, dir, id, slot, e) : start_on(r, host, dir, id, &w, e);
	free(dir);
	return rc;
}

enum err_code runner_spawn_again(struct runner *r, const char *id, struct err *e)
{
	const char *number = strlen(id) > 7 ? id + 7 : "0";     /* both prefixes have seven letters */

	if (meeting_expects(r, id))
		return meeting_invite(r, id, e);
	if (strcmp(id, "coordinator") == 0)
		return start_coordinator(r, !runner_is_forming(r), e);
	return strncmp(id, "server-", 7) == 0 ? start_server(r, id, strcmp(number, "0") == 0, e) : start_worker(r, id, number, e);
}

static bool is_alive(const struct runner *r, const char *id)
{
	for (size_t i = 0; i < launch_count(r->set); i++)
		if (strcmp(launch_id(r->set, i), id) == 0)
			return launch_alive(r->set, i) || (i < RUNNER_CHILDREN && r->restart_at[i]);
	return false;
}

bool runner_has_own_workers(const struct runner *r)
{
	const struct conf *c = r->conf;

	return conf_trains(c) && (strcmp(c->job.model, "custom") != 0 || conf_names(c->job.exec) || conf_names(c->job.command));
}

bool runner_waits_for_others(const struct runner *r)
{
	return conf_trains(r->conf) && !r->meeting && !runner_has_own_workers(r) && json_int(r->status, "servers", 0) >= r->conf->servers;
}

/* Started from here, or told to begin, in a meeting of ranks. */
static bool starts_workers(const struct runner *r)
{
	return r->meeting ? conf_trains(r->conf) : runner_has_own_workers(r);
}

void runner_start_called(struct runner *r)
{
	const json_t *id;
	struct err e;
	size_t i;

	json_array_foreach(json_object_get(r->status, "called"), i, id) {
		const char *name = json_string_value(id);

		if (!name || is_alive(r, name) || (strncmp(name, "worker-", 7) == 0 && !starts_workers(r)))
			continue;
		if (runner_spawn_again(r, name, &e) != ERR_OK)
			progress_say(&r->progress, "cannot start %s: %s", name, e.msg);
	}
}

static enum err_code start_all(struct runner *r, const char *prefix, int64_t n, struct err *e)
{
	enum err_code rc = ERR_OK;
	char id[32];

	for (int64_t k = 0; rc == ERR_OK && k < n; k++) {
		snprintf(id, sizeof id, "%s%lld", prefix, (long long)k);
		if (!is_alive(r, id))
			rc = runner_spawn_again(r, id, e);
	}
	return rc;
}

enum err_code runner_start_members(struct runner *r, struct err *e)
{
	enum err_code rc = start_all(r, "server-", r->conf->servers, e);

	if (rc == ERR_OK && starts_workers(r))
		rc = start_all(r, "worker-", r->conf->workers.max, e);
	r->members_due = false;
	return rc;
}

enum err_code runner_start(struct runner *r, struct err *e)
{
	enum err_code rc = r->meeting ? meeting_begin(r, e) : ERR_OK;

	r->settled = clock_now() + FAST_FOR;
	/* Who is to run elsewhere must be told where it is. */
	r->members_due = r->hosts.n > 0 || r->meeting;
	if (rc == ERR_OK && (runner_is_apart(r) || r->members_due))
		rc = runner_spawn_again(r, runner_is_apart(r) ? "coordinator" : "server-0", e);
	return rc == ERR_OK && !r->members_due ? runner_start_members(r, e) : rc;
}
