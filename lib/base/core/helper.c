/* SPDX-License-Identifier: ISC */
#include "core/helper.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/buf.h"
#include "core/file.h"
#include "core/mem.h"
#include "core/spawn.h"

#define PROGRAM  "ps-ctl"
#define WARNING  PROGRAM ": warning:"
#define NOTE     PROGRAM ": note:"
#define ARGS_MAX 16
#define SAID_MAX 4096u
#define LOOK_MS  500 /* how often to check for a pending signal */

struct helper {
	pid_t pid;
	int in;                  /* the child's stdin, while it is open; else -1 */
	int out, talk;           /* the child's stdout and stderr */
	bool ended;              /* the child's output has ended */
	struct buf stderr_lines; /* lines of its stderr that were not passed on */
};

/* ---- start ---- */

/* Starts the ps-ctl beside this program, else the one in PATH. fds become the child's descriptors
 * 0, 1 and 2. Returns an errno value. */
static int start_helper_program(char *const *argv, const int fds[static 3], pid_t *pid)
{
	char *dir = path_self_dir(NULL), *path = dir ? path_join(dir, PROGRAM) : NULL;
	bool beside = path && access(path, X_OK) == 0;
	int error = spawn_tool(beside ? path : PROGRAM, argv, NULL, fds, false, pid);

	free(path);
	free(dir);
	return error;
}

static void close_all(int *fd, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (fd[i] >= 0)
			close(fd[i]);
}

/* A line fits into the pipe's buffer, so this does not block. */
static bool write_stdin_line(int fd, const char *line)
{
	char *text = mem_printf("%s\n", line ? line : "");
	bool good = strlen(text) <= SAID_MAX &&
	    write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	free(text);
	return good;
}

/* Three pipes: fd[0..1] for its standard input, fd[2..3] for its output, fd[4..5] for its messages.
 * The line is written before the child exists, so it must fit into the pipe's buffer; a line longer
 * than SAID_MAX is refused. Of the six ends this process keeps the two that it reads. */
static enum err_code start(const char *const *args, const char *line, bool open,
    struct helper **out, struct err *e)
{
	char *argv[ARGS_MAX] = { (char *)PROGRAM };
	int fd[6] = { -1, -1, -1, -1, -1, -1 }, error = 0;
	struct helper *h;
	pid_t pid;

	*out = NULL;
	for (size_t i = 0; args[i] && i + 2 < ARGS_MAX; i++)
		argv[i + 1] = (char *)args[i];
	if (pipe2(fd, O_CLOEXEC) || pipe2(fd + 2, O_CLOEXEC) || pipe2(fd + 4, O_CLOEXEC))
		error = errno;
	else if (!write_stdin_line(fd[1], line))
		error = ENAMETOOLONG;
	else
		error = start_helper_program(argv, (const int[]){ fd[0], fd[3], fd[5] }, &pid);
	if (error) {
		close_all(fd, 6);
		errno = error;
		return err_sys(e, error == ENOENT ? ERR_NOTFOUND : ERR_IO,
		    "cannot start " PROGRAM ", which reads and writes objects and topics (it "
		    "must be beside this program or in PATH)");
	}
	close_all((int[]){ fd[0], fd[3], fd[5], open ? -1 : fd[1] }, 4);
	h = mem_alloc(sizeof *h);
	h->pid = pid;
	h->in = open ? fd[1] : -1;
	h->out = fd[2];
	h->talk = fd[4];
	*out = h;
	return ERR_OK;
}

enum err_code helper_start(const char *const *args, const char *line, struct helper **out,
    struct err *e)
{
	return start(args, line, false, out, e);
}

enum err_code helper_start_talk(const char *const *args, const char *line, struct helper **out,
    struct err *e)
{
	return start(args, line, true, out, e);
}

enum err_code helper_write(struct helper *h, const char *text, struct err *e)
{
	return file_write_all(h->in, text, strlen(text), e);
}

/* ---- output ---- */

static bool is_warning_or_note(const char *line)
{
	return strncmp(line, WARNING, strlen(WARNING)) == 0 ||
	    strncmp(line, NOTE, strlen(NOTE)) == 0;
}

/* Pass warnings and notes on as they come; keep other lines up to SAID_MAX bytes. */
static void pass_on_lines(struct helper *h)
{
	char *text = (char *)h->stderr_lines.data, *end;
	size_t kept = 0;

	while ((end = memchr(text + kept, '\n', h->stderr_lines.len - kept)) != NULL) {
		size_t n = (size_t)(end + 1 - (text + kept));

		if (!is_warning_or_note(text + kept) && kept + n <= SAID_MAX) {
			kept += n;
			continue;
		}
		file_write_all(STDERR_FILENO, text + kept, n, NULL);
		memmove(text + kept, text + kept + n, h->stderr_lines.len - kept - n + 1);
		h->stderr_lines.len -= n;
	}
}

/* Read from the child's stderr. False at its end. */
static bool read_stderr(struct helper *h)
{
	ssize_t n;

	do
		n = read(h->talk, buf_reserve(&h->stderr_lines, SAID_MAX), SAID_MAX);
	while (n < 0 && errno == EINTR);
	if (n <= 0)
		return false;
	buf_commit(&h->stderr_lines, (size_t)n);
	pass_on_lines(h);
	return true;
}

void helper_stop(const struct helper *h)
{
	kill(h->pid, SIGTERM);
}

/* Is a signal pending that would end us? Such signals are blocked until they are handled. */
static bool is_ending_signal_pending(void)
{
	sigset_t waiting;

	return sigpending(&waiting) == 0 &&
	    (sigismember(&waiting, SIGTERM) || sigismember(&waiting, SIGINT) ||
	        sigismember(&waiting, SIGHUP));
}

bool helper_wait(struct helper *h, int timeout_ms)
{
	struct pollfd both[2] = { { h->out, POLLIN, 0 }, { h->talk, POLLIN, 0 } };

	if (h->ended)
		return true;
	if (poll(both, 2, timeout_ms) <= 0)
		return false;
	if (both[1].revents & POLLIN)
		read_stderr(h);
	return (both[0].revents & (POLLIN | POLLHUP)) != 0;
}

/* Waits at most LOOK_MS at a time, because the signals that would end us may be blocked and
 * pending: poll() does not return for those. Messages are read as they come, so that the child
 * never blocks on a full pipe. */
enum err_code helper_read(struct helper *h, void *p, size_t n, size_t *got, struct err *e)
{
	struct pollfd both[2] = { { h->out, POLLIN, 0 }, { h->talk, POLLIN, 0 } };
	ssize_t r;

	*got = 0;
	while (!h->ended) {
		both[0].revents = both[1].revents = 0;
		if (poll(both, 2, LOOK_MS) < 0 && errno != EINTR)
			return err_sys(e, ERR_IO, "cannot wait for " PROGRAM);
		if (is_ending_signal_pending())
			helper_stop(h);
		if ((both[1].revents & (POLLIN | POLLHUP)) && !read_stderr(h))
			both[1].fd = -1;
		if (!(both[0].revents & (POLLIN | POLLHUP)))
			continue;
		r = read(h->out, p, n);
		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return err_sys(e, ERR_IO, "cannot read what " PROGRAM " writes");
		h->ended = r == 0;
		*got = (size_t)r;
		break;
	}
	return ERR_OK;
}

/* ---- end ---- */

bool helper_was_killed(const struct helper *h)
{
	siginfo_t how = { 0 };

	while (waitid(P_PID, (id_t)h->pid, &how, WEXITED | WNOWAIT) < 0 && errno == EINTR)
		;
	return how.si_code == CLD_KILLED || how.si_code == CLD_DUMPED;
}

/* Several error codes share an exit code; take the one that occurs with objects. */
static enum err_code error_of_exit_code(int exit_code)
{
	static const enum err_code kinds[] = { ERR_USAGE, ERR_NOTREADY, ERR_NOTFOUND, ERR_AUTH,
		ERR_UNREACH, ERR_CONFIG, ERR_TIMEOUT, ERR_STOPPED };

	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
		if (err_exit_code(kinds[i]) == exit_code)
			return kinds[i];
	return ERR_FAILED;
}

/* Make an error from the child's last line, without the program's name. */
static enum err_code set_error_from_last_line(const struct helper *h, int status, struct err *e)
{
	const char *text = h->stderr_lines.len ? (const char *)h->stderr_lines.data : "",
	           *line = text;
	size_t n = strlen(text);

	while (n > 0 && text[n - 1] == '\n')
		n--;
	for (const char *p = text; p < text + n; p++)
		if (*p == '\n')
			line = p + 1;
	n -= (size_t)(line - text);
	if (strncmp(line, PROGRAM ": ", strlen(PROGRAM) + 2) == 0) {
		line += strlen(PROGRAM) + 2;
		n -= strlen(PROGRAM) + 2;
	}
	if (WIFSIGNALED(status) && n == 0)
		return err_set(e, ERR_FAILED, PROGRAM " was ended by signal %d", WTERMSIG(status));
	return err_set(e, WIFEXITED(status) ? error_of_exit_code(WEXITSTATUS(status)) : ERR_FAILED,
	    "%.*s", (int)n, line);
}

/* Closing the output first makes a child that still writes fail. The messages are then read to
 * their end, which is also where the child has ended or closed them, so that waitpid() does not
 * wait for one that is blocked in writing. */
enum err_code helper_end(struct helper *h, struct err *e)
{
	bool early = !h->ended;
	enum err_code rc = ERR_OK;
	int status = 0;

	if (early)
		helper_stop(h);
	if (h->in >= 0)
		close(h->in);
	close(h->out);
	while (read_stderr(h))
		;
	while (waitpid(h->pid, &status, 0) < 0 && errno == EINTR)
		;
	if (!early && status != 0)
		rc = set_error_from_last_line(h, status, e);
	close(h->talk);
	buf_release(&h->stderr_lines);
	free(h);
	return rc;
}

enum err_code helper_run(const char *const *args, const char *line, struct buf *out, struct err *e)
{
	struct helper *h;
	enum err_code rc = helper_start(args, line, &h, e), end;
	uint8_t some[4096];
	size_t got;

	if (rc)
		return rc;
	do {
		rc = helper_read(h, some, sizeof some, &got, e);
		if (!rc && out)
			buf_append(out, some, got);
	} while (!rc && got > 0);
	end = helper_end(h, rc ? NULL : e);
	return rc ? rc : end;
}
