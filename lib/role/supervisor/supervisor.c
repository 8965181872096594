/* SPDX-License-Identifier: ISC */
#include "supervisor/supervisor.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "ckpt/dirs.h"
#include "conf/conf_data.h"
#include "core/backoff.h"
#include "core/cgroup.h"
#include "core/clock.h"
#include "core/file.h"
#include "core/json.h"
#include "core/mem.h"
#include "core/signals.h"
#include "session/control.h"
#include "data/source/data_log.h"
#include "supervisor/members.h"
#include "supervisor/remote.h"
#include "supervisor/rendezvous.h"
#include "supervisor/rsh.h"

/* Intervals between polls of the status: soon after the start, and later. */
#define ASK_FAST (50 * NSEC_PER_MSEC)
#define ASK_SLOW (200 * NSEC_PER_MSEC)
/* How long after the start the status is polled at the faster rate. */
#define FAST_FOR (5 * NSEC_PER_SEC)
/* Default of max_restarts where a restart can succeed: with replicas or checkpoints. */
#define RESTARTS 3
/* How long processes may take to end before a roll-back, and pauses between attempts to start
 * again. */
#define ROLLBACK_GRACE (2 * NSEC_PER_SEC)
#define ROLLBACK_MIN   (100 * NSEC_PER_MSEC)
#define ROLLBACK_MAX   (10 * NSEC_PER_SEC)

/* ---- opening and closing ---- */

enum err_code supervisor_init(struct supervisor *s, struct err *e)
{
	struct sigaction now;
	sigset_t set;

	memset(s, 0, sizeof *s);
	err_tag_children();
	s->watch = (struct rundir_watch){ -1, -1 };
	s->max_restarts = -1;
	sigemptyset(&set);
	/* A shell starts background jobs with SIGINT ignored; here a SIGINT must still end the
	 * run. */
	signal(SIGINT, SIG_DFL);
	signal(SIGTERM, SIG_DFL);
	signal(SIGUSR2, SIG_DFL);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGUSR2);
	sigaddset(&set, SIGUSR1);
	/* An ignored SIGHUP comes from nohup, and stays ignored. */
	if (sigaction(SIGHUP, NULL, &now) == 0 && now.sa_handler != SIG_IGN)
		sigaddset(&set, SIGHUP);
	signals_ignore_stray(NULL);
	sigprocmask(SIG_BLOCK, &set, NULL);
	s->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return s->signals < 0 ? err_sys(e, ERR_IO, "cannot watch for signals") : ERR_OK;
}

int supervisor_init_exit_code(const struct supervisor *s, const struct err *e)
{
	struct signalfd_siginfo si;

	return e->code == ERR_STOPPED && read(s->signals, &si, sizeof si) == (ssize_t)sizeof si
	    ? 128 + (int)si.ssi_signo
	    : err_exit_code(e->code);
}

/* Set what the policy knows of the run from the beginning. */
static void init_policy(struct supervisor *s)
{
	const struct conf *c = s->conf;
	bool restarts = c->replicas > 1 || c->checkpoint_every.steps || c->checkpoint_every.time;

	policy_init(&s->policy, clock_now());
	s->policy.trains = conf_trains(c);
	s->policy.replicated = c->replicas > 1;
	s->policy.own_workers = !s->rendezvous && members_include_workers(c);
	s->policy.max_restarts = s->max_restarts >= 0 ? s->max_restarts : restarts ? RESTARTS : 0;
	s->policy.deadline = c->deadline;
	s->policy.worker_patience = c->lease + c->on_worker_loss.wait + POLICY_NOTICE;
}

/* Holds the pipe open that the job follows, as long as the run lives: the kernel drops what a pipe
 * has when the last process closes it, and all workers may be killed at once. Workers report a pipe
 * that cannot be opened. */
static void hold_pipe(struct supervisor *s)
{
	const struct conf_job *job = &s->conf->job;
	struct conf_strs paths = { 0 };
	struct err ignored;

	if (s->hosts.n || !s->conf->has_job ||
	    conf_data_paths(job, (const char *const *)job->data.item, job->data.n, &paths,
	        &ignored))
		return;
	if (paths.n == 1)
		data_log_hold(paths.item[0], &s->pipe, &ignored);
	conf_data_release(&paths);
}

enum err_code supervisor_open(struct supervisor *s, const struct conf *conf, const char *dir,
    struct log *log, struct err *e)
{
	enum err_code rc;

	s->conf = conf;
	s->dir = dir;
	for (size_t i = 0; i < conf->hosts.n; i++)
		hosts_add(&s->hosts, conf->hosts.item[i], NULL);
	init_policy(s);
	progress_init(&s->progress, log);
	/* With a supervisor in the background, ps-ctl start shows what is wrong with the run
	 * directory. */
	if (!log && s->explain)
		progress_explain_waits(&s->progress, dir, s->explain);
	/* Without the watch only the removal of the directory goes unnoticed. */
	if (rundir_watch_open(dir, &s->watch, e) != ERR_OK)
		progress_say(&s->progress, "warning: %s", e->msg);
	hold_pipe(s);
	s->memory_kills = cgroup_memory_kills("");
	s->bin = path_self_dir(e);
	rc = s->bin ? launch_new(dir, &s->set, e) : e->code;
	return rc == ERR_OK ? control_connect(dir, &s->client, e) : rc;
}

void supervisor_close(struct supervisor *s)
{
	launch_free(s->set);
	data_log_release(s->pipe);
	http_client_free(s->client);
	policy_release(&s->policy);
	cluster_status_free(s->status);
	end_reports_release(&s->reports);
	hosts_release(&s->hosts);
	free(s->bin);
	free(s->resume);
	json_decref(s->damaged);
	progress_clear_line(&s->progress);
	rundir_watch_close(&s->watch);
	if (s->signals >= 0)
		close(s->signals);
}

/* ---- questions ---- */

/* With replicas the coordinator stores nothing, so that its death loses no partition and it can
 * decide on a failover. With other hosts it runs here, and the servers run there. */
bool supervisor_has_separate_coordinator(const struct supervisor *s)
{
	return s->conf->replicas > 1 || s->hosts.n > 0;
}

static const char *coordinator_id(const struct supervisor *s)
{
	return supervisor_has_separate_coordinator(s) ? "coordinator" : "server-0";
}

bool supervisor_is_coordinator_alive(const struct supervisor *s)
{
	for (size_t i = 0; i < launch_count(s->set); i++)
		if (strcmp(launch_id(s->set, i), coordinator_id(s)) == 0)
			return launch_alive(s->set, i);
	return false;
}

bool supervisor_waits_for_others(const struct supervisor *s)
{
	return s->policy.trains && !s->rendezvous && !s->policy.own_workers &&
	    (s->status ? s->status->servers : 0) >= s->conf->servers;
}

bool supervisor_was_stopped_remotely(const struct supervisor *s, enum policy_state state)
{
	return state == POLICY_STOPPED && !s->policy.stopping && !s->policy.failed;
}

static enum policy_role role_of_id(const char *id)
{
	return strcmp(id, "coordinator") == 0 ? POLICY_COORDINATOR
	    : strncmp(id, "server-", 7) == 0  ? POLICY_SERVER
	    : strncmp(id, "worker-", 7) == 0  ? POLICY_WORKER
	                                      : POLICY_TOOL;
}

/* The child of that id; POLICY_NOBODY when there is none. */
static size_t find_child(const struct supervisor *s, const char *id)
{
	for (size_t i = 0; i < launch_count(s->set); i++)
		if (strcmp(launch_id(s->set, i), id) == 0)
			return i;
	return POLICY_NOBODY;
}

/* ---- events and actions ---- */

static void execute_action(struct supervisor *s, const struct policy_action *a);

static void handle_event(struct supervisor *s, struct policy_event event)
{
	struct policy_actions todo = { NULL, 0 };

	event.now = clock_now();
	policy_on_event(&s->policy, &event, &todo);
	for (size_t i = 0; i < todo.n; i++)
		execute_action(s, &todo.item[i]);
	policy_actions_release(&todo);
}

/* Fail the run for a reason of our own; only the first failure counts. */
__attribute__((format(printf, 3, 4))) static void give_up(struct supervisor *s,
    enum err_cause cause, const char *fmt, ...)
{
	va_list ap;

	if (!s->policy.failed) {
		s->cause = cause;
		va_start(ap, fmt);
		vsnprintf(s->reason, sizeof s->reason, fmt, ap);
		va_end(ap);
	}
	handle_event(s, (struct policy_event){ .kind = POLICY_GIVE_UP });
}

/* Sends the pending reports of ends. One that gets no answer is sent again after the next status. */
static void send_end_reports(struct supervisor *s)
{
	struct err e = { 0 };

	if (end_reports_send(&s->reports, s->client, SUPERVISOR_ASK, &e))
		progress_say(&s->progress,
		    "warning: the coordinator does not record how a process ended: %s", e.msg);
}

/* Count the checkpoints that failed, over restarts of the coordinator, and report the first. */
static void note_failed_checkpoints(struct supervisor *s)
{
	int64_t now = s->status->checkpoints_failed,
	        more = now - (now < s->failed_before ? 0 : s->failed_before);

	s->failed_before = now;
	if (more <= 0)
		return;
	snprintf(s->checkpoint_error, sizeof s->checkpoint_error, "%s",
	    *s->status->checkpoint_error ? s->status->checkpoint_error : "?");
	if (s->failed_checkpoints == 0)
		progress_say(&s->progress, "warning: a checkpoint could not be written: %s",
		    s->checkpoint_error);
	s->failed_checkpoints += more;
}

/* Reports each damaged checkpoint that the coordinator has passed over, once for all restarts. */
static void note_damaged_checkpoints(struct supervisor *s)
{
	for (uint64_t i = 0; i < s->status->ndamaged; i++) {
		const struct cluster_damaged *d = &s->status->damaged[i];

		if (!s->damaged)
			s->damaged = json_object();
		if (json_object_get(s->damaged, d->path))
			continue;
		json_object_set_new(s->damaged, d->path, json_string(d->why));
		progress_say(&s->progress, "%s is damaged and not used: %s", d->path, d->why);
	}
}

/* Warn about a job of model custom without an end. The user's program may have set steps or
 * epochs that the cluster file leaves open, so this reads the settings in force from the
 * coordinator. */
static void warn_of_endless_job(struct supervisor *s)
{
	json_t *config = NULL;
	struct cluster_job job;

	if (s->warned_endless || !s->policy.trains || s->policy.job != POLICY_JOB_RUNNING)
		return;
	s->warned_endless = true;
	if (strcmp(s->conf->job.model, "custom") != 0 ||
	    http_call(s->client, "GET", "/v1/config", NULL, SUPERVISOR_ASK, NULL, &config, NULL) !=
	        ERR_OK)
		return;
	if (cluster_job_decode(config, &job, NULL) == ERR_OK && job.steps == 0 && job.epochs == 0)
		progress_say(&s->progress,
		    "warning: the job has neither steps nor epochs, so a loop over its steps "
		    "does not end: limit it by --set steps=N or --set epochs=N; SIGINT stops it "
		    "with a checkpoint");
	json_decref(config);
}

static enum policy_job read_job(const struct cluster_status *status)
{
	static const enum policy_job job[] = {
		[PHASE_FORMING] = POLICY_JOB_FORMING,
		[PHASE_RUNNING] = POLICY_JOB_RUNNING,
		[PHASE_FINISHING] = POLICY_JOB_FINISHING,
		[PHASE_DONE] = POLICY_JOB_DONE,
		[PHASE_FAILED] = POLICY_JOB_FAILED,
		[PHASE_STOPPED] = POLICY_JOB_STOPPED,
	};

	return status->state < 0 ? POLICY_JOB_FORMING : job[status->state];
}

/* Poll the coordinator for its status. Without an answer s->status stays as it was. */
void supervisor_poll_status(struct supervisor *s)
{
	int64_t now = clock_now();
	struct cluster_status *status = NULL;
	json_t *reply = NULL;

	if (http_call(s->client, "GET", "/v1/status", NULL, SUPERVISOR_ASK, NULL, &reply, NULL) ==
	    ERR_OK)
		status = cluster_status_decode(reply);
	json_decref(reply);
	if (status) {
		cluster_status_free(s->status);
		s->status = status;
		now = clock_now();
		handle_event(s,
		    (struct policy_event){
		        .kind = POLICY_STATUS,
		        .job = read_job(status),
		        .workers = status->workers,
		        .data_lost = status->data_lost,
		    });
		note_failed_checkpoints(s);
		note_damaged_checkpoints(s);
		warn_of_endless_job(s);
		send_end_reports(s);
	}
	s->next_ask = now + (now < s->slow_from ? ASK_FAST : ASK_SLOW);
}

/* Has the coordinator released this server, so that others hold its partitions? */
static bool is_released_server(const struct supervisor *s, const char *id)
{
	const json_t *name;
	size_t i;

	json_array_foreach(s->status ? s->status->released : NULL, i, name)
		if (strcmp(json_string_value(name), id) == 0)
			return true;
	return false;
}

/* The workers open our standard input as /proc/PID/fd/0 (local_replace_stdin). Write "stdin" for
 * that path in a message to the user. */
static void replace_stdin_path(char *text)
{
	char name[40], *at;
	size_t n = (size_t)snprintf(name, sizeof name, "/proc/%d/fd/0", (int)getpid());

	while ((at = strstr(text, name)) != NULL) {
		memcpy(at, "stdin", 5);
		memmove(at + 5, at + n, strlen(at + n) + 1);
	}
}

/* Writes how the process that has just ended (s->ended) did so: the subject, the way it ended, and
 * the last line of its log. After a signal the log does not explain the end and is not read.
 * Returns the cause. */
static enum err_cause describe_end_of(const struct supervisor *s, const char *id,
    const char *subject, char out[static SUPERVISOR_REASON])
{
	char *log = mem_printf("%s/%s.log", s->dir, id);
	const struct launch_event *ev = &s->ended;
	enum err_cause cause = s->ended_for_memory   ? CAUSE_MEMORY
	    : ev->signalled && ev->status == SIGKILL ? CAUSE_KILLED
	                                             : CAUSE_UNKNOWN;
	struct buf last = BUF_INIT;

	if (ev->status != 0 && (!ev->signalled || ev->status == RSH_NO_SESSION))
		cause = launch_last_words(log, &last);
	snprintf(out, SUPERVISOR_REASON, "%s%s%s%s%.280s", subject, *subject ? " " : "",
	    s->ended_how, last.len > 0 ? ": " : "", last.len > 0 ? (char *)last.data : "");
	replace_stdin_path(out);
	buf_release(&last);
	free(log);
	return cause;
}

static enum err_cause describe_end(const struct supervisor *s, const char *id,
    char out[static SUPERVISOR_REASON])
{
	return describe_end_of(s, id, id, out);
}

/* Keep the reason of a failure. Most failures are explained by the end in s->reason. */
static void keep_failure(struct supervisor *s, const char *id, enum policy_failure failure)
{
	size_t len = strlen(s->reason);
	char *end = s->reason + len;
	size_t room = sizeof s->reason - len;

	switch (failure) {
	case POLICY_BY_CAUSE:
	case POLICY_BY_SUPERVISOR:
		break;
	case POLICY_BY_FORMING_END:
		snprintf(end, room, " while the cluster was forming");
		break;
	case POLICY_BY_LAST_SERVER:
		snprintf(end, room, "; no server is left");
		break;
	case POLICY_BY_WORKER_EXIT:
		s->cause = CAUSE_UNKNOWN;
		snprintf(s->reason, sizeof s->reason, "%s was ended while the cluster was forming",
		    id);
		break;
	case POLICY_BY_SILENCE:
		s->cause = CAUSE_UNREACHABLE;
		snprintf(s->reason, sizeof s->reason,
		    "the coordinator%s has not answered for %.0f s%s%.300s",
		    supervisor_has_separate_coordinator(s) ? "" : " (server-0)",
		    (double)s->conf->deadline / NSEC_PER_SEC, s->failing.id[0] ? ": " : "",
		    s->failing.id[0] ? s->failing.error : "");
		break;
	case POLICY_BY_START:
		s->cause = s->start_error.cause;
		snprintf(s->reason, sizeof s->reason, "%s could not be started again: %.340s", id,
		    s->start_error.msg);
		break;
	}
}

/* Write to the lock file that `id` cannot be started. The log may be on a full disk, but the lock
 * file is overwritten in place. A failure of this write only omits the report. */
static void publish_failed_start(struct supervisor *s, size_t child, const char *id)
{
	const struct policy_process *p = &s->policy.process[child];
	struct rundir_retry *f = &s->failing;

	*f = (struct rundir_retry){ .tries = p->tries,
		.since = clock_wall() - (clock_now() - p->failing_since) };
	snprintf(f->id, sizeof f->id, "%s", id);
	snprintf(f->error, sizeof f->error, "%.399s", s->start_error.msg);
	rundir_write_retry(s->dir, f, NULL);
	snprintf(s->progress.trouble, sizeof s->progress.trouble, "cannot start %s: %s", f->id,
	    f->error);
}

/* Remove the report of `id` from the lock file, if it is the one there. */
static void clear_failed_start(struct supervisor *s, const char *id)
{
	if (!s->failing.id[0] || strcmp(s->failing.id, id) != 0)
		return;
	s->failing = (struct rundir_retry){ 0 };
	s->progress.trouble[0] = 0;
	rundir_write_retry(s->dir, &s->failing, NULL);
}

/* Start the process of that id, for the first time or again. */
static enum err_code start_process(struct supervisor *s, const char *id, struct err *e)
{
	size_t child = POLICY_NOBODY;
	enum err_code rc = members_start(s, id, &child, e);

	if (rc == ERR_OK && child != POLICY_NOBODY)
		handle_event(s,
		    (struct policy_event){
		        .kind = POLICY_STARTED,
		        .process = child,
		        .role = role_of_id(id),
		        .has_coordinator = strcmp(id, coordinator_id(s)) == 0,
		    });
	return rc;
}

/* Start a process; the policy decides about another attempt. */
static void try_to_start(struct supervisor *s, const char *id)
{
	size_t child = find_child(s, id);
	struct err e = { 0 };

	if (start_process(s, id, &e) == ERR_OK)
		return;
	/* A process on another host can fail before it becomes a child, when the coordinator does
	 * not answer the request for its join file. */
	if (child == POLICY_NOBODY) {
		progress_say(&s->progress, "cannot start %s: %s", id, e.msg);
		return;
	}
	s->start_error = e;
	handle_event(s, (struct policy_event){ .kind = POLICY_START_FAILED, .process = child });
}

/* Reports how the process ended to the coordinator; returns: it is started again. The end of the
 * coordinator is reported to its successor, at the next status that it answers. */
static void report_end_to_coordinator(struct supervisor *s, const char *id, bool returns)
{
	char how[SUPERVISOR_REASON];
	enum err_cause cause = describe_end_of(s, id, "", how);

	end_reports_add(&s->reports, id, how, cause, returns);
	if (supervisor_is_coordinator_alive(s))
		send_end_reports(s);
}

static void execute_action(struct supervisor *s, const struct policy_action *a)
{
	const char *id = a->process == POLICY_NOBODY ? "" : launch_id(s->set, a->process);
	double deadline = (double)s->conf->deadline / NSEC_PER_SEC;
	char text[SUPERVISOR_REASON];

	switch (a->kind) {
	case POLICY_NOTIFY:
		report_end_to_coordinator(s, id, !a->n);
		break;
	case POLICY_ASK:
		supervisor_poll_status(s);
		handle_event(s,
		    (struct policy_event){ .kind = POLICY_ASKED,
		        .process = a->process,
		        .released = is_released_server(s, id) });
		break;
	case POLICY_REPORT_END:
		describe_end(s, id, text);
		progress_say(&s->progress, "%s", text);
		break;
	case POLICY_REPORT_LEFT:
		progress_say(&s->progress, "%s has left; the others continue", id);
		break;
	case POLICY_SET_CAUSE:
		s->cause = describe_end(s, id, s->reason);
		break;
	case POLICY_REPORT_RESTART:
		progress_say(&s->progress, "starting %s again (%u of %lld)", id, a->n,
		    (long long)s->policy.max_restarts);
		break;
	case POLICY_START:
		try_to_start(s, id);
		break;
	case POLICY_REPORT_RETRY:
		progress_say(&s->progress,
		    "cannot start %s: %s; trying again for %.0f s (deadline)", id,
		    s->start_error.msg, deadline);
		break;
	case POLICY_PUBLISH_RETRY:
		publish_failed_start(s, a->process, id);
		break;
	case POLICY_REPORT_STARTED:
		progress_say(&s->progress, "started %s after %u failed attempts", id, a->n);
		clear_failed_start(s, id);
		break;
	case POLICY_ABANDON:
		progress_say(&s->progress,
		    "giving up %s, which could not be started for %.0f s: %s", id, deadline,
		    s->start_error.msg);
		clear_failed_start(s, id);
		break;
	case POLICY_FAIL:
		keep_failure(s, id, a->failure);
		break;
	}
}

/* ---- waiting ---- */

/* Send a signal to the process that the coordinator runs in. */
static void forward_to_coordinator(struct supervisor *s, int sig)
{
	size_t child = find_child(s, coordinator_id(s));

	if (child != POLICY_NOBODY && launch_alive(s->set, child))
		launch_signal(s->set, child, sig);
}

void supervisor_read_signals(struct supervisor *s)
{
	struct signalfd_siginfo si;

	while (read(s->signals, &si, sizeof si) == (ssize_t)sizeof si) {
		int signal = (int)si.ssi_signo;

		if (signal == SIGUSR1) {
			forward_to_coordinator(s, SIGUSR1);
		} else if (signal == SIGUSR2) {
			handle_event(s, (struct policy_event){ .kind = POLICY_STOP });
		} else {
			handle_event(s,
			    (struct policy_event){ .kind = POLICY_SIGNAL, .signal = signal });
			if (s->policy.signals == 1)
				progress_say(&s->progress,
				    "stopping (SIG%s; repeat the signal to stop at once)",
				    sigabbrev_np(signal));
		}
	}
}

/* Was the child that has just ended killed by the kernel, for lack of memory in the control group
 * that it shares with this process? */
static bool was_killed_for_memory(struct supervisor *s)
{
	uint64_t before = s->memory_kills;

	if (!s->ended.signalled || s->ended.status != SIGKILL)
		return false;
	s->memory_kills = cgroup_memory_kills("");
	return s->memory_kills != UINT64_MAX && s->memory_kills > before;
}

/* Handle the children that have ended since the last call. */
static void reap_children(struct supervisor *s)
{
	while (launch_wait(s->set, 0, &s->ended, NULL) == ERR_OK) {
		size_t child = s->ended.child;
		const char *id = launch_id(s->set, child), *host = remote_host(s, id);
		struct policy_event event = { .kind = POLICY_ENDED,
			.process = child,
			.code = s->ended.status };

		if (role_of_id(id) == POLICY_TOOL)
			continue;
		if (host)
			event.end = remote_translate_end(host, s->policy.job == POLICY_JOB_FORMING,
			    &s->ended, s->ended_how, sizeof s->ended_how, &event.code);
		else
			launch_how(&s->ended, s->ended_how);
		s->ended_for_memory = !host && was_killed_for_memory(s);
		if (s->ended_for_memory)
			snprintf(s->ended_how + strlen(s->ended_how),
			    sizeof s->ended_how - strlen(s->ended_how),
			    ", by the kernel: its control group had no memory left");
		if (!host)
			event.end = s->ended.signalled ? POLICY_KILLED
			    : s->ended.status          ? POLICY_EXITED
			                               : POLICY_LEFT;
		handle_event(s, event);
	}
}

void supervisor_wait_event(struct supervisor *s, int64_t end)
{
	struct pollfd p[] = { { .fd = s->signals, .events = POLLIN },
		{ .fd = launch_fd(s->set), .events = POLLIN },
		{ .fd = s->watch.fd, .events = POLLIN } };

	if (poll(p, sizeof p / sizeof *p, clock_poll_timeout(end - clock_now())) < 0 &&
	    errno != EINTR)
		return;
	supervisor_read_signals(s);
	/* Check this before the children: processes that notice the removal end, too, and would be
	 * blamed for it. */
	if (p[2].revents && rundir_watch_gone(&s->watch))
		give_up(s, CAUSE_UNKNOWN, "the run directory %s was deleted", s->dir);
	reap_children(s);
}

void supervisor_start_due(struct supervisor *s)
{
	handle_event(s, (struct policy_event){ .kind = POLICY_CHECK_RESTARTS });
}

bool supervisor_revive_coordinator(struct supervisor *s, int64_t limit)
{
	int64_t begin = clock_now(), end = begin + limit;
	struct err e = { 0 };

	if (start_process(s, coordinator_id(s), &e)) {
		progress_say(&s->progress, "cannot start the coordinator: %s", e.msg);
		return false;
	}
	while (supervisor_is_coordinator_alive(s) && !s->policy.signals && !s->policy.stopping &&
	    clock_now() < end) {
		supervisor_wait_event(s, clock_now() + ASK_FAST);
		supervisor_poll_status(s);
		if (s->policy.answered > begin && s->policy.job == POLICY_JOB_RUNNING)
			return true;
	}
	return false;
}

void supervisor_expect_ends(struct supervisor *s)
{
	handle_event(s, (struct policy_event){ .kind = POLICY_END_ALL });
}

/* ---- starting ---- */

/* Start PREFIX0 to PREFIX(n-1), except those that are alive or about to be restarted. */
static enum err_code start_all_named(struct supervisor *s, const char *prefix, int64_t n,
    struct err *e)
{
	enum err_code rc = ERR_OK;
	char id[32];

	for (int64_t k = 0; rc == ERR_OK && k < n; k++) {
		snprintf(id, sizeof id, "%s%lld", prefix, (long long)k);
		if (!policy_has_process(&s->policy, find_child(s, id)))
			rc = start_process(s, id, e);
	}
	return rc;
}

/* Must workers be started from here or, in a rendezvous of ranks, be given their join files? */
static bool must_start_workers(const struct supervisor *s)
{
	return s->rendezvous ? s->policy.trains : s->policy.own_workers;
}

/* Start all servers and workers that are not alive. */
static enum err_code start_members(struct supervisor *s, struct err *e)
{
	enum err_code rc = start_all_named(s, "server-", s->conf->servers, e);

	if (rc == ERR_OK && must_start_workers(s))
		rc = start_all_named(s, "worker-", s->conf->workers.max, e);
	s->policy.members_due = false;
	return rc;
}

enum err_code supervisor_start(struct supervisor *s, struct err *e)
{
	enum err_code rc = s->rendezvous ? rendezvous_create(s->rendezvous, e) : ERR_OK;
	bool due = s->hosts.n > 0 || s->rendezvous;

	s->slow_from = clock_now() + FAST_FOR;
	members_read_began(s->dir, s->began);
	/* Processes on other hosts need a join file, which only a running coordinator can make. */
	s->policy.members_due = due;
	if (rc == ERR_OK && (supervisor_has_separate_coordinator(s) || due))
		rc = start_process(s, coordinator_id(s), e);
	return rc == ERR_OK && !due ? start_members(s, e) : rc;
}

/* Start the processes that the coordinator calls for after a scaling. */
static void start_requested(struct supervisor *s)
{
	const json_t *id;
	size_t i;

	json_array_foreach(s->status ? s->status->called : NULL, i, id) {
		const char *name = json_string_value(id);

		if (!name || policy_has_process(&s->policy, find_child(s, name)) ||
		    (role_of_id(name) == POLICY_WORKER && !must_start_workers(s)))
			continue;
		if (!remote_has_slot(s, name)) {
			if (!s->warned_full)
				progress_say(&s->progress,
				    "cannot start %s: no host has a free slot", name);
			s->warned_full = true;
			continue;
		}
		try_to_start(s, name);
	}
}

/* After ps-ctl stop a turn does not wait but asks for the status at once. A job that has just
 * ended is then reported as done or failed, because those states precede POLICY_STOPPED. */
enum policy_state supervisor_wait_state(struct supervisor *s)
{
	struct err e = { 0 };

	handle_event(s, (struct policy_event){ .kind = POLICY_TURN });
	if (!s->policy.stopping)
		supervisor_wait_event(s, s->next_ask);
	handle_event(s, (struct policy_event){ .kind = POLICY_TURN });
	if (s->policy.signals > 0)
		return POLICY_SIGNALLED;
	supervisor_start_due(s);
	if ((policy_count_alive(&s->policy, POLICY_SERVER) > 0 || s->policy.members_due) &&
	    (s->policy.stopping || clock_now() >= s->next_ask))
		supervisor_poll_status(s);
	if (s->policy.members_due && s->status && start_members(s, &e) != ERR_OK)
		give_up(s, e.cause, "%s", e.msg);
	if (s->policy.job == POLICY_JOB_RUNNING)
		start_requested(s);
	remote_send_new_key(s);
	progress_tell_job(&s->progress, s->status);
	if (!policy_job_is_over(&s->policy))
		progress_show(&s->progress, s->status);
	handle_event(s, (struct policy_event){ .kind = POLICY_CHECK_LIMITS });
	return policy_state(&s->policy);
}

/* ---- rolling back ---- */

/* End all processes, and forget what is known of them. */
static void end_generation(struct supervisor *s)
{
	struct launch_event ev;

	launch_stop_all(s->set, ROLLBACK_GRACE);
	while (launch_wait(s->set, 0, &ev, NULL) == ERR_OK)
		;
	cluster_status_free(s->status);
	s->status = NULL;
	s->reason[0] = 0;
	s->cause = CAUSE_UNKNOWN;
	clear_failed_start(s, s->failing.id);
	handle_event(s, (struct policy_event){ .kind = POLICY_RESET });
}

/* Start all processes. Failures, for example for lack of disk space, are retried until the
 * deadline. */
static bool start_generation(struct supervisor *s)
{
	struct backoff pause = { .least = ROLLBACK_MIN, .most = ROLLBACK_MAX };
	int64_t end = clock_now() + s->conf->deadline;
	struct err e = { 0 };

	backoff_reset(&pause);
	while (supervisor_start(s, &e) != ERR_OK) {
		int64_t next = clock_now() + backoff_next(&pause);

		end_generation(s);
		progress_say(&s->progress, "cannot start again: %s", e.msg);
		if (clock_now() >= end) {
			give_up(s, e.cause, "cannot start again: %s", e.msg);
			return false;
		}
		while (clock_now() < next && !s->policy.signals && !s->policy.stopping)
			supervisor_wait_event(s, next);
		if (s->policy.signals || s->policy.stopping)
			return false;
	}
	return true;
}

/* Chooses from what the run is started again, as s->resume: "auto" if it has a checkpoint, which is
 * *newest by its manifest. Before it has written one, the run begins again as it began, with the
 * checkpoint of another run or without one. That is not possible with a stream, whose events may be
 * gone. */
static bool choose_roll_back(struct supervisor *s, char **from, char **newest)
{
	char *checkpoints = rundir_path(s->dir, "checkpoints");
	const struct conf_strs *data = &s->conf->job.data;
	bool is_stream = data->n && data_log_is(data->item[0]);
	enum err_code rc;

	/* Until the job has run, the checkpoint that the user has named holds. */
	if (s->resume && strcmp(s->resume, "auto") != 0 && !s->policy.ran) {
		free(checkpoints);
		*from = mem_strdup(s->resume);
		return true;
	}
	rc = ckpt_newest_by_manifest(checkpoints, NULL, NULL, NULL, newest, NULL);
	free(checkpoints);
	/* ERR_IO: it cannot be read at present. The coordinator tries that for a while. */
	if (rc == ERR_OK || rc == ERR_IO)
		*from = mem_strdup("auto");
	if (rc != ERR_NOTFOUND)
		return *from != NULL;
	*from = s->resume ? mem_strdup(s->resume) : NULL;
	return policy_may_begin_again(&s->policy) && (!is_stream || *from);
}

bool supervisor_roll_back(struct supervisor *s)
{
	char *from = NULL, *newest = NULL;
	const char *shown;

	if (!policy_wants_rollback(&s->policy))
		return false;
	if (!choose_roll_back(s, &from, &newest)) {
		free(from);
		return false;
	}
	shown = newest ? newest : from ? from : "the beginning";
	handle_event(s, (struct policy_event){ .kind = POLICY_ROLL_BACK });
	progress_say(&s->progress, "%s; rolling back to %s (rollback %lld of %lld)",
	    s->reason[0]    ? s->reason
	        : s->status ? s->status->reason
	                    : "a server is lost",
	    shown, (long long)s->policy.rollbacks, (long long)s->policy.max_restarts);
	free(newest);
	free(s->resume);
	s->resume = from;
	end_generation(s);
	return start_generation(s);
}
