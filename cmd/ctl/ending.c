#include "ending.h"

#include <dirent.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/pidfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "ctl.h"
#include "launch/rundir.h"

#define PACE_MS 20

/* Is a child of the cluster's left?  A supervisor that was killed leaves pid
 * files behind, whose numbers may belong to strangers by now: they are looked
 * at only while ours can still be among them, and nothing is sent to them. */
struct children {
	int *fd;
	size_t n;
};

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
		pid = ctl_read_pid(dir, id);
		fd = pid > 0 ? pidfd_open(pid, 0) : -1;
		if (fd < 0)
			continue;
		c->fd = mem_regrow(c->fd, c->n + 1, sizeof *c->fd);
		c->fd[c->n++] = fd;
	}
	if (d)
		closedir(d);
}

static bool children_gone(struct children *c, int64_t end)
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

static bool lock_gone(const char *dir, int64_t end)
{
	while (rundir_is_alive(dir, NULL)) {
		if (clock_now() >= end)
			return false;
		poll(NULL, 0, PACE_MS);
	}
	return true;
}

/* The lock goes with a closed file; the process that had it may have some last
 * things to do. */
bool ending_wait(const char *dir, int64_t timeout_ns)
{
	int64_t end = clock_now() + timeout_ns;
	struct pollfd p = { .fd = -1, .events = POLLIN };
	pid_t pid = 0;
	bool gone;

	if (rundir_is_alive(dir, &pid) && pid > 0)
		p.fd = pidfd_open(pid, 0);
	gone = lock_gone(dir, end);
	if (gone && p.fd >= 0)
		poll(&p, 1, 1000);
	if (p.fd >= 0)
		close(p.fd);
	return gone;
}

/* To who holds the lock now, and to nobody who has its number later. */
static void send(const char *dir, int sig)
{
	pid_t pid, again;
	int fd;

	/* A supervisor that we have just started may not have put its name there. */
	for (int i = 0; rundir_is_alive(dir, &pid) && pid == getpid() && i < 1000 / PACE_MS; i++)
		poll(NULL, 0, PACE_MS);
	if (!rundir_is_alive(dir, &pid) || pid <= 0 || pid == getpid())
		return;
	fd = pidfd_open(pid, 0);
	if (fd < 0)
		return;
	if (rundir_is_alive(dir, &again) && again == pid)
		pidfd_send_signal(fd, sig, NULL, 0);
	close(fd);
}

bool ending_ask(const char *dir)
{
	if (!ctl_supervised(dir))
		return false;
	send(dir, SIGUSR2);
	return true;
}

enum err_code ending_force(const char *dir, int64_t grace_ns, struct err *e)
{
	struct children children;
	enum err_code rc = ERR_OK;

	send(dir, SIGTERM);
	if (lock_gone(dir, clock_now() + grace_ns))
		return ERR_OK;
	children_open(&children, dir);
	send(dir, SIGKILL);
	if (!lock_gone(dir, clock_now() + 5 * NSEC_PER_SEC) ||
	    !children_gone(&children, clock_now() + 5 * NSEC_PER_SEC))
		rc = err_set(e, ERR_FAILED, "processes of %s are left even after SIGKILL", dir);
	children_close(&children);
	return rc;
}
