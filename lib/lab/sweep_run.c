/* SPDX-License-Identifier: ISC */
#include "lab/sweep.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "conf/conf_key.h"
#include "core/clock.h"
#include "core/file.h"
#include "core/launch.h"
#include "core/mem.h"
#include "core/num.h"
#include "core/signals.h"

/* How long runs may take to write a checkpoint and end after a signal, before they are killed. */
#define STOP_GRACE (60 * NSEC_PER_SEC)

struct work {
	struct sweep s;
	const struct sweep_options *o;
	struct launch_set *set;
	char *bin;
	int signals, lock;
	int nsignals;
	int64_t kill_at;
	size_t next; /* index of the first point not started or skipped yet */
};

/* ---- begin ---- */

/* Blocks SIGINT, SIGTERM and SIGHUP, and opens w->signals to read them. */
static enum err_code catch_sweep_signals(struct work *w, struct err *e)
{
	static const int ours[] = { SIGINT, SIGTERM, SIGHUP }, ignored[] = { SIGUSR1, SIGUSR2, 0 };
	struct sigaction now;
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < sizeof ours / sizeof *ours; i++) {
		/* Respect an ignored SIGHUP, which nohup asks for.  An ignored SIGINT is not respected:
		 * shells set it for every background job. */
		if (ours[i] == SIGHUP && sigaction(SIGHUP, NULL, &now) == 0 &&
		    now.sa_handler == SIG_IGN)
			continue;
		signal(ours[i], SIG_DFL);
		sigaddset(&set, ours[i]);
	}
	signals_ignore_stray(ignored);
	sigprocmask(SIG_BLOCK, &set, NULL);
	w->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return w->signals < 0 ? err_sys(e, ERR_IO, "cannot watch for signals") : ERR_OK;
}

/* Makes the folder of the runs and locks it: two sweeps in it would run the same points. */
static enum err_code lock_sweep_folder(struct work *w, const char *file, const char *cluster,
    struct err *e)
{
	char *dir = path_dirname(file), *name = mem_printf("%s.sweep", cluster);
	char *folder = w->o->folder ? mem_strdup(w->o->folder) : path_join(dir, name);
	enum err_code rc = file_mkdirs(folder, 0700, e);

	if (rc == ERR_OK) {
		w->s.folder = path_absolute(folder);
		w->lock = open(w->s.folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (w->lock < 0)
			rc = err_sys(e, ERR_IO, "cannot open %s", folder);
		else if (flock(w->lock, LOCK_EX | LOCK_NB) != 0)
			rc = err_set(e, ERR_EXISTS, "another ps-ctl sweep is at work in %s",
			    folder);
	}
	free(dir);
	free(name);
	free(folder);
	return rc;
}

/* Checks the cluster file once, before its points: its errors would be those of every point. */
static enum err_code check_sweep(struct work *w, const char *file, struct err *e)
{
	struct conf c;
	enum err_code rc = conf_load(file, w->o->set.item, w->o->set.n, &c, e);

	if (rc != ERR_OK)
		return rc;
	if (!c.has_job)
		rc = err_set(e, ERR_CONFIG, "%s: a sweep needs a job", file);
	for (size_t i = 0; i < c.job.data.n; i++)
		if (conf_path_is_stdin(c.job.data.item[i]))
			rc = err_set(e, ERR_CONFIG,
			    "job.data: standard input can be read only once, and a sweep has %zu run%s",
			    w->s.npoints, NUM_S(w->s.npoints));
	if (rc == ERR_OK)
		rc = lock_sweep_folder(w, file, c.name, e);
	conf_release(&c);
	return rc;
}

/* Prepares all points.  Fails when two have the same id, or when every one is invalid. */
static enum err_code prepare_sweep(struct work *w, const char *file, struct err *e)
{
	json_t *ids = json_object();
	enum err_code rc = check_sweep(w, file, e);
	size_t bad = 0;

	for (size_t i = 0; rc == ERR_OK && i < w->s.npoints; i++) {
		struct point *p = &w->s.point[i];

		rc = sweep_point_prepare(&w->s, p, file, &w->o->set, e);
		bad += p->state == POINT_FAILED;
		if (rc == ERR_OK && json_object_get(ids, p->id))
			rc = err_set(e, ERR_USAGE, "--grid: two of its points are the same, %s",
			    p->id);
		json_object_set_new(ids, p->id, json_true());
	}
	if (rc == ERR_OK && bad == w->s.npoints)
		rc = err_set(e, ERR_CONFIG, "%s", w->s.point[0].reason);
	json_decref(ids);
	return rc;
}

/* ---- runs ---- */

/* Starts ps-ctl run for a point; an unfinished run is resumed. */
static enum err_code start_point(struct work *w, struct point *p, struct err *e)
{
	bool begun = sweep_point_is_resumable(&w->s, p);
	char *ctl = path_join(w->bin, "ps-ctl"), *file = sweep_point_path(&w->s, p, ".json"),
	     *log = sweep_point_path(&w->s, p, ".log");
	char *argv[] = { ctl, (char[]){ "run" }, file, (char[]){ "--json" }, (char[]){ "--resume" },
		begun ? (char[]){ "auto" } : (char[]){ "none" }, NULL };
	struct launch_spec spec = { .id = p->id,
		.argv = argv,
		.log_path = log,
		.die_with_parent = true };
	enum err_code rc;

	unlink(log);
	rc = launch_start(w->set, &spec, &p->child, e);
	p->state = POINT_RUNNING;
	if (!w->o->json)
		sweep_point_report(&w->s, p, begun ? "goes on" : "begins");
	free(ctl);
	free(file);
	free(log);
	return rc;
}

static void report_point(const struct work *w, const struct point *p)
{
	if (w->o->json)
		sweep_point_print_json(&w->s, p);
	else
		sweep_point_report(&w->s, p, p->kept ? "done before" : sweep_point_state_name(p));
}

/* Starts points until --jobs of them run.  Reports points that are done already or cannot be
 * started. */
static void start_waiting_points(struct work *w)
{
	struct err e;

	while (w->next < w->s.npoints && w->nsignals == 0 &&
	    launch_running(w->set) < (size_t)w->o->jobs) {
		struct point *p = &w->s.point[w->next++];

		if (p->state == POINT_WAITING && start_point(w, p, &e) != ERR_OK) {
			p->state = POINT_FAILED;
			snprintf(p->reason, sizeof p->reason, "%s", e.msg);
		}
		if (p->state != POINT_RUNNING)
			report_point(w, p);
	}
}

/* Takes the result of every run whose process has ended. */
static void collect_ended_runs(struct work *w)
{
	struct launch_event ev;
	char how[64];

	while (launch_wait(w->set, 0, &ev, NULL) == ERR_OK)
		for (size_t i = 0; i < w->s.npoints; i++) {
			struct point *p = &w->s.point[i];

			if (p->state != POINT_RUNNING || p->child != ev.child)
				continue;
			launch_how(&ev, how);
			sweep_point_finish(&w->s, p, how);
			/* A run that was stopped before it wrote a result has not failed. */
			if (w->nsignals && !p->result)
				p->state = POINT_STOPPED;
			report_point(w, p);
		}
}

/* Handles SIGINT, SIGTERM and SIGHUP.  The first one stops the runs, with a checkpoint; a second
 * one makes them end at once; those that still run after STOP_GRACE are killed. */
static void handle_stop_signals(struct work *w)
{
	struct signalfd_siginfo si;

	while (read(w->signals, &si, sizeof si) == sizeof si) {
		if (w->nsignals++ == 0) {
			fprintf(stderr, "stopping %zu run%s (SIG%s; once more: at once)\n",
			    launch_running(w->set), NUM_S((int64_t)launch_running(w->set)),
			    sigabbrev_np((int)si.ssi_signo));
			w->kill_at = clock_now() + STOP_GRACE;
		}
		launch_signal_all(w->set, SIGTERM);
	}
	if (w->kill_at && clock_now() >= w->kill_at)
		launch_signal_all(w->set, SIGKILL);
}

static void run_points_until_done(struct work *w)
{
	for (start_waiting_points(w); launch_running(w->set) > 0; start_waiting_points(w)) {
		struct pollfd p[] = { { w->signals, POLLIN, 0 }, { launch_fd(w->set), POLLIN, 0 } };

		if (poll(p, 2, w->kill_at ? 1000 : -1) < 0 && errno != EINTR)
			return;
		handle_stop_signals(w);
		collect_ended_runs(w);
	}
	handle_stop_signals(w);
}

/* Returns the exit code: 0 when all points are done, 75 when a signal stopped the sweep, else 1. */
static int sweep_exit_code(const struct work *w)
{
	for (size_t i = 0; i < w->s.npoints; i++)
		if (w->s.point[i].state == POINT_FAILED && w->nsignals == 0)
			return 1;
	for (size_t i = 0; i < w->s.npoints; i++)
		if (w->s.point[i].state != POINT_DONE)
			return w->nsignals ? 75 : 1;
	return 0;
}

/* Signals are caught before the first child exists, so that none can be left behind. The lock on
 * the folder is held until the end. */
enum err_code sweep_run(const char *cluster, const struct sweep_options *o, int *code,
    struct err *e)
{
	struct work w = { .o = o, .signals = -1, .lock = -1 };
	char *file = conf_file(cluster);
	enum err_code rc = sweep_grid(&w.s, &o->grid, e);

	if (rc == ERR_OK)
		rc = catch_sweep_signals(&w, e);
	if (rc == ERR_OK)
		rc = prepare_sweep(&w, file, e);
	if (rc == ERR_OK) {
		w.bin = path_self_dir(e);
		rc = w.bin ? launch_new(NULL, &w.set, e) : e->code;
	}
	if (rc == ERR_OK) {
		run_points_until_done(&w);
		sweep_show(&w.s, o->json, w.nsignals > 0);
		*code = sweep_exit_code(&w);
	}
	launch_free(w.set);
	sweep_release(&w.s);
	free(w.bin);
	free(file);
	if (w.signals >= 0)
		close(w.signals);
	if (w.lock >= 0)
		close(w.lock);
	return rc;
}
