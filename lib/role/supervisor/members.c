/* SPDX-License-Identifier: ISC */
#include "supervisor/members.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conf/conf_key.h"
#include "core/buf.h"
#include "core/file.h"
#include "core/json.h"
#include "core/mem.h"
#include "msg/state.h"
#include "supervisor/remote.h"
#include "supervisor/rendezvous.h"
#include "rundir/rundir.h"
#include "state/state_store.h"

#define WORDS 16

/* members_start_tool() with the working directory `in`; NULL: the present one. */
static enum err_code start_in_dir(struct supervisor *s, const char *in, const char *id,
    const char *const *words, size_t *child, struct err *e)
{
	char *path = path_join(s->bin, words[0]), *log = mem_printf("%s/%s.log", s->dir, id);
	const char *argv[WORDS] = { path };
	struct launch_spec spec = { .id = id,
		.argv = (char *const *)argv,
		.log_path = log,
		.die_with_parent = true,
		.dir = in,
		.ignores_term = s->rendezvous != NULL };
	enum err_code rc;

	for (size_t n = 1; words[n] && n + 1 < WORDS; n++)
		argv[n] = words[n];
	rc = launch_start(s->set, &spec, child, e);
	free(path);
	free(log);
	return rc;
}

enum err_code members_start_tool(struct supervisor *s, const char *id, const char *const *words,
    size_t *child, struct err *e)
{
	return start_in_dir(s, NULL, id, words, child, e);
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

/* Add the options that name the cluster and the process. On this host the cluster is named by its
 * run directory; on another one ps-ctl remote names it in PS_CLUSTER. */
static void add_cluster_words(struct words *w, const struct supervisor *s, const char *host,
    const char *option, const char *which)
{
	if (!host)
		add_words(w, "-C", s->dir);
	add_words(w, option, which);
	if (s->iface)
		add_words(w, "--iface", s->iface);
}

/* host: NULL for this one. dir: the working directory there, or NULL. */
static enum err_code start_member_on(struct supervisor *s, const char *host, const char *dir,
    const char *id, const struct words *w, size_t *child, struct err *e)
{
	return host ? remote_start(s, host, dir, id, w->word, child, e)
	            : start_in_dir(s, dir, id, w->word, child, e);
}

static void add_resume_words(struct words *w, const struct supervisor *s)
{
	add_words(w, "--resume", s->resume ? s->resume : "none");
}

/* No state, or a damaged one, gives a state without members. The texts belong to *document. */
static void read_state(const char *dir, struct state *out, json_t **document)
{
	*document = state_store_look(dir);
	state_decode(*document, out, NULL);
}

void members_read_began(const char *dir, char out[static SUPERVISOR_BEGAN])
{
	json_t *document;
	struct state state;

	read_state(dir, &state, &document);
	snprintf(out, SUPERVISOR_BEGAN, "%s", state.began ? state.began : "");
	state_release(&state);
	json_decref(document);
}

void members_read_stop_reason(const char *dir, char *out, size_t size)
{
	json_t *document;
	struct state state;

	read_state(dir, &state, &document);
	snprintf(out, size, "%s",
	    document && state.phase == PHASE_STOPPED && state.reason ? state.reason : "");
	state_release(&state);
	json_decref(document);
}

/* Only the first coordinator of this start gets --resume. Once it has written its state ("began"
 * has changed), a restarted coordinator continues from that state instead. */
static enum err_code start_coordinator_process(struct supervisor *s, size_t *child, struct err *e)
{
	struct words w = { { "ps-serve", "-C", s->dir, "--coordinator", "--no-store" }, 5 };
	char began[SUPERVISOR_BEGAN];

	if (s->advertise)
		add_words(&w, "--advertise", s->advertise);
	members_read_began(s->dir, began);
	if (strcmp(began, s->began) == 0)
		add_resume_words(&w, s);
	return start_member_on(s, NULL, NULL, "coordinator", &w, child, e);
}

/* first: this is server-0, which is also the coordinator unless that is a process of its own. */
static enum err_code start_server_process(struct supervisor *s, const char *id, bool first,
    size_t *child, struct err *e)
{
	const char *host = remote_host(s, id);
	struct words w = { { "ps-serve" }, 1 };

	add_cluster_words(&w, s, host, "--name", id);
	if (first && !supervisor_has_separate_coordinator(s)) {
		add_words(&w, "--coordinator", NULL);
		if (s->advertise)
			add_words(&w, "--advertise", s->advertise);
		add_resume_words(&w, s);
	}
	return start_member_on(s, host, NULL, id, &w, child, e);
}

/* The keys that the cluster file or the command line sets, as "job.lr,sync"; a program's own
 * settings do not override them. The caller frees it. */
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
static enum err_code start_worker_command(struct supervisor *s, const char *dir, const char *id,
    const char *rank, size_t *child, struct err *e)
{
	const char *host = remote_host(s, id);
	char *given = list_given_keys(s->conf), *keys = mem_printf("PSKIT_GIVEN=%s", given),
	     *cluster = mem_printf("PS_CLUSTER=%s", s->dir),
	     *worker = mem_printf("PSKIT_WORKER=%s", id),
	     *number = mem_printf("PSKIT_RANK=%s", rank),
	     *of = mem_printf("PSKIT_WORKERS=%lld", (long long)s->conf->workers.max);
	struct words w = { { "/usr/bin/env", worker, number, of, keys }, 5 };
	enum err_code rc;

	if (!host)
		add_words(&w, cluster, NULL);
	add_words(&w, "/bin/sh", "-c");
	add_words(&w, s->conf->job.command, NULL);
	rc = start_member_on(s, host, dir, id, &w, child, e);
	free(given);
	free(keys);
	free(cluster);
	free(worker);
	free(number);
	free(of);
	return rc;
}

/* Start a worker: ps-work train, or the user's program (job.command). */
static enum err_code start_worker_process(struct supervisor *s, const char *id, const char *rank,
    size_t *child, struct err *e)
{
	const struct conf_job *job = &s->conf->job;
	bool has_exec = conf_is_named(job->exec), has_command = conf_is_named(job->command);
	const char *host = remote_host(s, id);
	/* Paths in a program's command are relative to the directory of the run directory, as
	 * other paths are. */
	char *dir = has_exec || has_command ? path_dirname(s->dir) : NULL;
	struct words w = { { "ps-work", "train" }, 2 };
	enum err_code rc;

	add_cluster_words(&w, s, host, "--rank", rank);
	if (has_exec)
		add_words(&w, "--exec", job->exec);
	rc = has_command ? start_worker_command(s, dir, id, rank, child, e)
	                 : start_member_on(s, host, dir, id, &w, child, e);
	free(dir);
	return rc;
}

enum err_code members_start(struct supervisor *s, const char *id, size_t *child, struct err *e)
{
	const char *number = strlen(id) > 7 ? id + 7 : "0"; /* both prefixes have seven letters */

	if (rendezvous_expects(s->rendezvous, id))
		return rendezvous_invite(s->rendezvous, s->client, id, e);
	if (strcmp(id, "coordinator") == 0)
		return start_coordinator_process(s, child, e);
	return strncmp(id, "server-", 7) == 0
	    ? start_server_process(s, id, strcmp(number, "0") == 0, child, e)
	    : start_worker_process(s, id, number, child, e);
}

bool members_include_workers(const struct conf *c)
{
	return conf_trains(c) &&
	    (strcmp(c->job.model, "custom") != 0 || conf_is_named(c->job.exec) ||
	        conf_is_named(c->job.command));
}
