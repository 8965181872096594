/* SPDX-License-Identifier: ISC */
#include "trial.h"

#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "conf/conf_key.h"
#include "conf/conf_rule.h"
#include "conf/sizing.h"
#include "core/clock.h"
#include "core/file.h"
#include "core/json.h"
#include "core/launch.h"
#include "core/mem.h"
#include "core/num.h"
#include "core/procstat.h"
#include "data/source/data_log.h"
#include "data/source/data_uri.h"
#include "format/uri.h"
#include "msg/cluster_status.h"
#include "session/control.h"
#include "rundir/rundir.h"

#define CONFIG_MAX (1u << 20)
/* A job that reads fewer bytes than this takes less time than the trials would be worth. */
#define SHORT_BYTES (64.0 * 1024 * 1024)
/* A job in which each worker trains on fewer examples than this is as short. */
#define SHORT_EXAMPLES 1e6
/* The time of a measurement, from the first examples on. */
#define WINDOW (700 * NSEC_PER_MSEC)
/* The longest time that a trial may take to begin. */
#define BEGIN_MAX (5 * NSEC_PER_SEC)
/* The longest time for all trials, and the part of the job's time. */
#define BUDGET_MAX  (5 * NSEC_PER_SEC)
#define BUDGET_PART 0.03
/* The status is read this often, so that the first examples are seen soon. */
#define PACE_MS  10
#define TIMEOUT  NSEC_PER_SEC
#define GRACE    (2 * NSEC_PER_SEC)
#define NO_LIMIT INFINITY

/* The processes of one trial after the other. */
struct trial {
	struct launch_set *set;
	size_t child;
	char *dir, *file, *run, *log;
	int signals; /* a signalfd */
	int signal;  /* the signal that came, or 0 */
	sigset_t before;
	double
	    job_seconds; /* expected time of the whole job, of the last trial; NO_LIMIT: unknown */
	struct err why;  /* why the last trial has failed */
};

/* ---- whether trials are possible ---- */

/* Adds the bytes of the files of one data path to *sum. False: it has no files on this host. */
static bool add_data_bytes(const char *spec, double *sum)
{
	struct data_options options;
	char *file, **files;
	struct stat st;
	bool good;
	size_t n;

	if (conf_path_is_stdin(spec) || data_log_is(spec) ||
	    data_uri_parse(spec, &file, &options, NULL) != ERR_OK)
		return false;
	data_uri_release(&options);
	good = !uri_is(file) && data_uri_expand(file, NULL, &files, &n, NULL) == ERR_OK;
	for (size_t i = 0; good && i < n; i++)
		*sum += stat(files[i], &st) == 0 && S_ISREG(st.st_mode) ? (double)st.st_size : 0;
	if (good)
		data_uri_free(files, n);
	free(file);
	return good;
}

/* The reason why no trial is run; NULL: trials are possible. */
static const char *find_obstacle(const struct conf *c, unsigned processors)
{
	double bytes = 0;

	if (processors == 1)
		return "this host has one usable processor";
	if (!conf_trains(c))
		return "there is no job to measure";
	if (strcmp(c->job.model, "custom") == 0)
		return "trials would run the job's own program";
	for (size_t i = 0; i < c->job.data.n; i++)
		if (!add_data_bytes(c->job.data.item[i], &bytes))
			return "only data in files of this host can be measured";
	if (c->job.epochs && bytes * (double)c->job.epochs < SHORT_BYTES)
		return "the job is too short to measure";
	if (c->job.steps && (double)c->job.steps * (double)conf_step_examples(c) < SHORT_EXAMPLES)
		return "the job is too short to measure";
	return NULL;
}

/* ---- the cluster file of a trial ---- */

static enum err_code set_number(struct conf *c, const char *key, int64_t n, struct err *e)
{
	char *set = mem_printf("%s=%lld", key, (long long)n);
	enum err_code rc = conf_set(c, set, e);

	free(set);
	return rc;
}

/* Changes only the numbers that the user has left to pskit: the other one may be a range. */
static enum err_code set_sizes(struct conf *c, const struct sizing_search *s, struct sizing size,
    struct err *e)
{
	enum err_code rc = s->workers ? set_number(c, "workers", size.workers, e) : ERR_OK;

	return rc == ERR_OK && s->servers ? set_number(c, "servers", size.servers, e) : rc;
}

/* Makes a copy of the job without everything that does not belong to its steps. Heartbeats bring the counts
 * of examples, so the shortest ones make the measurement exact. */
static enum err_code copy_for_trial(const struct conf *c, struct conf *out, struct err *e)
{
	static const char *const keys[] = { "job.eval", "job.validate", "job.eval_every",
		"job.stop", "job.init_from", "checkpoint_every", "checkpoint_to",
		"checkpoint_deltas", "keep_every", "keep_best", "listen", "http" };
	json_t *o = conf_to_json(c);
	enum err_code rc = conf_from_json(o, out, e);

	json_decref(o);
	if (rc != ERR_OK)
		return rc;
	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
		conf_reset(out, keys[i]);
	rc = conf_set(out, "heartbeat=20ms", e);
	/* The job ends by job.stop, which a trial does not have. */
	if (rc == ERR_OK && !out->job.epochs && !out->job.steps)
		rc = conf_set(out, "job.steps=1000000000", e);
	/* A trial must not leave a cache that is not complete. */
	if (rc == ERR_OK && access(out->job.cache, F_OK) != 0)
		conf_reset(out, "job.cache");
	return rc == ERR_OK ? conf_set(out, "name=trial", e) : rc;
}

static enum err_code write_trial_file(const struct trial *t, const struct conf *c,
    const struct sizing_search *s, struct sizing size, struct err *e)
{
	struct conf copy;
	enum err_code rc = copy_for_trial(c, &copy, e);
	json_t *o;
	char *text;

	if (rc == ERR_OK)
		rc = set_sizes(&copy, s, size, e);
	if (rc == ERR_OK)
		rc = conf_validate(&copy, e);
	if (rc == ERR_OK) {
		o = conf_file_json(&copy);
		text = json_dumps(o, JSON_INDENT(2));
		rc = file_replace(t->file, text, strlen(text), 0600, e);
		free(text);
		json_decref(o);
	}
	conf_release(&copy);
	return rc;
}

/* ---- one trial ---- */

/* Waits for a time, and no longer than until a signal comes or the trial's process ends. False: one of them
 * has happened. */
static bool wait_in_trial(struct trial *t, int64_t ns)
{
	struct pollfd p[] = { { t->signals, POLLIN, 0 }, { launch_fd(t->set), POLLIN, 0 } };
	struct signalfd_siginfo si;
	struct launch_event ended;

	if (poll(p, 2, clock_poll_timeout(ns)) <= 0)
		return true;
	if (p[0].revents && read(t->signals, &si, sizeof si) == (ssize_t)sizeof si)
		t->signal = (int)si.ssi_signo;
	launch_wait(t->set, 0, &ended, NULL);
	return false;
}

/* The status of the trial's cluster and the time at which it was read; NULL: it does not answer. */
static struct cluster_status *read_status(struct http_client *client, int64_t *at)
{
	struct cluster_status *status = NULL;
	json_t *answer = NULL;

	if (client &&
	    http_call(client, "GET", "/v1/status", NULL, TIMEOUT, NULL, &answer, NULL) == ERR_OK)
		status = cluster_status_decode(answer);
	*at = clock_now();
	json_decref(answer);
	return status;
}

/* Waits until the workers have trained on examples. NULL: they have not within BEGIN_MAX, or the trial is
 * over. */
static struct cluster_status *await_examples(struct trial *t, struct http_client **client,
    int64_t *at)
{
	int64_t end = clock_now() + BEGIN_MAX;

	err_set(&t->why, ERR_FAILED, "a trial ended before its first step");
	while (clock_now() < end && wait_in_trial(t, PACE_MS * NSEC_PER_MSEC)) {
		struct cluster_status *status;

		if (!*client && control_connect(t->run, client, NULL) != ERR_OK)
			continue;
		status = read_status(*client, at);
		if (status && status->examples > 0)
			return status;
		cluster_status_free(status);
	}
	if (clock_now() >= end)
		err_set(&t->why, ERR_TIMEOUT, "the job takes more than %lld s to begin",
		    (long long)(BEGIN_MAX / NSEC_PER_SEC));
	return NULL;
}

/* The time that the whole job takes at the speed between two measurements. */
static double expect_job_seconds(const struct cluster_status *begin,
    const struct cluster_status *end, double seconds)
{
	double steps = (double)(end->step - begin->step) / seconds,
	       bytes = (double)(end->data_done_bytes - begin->data_done_bytes) / seconds;

	if (end->steps_total > 0 && steps > 0)
		return (double)end->steps_total / steps;
	if (end->data_epochs > 0 && bytes > 0)
		return (double)end->data_bytes * (double)end->data_epochs / bytes;
	return NO_LIMIT;
}

/* Returns the examples per second of the cluster that runs; 0: the trial has failed. */
static double measure_rate(struct trial *t)
{
	struct http_client *client = NULL;
	int64_t first, last;
	struct cluster_status *begin = await_examples(t, &client, &first), *end = NULL;
	double seconds, rate = 0;

	if (begin && wait_in_trial(t, WINDOW))
		end = read_status(client, &last);
	if (end) {
		seconds = (double)(last - first) / NSEC_PER_SEC;
		rate = (double)(end->examples - begin->examples) / seconds;
		t->job_seconds = end->state == PHASE_RUNNING
		    ? expect_job_seconds(begin, end, seconds)
		    : 0;
	}
	cluster_status_free(begin);
	cluster_status_free(end);
	http_client_free(client);
	return rate;
}

static enum err_code start_trial(struct trial *t, struct err *e)
{
	char *bin = path_self_dir(e), *ctl = bin ? path_join(bin, "ps-ctl") : NULL;
	char *argv[] = { ctl, (char[]){ "run" }, t->file, (char[]){ "--json" }, NULL };
	struct launch_spec spec = { .id = "trial",
		.argv = argv,
		.log_path = t->log,
		.die_with_parent = true };
	enum err_code rc = bin ? launch_start(t->set, &spec, &t->child, e) : e->code;

	free(ctl);
	free(bin);
	return rc;
}

/* The second signal ends a run without a checkpoint. The two differ, SIGINT and the SIGTERM of
 * launch_stop_all, because two equal pending signals would be merged. */
static void end_trial(struct trial *t)
{
	launch_signal_all(t->set, SIGINT);
	launch_stop_all(t->set, GRACE);
}

/* Returns the examples per second with this size, or 0 with the reason in t->why. */
static double run_trial(struct trial *t, const struct conf *c, const struct sizing_search *s,
    struct sizing size)
{
	struct buf words = BUF_INIT;
	double rate = 0;

	file_remove_tree(t->run, NULL);
	unlink(t->log);
	if (write_trial_file(t, c, s, size, &t->why) == ERR_OK &&
	    start_trial(t, &t->why) == ERR_OK) {
		rate = measure_rate(t);
		if (rate <= 0 && !launch_alive(t->set, t->child))
			launch_last_words(t->log, &words);
		end_trial(t);
	}
	if (words.len)
		err_set(&t->why, ERR_FAILED, "a trial failed: %s", (char *)words.data);
	buf_release(&words);
	return rate;
}

/* ---- all trials ---- */

static void trial_block_signals(struct trial *t)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, &t->before);
	t->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static enum err_code trial_open(struct trial *t, struct err *e)
{
	enum err_code rc;

	*t = (struct trial){ .signals = -1, .job_seconds = NO_LIMIT };
	rc = file_make_unique_dir(path_temporary("trial"), &t->dir, e);
	if (rc)
		return rc;
	t->file = path_join(t->dir, "trial.json");
	t->run = path_join(t->dir, "trial.run");
	t->log = path_join(t->dir, "trial.log");
	trial_block_signals(t);
	return launch_new(NULL, &t->set, e);
}

/* A signal that came during the trials ends this process now that nothing of them is left. */
static void trial_close(struct trial *t)
{
	launch_free(t->set);
	if (t->dir)
		file_remove_tree(t->dir, NULL);
	if (t->signals >= 0) {
		close(t->signals);
		sigprocmask(SIG_SETMASK, &t->before, NULL);
	}
	free(t->dir);
	free(t->file);
	free(t->run);
	free(t->log);
	if (t->signal)
		raise(t->signal);
}

/* Runs trials as long as one more fits into the budget. */
static void run_trials(struct trial *t, const struct conf *c, struct sizing_search *s)
{
	int64_t begin = clock_now(), last = begin, took = 0;
	struct sizing size;

	while (!t->signal && sizing_next(s, &size)) {
		double budget = fmin((double)BUDGET_MAX,
		    BUDGET_PART * t->job_seconds * (double)NSEC_PER_SEC);

		if (s->n && (double)(last - begin + took) > budget)
			break;
		sizing_take(s, size, run_trial(t, c, s, size));
		took = clock_now() - last;
		last += took;
	}
}

/* ---- the choice ---- */

static void append_size(struct buf *out, struct sizing size)
{
	buf_printf(out, "%lld worker%s and %lld server%s", (long long)size.workers,
	    NUM_S(size.workers), (long long)size.servers, NUM_S(size.servers));
}

static void append_rate(struct buf *out, double rate)
{
	char text[16];

	num_count(rate, text);
	if (rate > 0)
		buf_printf(out, ": %s examples/s", text);
	else
		buf_puts(out, ": failed");
}

/* Prints the choice: the trials, or why (not NULL) there is none. In bsp the number of workers also decides
 * how many examples a step has. */
static void report_choice(const struct conf *c, const struct sizing_search *s, const char *why)
{
	const struct sizing_trial *best = &s->tried[s->best];
	struct buf line = BUF_INIT;

	append_size(&line, best->size);
	if (why) {
		buf_printf(&line, " by the rule of thumb: %s", why);
	} else {
		append_rate(&line, best->rate);
		for (size_t i = 0; i < s->n; i++)
			if (i != s->best) {
				buf_puts(&line, "; tried ");
				append_size(&line, s->tried[i].size);
				append_rate(&line, s->tried[i].rate);
			}
	}
	if (s->workers && conf_trains(c) && sync_sums_steps(&c->sync) && best->size.workers > 1)
		buf_printf(&line, "; a step has the batches of %lld workers",
		    (long long)best->size.workers);
	fprintf(stderr, "ps-ctl: %s\n", (char *)line.data);
	buf_release(&line);
}

/* Takes the numbers of the run that is resumed. False: there is no such run. */
static bool adopt_sizes_of_run(struct conf *c, const struct sizing_search *s, const char *dir)
{
	char *path = rundir_path(dir, "cluster.json");
	json_t *there = json_parse_file(path, CONFIG_MAX, NULL);
	struct conf old;
	bool good = there && conf_from_json(there, &old, NULL) == ERR_OK;

	if (good) {
		good = set_sizes(c, s, (struct sizing){ old.workers.max, old.servers }, NULL) ==
		    ERR_OK;
		conf_release(&old);
	}
	json_decref(there);
	free(path);
	return good;
}

/* Searches by trials; otherwise the first size stays. Returns why there is no measurement, or NULL. */
static const char *search_sizes(struct trial *t, const struct conf *c, struct sizing_search *s)
{
	const char *obstacle = find_obstacle(c, procstat_processors());

	if (obstacle)
		return obstacle;
	if (trial_open(t, &t->why) == ERR_OK)
		run_trials(t, c, s);
	trial_close(t);
	return s->peak > 0 ? NULL : t->why.msg;
}

enum err_code trial_require_numbers(const struct conf *c, const char *reason, struct err *e)
{
	static const char *const keys[] = { "workers", "servers" };

	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
		if (conf_automatic(c, conf_key_find(keys[i], NULL)))
			return err_set(e, ERR_CONFIG, "%s: auto %s; give a number", keys[i],
			    reason);
	return ERR_OK;
}

enum err_code trial_choose_sizes(struct conf *c, const char *dir, const char *resume, struct err *e)
{
	struct sizing first = { c->workers.max, c->servers };
	struct sizing_search s;
	struct trial t;
	const char *why;

	sizing_begin(&s, first, conf_automatic(c, conf_key_find("workers", NULL)),
	    conf_automatic(c, conf_key_find("servers", NULL)));
	if (!s.workers && !s.servers)
		return ERR_OK;
	if (c->hosts.n)
		return trial_require_numbers(c, "cannot be used with hosts", e);
	if (resume && (strcmp(resume, "auto") == 0 || strncmp(resume, "step=", 5) == 0) &&
	    adopt_sizes_of_run(c, &s, dir))
		return ERR_OK;
	why = search_sizes(&t, c, &s);
	report_choice(c, &s, why);
	return set_sizes(c, &s, s.tried[s.best].size, e);
}
