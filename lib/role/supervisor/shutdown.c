/* SPDX-License-Identifier: ISC */
#include "supervisor/shutdown.h"

#include <dirent.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/pidfd.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/mem.h"
#include "rundir/rundir.h"

/* Pause between two attempts to take the lock. */
#define PACE_MS 20

/* Descriptors (pidfd) of the processes in the pid files of a run directory. A supervisor that was
 * killed leaves pid files behind, and their numbers may belong to other processes by now. So they
 * are opened only while the supervisor is alive, and are waited for but never signalled. */
struct children {
	int *fd;
	size_t n;
};

/* Open a pidfd for each process that has a pid file in dir. */
static void children_open(struct children *c, const char *dir)
{
	DIR *d = opendir(dir);
	struct dirent *entry;

	*c = (struct children){ NULL, 0 };
	while (d && (entry = readdir(d)) != NULL) {
		size_t len = strlen(entry->d_name);
		char id[64];
		pid_t pid;
		int fd;

		if (len < 5 || len - 4 >= sizeof id || strcmp(entry->d_name + len - 4, ".pid") != 0)
			continue;
		snprintf(id, sizeof id, "%.*s", (int)len - 4, entry->d_name);
		pid = rundir_read_pid(dir, id);
		fd = pid > 0 ? pidfd_open(pid, 0) : -1;
		if (fd < 0)
			continue;
		c->fd = mem_regrow(c->fd, c->n + 1, sizeof *c->fd);
		c->fd[c->n++] = fd;
	}
	if (d)
		closedir(d);
}

/* Wait until all have ended. False at the time `end`. */
static bool children_await_end(struct children *c, int64_t end)
{
	for (size_t i = 0; i < c->n; i++) {
		struct pollfd p = { .fd = c->fd[i], .events = POLLIN };

		while (poll(&p, 1, PACE_MS) == 0)
			if (clock_now() >= end)
				return false;
	}
	return true;
}

static void children_close(struct children *c)
{
	for (size_t i = 0; i < c->n; i++)
		close(c->fd[i]);
	free(c->fd);
}

/* Wait until no process holds the run directory's lock. False at the time `end`. */
static bool await_lock_release(const char *dir, int64_t end)
{
	while (rundir_is_alive(dir, NULL)) {
		if (clock_now() >= end)
			return false;
		clock_sleep(PACE_MS);
	}
	return true;
}

/* The lock is released when its file is closed. The process that held it may still do some last
 * work, so wait up to 1 s for the end of the process, too. */
bool shutdown_await(const char *dir, int64_t timeout_ns)
{
	int64_t end = clock_now() + timeout_ns;
	struct pollfd p = { .fd = -1, .events = POLLIN };
	pid_t pid = 0;
	bool gone;

	if (rundir_is_alive(dir, &pid) && pid > 0)
		p.fd = pidfd_open(pid, 0);
	gone = await_lock_release(dir, end);
	if (gone && p.fd >= 0)
		poll(&p, 1, 1000);
	if (p.fd >= 0)
		close(p.fd);
	return gone;
}

/* Send a signal to the process that holds the lock. After the pidfd is open, the lock is checked
 * again: otherwise the number could already belong to another process. */
static void signal_lock_holder(const char *dir, int sig)
{
	pid_t pid, again;
	int fd;

	/* A supervisor that this process has just started may not have written its process id
	 * yet. */
	for (int i = 0; rundir_is_alive(dir, &pid) && pid == getpid() && i < 1000 / PACE_MS; i++)
		clock_sleep(PACE_MS);
	if (!rundir_is_alive(dir, &pid) || pid <= 0 || pid == getpid())
		return;
	fd = pidfd_open(pid, 0);
	if (fd < 0)
		return;
	if (rundir_is_alive(dir, &again) && again == pid)
		pidfd_send_signal(fd, sig, NULL, 0);
	close(fd);
}

bool shutdown_request(const char *dir)
{
	if (!rundir_is_supervised(dir))
		return false;
	signal_lock_holder(dir, SIGUSR2);
	return true;
}

enum err_code shutdown_force(const char *dir, int64_t grace_ns, struct err *e)
{
	struct children children;
	enum err_code rc = ERR_OK;

	signal_lock_holder(dir, SIGTERM);
	if (await_lock_release(dir, clock_now() + grace_ns))
		return ERR_OK;
	children_open(&children, dir);
	signal_lock_holder(dir, SIGKILL);
	if (!await_lock_release(dir, clock_now() + 5 * NSEC_PER_SEC) ||
	    !children_await_end(&children, clock_now() + 5 * NSEC_PER_SEC))
		rc = err_set(e, ERR_FAILED, "processes of %s remain after SIGKILL", dir);
	children_close(&children);
	return rc;
}
