/* SPDX-License-Identifier: ISC */
#include "lab/sweep.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
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
#include "core/mem.h"
#include "core/num.h"
#include "core/plain.h"
#include "core/signals.h"
#include "lab/sweep_runner.h"

/* How long runs may take to write a checkpoint and end after a signal, before they are killed. */
#define STOP_GRACE (60 * NSEC_PER_SEC)

struct work {
	struct sweep s;
	const struct sweep_options *o;
	struct sweep_runner *runner;
	size_t jobs;
	char *bin, *file; /* the cluster file */
	int signals, lock;
	int nsignals;
	int64_t kill_at;
	json_t *printed_jobs; /* as keys */
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
		/* Respect an ignored SIGHUP, which nohup asks for. An ignored SIGINT is not
		 * respected: shells set it for every background job. */
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
			rc = err_set(e, ERR_EXISTS, "another ps-ctl sweep is running in %s",
			    folder);
	}
	free(dir);
	free(name);
	free(folder);
	return rc;
}

/* Checks the cluster file once, before its points: every point would have its errors. */
static enum err_code check_sweep(struct work *w, const char *file, struct err *e)
{
	struct conf c;
	enum err_code rc = conf_load(file, w->o->set.item, w->o->set.n, &c, e);

	if (rc != ERR_OK)
		return rc;
	if (!c.has_job)
		rc = err_set(e, ERR_CONFIG, "%s: the cluster file has no job; a sweep requires one",
		    file);
	for (size_t i = 0; i < c.job.data.n; i++)
		if (conf_path_is_stdin(c.job.data.item[i]))
			rc = err_set(e, ERR_CONFIG,
			    "job.data: standard input can be read only once, and a sweep has %zu run%s",
			    w->s.npoints, NUM_S(w->s.npoints));
	if (rc == ERR_OK)
		rc = sweep_ladder_init(&w->s.ladder, w->o->asha, c.job.steps, w->s.npoints, e);
	if (rc == ERR_OK)
		rc = lock_sweep_folder(w, file, c.name, e);
	w->s.name = mem_strdup(c.name);
	w->s.processes = (size_t)(c.servers + (conf_trains(&c) ? c.workers.max : 0));
	conf_release(&c);
	return rc;
}

/* With rungs, refuses keys that the rungs set. */
static enum err_code check_rung_keys(const struct sweep *s, struct err *e)
{
	static const char *const keys[] = { "job.steps", "job.epochs", "checkpoint_every" };

	for (size_t i = 0; s->ladder.rungs > 1 && i < sizeof keys / sizeof *keys; i++)
		if (json_object_get(s->point[0].settings, keys[i]))
			return err_set(e, ERR_USAGE, "--asha sets %s: remove it from the grid",
			    keys[i]);
	return ERR_OK;
}

/* Takes the result of a rung into the ladder. A run that took fewer steps than its rung cannot go
 * on. */
static void climb(struct work *w, struct point *p)
{
	struct sweep_ladder *l = &w->s.ladder;
	bool done = p->state == POINT_DONE;
	const json_t *steps = json_object_get(p->result, "steps");

	sweep_ladder_ended(l, (size_t)(p - w->s.point),
	    done ? sweep_point_score(&w->s, p->result) : INFINITY,
	    !done || (json_is_integer(steps) && json_integer_value(steps) < l->steps[p->rung]));
}

/* Reads the point's rungs that are there: those that are done, and one that has begun. */
static enum err_code prepare_point(struct work *w, struct point *p, const char *file, struct err *e)
{
	size_t i = (size_t)(p - w->s.point);
	enum err_code rc = sweep_point_prepare(&w->s, p, file, &w->o->set, e);

	while (rc == ERR_OK && (p->state == POINT_DONE || p->state == POINT_FAILED)) {
		climb(w, p);
		if (p->state == POINT_FAILED || p->rung + 1 == w->s.ladder.rungs ||
		    !sweep_point_has_run(&w->s, p, p->rung + 1))
			return rc;
		p->rung++;
		p->state = POINT_WAITING;
		rc = sweep_point_prepare(&w->s, p, file, &w->o->set, e);
		if (rc == ERR_OK && p->state == POINT_WAITING)
			sweep_ladder_grant(&w->s.ladder, i);
	}
	return rc;
}

/* The runs print this, too, but into logs. */
static void print_unused_keys(const struct sweep *s)
{
	const char *sentence;
	json_t *points;

	json_object_foreach(s->unused, sentence, points)
		if (json_integer_value(points) == (json_int_t)s->npoints)
			fprintf(stderr, "ps-ctl: %s\n", sentence);
		else
			fprintf(stderr, "ps-ctl: %s (%lld of %zu points)\n", sentence,
			    (long long)json_integer_value(points), s->npoints);
}

/* Prepares all points. Fails when two have the same id, or when every one is invalid. */
static enum err_code prepare_sweep(struct work *w, const char *file, struct err *e)
{
	json_t *ids = json_object();
	enum err_code rc = check_sweep(w, file, e);
	size_t bad = 0;

	for (size_t i = 0; rc == ERR_OK && i < w->s.npoints; i++) {
		struct point *p = &w->s.point[i];

		rc = prepare_point(w, p, file, e);
		bad += p->state == POINT_FAILED;
		if (rc == ERR_OK && i == 0)
			rc = check_rung_keys(&w->s, e);
		if (rc == ERR_OK && json_object_get(ids, p->id))
			rc = err_set(e, ERR_USAGE, "--grid: two points are the same, %s", p->id);
		json_object_set_new(ids, p->id, json_true());
	}
	if (rc == ERR_OK && bad == w->s.npoints)
		rc = err_set(e, ERR_CONFIG, "%s", w->s.point[0].reason);
	if (rc == ERR_OK)
		print_unused_keys(&w->s);
	json_decref(ids);
	return rc;
}

/* ---- runs ---- */

/* Starts the run of a rung of a point; an unfinished run is resumed. */
static enum err_code start_point(struct work *w, struct point *p, struct err *e)
{
	char *begin = sweep_point_begin(&w->s, p);
	bool found;
	enum err_code rc = w->runner->ops->start(w->runner, p, begin, &found, e);

	if (rc == ERR_OK) {
		p->state = POINT_RUNNING;
		p->kept = false;
	}
	if (rc == ERR_OK && !w->o->json)
		sweep_point_report(&w->s, p,
		    found                            ? "still runs"
		        : strcmp(begin, "none") == 0 ? "starts"
		                                     : "continues");
	free(begin);
	return rc;
}

/* Writes the cluster file of the rung that comes next, and starts its run. */
static enum err_code start_rung(struct work *w, struct point *p, struct err *e)
{
	size_t rung = w->s.ladder.point[p - w->s.point].done;
	enum err_code rc = ERR_OK;

	if (rung != p->rung) {
		p->rung = rung;
		p->state = POINT_WAITING;
		rc = sweep_point_prepare(&w->s, p, w->file, &w->o->set, e);
	}
	return rc == ERR_OK && p->state == POINT_WAITING ? start_point(w, p, e) : rc;
}

/* Prints what the run of a point predicted, with which model and from which data. Points that train
 * the same print it once. */
static void report_job(const struct work *w, const struct point *p)
{
	const char *job = json_str(p->result, "job", "");

	if (!*job || json_object_get(w->printed_jobs, job))
		return;
	json_object_set_new(w->printed_jobs, job, json_true());
	plain_print(stderr, "job: %s\n", job);
}

static void report_point(const struct work *w, const struct point *p)
{
	if (w->o->json) {
		sweep_point_print_json(&w->s, p);
		return;
	}
	report_job(w, p);
	sweep_point_report(&w->s, p, p->kept ? "done before" : sweep_point_state_name(p));
}

/* Reports points of which the last rung that has begun is done already, and those that are
 * invalid. */
static void report_kept_points(const struct work *w)
{
	for (size_t i = 0; i < w->s.npoints; i++)
		if (w->s.point[i].state != POINT_WAITING)
			report_point(w, &w->s.point[i]);
}

/* Starts points until --jobs of them run. Reports points that cannot be started. */
static void start_waiting_points(struct work *w)
{
	struct err e;
	size_t i;

	while (w->nsignals == 0 && w->runner->running < w->jobs &&
	    sweep_ladder_next(&w->s.ladder, &i)) {
		struct point *p = &w->s.point[i];

		if (start_rung(w, p, &e) != ERR_OK) {
			p->state = POINT_FAILED;
			snprintf(p->reason, sizeof p->reason, "%s", e.msg);
		}
		if (p->state != POINT_RUNNING) {
			climb(w, p);
			report_point(w, p);
		}
	}
	w->runner->ops->submit(w->runner);
}

/* Takes the result of every run that has ended. */
static void collect_ended_runs(struct work *w)
{
	const char *how;
	size_t i;

	while (w->runner->ops->ended(w->runner, &i, &how)) {
		struct point *p = &w->s.point[i];

		sweep_point_finish(&w->s, p, how);
		/* A run that was stopped before it wrote a result has not failed. */
		if (w->nsignals && p->state == POINT_FAILED && !sweep_point_has_result(&w->s, p))
			p->state = POINT_STOPPED;
		if (p->state == POINT_STOPPED)
			sweep_ladder_gave_up(&w->s.ladder, i);
		else
			climb(w, p);
		report_point(w, p);
	}
}

/* Handles SIGINT, SIGTERM and SIGHUP. The first one stops the runs, with a checkpoint; a second
 * one makes them end at once; those that still run after STOP_GRACE are killed. */
static void handle_stop_signals(struct work *w)
{
	struct signalfd_siginfo si;

	while (read(w->signals, &si, sizeof si) == sizeof si) {
		if (w->nsignals++ == 0) {
			fprintf(stderr,
			    "stopping %zu run%s (SIG%s; a second signal stops immediately)\n",
			    w->runner->running, NUM_S((int64_t)w->runner->running),
			    sigabbrev_np((int)si.ssi_signo));
			w->kill_at = clock_now() + STOP_GRACE;
		}
		w->runner->ops->stop(w->runner, SIGTERM);
	}
	if (w->kill_at && clock_now() >= w->kill_at)
		w->runner->ops->stop(w->runner, SIGKILL);
}

/* A point that has finished a rung but not the last one waits for a promotion until the sweep
 * ends. */
static void set_final_states(struct work *w)
{
	for (size_t i = 0; i < w->s.npoints; i++) {
		const struct sweep_climber *at = &w->s.ladder.point[i];
		struct point *p = &w->s.point[i];

		if (p->state == POINT_DONE && at->done < w->s.ladder.rungs && !at->ended)
			p->state = w->nsignals ? POINT_WAITING : POINT_PRUNED;
	}
}

static void run_points_until_done(struct work *w)
{
	report_kept_points(w);
	for (start_waiting_points(w); w->runner->running > 0; start_waiting_points(w)) {
		struct pollfd p[] = { { w->signals, POLLIN, 0 }, { w->runner->fd, POLLIN, 0 } };

		if (poll(p, 2, w->kill_at ? 1000 : w->runner->poll_ms) < 0 && errno != EINTR)
			return;
		handle_stop_signals(w);
		collect_ended_runs(w);
	}
	handle_stop_signals(w);
	set_final_states(w);
}

/* Returns the exit code: 0 when all points are done or pruned, 75 when a signal stopped the sweep,
 * else 1. */
static int sweep_exit_code(const struct work *w)
{
	for (size_t i = 0; i < w->s.npoints; i++)
		if (w->s.point[i].state == POINT_FAILED && w->nsignals == 0)
			return 1;
	for (size_t i = 0; i < w->s.npoints; i++)
		if (w->s.point[i].state != POINT_DONE && w->s.point[i].state != POINT_PRUNED)
			return w->nsignals ? 75 : 1;
	return 0;
}

/* Signals are caught before the first child exists, so that none can be left behind. The lock on
 * the folder is held until the end. */
enum err_code sweep_run(const char *cluster, const struct sweep_options *o, int *code,
    struct err *e)
{
	struct curve_options curves = { .across = curve_axis_find(o->across ? o->across : "steps"),
		.metric = o->metric,
		.file = o->plot,
		.json = o->json };
	struct work w = { .o = o,
		.signals = -1,
		.lock = -1,
		.file = conf_file(cluster),
		.printed_jobs = json_object() };
	enum err_code rc = curve_options_check(&curves, e);

	w.s.metric = o->metric;
	w.s.file = w.file;
	w.s.sets = &o->set;
	if (rc == ERR_OK)
		rc = sweep_make_points(&w.s, o, e);
	if (rc == ERR_OK)
		rc = catch_sweep_signals(&w, e);
	if (rc == ERR_OK)
		rc = prepare_sweep(&w, w.file, e);
	if (rc == ERR_OK) {
		w.bin = path_self_dir(e);
		rc = !w.bin    ? e->code
		    : o->slurm ? sweep_slurm_open(&w.s, w.bin, &w.runner, e)
		               : sweep_local_open(&w.s, w.bin, &w.runner, e);
	}
	w.jobs = o->jobs ? (size_t)o->jobs : o->slurm ? w.s.npoints : 1;
	if (rc == ERR_OK) {
		run_points_until_done(&w);
		*code = sweep_exit_code(&w);
		rc = sweep_show(&w.s, o->across || o->plot ? &curves : NULL, o->json,
		    w.nsignals > 0, e);
	}
	if (w.runner)
		w.runner->ops->close(w.runner);
	json_decref(w.printed_jobs);
	sweep_release(&w.s);
	free(w.bin);
	free(w.file);
	if (w.signals >= 0)
		close(w.signals);
	if (w.lock >= 0)
		close(w.lock);
	return rc;
}
