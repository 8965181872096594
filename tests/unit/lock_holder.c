/* SPDX-License-Identifier: ISC */
/* The process that holds a lock and is stopped (core/lock_holder.h). */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/lock_holder.h"
#include "tap.h"

/* A child that locks the file, stops itself, and waits for its end when it goes on. */
static pid_t start_holder(const char *path)
{
	pid_t pid = fork();
	int fd;

	if (pid)
		return pid;
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0 || flock(fd, LOCK_EX))
		_exit(1);
	raise(SIGSTOP);
	for (;;)
		pause();
}

int main(void)
{
	const char *dir = getenv("TMPDIR");
	char path[256];
	int fd, pid = 0, process, status;
	pid_t child;

	snprintf(path, sizeof path, "%s/pskit-lock_holder.%d", dir ? dir : "/tmp", (int)getpid());
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0)
		abort();
	ok(lock_holder_stopped(fd, &pid) < 0, "a file that nobody has locked has no holder");
	child = start_holder(path);
	ok(waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status),
	    "a process locks it and is stopped");
	process = lock_holder_stopped(fd, &pid);
	ok(process >= 0 && pid == child && flock(fd, LOCK_EX | LOCK_NB), "it is found by the lock");
	kill(child, SIGCONT);
	ok(waitpid(child, &status, WCONTINUED) == child && lock_holder_stopped(fd, &pid) < 0,
	    "but not while it runs");
	ok(pidfd_send_signal(process, SIGKILL, NULL, 0) == 0 &&
	        waitpid(child, &status, 0) == child && !flock(fd, LOCK_EX | LOCK_NB),
	    "once it is ended, another one gets the lock");
	close(process);
	close(fd);
	unlink(path);
	return tap_done();
}
