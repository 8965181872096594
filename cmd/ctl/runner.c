#include "runner.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "conf/conf_key.h"
#include "ctl.h"
#include "launch/daemon.h"
#include "parts.h"
#include "restart.h"

#define ASK_FAST (50 * NSEC_PER_MSEC)
#define ASK_SLOW (200 * NSEC_PER_MSEC)
#define FAST_FOR (5 * NSEC_PER_SEC)
/* How long the coordinator may take to notice what this side has seen. */
#define NOTICE (5 * NSEC_PER_SEC)
#define NOTICE_WORKER NSEC_PER_SEC
#define RESTARTS 3

enum err_code runner_signals(struct runner *r, struct err *e)
{
	struct sigaction now;
	sigset_t set;

	memset(r, 0, sizeof *r);
	r->max_restarts = -1;
	sigemptyset(&set);
	/* A shell's background job has SIGINT ignored; who sends it means it. */
	signal(SIGINT, SIG_DFL);
	signal(SIGTERM, SIG_DFL);
	signal(SIGUSR2, SIG_DFL);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGUSR2);
	sigaddset(&set, SIGUSR1);
	/* But nohup is to be heeded. */
	if (sigaction(SIGHUP, NULL, &now) == 0 && now.sa_handler != SIG_IGN)
		sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	r->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return r->signals < 0 ? err_sys(e, ERR_IO, "cannot watch for signals") : ERR_OK;
}

/* With copies the coordinator is no store: what it decides of must not die with it. */
bool runner_is_apart(const struct runner *r)
{
	return r->conf->replicas > 1;
}

enum err_code runner_open(struct runner *r, const struct conf *conf, const char *dir,
                          struct log *log, struct err *e)
{
	enum err_code rc;

	r->conf = conf;
	r->dir = dir;
	r->answered = clock_now();
	if (r->max_restarts < 0)
		r->max_restarts = runner_is_apart(r) || conf->checkpoint_every.steps || conf->checkpoint_every.time ? RESTARTS : 0;
	progress_init(&r->progress, log);
	/* Who starts a supervisor looks itself. */
	r->progress.dir = log ? NULL : dir;
	r->bin = daemon_self_dir(e);
	rc = r->bin ? launch_new(dir, &r->set, e) : e->code;
	return rc == ERR_OK ? ctl_connect(dir, &r->client, e) : rc;
}

void runner_close(struct runner *r)
{
	launch_free(r->set);
	http_client_free(r->client);
	json_decref(r->status);
	free(r->bin);
	free(r->resume);
	progress_end(&r->progress);
	if (r->signals >= 0)
		close(r->signals);
}

/* ---- starting ------------------------------------------------------------------------ */

/* In the directory `in`; NULL: here. */
static enum err_code spawn_in(struct runner *r, const char *in, const char *program, const char *id, const char *const *args,
                              size_t *child, struct err *e)
{
	char *path = path_join(r->bin, program), *log = mem_printf("%s/%s.log", r->dir, id);
	const char *argv[12] = { path };
	struct launch_spec spec = { .id = id, .argv = (char *const *)argv, .log_path = log,
	                            .die_with_parent = true, .dir = in };
	enum err_code rc;

	for (size_t n = 1; *args && n + 1 < CTL_COUNT(argv); n++)
		argv[n] = *args++;
	rc = launch_start(r->set, &spec, child, e);
	free(path);
	free(log);
	return rc;
}

enum err_code runner_spawn(struct runner *r, const char *program, const char *id, const char *const *args,
                           size_t *child, struct err *e)
{
	return spawn_in(r, NULL, program, id, args, child, e);
}

/* Started again, it goes on from its own state. */
static enum err_code start_coordinator(struct runner *r, bool again, struct err *e)
{
	const char *args[] = { "-C", r->dir, "--coordinator", "--no-store", again ? NULL : "--resume", r->resume ? r->resume : "none",
	                       NULL };
	size_t child;

	return runner_spawn(r, "ps-serve", "coordinator", args, &child, e);
}

static enum err_code start_server(struct runner *r, int64_t k, struct err *e)
{
	char id[32];
	const char *args[] = { "-C", r->dir, "--name", id, k == 0 && !runner_is_apart(r) ? "--coordinator" : NULL, "--resume",
	                       r->resume ? r->resume : "none", NULL };
	size_t child;

	snprintf(id, sizeof id, "server-%lld", (long long)k);
	return runner_spawn(r, "ps-serve", id, args, &child, e);
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
	char *given = given_keys(r->conf), *keys = mem_printf("PSKIT_GIVEN=%s", given),
	     *cluster = mem_printf("PS_CLUSTER=%s", r->dir), *worker = mem_printf("PSKIT_WORKER=%s", id),
	     *number = mem_printf("PSKIT_SLOT=%s", slot), *of = mem_printf("PSKIT_WORKERS=%lld", (long long)r->conf->workers.max);
	const char *args[] = { cluster, worker, number, of, keys, "/bin/sh", "-c", r->conf->job.command, NULL };
	enum err_code rc;
	size_t child;

	rc = spawn_in(r, dir, "/usr/bin/env", id, args, &child, e);
	free(given);
	free(keys);
	free(cluster);
	free(worker);
	free(number);
	free(of);
	return rc;
}

static enum err_code start_worker(struct runner *r, int64_t k, struct err *e)
{
	const struct conf_job *job = &r->conf->job;
	bool has_exec = conf_names(job->exec), has_command = conf_names(job->command);
	char id[32], slot[24];
	/* As other paths in the cluster file a program's are seen from there. */
	char *dir = has_exec || has_command ? path_dirname(r->dir) : NULL;
	const char *args[] = { "train", "-C", r->dir, "--slot", slot, has_exec ? "--exec" : NULL, job->exec, NULL };
	enum err_code rc;
	size_t child;

	snprintf(id, sizeof id, "worker-%lld", (long long)k);
	snprintf(slot, sizeof slot, "%lld", (long long)k);
	rc = has_command ? start_command(r, dir, id, slot, e) : spawn_in(r, dir, "ps-work", id, args, &child, e);
	free(dir);
	return rc;
}

enum err_code runner_spawn_again(struct runner *r, const char *id, struct err *e)
{
	long k = strlen(id) > 7 ? strtol(id + 7, NULL, 10) : 0; /* both prefixes have seven letters */

	if (strcmp(id, "coordinator") == 0)
		return start_coordinator(r, !runner_is_forming(r), e);
	return strncmp(id, "server-", 7) == 0 ? start_server(r, k, e) : start_worker(r, k, e);
}

static bool is_alive(const struct runner *r, const char *id)
{
	for (size_t i = 0; i < launch_count(r->set); i++)
		if (strcmp(launch_id(r->set, i), id) == 0)
			return launch_alive(r->set, i) || (i < RUNNER_CHILDREN && r->restart_at[i]);
	return false;
}

/* Of model custom without a program the workers are started by something else (torchrun, srun, a shell). */
static bool has_own_workers(const struct conf *c)
{
	return c->has_job && (strcmp(c->job.model, "custom") != 0 || conf_names(c->job.exec) || conf_names(c->job.command));
}

/* Those that a scaling has called for. */
static void start_called(struct runner *r)
{
	const json_t *id;
	struct err e;
	size_t i;

	json_array_foreach(json_object_get(r->status, "called"), i, id) {
		const char *name = json_string_value(id);

		if (!name || is_alive(r, name) || (strncmp(name, "worker-", 7) == 0 && !has_own_workers(r->conf)))
			continue;
		if (runner_spawn_again(r, name, &e) != ERR_OK)
			progress_say(&r->progress, "cannot start %s: %s", name, e.msg);
	}
}

enum err_code runner_start(struct runner *r, struct err *e)
{
	enum err_code rc = runner_is_apart(r) ? start_coordinator(r, false, e) : ERR_OK;

	for (int64_t k = 0; rc == ERR_OK && k < r->conf->servers; k++)
		rc = start_server(r, k, e);
	for (int64_t k = 0; rc == ERR_OK && has_own_workers(r->conf) && k < r->conf->workers.max; k++)
		rc = start_worker(r, k, e);
	r->settled = clock_now() + FAST_FOR;
	return rc;
}

bool runner_waits_for_others(const struct runner *r)
{
	return r->conf->has_job && !has_own_workers(r->conf) && json_int(r->status, "servers", 0) >= r->conf->servers;
}

void runner_forget(struct runner *r)
{
	struct launch_event ev;

	while (launch_wait(r->set, 0, &ev, NULL) == ERR_OK)
		;
	json_decref(r->status);
	r->status = NULL;
	r->crashed = false;
	r->reason[0] = r->culprit[0] = 0;
	r->broken_since = r->alone_since = 0;
	r->code = 0;
	r->answered = clock_now();
	memset(r->restart_at, 0, sizeof r->restart_at);
}

/* ---- what happens -------------------------------------------------------------------- */

bool runner_state_is(const struct runner *r, const char *state)
{
	return strcmp(json_str(r->status, "state", ""), state) == 0;
}

bool runner_is_over(const struct runner *r)
{
	return runner_state_is(r, "done") || runner_state_is(r, "failed") || runner_state_is(r, "stopped");
}

bool runner_is_forming(const struct runner *r)
{
	return !r->status || runner_state_is(r, "forming");
}

void runner_ask(struct runner *r)
{
	int64_t now = clock_now();
	json_t *reply = NULL;

	if (http_call(r->client, "GET", "/v1/status", NULL, RUNNER_ASK, NULL, &reply, NULL) == ERR_OK) {
		json_decref(r->status);
		r->status = reply;
		now = r->answered = clock_now();
	}
	r->next_ask = now + (now < r->settled ? ASK_FAST : ASK_SLOW);
}

/* To the coordinator. */
static void pass_on(struct runner *r, int sig)
{
	const char *id = runner_is_apart(r) ? "coordinator" : "server-0";

	for (size_t i = 0; i < launch_count(r->set); i++)
		if (launch_alive(r->set, i) && strcmp(launch_id(r->set, i), id) == 0)
			launch_signal(r->set, i, sig);
}

void runner_take_signals(struct runner *r)
{
	struct signalfd_siginfo si;

	while (read(r->signals, &si, sizeof si) == (ssize_t)sizeof si) {
		if (si.ssi_signo == SIGUSR1) {
			pass_on(r, SIGUSR1);
			continue;
		}
		if (si.ssi_signo == SIGUSR2) {
			r->asked = true;
			continue;
		}
		if (r->nsignals++ == 0)
			r->first_signal = (int)si.ssi_signo;
		if (r->nsignals == 1)
			progress_say(&r->progress, "stopping (SIG%s; once more: at once)",
			             sigabbrev_np((int)si.ssi_signo));
	}
}

size_t runner_count(const struct runner *r, const char *prefix)
{
	size_t n = 0;

	for (size_t i = 0; i < launch_count(r->set); i++)
		if (launch_alive(r->set, i) && strncmp(launch_id(r->set, i), prefix, strlen(prefix)) == 0)
			n++;
	return n;
}

/* How the workers have ended, all of which have: well, by a signal (they may be
 * replaced from outside), or by a code of their own, which says that it makes
 * no sense to go on. */
static void worker_ends(const struct runner *r, bool *well, bool *signalled)
{
	*well = *signalled = false;
	for (size_t i = 0; i < launch_count(r->set); i++) {
		struct launch_event ev = launch_status(r->set, i);

		if (strncmp(launch_id(r->set, i), "worker-", 7) != 0)
			continue;
		*signalled |= ev.signalled;
		*well |= !ev.signalled && ev.status == 0;
	}
}

static void check_workers(struct runner *r, int64_t now)
{
	int64_t patience = NOTICE_WORKER;
	bool well, signalled;

	worker_ends(r, &well, &signalled);
	if (signalled)
		patience = r->conf->lease + r->conf->on_worker_loss.wait + NOTICE;
	if (!has_own_workers(r->conf) || json_int(r->status, "workers", 0) > 0 ||
	    runner_count(r, "worker-") > 0 || well)
		r->alone_since = 0;
	else if (!r->alone_since)
		r->alone_since = now;
	else if (now - r->alone_since > patience)
		runner_give_up(r, r->culprit, "%s", r->reason);
}

/* No wait is without an end, even if the coordinator should not see to it. */
static void check_limits(struct runner *r)
{
	int64_t now = clock_now();

	if (runner_is_over(r) || r->stopping || r->nsignals > 0)
		return;
	if (now - r->answered > r->conf->deadline)
		runner_give_up(r, "server-0", "the coordinator (server-0) has not answered for %.0f s",
		        (double)r->conf->deadline / NSEC_PER_SEC);
	if (r->broken_since && now - r->broken_since > NOTICE)
		runner_give_up(r, r->culprit, "%s", r->reason);
	check_workers(r, now);
}

static int until(int64_t end)
{
	int64_t left = end - clock_now();

	return left <= 0 ? 0 : (int)((left + NSEC_PER_MSEC - 1) / NSEC_PER_MSEC);
}

void runner_pause(struct runner *r, int64_t end)
{
	struct pollfd p[] = { { .fd = r->signals, .events = POLLIN },
	                      { .fd = launch_fd(r->set), .events = POLLIN } };

	if (poll(p, CTL_COUNT(p), until(end)) < 0 && errno != EINTR)
		return;
	runner_take_signals(r);
	runner_take_children(r);
}

enum runner_state runner_turn(struct runner *r)
{
	if (!r->asked)
		runner_pause(r, r->next_ask);
	if (r->nsignals > 0)
		return RUNNER_SIGNALLED;
	restart_due(r);
	if (runner_count(r, "server-") > 0 && (r->asked || clock_now() >= r->next_ask))
		runner_ask(r);
	if (runner_state_is(r, "running"))
		start_called(r);
	if (!runner_is_over(r))
		progress_show(&r->progress, r->status);
	check_limits(r);
	if (r->crashed)
		return RUNNER_FAILED;
	if (runner_state_is(r, "stopped") || (runner_count(r, "server-") == 0 && !restart_coming(r)))
		return RUNNER_STOPPED;
	if (runner_state_is(r, "done"))
		return RUNNER_DONE;
	if (runner_state_is(r, "failed"))
		return RUNNER_FAILED;
	if (r->asked)
		return RUNNER_STOPPED;
	return runner_state_is(r, "running") || runner_state_is(r, "finishing") ? RUNNER_RUNNING : RUNNER_FORMING;
}
