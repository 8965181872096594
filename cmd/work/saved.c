/* SPDX-License-Identifier: ISC */
#include "cmd/work/saved.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ckpt/dirs.h"
#include "cmd/work/common.h"
#include "core/clock.h"
#include "core/file.h"
#include "core/launch.h"
#include "core/mem.h"
#include "rundir/readonly.h"
#include "rundir/rundir.h"
#include "saved/saved_model.h"

#define STOP_GRACE (2 * NSEC_PER_SEC)

/* The server's process and its directories. */
struct own_server {
	char *parent, *run; /* the temporary directory, and the run directory in it */
	int lock;
	struct launch_set *set;
	size_t child;
};

/* Is this a checkpoint or a model file? */
static bool is_model_alone(const char *path)
{
	struct stat st;

	if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
		return ckpt_is_there(path);
	return saved_model_is_named(path);
}

char *saved_server_find(const char *prog, const char *run_dir)
{
	const char *named = run_dir ? run_dir : getenv("PS_CLUSTER");
	struct err e = { 0 };
	char *dir = NULL;

	if (named && is_model_alone(named))
		return mem_strdup(named);
	if (rundir_find_serving(run_dir, &dir, &e) == ERR_NOTREADY && dir) {
		fprintf(stderr, "%s: %s has no running cluster: reading its saved model\n", prog,
		    dir);
		return dir;
	}
	free(dir);
	return NULL;
}

static enum err_code make_server_directory(struct own_server *s, struct err *e)
{
	const char *tmp = getenv("TMPDIR");

	s->parent = mem_printf("%s/ps-model-XXXXXX", tmp && *tmp ? tmp : "/tmp");
	if (mkdtemp(s->parent)) {
		s->run = rundir_path(s->parent, "model.run");
		return ERR_OK;
	}
	err_sys(e, ERR_IO, "cannot create the directory %s", s->parent);
	free(s->parent);
	s->parent = NULL;
	return ERR_IO;
}

/* Start the server on the saved model at `where`. stop_saved_server() must follow even a
 * failure. */
static enum err_code start_saved_server(struct own_server *s, const char *where, struct err *e)
{
	struct launch_spec spec = { .id = "server-0", .die_with_parent = true };
	char *from = NULL, *bin = path_self_dir(e), *prog, *log;
	struct conf conf = { 0 };
	enum err_code rc = bin ? make_server_directory(s, e) : e->code;

	if (!rc)
		rc = readonly_prepare(where, NULL, 0, &conf, &s->run, &s->lock, &from, e);
	conf_release(&conf);
	if (!rc)
		rc = launch_new(s->run, &s->set, e);
	if (!rc) {
		prog = path_join(bin, "ps-serve");
		log = rundir_path(s->run, "server-0.log");
		spec.argv = (char *const[]){ prog, "-C", s->run, "--name", "server-0",
			"--coordinator", "--resume", from, NULL };
		spec.log_path = log;
		rc = launch_start(s->set, &spec, &s->child, e);
		free(log);
		free(prog);
	}
	free(from);
	free(bin);
	return rc;
}

static void stop_saved_server(struct own_server *s)
{
	if (s->set) {
		launch_stop_all(s->set, STOP_GRACE);
		launch_free(s->set);
	}
	if (s->lock >= 0)
		close(s->lock);
	if (s->parent)
		file_remove_tree(s->parent, NULL);
	free(s->run);
	free(s->parent);
}

/* The server has ended before the child: report how, with the last line of its log. */
static void report_server_end(const char *prog, const struct own_server *s)
{
	struct launch_event how = launch_status(s->set, s->child);
	char *log = rundir_path(s->run, "server-0.log"), text[64];
	struct buf last = BUF_INIT;

	launch_how(&how, text);
	launch_last_words(log, &last);
	fprintf(stderr, "%s: the temporary server %s%s%s\n", prog, text, last.len ? ": " : "",
	    last.len ? (char *)last.data : "");
	buf_release(&last);
	free(log);
}

/* Wait for the child, forwarding signals to it, and return its exit code. When the server ends
 * first, kill the child and return 1. */
static int await_client_child(const char *prog, pid_t pid, const struct own_server *s, int signals)
{
	struct pollfd p[] = { { .fd = pidfd_open(pid, 0), .events = POLLIN },
		{ .fd = signals, .events = POLLIN },
		{ .fd = launch_fd(s->set), .events = POLLIN } };
	struct signalfd_siginfo si;
	struct launch_event ev;
	int status = 0;

	while (poll(p, 3, -1) < 0 || !p[0].revents) {
		if (p[1].revents && read(signals, &si, sizeof si) == (ssize_t)sizeof si)
			kill(pid, (int)si.ssi_signo);
		if (p[2].revents && launch_wait(s->set, 0, &ev, NULL) == ERR_OK) {
			report_server_end(prog, s);
			kill(pid, SIGKILL);
			p[2].fd = -1;
		}
	}
	close(p[0].fd);
	waitpid(pid, &status, 0);
	if (p[2].fd < 0)
		return 1;
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* Returns true in a child process only, which then does the command's work against the server with
 * *run_dir; the parent waits for it, stops the server, and returns false with the exit code in
 * *code. The child dies with its parent; the test of getppid() covers a parent that died before
 * prctl(). Signals are blocked before the server starts and are restored in the child. */
bool saved_server_run(const char *prog, const char *where, char **run_dir, int *code)
{
	/* Static, because the child returns from here, while the server is its parent's to stop. */
	static struct own_server s = { .lock = -1 };
	struct err e = { 0 };
	pid_t pid, self = getpid();
	sigset_t set, before;
	int signals;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, &before);
	signals = signalfd(-1, &set, SFD_CLOEXEC);
	if (start_saved_server(&s, where, &e) != ERR_OK) {
		*code = fail(prog, &e);
		stop_saved_server(&s);
		close(signals);
		return false;
	}
	pid = fork();
	if (pid == 0) {
		sigprocmask(SIG_SETMASK, &before, NULL);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != self)
			_exit(1);
		*run_dir = mem_strdup(s.run);
		return true;
	}
	if (pid < 0) {
		err_sys(&e, ERR_IO, "cannot start a process");
		*code = fail(prog, &e);
	} else {
		*code = await_client_child(prog, pid, &s, signals);
	}
	stop_saved_server(&s);
	close(signals);
	return false;
}
