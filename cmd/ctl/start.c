/* SPDX-License-Identifier: ISC */
#include <poll.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "msg/cluster_status.h"
#include "session/control.h"
#include "core/clock.h"
#include "core/json.h"
#include "core/num.h"
#include "ctl.h"
#include "doctor.h"
#include "emit.h"
#include "supervisor/shutdown.h"
#include "local.h"
#include "supervisor/progress.h"
#include "rundir/rundir.h"
#include "supervisor/run_loop.h"
#include "supervisor/daemon.h"
#include "trial.h"

/* ps-ctl start: start a cluster in the background. The process forks a supervisor (supervisor/run_loop.h),
 * shows progress until the supervisor reports that the cluster is ready, and ends. With --emit it
 * starts nothing and prints what another launcher needs. */

#define PACE  (100 * NSEC_PER_MSEC)
#define GRACE (10 * NSEC_PER_SEC)

struct options {
	struct opt_list set;
	struct local_place place;
	int64_t timeout, max_restarts;
	const char *resume, *emit;
	struct emit_k8s_options k8s;
	struct opt_list mounts;
};

static const struct opt opts[] = {
	{ "set", 's', OPT_LIST, offsetof(struct options, set), "KEY=VALUE",
	    "change a key of the cluster file, for this run", NULL, 0, 0 },
	CTL_OPT_TIMEOUT(struct options, timeout,
	    "fail if the cluster is not ready after this time (60s)"),
	CTL_OPT_RESTARTS(struct options, max_restarts),
	CTL_OPT_RESUME(struct options, resume),
	LOCAL_OPT_INIT(struct options, place),
	LOCAL_OPTS(struct options, place),
	{ "emit", 0, OPT_CHOICE, offsetof(struct options, emit), "FORM",
	    "print a file with which sbatch, systemd, Kubernetes or a shell (mpirun) starts the "
	    "cluster, and start nothing",
	    EMIT_FORMS, 0, 0 },
	{ "image", 0, OPT_STR, offsetof(struct options, k8s.image), "IMAGE",
	    "for --emit k8s: the container image, with pskit (pskit)", NULL, 0, 0 },
	{ "keys", 0, OPT_STR, offsetof(struct options, k8s.keys), "FILE",
	    "for --emit k8s: the secret from which all keys are derived; made if there is none "
	    "(FILE.k8s-key)",
	    NULL, 0, 0 },
	{ "cpus", 0, OPT_STR, offsetof(struct options, k8s.cpus), "N",
	    "for --emit k8s: processors of each container, as 2 or 500m (no limit)", NULL, 0, 0 },
	{ "memory", 0, OPT_STR, offsetof(struct options, k8s.memory), "SIZE",
	    "for --emit k8s: memory of each container, as 512Mi (no limit)", NULL, 0, 0 },
	{ "storage", 0, OPT_STR, offsetof(struct options, k8s.storage), "SIZE",
	    "for --emit k8s: the volume of the run directory (1Gi)", NULL, 0, 0 },
	{ "mount", 0, OPT_LIST, offsetof(struct options, mounts), "CLAIM:PATH",
	    "for --emit k8s: a volume claim with data, and its path in the containers", NULL, 0,
	    0 },
	{ "env-secret", 0, OPT_STR, offsetof(struct options, k8s.env_secret), "NAME",
	    "for --emit k8s: a Secret with variables of all containers, as AWS_ACCESS_KEY_ID", NULL,
	    0, 0 },
	{ "standby", 0, OPT_FLAG, offsetof(struct options, k8s.standby), NULL,
	    "for --emit k8s: a second coordinator, which stands by (needs the key state); for --emit "
	    "systemd: the unit of one on another host, with the same directories",
	    NULL, 0, 0 },
	{ "kustomize", 0, OPT_STR, offsetof(struct options, k8s.base), "DIR",
	    "for --emit k8s: write a base for kubectl apply -k to DIR, with the keys in a file of their own, "
	    "and print nothing",
	    NULL, 0, 0 },
	LOCAL_OPT_EXEC(struct options, place),
};

static int read_start_signal(int fd)
{
	struct signalfd_siginfo si;

	return read(fd, &si, sizeof si) == (ssize_t)sizeof si ? (int)si.ssi_signo : 0;
}

static void show_status(struct progress *p, const json_t *status)
{
	struct cluster_status *decoded = cluster_status_decode(status);

	progress_show(p, decoded);
	cluster_status_free(decoded);
}

/* Show progress until the supervisor reports. Returns 0 when it did, the number of a signal that
 * came first, or -1 at the time `end`. */
static int await_report(const char *dir, int ready, int signals, int64_t end)
{
	struct pollfd p[] = { { .fd = ready, .events = POLLIN },
		{ .fd = signals, .events = POLLIN } };
	struct http_client *client = NULL;
	struct progress progress;
	int signal = 0;

	progress_init(&progress, NULL);
	/* print_cluster_state tells it. */
	progress.job_told = true;
	progress_explain_waits(&progress, dir, doctor_glance);
	control_connect(dir, &client, NULL);
	for (;;) {
		json_t *status = NULL;
		int64_t left = end - clock_now();

		if (poll(p, 2, clock_poll_timeout(left < PACE ? left : PACE)) > 0)
			break;
		if (client)
			http_call(client, "GET", "/v1/status", NULL, NSEC_PER_SEC, NULL, &status,
			    NULL);
		progress_read_trouble(&progress, dir);
		show_status(&progress, status);
		json_decref(status);
		if (clock_now() >= end) {
			signal = -1;
			break;
		}
	}
	if (p[1].revents)
		signal = read_start_signal(signals);
	progress_clear_line(&progress);
	http_client_free(client);
	return signal;
}

/* Print the supervisor's report of a failure. Returns the exit code in it. */
static int print_failure(const char *line)
{
	json_t *o = json_loads(line, 0, NULL);
	int code = (int)json_int(o, "code", 1);

	fprintf(stderr, "ps-ctl: %s\n", json_str(o, "reason", "the supervisor failed"));
	json_decref(o);
	return code;
}

static void print_cluster_state(const char *dir)
{
	struct http_client *client = NULL;
	int64_t servers, workers;
	json_t *s = NULL;

	if (control_connect(dir, &client, NULL) == ERR_OK)
		http_call(client, "GET", "/v1/status", NULL, 2 * NSEC_PER_SEC, NULL, &s, NULL);
	http_client_free(client);
	servers = json_int(s, "servers_wanted", 0);
	workers = json_int(s, "workers_wanted", 0);
	fprintf(stderr, "cluster %s is %s\n", json_str(s, "name", "?"),
	    json_str(s, "state", "running"));
	fprintf(stderr, "%lld/%lld server%s, %lld/%lld worker%s\n",
	    (long long)json_int(s, "servers", 0), (long long)servers, NUM_S(servers),
	    (long long)(json_int(s, "workers", 0) + json_int(s, "workers_done", 0)),
	    (long long)workers, NUM_S(workers));
	if (*json_str(s, "job", ""))
		fprintf(stderr, "job: %s\n", json_str(s, "job", ""));
	fprintf(stderr, "run directory %s\n", dir);
	if (isatty(STDERR_FILENO))
		fprintf(stderr, "next: ps-stat 1 | ps-ctl logs -f | ps-ctl stop\n");
	json_decref(s);
}

/* In the process that the user started: wait for the supervisor's report, and end the supervisor
 * after a signal or the timeout. Returns the exit code. */
static int wait_for_supervisor(const char *dir, int ready, int signals, int64_t timeout)
{
	char line[4096];
	struct err e = { 0 };
	char seconds[32];
	int signal = await_report(dir, ready, signals, clock_now() + timeout);

	if (signal == 0 && daemon_await(ready, NSEC_PER_SEC, line, sizeof line, &e) == ERR_OK) {
		if (strcmp(line, "ready") != 0) {
			/* The supervisor is ending by itself. */
			shutdown_await(dir, GRACE);
			return print_failure(line);
		}
		print_cluster_state(dir);
		return 0;
	}
	if (signal == 0) {
		err_prefix(&e, "see %s/supervisor.log", dir);
	} else if (signal < 0) {
		num_digits((double)timeout / NSEC_PER_SEC, 3, seconds);
		err_set(&e, ERR_TIMEOUT,
		    "the cluster was not ready within %s s and has been stopped; its logs are in %s",
		    seconds, dir);
	} else {
		err_set(&e, ERR_FAILED, "interrupted; the cluster has been stopped");
	}
	shutdown_force(dir, GRACE, NULL);
	return signal > 0 ? (ctl_fail(&e), 128 + signal) : ctl_fail(&e);
}

/* Prepare the run directory, and fork the supervisor. Returns in both processes, with the exit
 * code of each. */
static int start_supervisor(const struct conf *conf, const char *dir, const struct options *o)
{
	char *log = NULL;
	struct supervisor s;
	struct err e = { 0 };
	bool daemon = false;
	int ready, lock = -1, code;

	if (!local_begin_run(&s, conf, dir, &o->place, o->resume, &lock, &code))
		return code;
	log = rundir_path(dir, "supervisor.log");
	if (daemon_start(log, &daemon, &ready, &e) != ERR_OK) {
		code = ctl_fail(&e);
	} else if (daemon) {
		s.max_restarts = o->max_restarts;
		code = run_loop_background(&s, conf, dir, lock, ready);
	} else {
		/* The supervisor holds the lock now; our descriptor must not keep it locked. */
		close(lock);
		lock = -1;
		free(s.resume);
		code = wait_for_supervisor(dir, ready, s.signals, o->timeout);
	}
	if (lock >= 0)
		close(lock);
	free(log);
	return code;
}

/* With --emit nothing is started: the text, which may contain secrets, is printed and wiped. e.code
 * decides between the two ways, so every failure before it sets e. */
static int run_start(const struct ctl_cmd *self, int argc, char **argv)
{
	struct options o = { .timeout = 60 * NSEC_PER_SEC,
		.max_restarts = -1,
		.k8s = { .image = "pskit", .storage = "1Gi" } };
	struct buf text = BUF_INIT;
	struct err e = { 0 };
	struct conf conf;
	char *dir = NULL;
	const char *file;
	int nargs, code;

	if (!ctl_parse(self, &o, argc, argv, &nargs, &code))
		return code;
	o.k8s.mounts = &o.mounts;
	file = nargs ? argv[1] : NULL;
	if (!local_check_operands(self->usage.prog, file, o.place.exec, &code))
		return code;
	if (o.emit && o.place.init_from)
		return ctl_report_misuse(self,
		    "--init-from cannot be used with --emit: set the key job.init_from");
	if (o.k8s.standby && (!o.emit || !emit_has_standby(o.emit)))
		return ctl_report_misuse(self,
		    "--standby can only be used with --emit k8s, k8s-sets or systemd; on a host: ps-serve "
		    "-C RUN --standby");
	if (o.k8s.base && (!o.emit || strncmp(o.emit, "k8s", 3) != 0))
		return ctl_report_misuse(self,
		    "--kustomize can only be used with --emit k8s or k8s-sets");
	o.place.later = o.emit != NULL;
	o.place.elsewhere = o.emit && o.mounts.n > 0;
	if (local_load_conf(file, &o.set, &o.place, &conf, &dir, &e) == ERR_OK &&
	    local_replace_stdin(&conf))
		err_set(&e, ERR_CONFIG,
		    "%s: data from standard input (\"-\") requires ps-ctl run, which stays in the foreground",
		    file ? file : "--exec");
	else if (e.code == ERR_OK && o.emit && !file)
		err_set(&e, ERR_USAGE,
		    "--emit requires a cluster file, which becomes part of the output");
	else if (e.code == ERR_OK && o.emit &&
	    trial_require_numbers(&conf, "cannot be used with --emit", &e) == ERR_OK &&
	    emit(o.emit, &conf, file, &o.set, &o.place, &o.k8s, &text, &e) == ERR_OK)
		fwrite(text.data, 1, text.len, stdout);
	if (text.len)
		sodium_memzero(text.data, text.len);
	if (e.code == ERR_OK && !o.emit)
		trial_choose_sizes(&conf, dir, o.resume, &e);
	code = e.code != ERR_OK ? ctl_fail(&e) : o.emit ? 0 : start_supervisor(&conf, dir, &o);
	buf_release(&text);
	free(dir);
	conf_release(&conf);
	opt_list_release(&o.set);
	opt_list_release(&o.mounts);
	return code;
}

const struct ctl_cmd ctl_cmd_start = {
	"start",
	{
	    .prog = "ps-ctl start",
	    .args = "[FILE]",
	    .about = "start a cluster in the background, and return when it is ready",
	    .more =
	        "A supervisor keeps running. When the job is done it writes result.json and model.safetensors to\n"
	        "the run directory and keeps the servers running until ps-ctl stop. If the cluster does not become\n"
	        "ready, the reason is printed and all processes are ended.",
	    .opts = opts,
	    .nopts = CTL_COUNT(opts),
	    .max_args = 1,
	    .examples = "  ps-ctl start cluster && ps-ctl wait --for done && ps-ctl stop\n"
	                "  ps-ctl start cluster --emit sbatch | sbatch\n",
	},
	run_start,
};
