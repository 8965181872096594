/* SPDX-License-Identifier: ISC */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/file.h"
#include "core/mem.h"
#include "core/spawn.h"
#include "lab/sweep_runner.h"
#include "supervisor/rsh.h"

/* The runs of a sweep as array tasks of Slurm: the number of a task in its array is that of its
 * point. The points that start together are one array.
 *
 * The file NAME.task of a rung names the task that runs it, by the numbers of its job and its point.
 * It keeps a rung from being trained twice:
 *
 *   - A task waits until the file names it, and ends without training if it does not. A sweep that
 *     was killed after sbatch, and before it wrote the file, may submit the rung again: the first
 *     task is no longer wanted.
 *   - A sweep that is started again finds the file, and if squeue lists the task, waits for it and
 *     submits nothing.
 *   - A sweep that is told to stop removes the file: a task that ends with 75, because it has saved
 *     a checkpoint, is then not queued again; one at its time limit is.
 *   - A task that is queued again, and whose run has ended before its node was lost, trains nothing.
 *
 * A task has ended when squeue does not list it. When squeue fails, nothing is known, and the sweep
 * asks again. */

#define POLL_MS    1000
#define OUTPUT_MAX (16u << 20)
#define TASK_MAX   64

enum task_state { TASK_NONE, TASK_COLLECTED, TASK_SUBMITTED, TASK_FAILED };

struct task {
	enum task_state state;
	char name[TASK_MAX]; /* "7_3": point 3 of job 7; "": none */
	char *mark;          /* the path of NAME.task */
	char *why;           /* why it could not be submitted */
};

struct slurm {
	struct sweep_runner base;
	const struct sweep *s;
	char *ctl;
	struct task *task; /* of each point */
	struct buf cases;  /* of the script: the points that are collected */
	int64_t asked;     /* when squeue was asked for ended tasks */
	struct buf listed; /* its answer, a name a line */
	bool answered;     /* `ended` is naming the tasks that this answer does not list */
};

/* ---- Slurm's commands ---- */

/* Runs a command and collects what it prints, errors too. ERR_NOTFOUND: it cannot be run; ERR_IO: it
 * failed. */
static enum err_code run_command(char *const *argv, struct buf *out, struct err *e)
{
	int fds[2], status = 0, error;
	ssize_t n = 1;
	pid_t pid;

	buf_clear(out);
	if (pipe2(fds, O_CLOEXEC) != 0)
		return err_sys(e, ERR_IO, "cannot run %s", argv[0]);
	error = spawn_tool(argv[0], argv, NULL, (const int[]){ -1, fds[1], fds[1] }, false, &pid);
	close(fds[1]);
	while (!error && n != 0 && out->len < OUTPUT_MAX) {
		n = read(fds[0], buf_reserve(out, 4096), 4096);
		if (n > 0)
			buf_commit(out, (size_t)n);
		else if (n < 0 && errno != EINTR)
			break;
	}
	close(fds[0]);
	if (error)
		return err_set(e, ERR_NOTFOUND, "cannot run %s: %s", argv[0], strerror(error));
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	buf_append(out, "", 1);
	out->len--;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return ERR_OK;
	return err_set(e, ERR_IO, "%s failed: %.*s", argv[0], (int)strcspn((char *)out->data, "\n"),
	    (char *)out->data);
}

/* Lists the tasks of this user that wait or run, into sl->listed. */
static enum err_code list_tasks(struct slurm *sl, struct err *e)
{
	char *argv[] = { (char[]){ "squeue" }, (char[]){ "--me" }, (char[]){ "--noheader" },
		(char[]){ "--array" }, (char[]){ "--format=%F_%K" }, NULL };

	sl->asked = clock_now();
	return run_command(argv, &sl->listed, e);
}

static bool is_listed(const struct slurm *sl, const char *name)
{
	size_t n = strlen(name);
	const char *at = (const char *)sl->listed.data;

	for (; at && *at; at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL)
		if (strncmp(at, name, n) == 0 && (at[n] == '\n' || !at[n]))
			return true;
	return false;
}

/* ---- start ---- */

/* Reads the task that NAME.task names; "": none. */
static void read_mark(const char *path, char name[static TASK_MAX])
{
	struct buf text = BUF_INIT;

	name[0] = '\0';
	if (file_read(path, TASK_MAX - 1, &text, NULL) == ERR_OK)
		snprintf(name, TASK_MAX, "%.*s", (int)text.len, (char *)text.data);
	name[strcspn(name, "\n")] = '\0';
	buf_release(&text);
}

static void add_case(struct slurm *sl, size_t i, const struct point *p, const char *begin)
{
	char *name = sweep_point_path(sl->s, p, "");

	buf_printf(&sl->cases, "%zu) name=", i);
	rsh_quote(name, &sl->cases);
	buf_puts(&sl->cases, " begin=");
	rsh_quote(begin, &sl->cases);
	buf_puts(&sl->cases, " ;;\n");
	free(name);
}

static enum err_code start_task(struct sweep_runner *r, const struct point *p, const char *begin,
    bool *found, struct err *e)
{
	struct slurm *sl = (struct slurm *)r;
	size_t i = (size_t)(p - sl->s->point);
	struct task *t = &sl->task[i];
	enum err_code rc = ERR_OK;

	*found = false;
	free(t->mark);
	t->mark = sweep_point_path(sl->s, p, ".task");
	read_mark(t->mark, t->name);
	if (t->name[0])
		rc = list_tasks(sl, e);
	if (rc != ERR_OK)
		return rc;
	*found = t->name[0] && is_listed(sl, t->name);
	t->state = *found ? TASK_SUBMITTED : TASK_COLLECTED;
	if (!*found)
		add_case(sl, i, p, begin);
	r->running++;
	return ERR_OK;
}

/* Writes the script of an array: of the points that are collected. */
static enum err_code write_script(const struct slurm *sl, const char *path, struct err *e)
{
	struct buf text = BUF_INIT;
	enum err_code rc;

	buf_printf(&text,
	    "#!/bin/sh\n#SBATCH --job-name=%s\n#SBATCH --ntasks=1\n#SBATCH --cpus-per-task=%zu\n"
	    "#SBATCH --requeue\n#SBATCH --open-mode=append\n"
	    "# One minute before the time limit: a checkpoint, and the task is queued again.\n"
	    "#SBATCH --signal=B:TERM@60\n",
	    sl->s->name, sl->s->processes);
	buf_printf(&text, "case $SLURM_ARRAY_TASK_ID in\n%.*sesac\n", (int)sl->cases.len,
	    (char *)sl->cases.data);
	buf_puts(&text,
	    "task=${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID\n"
	    "# The sweep writes the name of the task that it wants.\n"
	    "wanted() { [ \"$(cat \"$name.task\" 2>/dev/null)\" = \"$task\" ]; }\n"
	    "tries=0\n"
	    "until wanted; do\n"
	    "\t[ $((tries += 1)) -le 60 ] || exit 0\n"
	    "\tsleep 1\n"
	    "done\n"
	    "# It was queued again: its run has ended, or goes on from its own checkpoint.\n"
	    "! grep -qs '\"state\":\"done\"' \"$name.run/result.json\" || exit 0\n"
	    "[ \"${SLURM_RESTART_COUNT:-0}\" -eq 0 ] ||\n"
	    "\t! ls \"$name.run\"/checkpoints/*/MANIFEST.json >/dev/null 2>&1 || begin=auto\n");
	rsh_quote(sl->ctl, &text);
	buf_printf(&text,
	    " run \"$name.json\" --json --resume \"$begin\"%s >\"$name.log\" 2>&1 &\n",
	    sl->s->ladder.rungs > 1 ? " --max-restarts " SWEEP_RUNG_RESTARTS : "");
	buf_puts(&text,
	    "run=$!\n"
	    "# A signal that is passed on ends the wait.\n"
	    "trap 'told=yes; kill -TERM $run 2>/dev/null' TERM\n"
	    "while told=; wait $run; got=$?; [ $got -eq 127 ] || code=$got; [ -n \"$told\" ]; do :; done\n"
	    "[ $code -ne 75 ] || ! wanted || scontrol requeue \"$task\"\n"
	    "exit $code\n");
	rc = file_replace(path, text.data, text.len, 0600, e);
	buf_release(&text);
	return rc;
}

/* Returns the number of the job that sbatch --parsable has printed after its warnings, or 0. */
static long long job_number(const struct buf *out)
{
	const char *at = (const char *)out->data;
	long long job = 0;

	for (; at && *at; at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL)
		job = *at >= '1' && *at <= '9' ? strtoll(at, NULL, 10) : job;
	return job;
}

/* Submits the points that are collected as one array. */
static enum err_code submit_array(struct slurm *sl, long long *job, struct err *e)
{
	char *path = path_join(sl->s->folder, "slurm.sh"),
	     *output = mem_printf("--output=%s/slurm-%%A_%%a.log", sl->s->folder);
	struct buf array = BUF_INIT, out = BUF_INIT;
	enum err_code rc;

	buf_puts(&array, "--array=");
	for (size_t i = 0, n = 0; i < sl->s->npoints; i++)
		if (sl->task[i].state == TASK_COLLECTED)
			buf_printf(&array, "%s%zu", n++ ? "," : "", i);
	char *argv[] = { (char[]){ "sbatch" }, (char[]){ "--parsable" }, (char *)array.data, output,
		path, NULL };

	rc = write_script(sl, path, e);
	if (rc == ERR_OK)
		rc = run_command(argv, &out, e);
	*job = rc == ERR_OK ? job_number(&out) : 0;
	if (rc == ERR_OK && !*job)
		rc = err_set(e, ERR_IO, "sbatch printed no number of a job");
	buf_release(&array);
	buf_release(&out);
	free(output);
	free(path);
	return rc;
}

static void submit_tasks(struct sweep_runner *r)
{
	struct slurm *sl = (struct slurm *)r;
	struct err e = { 0 };
	long long job = 0;
	enum err_code rc = sl->cases.len ? submit_array(sl, &job, &e) : ERR_OK;

	for (size_t i = 0; i < sl->s->npoints; i++) {
		struct task *t = &sl->task[i];
		enum err_code mine = rc;

		if (t->state != TASK_COLLECTED)
			continue;
		if (mine == ERR_OK) {
			snprintf(t->name, sizeof t->name, "%lld_%zu", job, i);
			mine = file_replace(t->mark, t->name, strlen(t->name), 0600, &e);
		}
		t->state = mine == ERR_OK ? TASK_SUBMITTED : TASK_FAILED;
		free(t->why);
		t->why = mine == ERR_OK ? NULL : mem_strdup(e.msg);
	}
	sl->asked = clock_now();
	buf_clear(&sl->cases);
}

/* ---- end ---- */

static bool ended_task(struct sweep_runner *r, size_t *point, const char **how)
{
	struct slurm *sl = (struct slurm *)r;
	bool fresh = clock_now() - sl->asked >= POLL_MS * NSEC_PER_MSEC &&
	    list_tasks(sl, NULL) == ERR_OK;

	/* One answer of squeue serves several calls, each of which names one task that has ended. */
	sl->answered |= fresh;
	for (size_t i = 0; i < sl->s->npoints; i++) {
		struct task *t = &sl->task[i];

		if (t->state != TASK_FAILED &&
		    !(t->state == TASK_SUBMITTED && sl->answered && !is_listed(sl, t->name)))
			continue;
		*point = i;
		*how = t->state == TASK_FAILED ? t->why : "its task has left Slurm's queue";
		t->state = TASK_NONE;
		unlink(t->mark);
		r->running--;
		return true;
	}
	sl->answered = false;
	return false;
}

/* Calls scancel with an option for each task. */
static void cancel(const struct slurm *sl, char *option)
{
	struct buf out = BUF_INIT;

	for (size_t i = 0; i < sl->s->npoints; i++) {
		char *argv[] = { (char[]){ "scancel" }, (char[]){ "--quiet" }, option,
			sl->task[i].name,
			strncmp(option, "--signal", 8) == 0 ? (char[]){ "--batch" } : NULL, NULL };

		if (sl->task[i].state == TASK_SUBMITTED)
			run_command(argv, &out, NULL);
	}
	buf_release(&out);
}

/* SIGTERM goes to the script alone, which passes it on to ps-ctl run: that stops its servers and
 * workers itself. */
static void stop_tasks(struct sweep_runner *r, int sig)
{
	struct slurm *sl = (struct slurm *)r;

	for (size_t i = 0; i < sl->s->npoints; i++)
		if (sl->task[i].state == TASK_SUBMITTED)
			unlink(sl->task[i].mark);
	cancel(sl, (char[]){ "--state=PENDING" });
	cancel(sl, sig == SIGKILL ? (char[]){ "--full" } : (char[]){ "--signal=TERM" });
}

static void close_slurm(struct sweep_runner *r)
{
	struct slurm *sl = (struct slurm *)r;

	for (size_t i = 0; i < sl->s->npoints; i++) {
		free(sl->task[i].mark);
		free(sl->task[i].why);
	}
	free(sl->task);
	buf_release(&sl->cases);
	buf_release(&sl->listed);
	free(sl->ctl);
	free(sl);
}

static const struct sweep_runner_ops slurm_ops = {
	.start = start_task,
	.submit = submit_tasks,
	.ended = ended_task,
	.stop = stop_tasks,
	.close = close_slurm,
};

enum err_code sweep_slurm_open(const struct sweep *s, const char *bin, struct sweep_runner **r,
    struct err *e)
{
	struct slurm *sl = mem_alloc(sizeof *sl);
	enum err_code rc;

	*sl = (struct slurm){ .base = { &slurm_ops, 0, -1, POLL_MS },
		.s = s,
		.ctl = path_join(bin, "ps-ctl"),
		.task = mem_array(s->npoints, sizeof *sl->task),
		.cases = BUF_INIT,
		.listed = BUF_INIT };
	*r = NULL;
	rc = list_tasks(sl, e);
	if (rc != ERR_OK)
		close_slurm(&sl->base);
	else
		*r = &sl->base;
	return rc;
}
