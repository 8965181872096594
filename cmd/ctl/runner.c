#include "runner.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
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
#include "launch/daemon.h"
#include "launch/rundir.h"
#include "result.h"

#define ASK_FAST (50 * NSEC_PER_MSEC)
#define ASK_SLOW (200 * NSEC_PER_MSEC)
#define FAST_FOR (5 * NSEC_PER_SEC)
/* Signals are not seen during a question, so it must be short. */
#define ASK_TIMEOUT NSEC_PER_SEC
/* How long the coordinator may take to notice what this side has seen. */
#define NOTICE (5 * NSEC_PER_SEC)
#define NOTICE_WORKER NSEC_PER_SEC
#define EXPORT_MIN (60 * NSEC_PER_SEC)
#define LEAVE_GRACE (10 * NSEC_PER_SEC)
#define TERM_GRACE (5 * NSEC_PER_SEC)
#define TAIL_LINES 8

enum err_code runner_signals(struct runner *r, struct err *e)
{
	struct sigaction now;
	sigset_t set;

	memset(r, 0, sizeof *r);
	sigemptyset(&set);
	/* A shell's background job has SIGINT ignored; who sends it means it. */
	signal(SIGINT, SIG_DFL);
	signal(SIGTERM, SIG_DFL);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	/* But nohup is to be heeded. */
	if (sigaction(SIGHUP, NULL, &now) == 0 && now.sa_handler != SIG_IGN)
		sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	r->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return r->signals < 0 ? err_sys(e, ERR_IO, "cannot watch for signals") : ERR_OK;
}

enum err_code runner_open(struct runner *r, const struct conf *conf, const char *dir,
                          struct log *log, struct err *e)
{
	enum err_code rc;

	r->conf = conf;
	r->dir = dir;
	r->answered = clock_now();
	progress_init(&r->progress, log);
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
	progress_end(&r->progress);
	if (r->signals >= 0)
		close(r->signals);
}

/* ---- starting ------------------------------------------------------------------------ */

/* args: NULL-ended, after the program's name. */
static enum err_code start_one(struct runner *r, const char *program, const char *id,
                               const char *const *args, size_t *child, struct err *e)
{
	char *path = path_join(r->bin, program), *log = mem_printf("%s/%s.log", r->dir, id);
	const char *argv[12] = { path };
	struct launch_spec spec = { .id = id, .argv = (char *const *)argv, .log_path = log,
	                            .die_with_parent = true };
	enum err_code rc;

	for (size_t n = 1; *args && n + 1 < CTL_COUNT(argv); n++)
		argv[n] = *args++;
	rc = launch_start(r->set, &spec, child, e);
	free(path);
	free(log);
	return rc;
}

static enum err_code start_server(struct runner *r, int64_t k, struct err *e)
{
	char id[32];
	const char *args[] = { "-C", r->dir, "--name", id, k == 0 ? "--coordinator" : NULL, NULL };
	size_t child;

	snprintf(id, sizeof id, "server-%lld", (long long)k);
	return start_one(r, "ps-serve", id, args, &child, e);
}

static enum err_code start_worker(struct runner *r, int64_t k, struct err *e)
{
	char id[32], slot[24];
	const char *args[] = { "train", "-C", r->dir, "--slot", slot, NULL };
	size_t child;

	snprintf(id, sizeof id, "worker-%lld", (long long)k);
	snprintf(slot, sizeof slot, "%lld", (long long)k);
	return start_one(r, "ps-work", id, args, &child, e);
}

enum err_code runner_start(struct runner *r, struct err *e)
{
	enum err_code rc = ERR_OK;

	for (int64_t k = 0; rc == ERR_OK && k < r->conf->servers; k++)
		rc = start_server(r, k, e);
	for (int64_t k = 0; rc == ERR_OK && r->conf->has_job && k < r->conf->workers.max; k++)
		rc = start_worker(r, k, e);
	r->settled = clock_now() + FAST_FOR;
	return rc;
}

/* ---- what happens -------------------------------------------------------------------- */

static void give_up(struct runner *r, const char *culprit, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* This side ends the run.  The arguments may be what r says already. */
static void give_up(struct runner *r, const char *culprit, const char *fmt, ...)
{
	char who[sizeof r->culprit], why[sizeof r->reason];
	va_list ap;

	if (r->crashed)
		return;
	r->crashed = true;
	snprintf(who, sizeof who, "%s", culprit);
	va_start(ap, fmt);
	vsnprintf(why, sizeof why, fmt, ap);
	va_end(ap);
	memcpy(r->culprit, who, sizeof who);
	memcpy(r->reason, why, sizeof why);
}

/* Keep in mind who ended how, with its own last words if it had any to say. */
static void blame(struct runner *r, const char *id, const struct launch_event *ev, const char *how)
{
	char *log = mem_printf("%s/%s.log", r->dir, id);
	struct buf last = BUF_INIT;

	if (!ev->signalled && ev->status != 0)
		launch_tail(log, 1, &last, NULL);
	if (last.len > 0)
		last.data[strcspn((char *)last.data, "\n")] = '\0';
	snprintf(r->culprit, sizeof r->culprit, "%s", id);
	snprintf(r->reason, sizeof r->reason, "%s %s%s%.280s", id, how, last.len > 0 ? ": " : "",
	         last.len > 0 ? (char *)last.data : "");
	buf_release(&last);
	free(log);
}

static bool state_is(const struct runner *r, const char *state)
{
	return strcmp(json_str(r->status, "state", ""), state) == 0;
}

static void ask(struct runner *r)
{
	int64_t now = clock_now();
	json_t *reply = NULL;

	if (http_call(r->client, "GET", "/v1/status", NULL, ASK_TIMEOUT, NULL, &reply, NULL) == ERR_OK) {
		json_decref(r->status);
		r->status = reply;
		now = r->answered = clock_now();
	}
	r->next_ask = now + (now < r->settled ? ASK_FAST : ASK_SLOW);
}

static void take_signals(struct runner *r)
{
	struct signalfd_siginfo si;

	while (read(r->signals, &si, sizeof si) == (ssize_t)sizeof si) {
		if (r->nsignals++ == 0)
			r->first_signal = (int)si.ssi_signo;
		if (r->nsignals == 1)
			progress_say(&r->progress, "stopping (SIG%s; once more: at once)",
			             sigabbrev_np((int)si.ssi_signo));
	}
}

static void quote_log(struct runner *r, const char *id)
{
	char *log = mem_printf("%s/%s.log", r->dir, id);

	progress_quote(&r->progress, log, TAIL_LINES);
	free(log);
}

/* Every server holds a part of the model's only copy. */
static void server_ended(struct runner *r, const char *id, const struct launch_event *ev,
                         const char *how)
{
	bool left = !ev->signalled && ev->status == 0;

	if (left && (state_is(r, "stopped") || state_is(r, "done") || state_is(r, "failed")))
		return;
	blame(r, id, ev, how);
	if (!left)
		progress_say(&r->progress, "%s %s%s", id, how, ev->signalled ? "" : ":");
	if (!left && !ev->signalled)
		quote_log(r, id);
	r->broken_since = r->broken_since ? r->broken_since : clock_now();
	/* With the coordinator nobody is left who could decide. */
	if (strcmp(id, "server-0") == 0 && !left)
		give_up(r, r->culprit, "%s", r->reason);
}

/* The coordinator decides what the loss means; here it is only told. */
static void worker_ended(struct runner *r, const char *id, const struct launch_event *ev,
                         const char *how)
{
	if (!ev->signalled && ev->status == 0)
		return;
	ask(r);
	/* After a failure every worker ends so, and the reason is the job's. */
	if (!ev->signalled && state_is(r, "failed"))
		return;
	progress_say(&r->progress, "%s %s%s", id, how, ev->signalled ? "" : ":");
	if (!ev->signalled)
		quote_log(r, id);
	if (!r->culprit[0])
		blame(r, id, ev, how);
}

static void take_children(struct runner *r)
{
	struct launch_event ev;
	char how[64];

	while (launch_wait(r->set, 0, &ev, NULL) == ERR_OK) {
		const char *id = launch_id(r->set, ev.child);

		launch_how(&ev, how);
		if (r->stopping || r->nsignals > 0)
			continue;
		if (strncmp(id, "server-", 7) == 0)
			server_ended(r, id, &ev, how);
		else if (strncmp(id, "worker-", 7) == 0)
			worker_ended(r, id, &ev, how);
	}
}

static size_t running(const struct runner *r, const char *prefix)
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

static bool is_over(const struct runner *r)
{
	return state_is(r, "done") || state_is(r, "failed") || state_is(r, "stopped");
}

static void check_workers(struct runner *r, int64_t now)
{
	int64_t patience = NOTICE_WORKER;
	bool well, signalled;

	worker_ends(r, &well, &signalled);
	if (signalled)
		patience = r->conf->lease + r->conf->on_worker_loss.wait + NOTICE;
	if (!r->conf->has_job || json_int(r->status, "workers", 0) > 0 ||
	    running(r, "worker-") > 0 || well)
		r->alone_since = 0;
	else if (!r->alone_since)
		r->alone_since = now;
	else if (now - r->alone_since > patience)
		give_up(r, r->culprit, "%s", r->reason);
}

/* No wait is without an end, even if the coordinator should not see to it. */
static void check_limits(struct runner *r)
{
	int64_t now = clock_now();

	if (is_over(r) || r->stopping || r->nsignals > 0)
		return;
	if (now - r->answered > r->conf->deadline)
		give_up(r, "server-0", "the coordinator (server-0) has not answered for %.0f s",
		        (double)r->conf->deadline / NSEC_PER_SEC);
	if (r->broken_since && now - r->broken_since > NOTICE)
		give_up(r, r->culprit, "%s", r->reason);
	check_workers(r, now);
}

static int until(int64_t end)
{
	int64_t left = end - clock_now();

	return left <= 0 ? 0 : (int)((left + NSEC_PER_MSEC - 1) / NSEC_PER_MSEC);
}

/* Wait for a child, a signal or the given time. */
static void pause_until(struct runner *r, int64_t end)
{
	struct pollfd p[] = { { .fd = r->signals, .events = POLLIN },
	                      { .fd = launch_fd(r->set), .events = POLLIN } };

	if (poll(p, CTL_COUNT(p), until(end)) < 0 && errno != EINTR)
		return;
	take_signals(r);
	take_children(r);
}

enum runner_state runner_turn(struct runner *r)
{
	pause_until(r, r->next_ask);
	if (r->nsignals > 0)
		return RUNNER_SIGNALLED;
	if (running(r, "server-") > 0 && clock_now() >= r->next_ask)
		ask(r);
	if (!is_over(r))
		progress_show(&r->progress, r->status);
	check_limits(r);
	if (r->crashed)
		return RUNNER_FAILED;
	if (state_is(r, "stopped") || running(r, "server-") == 0)
		return RUNNER_STOPPED;
	if (state_is(r, "done"))
		return RUNNER_DONE;
	if (state_is(r, "failed"))
		return RUNNER_FAILED;
	return state_is(r, "running") || state_is(r, "finishing") ? RUNNER_RUNNING : RUNNER_FORMING;
}

/* Did it answer when it was asked last?  One that hangs would only cost time
 * in which signals are not seen. */
static bool is_answering(const struct runner *r)
{
	return r->answered + ASK_TIMEOUT > clock_now();
}

/* ---- the end ------------------------------------------------------------------------- */

json_t *runner_result(struct runner *r)
{
	json_t *result = NULL, *whole;
	char why[64];

	if (!r->crashed && is_answering(r))
		http_call(r->client, "GET", "/v1/result", NULL, ASK_TIMEOUT, NULL, &result, NULL);
	if (!result)
		result = result_of_status(r->status, json_str(r->status, "state", "failed"),
		                          json_str(r->status, "reason", NULL));
	if (r->crashed) {
		result_set_state(result, "failed", r->reason);
	} else if (!result_is(result, "done") && !result_is(result, "failed")) {
		const char *said = json_str(result, "reason", "");

		if (r->first_signal)
			snprintf(why, sizeof why, "SIG%s", sigabbrev_np(r->first_signal));
		else
			snprintf(why, sizeof why, "%s", *said ? said : "asked to stop");
		result_set_state(result, "stopped", why);
	}
	whole = result_whole(result);
	json_decref(result);
	return whole;
}

bool runner_is_whole(const struct runner *r)
{
	return !r->crashed && !r->broken_since &&
	       json_int(r->status, "servers", 0) >= json_int(r->status, "servers_wanted", 0);
}

/* A process of its own does it, so that a signal still counts meanwhile. */
void runner_export(struct runner *r)
{
	const char *args[] = { "-C", r->dir, "export", "all", "-o", "safetensors", "--file", NULL, NULL };
	char *model = rundir_path(r->dir, "model.safetensors");
	char *log = rundir_path(r->dir, "export.log");
	int64_t limit = r->conf->deadline > EXPORT_MIN ? r->conf->deadline : EXPORT_MIN;
	int64_t end = clock_now() + limit;
	struct launch_event how;
	struct err e = { 0 };
	size_t child;

	args[7] = model;
	/* A worker whose loss was not finite has put its last good one there. */
	if (access(model, F_OK) == 0)
		goto out;
	if (start_one(r, "ps-ctl", "export", args, &child, &e) != ERR_OK) {
		progress_say(&r->progress, "warning: the model is not saved: %s", e.msg);
		goto out;
	}
	while (launch_alive(r->set, child) && r->nsignals == 0 && clock_now() < end)
		pause_until(r, end);
	how = launch_status(r->set, child);
	if (launch_alive(r->set, child)) {
		launch_signal(r->set, child, SIGKILL);
		progress_say(&r->progress, "warning: the model is not saved: %s",
		             r->nsignals > 0 ? "interrupted" : "it took too long");
	} else if (how.signalled || how.status != 0) {
		progress_say(&r->progress, "warning: the model is not saved:");
		progress_quote(&r->progress, log, TAIL_LINES);
		goto out;
	}
	unlink(log);
out:
	free(model);
	free(log);
}

/* False when a signal wants it faster than that. */
static bool drain(struct runner *r, int64_t grace)
{
	int64_t end = clock_now() + grace;
	int seen = r->nsignals;

	while (launch_running(r->set) > 0 && clock_now() < end && r->nsignals == seen)
		pause_until(r, end);
	return r->nsignals == seen || launch_running(r->set) == 0;
}

void runner_stop(struct runner *r, const char *why)
{
	json_t *body = json_pack("{s:s}", "why", why);
	bool patient;

	take_signals(r);
	patient = r->nsignals < 2;
	r->stopping = true;
	progress_end(&r->progress);
	if (patient && !r->crashed && running(r, "server-") > 0 &&
	    http_call(r->client, "POST", "/v1/stop", body, ASK_TIMEOUT, NULL, NULL, NULL) == ERR_OK)
		patient = drain(r, LEAVE_GRACE);
	json_decref(body);
	if (patient && launch_running(r->set) > 0) {
		launch_signal_all(r->set, SIGTERM);
		drain(r, r->crashed ? NSEC_PER_SEC : TERM_GRACE);
	}
	launch_stop_all(r->set, 0);
}
