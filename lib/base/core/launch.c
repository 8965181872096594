/* SPDX-License-Identifier: ISC */
#include "core/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/file.h"
#include "core/mem.h"
#include "core/spawn.h"

struct child {
	char *id;
	char *pid_path; /* NULL without a directory */
	pid_t pid;
	int pidfd; /* -1 when it has ended */
	bool ignores_term;
	int line; /* our end of its control line; -1: none, or closed */
	struct launch_event how;
};

struct launch_set {
	char *dir;
	int epoll;
	struct child *child;
	size_t n, running;
};

enum err_code launch_new(const char *dir, struct launch_set **set, struct err *e)
{
	int fd = epoll_create1(EPOLL_CLOEXEC);

	*set = NULL;
	if (fd < 0)
		return err_sys(e, ERR_IO, "cannot watch processes: epoll_create1");
	*set = mem_alloc(sizeof **set);
	(*set)->epoll = fd;
	(*set)->dir = dir ? mem_strdup(dir) : NULL;
	return ERR_OK;
}

void launch_free(struct launch_set *set)
{
	if (!set)
		return;
	launch_stop_all(set, 0);
	for (size_t i = 0; i < set->n; i++) {
		free(set->child[i].id);
		free(set->child[i].pid_path);
	}
	free(set->child);
	free(set->dir);
	close(set->epoll);
	free(set);
}

/* The index for id: its old one when that process has ended, else a new one. */
static enum err_code find_child_place(struct launch_set *set, const char *id, size_t *at,
    struct err *e)
{
	struct child *c;

	for (size_t i = 0; i < set->n; i++) {
		if (strcmp(set->child[i].id, id) != 0)
			continue;
		*at = i;
		if (set->child[i].pidfd < 0)
			return ERR_OK;
		return err_set(e, ERR_EXISTS, "%s is already running, as process %d", id,
		    (int)set->child[i].pid);
	}
	set->child = mem_regrow(set->child, set->n + 1, sizeof *set->child);
	c = &set->child[set->n];
	*c = (struct child){ .id = mem_strdup(id), .pidfd = -1, .line = -1 };
	if (set->dir)
		c->pid_path = mem_printf("%s/%s.pid", set->dir, id);
	*at = set->n++;
	return ERR_OK;
}

/* Written atomically, so that a reader never sees half a number. */
static enum err_code write_pid_file(const struct child *c, struct err *e)
{
	enum err_code rc = ERR_OK;
	char *tmp, text[32];
	int n, fd;

	if (!c->pid_path)
		return ERR_OK;
	tmp = mem_printf("%s.new", c->pid_path);
	n = snprintf(text, sizeof text, "%d\n", (int)c->pid);
	fd = open(tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0)
		rc = err_sys(e, ERR_IO, "cannot write %s", tmp);
	else {
		rc = file_write_all(fd, text, (size_t)n, e);
		close(fd);
		if (rc == ERR_OK && rename(tmp, c->pid_path) != 0)
			rc = err_sys(e, ERR_IO, "cannot write %s", c->pid_path);
	}
	free(tmp);
	return rc;
}

static void hang_up(struct child *c)
{
	if (c->line >= 0)
		close(c->line);
	c->line = -1;
}

/* Sends LAUNCH_LEAVE. A child whose line ends without it knows that the connection was cut. If the
 * pipe is full, because the child does not read it, the message cannot be sent, and the child takes
 * this for a cut, too. */
static void write_leave(struct child *c)
{
	ssize_t put = write(c->line, LAUNCH_LEAVE, strlen(LAUNCH_LEAVE));

	(void)put;
	hang_up(c);
}

/* Kills the process group while its leader is still a zombie: until the leader is reaped, no other
 * process can have its number or the group's. */
static void reap_group(struct launch_set *set, size_t at)
{
	struct child *c = &set->child[at];
	siginfo_t info = { 0 };

	kill(-c->pid, SIGKILL);
	while (waitid(P_PIDFD, (id_t)c->pidfd, &info, WEXITED) != 0 && errno == EINTR)
		;
	/* If this process is a subreaper, the child's own children are now ours. */
	while (waitpid(-c->pid, NULL, 0) > 0 || errno == EINTR)
		;
	c->how = (struct launch_event){ at, info.si_code != CLD_EXITED, info.si_status };
	epoll_ctl(set->epoll, EPOLL_CTL_DEL, c->pidfd, NULL);
	close(c->pidfd);
	c->pidfd = -1;
	if (c->pid_path)
		unlink(c->pid_path);
	hang_up(c);
	set->running--;
}

/* A process that cannot be watched, or whose pid file cannot be written, is killed at once: a
 * process without an entry here would outlive its run. Later signals go to the pidfd and not to the
 * number, because a number can be used again. */
enum err_code launch_start(struct launch_set *set, const struct launch_spec *spec, size_t *child,
    struct err *e)
{
	struct epoll_event ev = { .events = EPOLLIN };
	enum err_code rc = find_child_place(set, spec->id, child, e);
	struct child *c = &set->child[*child];
	pid_t pid;

	if (rc != ERR_OK)
		return rc;
	c->ignores_term = spec->ignores_term;
	rc = spawn(spec, &pid, &c->line, e);
	if (rc != ERR_OK)
		return rc;
	c->pid = pid;
	/* No other code can have reaped it, so the number is still its own. */
	c->pidfd = pidfd_open(pid, 0);
	if (c->pidfd < 0) {
		rc = err_sys(e, ERR_IO, "cannot watch process %d", (int)pid);
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		hang_up(c);
		return rc;
	}
	set->running++;
	ev.data.u64 = *child;
	if (epoll_ctl(set->epoll, EPOLL_CTL_ADD, c->pidfd, &ev) != 0)
		rc = err_sys(e, ERR_IO, "cannot watch process %d", (int)pid);
	else
		rc = write_pid_file(c, e);
	if (rc != ERR_OK) {
		launch_signal(set, *child, SIGKILL);
		reap_group(set, *child);
	}
	return rc;
}

/* A negative timeout waits without end. The time left is rounded up to milliseconds, so that the
 * loop does not spin in the last one, and is cut to an hour, so that it fits an int. The event is
 * of a process that has ended and been reaped, with its group. */
enum err_code launch_wait(struct launch_set *set, int64_t timeout_ns, struct launch_event *event,
    struct err *e)
{
	int64_t end = clock_now() + timeout_ns;
	struct epoll_event ev;
	int n;

	if (set->running == 0)
		return err_set(e, ERR_NOTFOUND, "no process is running");
	for (;;) {
		int64_t left = end - clock_now();
		int ms = timeout_ns < 0          ? -1
		    : left <= 0                  ? 0
		    : left > 3600 * NSEC_PER_SEC ? 3600000
		                                 : (int)((left + 999999) / NSEC_PER_MSEC);

		n = epoll_wait(set->epoll, &ev, 1, ms);
		if (n > 0)
			break;
		if (n < 0 && errno != EINTR)
			return err_sys(e, ERR_IO, "cannot wait for processes");
		if (timeout_ns >= 0 && clock_now() >= end)
			return err_set(e, ERR_TIMEOUT, "%zu process%s still running", set->running,
			    set->running == 1 ? " is" : "es are");
	}
	reap_group(set, (size_t)ev.data.u64);
	*event = set->child[ev.data.u64].how;
	return ERR_OK;
}

int launch_fd(const struct launch_set *set)
{
	return set->epoll;
}

size_t launch_count(const struct launch_set *set)
{
	return set->n;
}

size_t launch_running(const struct launch_set *set)
{
	return set->running;
}

bool launch_alive(const struct launch_set *set, size_t child)
{
	return set->child[child].pidfd >= 0;
}

pid_t launch_pid(const struct launch_set *set, size_t child)
{
	return set->child[child].pid;
}

const char *launch_id(const struct launch_set *set, size_t child)
{
	return set->child[child].id;
}

struct launch_event launch_status(const struct launch_set *set, size_t child)
{
	return set->child[child].how;
}

void launch_signal(struct launch_set *set, size_t child, int sig)
{
	struct child *c = &set->child[child];

	if (c->pidfd >= 0 && c->line >= 0 && sig == SIGTERM)
		write_leave(c);
	else if (c->pidfd >= 0)
		pidfd_send_signal(c->pidfd, c->ignores_term && sig == SIGTERM ? SIGINT : sig, NULL,
		    0);
}

enum err_code launch_tell(struct launch_set *set, size_t child, const void *data, size_t n,
    struct err *e)
{
	const struct child *c = &set->child[child];
	ssize_t put = c->line < 0 ? (errno = EPIPE, -1) : write(c->line, data, n);

	if (put == (ssize_t)n)
		return ERR_OK;
	if (put < 0 && errno == EPIPE)
		return err_set(e, ERR_CLOSED, "%s no longer listens", c->id);
	return err_set(e, ERR_LIMIT, "%s does not listen: it has not read the earlier messages",
	    c->id);
}

void launch_signal_all(struct launch_set *set, int sig)
{
	for (size_t i = 0; i < set->n; i++)
		launch_signal(set, i, sig);
}

/* All processes share the one grace period. False: some had to be killed. A grace of 0 kills at
 * once. */
bool launch_stop_all(struct launch_set *set, int64_t grace_ns)
{
	int64_t end = clock_now() + grace_ns;
	struct launch_event event;
	bool killed = false;

	if (grace_ns > 0)
		launch_signal_all(set, SIGTERM);
	while (set->running > 0) {
		int64_t left = killed ? -1 : end - clock_now();

		if (!killed && left <= 0) {
			killed = true;
			left = -1;
			launch_signal_all(set, SIGKILL);
		}
		launch_wait(set, left, &event, NULL);
	}
	return !killed;
}
