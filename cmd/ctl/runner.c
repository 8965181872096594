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
#include "ctl.h"
#include "far.h"
#include "parts.h"
#include "restart.h"

#define ASK_FAST (50 * NSEC_PER_MSEC)
#define ASK_SLOW (200 * NSEC_PER_MSEC)
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

/* With copies the coordinator is no store: what it decides of must not die with it.  With other
 * hosts it is here, and the servers are there. */
bool runner_is_apart(const struct runner *r)
{
	return r->conf->replicas > 1 || r->hosts.n > 0;
}

bool runner_has_coordinator(const struct runner *r)
{
	return runner_count(r, runner_is_apart(r) ? "coordinator" : "server-0") > 0;
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
		r->max_restarts = conf->replicas > 1 || conf->checkpoint_every.steps || conf->checkpoint_every.time ? RESTARTS : 0;
	progress_init(&r->progress, log);
	/* Who starts a supervisor looks itself. */
	r->progress.dir = log ? NULL : dir;
	r->bin = path_self_dir(e);
	rc = r->bin ? launch_new(dir, &r->set, e) : e->code;
	return rc == ERR_OK ? ctl_connect(dir, &r->client, e) : rc;
}

int runner_not_begun(const struct runner *r, const struct err *e)
{
	struct signalfd_siginfo si;
	int code = ctl_fail(e);

	return e->code == ERR_STOPPED && read(r->signals, &si, sizeof si) == (ssize_t)sizeof si ? 128 + (int)si.ssi_signo : code;
}

void runner_close(struct runner *r)
{
	launch_free(r->set);
	http_client_free(r->client);
	json_decref(r->status);
	hosts_release(&r->hosts);
	free(r->bin);
	free(r->resume);
	progress_end(&r->progress);
	if (r->signals >= 0)
		close(r->signals);
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
	if (r->meeting || !runner_has_own_workers(r) || json_int(r->status, "workers", 0) > 0 ||
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
		runner_give_up(r, runner_is_apart(r) ? "coordinator" : "server-0", "the coordinator%s has not answered for %.0f s",
		        runner_is_apart(r) ? "" : " (server-0)", (double)r->conf->deadline / NSEC_PER_SEC);
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
	struct err e;

	if (!r->asked)
		runner_pause(r, r->next_ask);
	if (r->nsignals > 0)
		return RUNNER_SIGNALLED;
	restart_due(r);
	if ((runner_count(r, "server-") > 0 || r->members_due) && (r->asked || clock_now() >= r->next_ask))
		runner_ask(r);
	if (r->members_due && r->status && runner_start_members(r, &e) != ERR_OK)
		runner_give_up(r, "coordinator", "%s", e.msg);
	if (runner_state_is(r, "running"))
		runner_start_called(r);
	far_refresh(r);
	if (!runner_is_over(r))
		progress_show(&r->progress, r->status);
	check_limits(r);
	if (r->crashed)
		return RUNNER_FAILED;
	if (runner_state_is(r, "stopped") || (runner_count(r, "server-") == 0 && !r->members_due && !restart_coming(r)))
		return RUNNER_STOPPED;
	if (runner_state_is(r, "done"))
		return RUNNER_DONE;
	if (runner_state_is(r, "failed"))
		return RUNNER_FAILED;
	if (r->asked)
		return RUNNER_STOPPED;
	return runner_state_is(r, "running") || runner_state_is(r, "finishing") ? RUNNER_RUNNING : RUNNER_FORMING;
}
