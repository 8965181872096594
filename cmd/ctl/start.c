#include <poll.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "client/resume.h"
#include "ctl.h"
#include "emit.h"
#include "ending.h"
#include "launch/daemon.h"
#include "launch/rundir.h"
#include "local.h"
#include "progress.h"
#include "supervisor.h"

#define PACE (100 * NSEC_PER_MSEC)
#define GRACE (10 * NSEC_PER_SEC)

struct options {
	struct opt_list set;
	struct local_place place;
	int64_t timeout, max_restarts;
	const char *resume, *emit, *image;
};

static const struct opt opts[] = {
	{ "set", 's', OPT_LIST, offsetof(struct options, set), "KEY=VALUE",
	  "change a key of the cluster file, for this run", NULL, 0, 0 },
	CTL_OPT_TIMEOUT(struct options, timeout, "give up when it is not ready by then (60s)"),
	CTL_OPT_RESTARTS(struct options, max_restarts),
	CTL_OPT_RESUME(struct options, resume),
	LOCAL_OPTS(struct options, place),
	{ "emit", 0, OPT_CHOICE, offsetof(struct options, emit), "FORM",
	  "start nothing: print what sbatch, systemd, Kubernetes or a shell (mpirun) starts it with", EMIT_FORMS, 0, 0 },
	{ "image", 0, OPT_STR, offsetof(struct options, image), "IMAGE",
	  "of --emit k8s: the container image, with pskit and the data (pskit)", NULL, 0, 0 },
	LOCAL_OPT_EXEC(struct options, place),
};

static int take_signal(int fd)
{
	struct signalfd_siginfo si;

	return read(fd, &si, sizeof si) == (ssize_t)sizeof si ? (int)si.ssi_signo : 0;
}

/* Say what is waited for until the supervisor reports: 0, the signal that came
 * instead, or -1 at the deadline. */
static int await(const char *dir, int ready, int signals, int64_t end)
{
	struct pollfd p[] = { { .fd = ready, .events = POLLIN }, { .fd = signals, .events = POLLIN } };
	struct http_client *client = NULL;
	struct progress progress;
	int signal = 0;

	progress_init(&progress, NULL);
	progress.dir = dir;
	ctl_connect(dir, &client, NULL);
	for (;;) {
		json_t *status = NULL;
		int64_t left = end - clock_now();

		left = left < 0 ? 0 : left < PACE ? left : PACE;
		if (poll(p, 2, (int)((left + NSEC_PER_MSEC - 1) / NSEC_PER_MSEC)) > 0)
			break;
		if (client)
			http_call(client, "GET", "/v1/status", NULL, NSEC_PER_SEC, NULL, &status, NULL);
		progress_show(&progress, status);
		json_decref(status);
		if (clock_now() >= end) {
			signal = -1;
			break;
		}
	}
	if (p[1].revents)
		signal = take_signal(signals);
	progress_end(&progress);
	http_client_free(client);
	return signal;
}

/* The supervisor's report of a failure: it has the last words of who failed. */
static int report_failure(const char *line)
{
	json_t *o = json_loads(line, 0, NULL);
	int code = (int)json_int(o, "code", 1);

	fprintf(stderr, "ps-ctl: %s\n", json_str(o, "reason", "the supervisor failed"));
	json_decref(o);
	return code;
}

static void print_state(const char *dir)
{
	struct http_client *client = NULL;
	json_t *s = NULL;

	if (ctl_connect(dir, &client, NULL) == ERR_OK)
		http_call(client, "GET", "/v1/status", NULL, 2 * NSEC_PER_SEC, NULL, &s, NULL);
	http_client_free(client);
	fprintf(stderr, "cluster %s is %s\n", json_str(s, "name", "?"), json_str(s, "state", "running"));
	fprintf(stderr, "%lld/%lld servers, %lld/%lld workers\n", (long long)json_int(s, "servers", 0),
	        (long long)json_int(s, "servers_wanted", 0),
	        (long long)(json_int(s, "workers", 0) + json_int(s, "workers_done", 0)),
	        (long long)json_int(s, "workers_wanted", 0));
	fprintf(stderr, "run directory %s\n", dir);
	if (isatty(STDERR_FILENO))
		fprintf(stderr, "next: ps-stat 1 | ps-ctl logs -f | ps-ctl stop\n");
	json_decref(s);
}

/* In the caller: wait for the supervisor, and take it down when it must not
 * stay. */
static int attend(const char *dir, int ready, int signals, int64_t timeout)
{
	char line[4096];
	struct err e = { 0 };
	int signal = await(dir, ready, signals, clock_now() + timeout);

	if (signal == 0 && daemon_await(ready, NSEC_PER_SEC, line, sizeof line, &e) == ERR_OK) {
		if (strcmp(line, "ready") != 0) {
			/* It is on its way out. */
			ending_wait(dir, GRACE);
			return report_failure(line);
		}
		print_state(dir);
		return 0;
	}
	if (signal == 0)
		err_prefix(&e, "see %s/supervisor.log", dir);
	else if (signal < 0)
		err_set(&e, ERR_TIMEOUT, "the cluster was not ready after %.3g s, and is stopped; its logs "
		        "are in %s", (double)timeout / NSEC_PER_SEC, dir);
	else
		err_set(&e, ERR_FAILED, "interrupted; the cluster is stopped");
	ending_force(dir, GRACE, NULL);
	return signal > 0 ? (ctl_fail(&e), 128 + signal) : ctl_fail(&e);
}

static int start(const struct conf *conf, const char *dir, const struct options *o)
{
	char *log = NULL;
	struct runner r;
	struct err e = { 0 };
	bool daemon = false;
	int ready, lock = -1, code;

	if (runner_signals(&r, &e) != ERR_OK || resume_prepare(conf, dir, o->resume, &lock, &r.resume, &e) != ERR_OK)
		return runner_not_begun(&r, &e);
	log = rundir_path(dir, "supervisor.log");
	if (daemon_start(log, &daemon, &ready, &e) != ERR_OK) {
		code = ctl_fail(&e);
	} else if (daemon) {
		r.max_restarts = o->max_restarts;
		r.iface = o->place.iface;
		r.advertise = o->place.advertise;
		code = supervise(&r, conf, dir, lock, ready);
	} else {
		/* The lock is the supervisor's now: it must end with that. */
		close(lock);
		lock = -1;
		free(r.resume);
		code = attend(dir, ready, r.signals, o->timeout);
	}
	if (lock >= 0)
		close(lock);
	free(log);
	return code;
}

static int run(const struct ctl_cmd *self, int argc, char **argv)
{
	struct options o = { .timeout = 60 * NSEC_PER_SEC, .max_restarts = -1, .image = "pskit" };
	struct buf text = BUF_INIT;
	struct err e = { 0 };
	struct conf conf;
	char *dir = NULL;
	const char *file;
	int nargs, code;

	if (!ctl_parse(self, &o, argc, argv, &nargs, &code))
		return code;
	file = nargs ? argv[1] : NULL;
	if (!local_may_go(self->usage.prog, file, o.place.exec, &code))
		return code;
	o.place.later = o.emit != NULL;
	if (local_load(file, &o.set, &o.place, &conf, &dir, &e) == ERR_OK && local_name_stdin(&conf))
		err_set(&e, ERR_CONFIG, "%s: data from standard input (\"-\") needs ps-ctl run, which stays",
		        file ? file : "--exec");
	else if (e.code == ERR_OK && o.emit && !file)
		err_set(&e, ERR_USAGE, "--emit: name a cluster file; it goes along with what is printed");
	else if (e.code == ERR_OK && o.emit && emit(o.emit, &conf, file, &o.set, &o.place, o.image, &text, &e) == ERR_OK)
		fwrite(text.data, 1, text.len, stdout);
	if (text.len)
		sodium_memzero(text.data, text.len);
	code = e.code != ERR_OK ? ctl_fail(&e) : o.emit ? 0 : start(&conf, dir, &o);
	buf_release(&text);
	free(dir);
	conf_release(&conf);
	opt_list_release(&o.set);
	return code;
}

const struct ctl_cmd ctl_cmd_start = {
	"start",
	{
		.prog = "ps-ctl start", .args = "[FILE]",
		.about = "start a cluster in the background, and return when it is ready",
		.more = "A supervisor stays behind.  When the job is done it writes result.json and "
		        "model.safetensors into\nthe run directory and keeps the servers up until ps-ctl "
		        "stop.  When the cluster does not become\nready, the reason is said and nothing is "
		        "left running.",
		.opts = opts, .nopts = CTL_COUNT(opts), .max_args = 1,
		.examples = "  ps-ctl start cluster && ps-ctl wait --for done && ps-ctl stop\n"
		            "  ps-ctl start cluster --emit sbatch | sbatch\n",
	},
	run,
};
