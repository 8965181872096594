/* SPDX-License-Identifier: ISC */
#include "rundir/control.h"
#include "runner.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/file.h"
#include "core/json.h"
#include "core/mem.h"
#include "core/signals.h"
#include "ctl.h"
#include "far.h"
#include "parts.h"
#include "restart.h"

/* Intervals between polls of the status: soon after the start, and later. */
#define ASK_FAST (50 * NSEC_PER_MSEC)
#define ASK_SLOW (200 * NSEC_PER_MSEC)
/* How long the coordinator may take to notice a loss that this side has seen (of a server; of all
 * workers).  After that the runner fails the run itself. */
#define NOTICE        (5 * NSEC_PER_SEC)
#define NOTICE_WORKER NSEC_PER_SEC
/* Default of max_restarts where a restart can succeed: with replicas or checkpoints. */
#define RESTARTS 3

enum err_code runner_signals(struct runner *r, struct err *e)
{
	struct sigaction now;
	sigset_t set;

	memset(r, 0, sizeof *r);
	r->watch = (struct rundir_watch){ -1, -1 };
	r->max_restarts = -1;
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
	r->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return r->signals < 0 ? err_sys(e, ERR_IO, "cannot watch for signals") : ERR_OK;
}

/* With replicas the coordinator stores nothing, so that its death loses no partition and it can
 * decide on a failover.  With other hosts it runs here, and the servers run there. */
bool runner_has_separate_coordinator(const struct runner *r)
{
	return r->conf->replicas > 1 || r->hosts.n > 0;
}

bool runner_is_coordinator_alive(const struct runner *r)
{
	return runner_count_alive(r,
	           runner_has_separate_coordinator(r) ? "coordinator" : "server-0") > 0;
}

enum err_code runner_open(struct runner *r, const struct conf *conf, const char *dir,
    struct log *log, struct err *e)
{
	enum err_code rc;

	r->conf = conf;
	r->dir = dir;
	r->answered = clock_now();
	for (size_t i = 0; i < conf->hosts.n; i++)
		hosts_add(&r->hosts, conf->hosts.item[i], NULL);
	if (r->max_restarts < 0)
		r->max_restarts = conf->replicas > 1 || conf->checkpoint_every.steps ||
		        conf->checkpoint_every.time
		    ? RESTARTS
		    : 0;
	progress_init(&r->progress, log);
	/* With a supervisor, ps-ctl start shows what is wrong with the run directory. */
	r->progress.dir = log ? NULL : dir;
	/* Without the watch only the removal of the directory goes unnoticed. */
	if (rundir_watch_open(dir, &r->watch, e) != ERR_OK)
		progress_say(&r->progress, "warning: %s", e->msg);
	r->bin = path_self_dir(e);
	rc = r->bin ? launch_new(dir, &r->set, e) : e->code;
	return rc == ERR_OK ? control_connect(dir, &r->client, e) : rc;
}

int runner_report_not_begun(const struct runner *r, const struct err *e)
{
	struct signalfd_siginfo si;
	int code = ctl_fail(e);

	return e->code == ERR_STOPPED && read(r->signals, &si, sizeof si) == (ssize_t)sizeof si
	    ? 128 + (int)si.ssi_signo
	    : code;
}

void runner_close(struct runner *r)
{
	launch_free(r->set);
	http_client_free(r->client);
	json_decref(r->status);
	hosts_release(&r->hosts);
	free(r->bin);
	free(r->resume);
	free(r->passed_over);
	progress_clear_line(&r->progress);
	rundir_watch_close(&r->watch);
	if (r->signals >= 0)
		close(r->signals);
}

void runner_reset(struct runner *r)
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
	restart_cancel_all(r);
}

/* ---- the coordinator's status ---- */

bool runner_state_is(const struct runner *r, const char *state)
{
	return strcmp(json_str(r->status, "state", ""), state) == 0;
}

bool runner_is_job_over(const struct runner *r)
{
	return runner_state_is(r, "done") || runner_state_is(r, "failed") ||
	    runner_state_is(r, "stopped");
}

bool runner_was_stopped_remotely(const struct runner *r, enum runner_state state)
{
	return state == RUNNER_STOPPED && !r->asked && !r->crashed;
}

bool runner_is_forming(const struct runner *r)
{
	return !r->status || runner_state_is(r, "forming");
}

/* Count the checkpoints that failed, over restarts of the coordinator, and report the first. */
static void note_failed_checkpoints(struct runner *r)
{
	int64_t now = json_int(r->status, "checkpoints_failed", 0),
	        more = now - (now < r->unmade_seen ? 0 : r->unmade_seen);

	r->unmade_seen = now;
	if (more <= 0)
		return;
	snprintf(r->unmade_why, sizeof r->unmade_why, "%s",
	    json_str(r->status, "checkpoint_error", "?"));
	if (r->unmade == 0)
		progress_say(&r->progress, "warning: a checkpoint could not be written: %s",
		    r->unmade_why);
	r->unmade += more;
}

/* Warn about a job of model custom without an end.  The user's program may have set steps or
 * epochs that the cluster file leaves open, so this reads the settings in force from the
 * coordinator. */
static void warn_of_endless_job(struct runner *r)
{
	json_t *config = NULL;
	const json_t *job;

	if (r->begun || !conf_trains(r->conf) || !runner_state_is(r, "running"))
		return;
	r->begun = true;
	if (strcmp(r->conf->job.model, "custom") != 0 ||
	    http_call(r->client, "GET", "/v1/config", NULL, RUNNER_ASK, NULL, &config, NULL) !=
	        ERR_OK)
		return;
	job = json_object_get(config, "job");
	if (json_int(job, "steps", 0) == 0 && json_int(job, "epochs", 0) == 0)
		progress_say(&r->progress,
		    "warning: the job has neither steps nor epochs, so a loop over its steps never ends: "
		    "--set steps=N or --set epochs=N bounds it; SIGINT stops it with a checkpoint");
	json_decref(config);
}

void runner_poll_status(struct runner *r)
{
	int64_t now = clock_now();
	json_t *reply = NULL;

	if (http_call(r->client, "GET", "/v1/status", NULL, RUNNER_ASK, NULL, &reply, NULL) ==
	    ERR_OK) {
		json_decref(r->status);
		r->status = reply;
		now = r->answered = clock_now();
		note_failed_checkpoints(r);
		warn_of_endless_job(r);
		runner_send_end_report(r);
	}
	r->next_ask = now + (now < r->settled ? ASK_FAST : ASK_SLOW);
}

/* Send a signal to the process that the coordinator runs in. */
static void forward_to_coordinator(struct runner *r, int sig)
{
	const char *id = runner_has_separate_coordinator(r) ? "coordinator" : "server-0";

	for (size_t i = 0; i < launch_count(r->set); i++)
		if (launch_alive(r->set, i) && strcmp(launch_id(r->set, i), id) == 0)
			launch_signal(r->set, i, sig);
}

void runner_read_signals(struct runner *r)
{
	struct signalfd_siginfo si;

	while (read(r->signals, &si, sizeof si) == (ssize_t)sizeof si) {
		if (si.ssi_signo == SIGUSR1) {
			forward_to_coordinator(r, SIGUSR1);
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

size_t runner_count_alive(const struct runner *r, const char *prefix)
{
	size_t n = 0;

	for (size_t i = 0; i < launch_count(r->set); i++)
		if (launch_alive(r->set, i) &&
		    strncmp(launch_id(r->set, i), prefix, strlen(prefix)) == 0)
			n++;
	return n;
}

/* All workers have ended.  *well: one of them with exit code 0.  *signalled: one of them by a
 * signal, so that it may be replaced from outside.  Neither: each with a failure, after which
 * going on makes no sense. */
static void sum_up_worker_ends(const struct runner *r, bool *well, bool *signalled)
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

/* Give up when all of our own workers have ended, none of them well, and the coordinator has not
 * failed the job within the time that it may take to notice. */
static void check_for_own_workers(struct runner *r, int64_t now)
{
	int64_t patience = NOTICE_WORKER;
	bool well, signalled;

	sum_up_worker_ends(r, &well, &signalled);
	if (signalled)
		patience = r->conf->lease + r->conf->on_worker_loss.wait + NOTICE;
	if (r->meeting || r->members_due || !runner_has_own_workers(r) ||
	    json_int(r->status, "workers", 0) > 0 || runner_count_alive(r, "worker-") > 0 || well)
		r->alone_since = 0;
	else if (!r->alone_since)
		r->alone_since = now;
	else if (now - r->alone_since > patience)
		runner_give_up(r, r->culprit, "%s", r->reason);
}

/* Bound every wait from this side, too, in case the coordinator does not: for its own answer, for
 * a lost server and for lost workers. */
static void enforce_time_limits(struct runner *r)
{
	int64_t now = clock_now();

	if (runner_is_job_over(r) || r->stopping || r->nsignals > 0)
		return;
	if (now - r->answered > r->conf->deadline)
		runner_give_up(r, runner_has_separate_coordinator(r) ? "coordinator" : "server-0",
		    "the coordinator%s has not answered for %.0f s%s%s",
		    runner_has_separate_coordinator(r) ? "" : " (server-0)",
		    (double)r->conf->deadline / NSEC_PER_SEC, r->failing.id[0] ? ": " : "",
		    r->failing.id[0] ? r->failing.error : "");
	if (r->broken_since && now - r->broken_since > NOTICE)
		runner_give_up(r, r->culprit, "%s", r->reason);
	check_for_own_workers(r, now);
}

/* The timeout for poll() up to the time `end`, rounded up. */
static int milliseconds_until(int64_t end)
{
	int64_t left = end - clock_now();

	return left <= 0 ? 0 : (int)((left + NSEC_PER_MSEC - 1) / NSEC_PER_MSEC);
}

void runner_wait_event(struct runner *r, int64_t end)
{
	struct pollfd p[] = { { .fd = r->signals, .events = POLLIN },
		{ .fd = launch_fd(r->set), .events = POLLIN },
		{ .fd = r->watch.fd, .events = POLLIN } };

	if (poll(p, CTL_COUNT(p), milliseconds_until(end)) < 0 && errno != EINTR)
		return;
	runner_read_signals(r);
	/* Check this before the children: processes that notice the removal end, too, and would be
	 * blamed for it. */
	if (p[2].revents && rundir_watch_gone(&r->watch))
		runner_give_up(r, "", "the run directory %s was deleted", r->dir);
	runner_reap_children(r);
}

/* After ps-ctl stop (r->asked) a turn does not wait but asks for the status at once.  A job that
 * has just ended is then reported as done or failed, because those states precede RUNNER_STOPPED
 * below. */
enum runner_state runner_wait_state(struct runner *r)
{
	struct err e;

	if (!r->asked)
		runner_wait_event(r, r->next_ask);
	if (r->nsignals > 0)
		return RUNNER_SIGNALLED;
	restart_start_due(r);
	if ((runner_count_alive(r, "server-") > 0 || r->members_due) &&
	    (r->asked || clock_now() >= r->next_ask))
		runner_poll_status(r);
	if (r->members_due && r->status && runner_start_members(r, &e) != ERR_OK)
		runner_give_up(r, "coordinator", "%s", e.msg);
	if (runner_state_is(r, "running"))
		runner_start_requested(r);
	far_send_new_key(r);
	if (!runner_is_job_over(r))
		progress_show(&r->progress, r->status);
	enforce_time_limits(r);
	if (r->crashed)
		return RUNNER_FAILED;
	if (runner_state_is(r, "stopped") ||
	    (runner_count_alive(r, "server-") == 0 && !r->members_due && !restart_is_pending(r)))
		return RUNNER_STOPPED;
	if (runner_state_is(r, "done"))
		return RUNNER_DONE;
	if (runner_state_is(r, "failed"))
		return RUNNER_FAILED;
	if (r->asked)
		return RUNNER_STOPPED;
	return runner_state_is(r, "running") || runner_state_is(r, "finishing") ? RUNNER_RUNNING
	                                                                        : RUNNER_FORMING;
}
