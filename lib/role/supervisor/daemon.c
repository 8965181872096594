/* SPDX-License-Identifier: ISC */
#include "supervisor/daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/file.h"
#include "core/mem.h"
#include "core/spawn.h"

/* In the intermediate process: become the leader of a new session and fork again. The supervisor
 * is then no session leader, and does not get a controlling terminal by opening one. */
static void fork_from_session(void)
{
	pid_t pid;

	setsid();
	pid = fork();
	if (pid != 0)
		_exit(pid < 0 ? 1 : 0);
}

/* Fork the supervisor. The caller waits for the intermediate process, whose exit code reports a
 * failed fork. */
static enum err_code fork_daemon(int log_fd, int pipe_fds[2], bool *daemon, struct err *e)
{
	pid_t pid = fork();
	int status = 0;

	if (pid < 0)
		return err_sys(e, ERR_IO, "cannot start the supervisor: fork");
	if (pid == 0) {
		fork_from_session();
		*daemon = true;
		close(pipe_fds[0]);
		prctl(PR_SET_CHILD_SUBREAPER, 1);
		if (spawn_stdio(-1, log_fd) != 0)
			_exit(1);
		return ERR_OK;
	}
	close(pipe_fds[1]);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (status == 0)
		return ERR_OK;
	close(pipe_fds[0]);
	return err_set(e, ERR_IO, "cannot start the supervisor: no more processes");
}

enum err_code daemon_start(const char *log_path, bool *daemon, int *ready, struct err *e)
{
	int fds[2];
	enum err_code rc;
	int log_fd = open(log_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);

	*daemon = false;
	if (log_fd < 0)
		return err_sys(e, ERR_IO, "cannot open the log %s", log_path);
	if (pipe2(fds, O_CLOEXEC) != 0) {
		rc = err_sys(e, ERR_IO, "cannot start the supervisor: pipe");
		close(log_fd);
		return rc;
	}
	rc = fork_daemon(log_fd, fds, daemon, e);
	*ready = *daemon ? fds[1] : fds[0];
	close(log_fd);
	return rc;
}

void daemon_report(int ready, const char *line)
{
	char *text = mem_printf("%.*s\n", (int)strcspn(line, "\n"), line);

	/* A failure is ignored: the caller has ended and does not need the line. */
	file_write_all(ready, text, strlen(text), NULL);
	free(text);
	close(ready);
}

enum err_code daemon_await(int ready, int64_t timeout_ns, char *line, size_t size, struct err *e)
{
	int64_t end = clock_now() + timeout_ns;
	enum err_code rc = ERR_OK;
	size_t len = 0;
	ssize_t n;

	line[0] = '\0';
	while (rc == ERR_OK && len + 1 < size && memchr(line, '\n', len) == NULL) {
		struct pollfd p = { .fd = ready, .events = POLLIN };
		int k = poll(&p, 1, clock_poll_timeout(end - clock_now()));

		if (k == 0 && clock_now() >= end)
			rc = err_set(e, ERR_TIMEOUT, "the supervisor is not ready after %.1f s",
			    (double)timeout_ns / NSEC_PER_SEC);
		if (k <= 0)
			continue;
		n = read(ready, line + len, size - 1 - len);
		if (n == 0)
			rc = err_set(e, ERR_FAILED, "the supervisor ended before it was ready");
		if (n > 0)
			len += (size_t)n;
	}
	line[len] = '\0';
	line[strcspn(line, "\n")] = '\0';
	close(ready);
	return rc;
}
