/* SPDX-License-Identifier: ISC */
#include "core/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/file.h"

int spawn_stdio(int in, int log_fd)
{
	int from = in < 0 ? open("/dev/null", O_RDONLY) : in;

	if (from < 0 || dup2(from, 0) < 0 || dup2(log_fd, 1) < 0 || dup2(log_fd, 2) < 0)
		return errno;
	if (from > 2)
		close(from);
	return 0;
}

static int talk_to(const int pipes[2])
{
	return dup2(pipes[0], 0) < 0 || dup2(pipes[1], 1) < 0 ? errno : 0;
}

/* Resets signals: a mask and ignored signals survive exec, and our handlers must not run in the
 * child. ignore_term: SIGTERM stays ignored, also for its children. */
static void default_signals(bool ignore_term)
{
	struct sigaction action = { .sa_handler = SIG_DFL }, ignored = { .sa_handler = SIG_IGN },
	                 was = { .sa_handler = SIG_DFL };
	sigset_t none;

	sigaction(SIGTERM, NULL, &was);
	for (int sig = 1; sig < NSIG; sig++)
		sigaction(sig, &action, NULL);
	if (ignore_term || was.sa_handler == SIG_IGN)
		sigaction(SIGTERM, &ignored, NULL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Runs between fork and exec: async-signal-safe calls only, because the parent may have threads. */
static int exec_child(const struct launch_spec *spec, pid_t parent, int in, int log_fd)
{
	int error;

	if (spec->die_with_parent) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		/* The parent may have died before prctl. */
		if (getppid() != parent)
			_exit(127);
	}
	if (!spec->same_group)
		setpgid(0, 0);
	error = spec->pipes ? talk_to(spec->pipes) : spawn_stdio(in, log_fd);
	if (error)
		return error;
	/* This includes the report pipe: its end tells the parent that exec has succeeded. */
	if (close_range(3, ~0u, CLOSE_RANGE_CLOEXEC) != 0)
		return errno;
	if (spec->dir && chdir(spec->dir))
		return errno;
	default_signals(spec->ignores_term);
	execv(spec->argv[0], spec->argv);
	return errno;
}

/* Waits for exec: the pipe ends without data, or holds the errno of the failure. */
static int exec_error(int fd)
{
	int error = 0;
	ssize_t n;

	do
		n = read(fd, &error, sizeof error);
	while (n < 0 && errno == EINTR);
	return n == (ssize_t)sizeof error ? error : 0;
}

/* Forks and executes with all signals blocked in between; the child reports a failure through
 * `report`. */
static enum err_code fork_it(const struct launch_spec *spec, int in, int log_fd, int report[2],
    pid_t *pid, struct err *e)
{
	sigset_t all, old;
	pid_t parent = getpid();
	int error, saved;

	/* No handler of the parent may run in the child before default_signals. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	*pid = fork();
	saved = errno;
	if (*pid == 0) {
		error = exec_child(spec, parent, in, log_fd);
		/* The pipe is empty and the parent reads it: the write cannot be short. */
		error = write(report[1], &error, sizeof error) != sizeof error;
		_exit(127);
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	close(report[1]);
	report[1] = -1;
	errno = saved;
	if (*pid < 0)
		return err_sys(e, ERR_IO, "cannot start %s: fork", spec->id);
	if (!spec->same_group)
		setpgid(*pid, *pid);
	error = exec_error(report[0]);
	if (error == 0)
		return ERR_OK;
	while (waitpid(*pid, NULL, 0) < 0 && errno == EINTR)
		;
	errno = error;
	return err_sys(e, ERR_NOTFOUND, "cannot run %s for %s", spec->argv[0], spec->id);
}

/* If this process has closed its stdio, new descriptors may be 0 to 2: moves such ones up. */
static int above_stdio(int fd)
{
	int up = fd < 0 || fd > 2 ? fd : fcntl(fd, F_DUPFD_CLOEXEC, 3);

	if (up != fd)
		close(fd);
	return up;
}

/* Makes a pipe with both ends above 2 and close-on-exec. */
static enum err_code pipe_above(int ends[2], const char *id, struct err *e)
{
	if (pipe2(ends, O_CLOEXEC) == 0 && (ends[0] = above_stdio(ends[0])) >= 0 &&
	    (ends[1] = above_stdio(ends[1])) >= 0)
		return ERR_OK;
	return err_sys(e, ERR_IO, "cannot start %s: pipe", id);
}

static void close_ends(const int ends[2])
{
	for (int i = 0; i < 2; i++)
		if (ends[i] >= 0)
			close(ends[i]);
}

/* `report` is a pipe by which the child reports that exec failed; `in` is its standard input, whose
 * other end is given out in *line, non-blocking. All ends are above the standard descriptors,
 * because the child overwrites those. Ends that this process does not need are closed on every
 * path. */
enum err_code spawn(const struct launch_spec *spec, pid_t *pid, int *line, struct err *e)
{
	int report[2] = { -1, -1 }, in[2] = { -1, -1 };
	enum err_code rc;
	int log_fd = spec->pipes
	    ? -1
	    : above_stdio(open(spec->log_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));

	if (line)
		*line = -1;
	if (log_fd < 0 && !spec->pipes)
		return err_sys(e, ERR_IO, "cannot open the log %s of %s", spec->log_path, spec->id);
	rc = pipe_above(report, spec->id, e);
	if (rc == ERR_OK && spec->line)
		rc = pipe_above(in, spec->id, e);
	if (rc == ERR_OK)
		rc = fork_it(spec, in[0], log_fd, report, pid, e);
	if (rc == ERR_OK && spec->line) {
		*line = in[1];
		in[1] = -1;
		fcntl(*line, F_SETFL, O_NONBLOCK);
	}
	close_ends(report);
	close_ends(in);
	if (log_fd >= 0)
		close(log_fd);
	return rc;
}

/* The tool starts with no signal blocked and no handler of ours. fd: the descriptors that become
 * its descriptors 0, 1 and 2; a negative one is inherited. Returns 0 or an errno value, as
 * posix_spawnp does. */
int spawn_tool(const char *path, char *const *argv, char *const *env, const int fd[static 3],
    bool own_group, pid_t *pid)
{
	short flags = POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK;
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	sigset_t all, none;
	int error;

	sigfillset(&all);
	sigemptyset(&none);
	posix_spawnattr_init(&attr);
	posix_spawnattr_setsigdefault(&attr, &all);
	posix_spawnattr_setsigmask(&attr, &none);
	posix_spawnattr_setflags(&attr, own_group ? flags | POSIX_SPAWN_SETPGROUP : flags);
	posix_spawn_file_actions_init(&actions);
	for (int i = 0; i < 3; i++)
		if (fd[i] >= 0)
			posix_spawn_file_actions_adddup2(&actions, fd[i], i);
	error = posix_spawnp(pid, path, &actions, &attr, argv, env ? env : environ);
	posix_spawn_file_actions_destroy(&actions);
	posix_spawnattr_destroy(&attr);
	return error;
}
