/* SPDX-License-Identifier: ISC */
#include "core/process_one.h"

#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Passes a signal on to the program. The terminal and the kernel send theirs to the whole group, so
 * the program has those already: a second SIGINT would end it at once. */
static void pass_on(pid_t program, const siginfo_t *info)
{
	if (info->si_code <= 0)
		kill(program, info->si_signo);
}

/* Reaps every process that has ended, and exits when the program is one of them. */
static void reap(pid_t program)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		if (pid == program)
			_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

static _Noreturn void watch(pid_t program, const sigset_t *all)
{
	siginfo_t info;

	for (;;) {
		int sig = sigwaitinfo(all, &info);

		if (sig == SIGCHLD)
			reap(program);
		else if (sig > 0)
			pass_on(program, &info);
	}
}

/* Process 1 that was given sockets, or a watchdog, by the number of its process: both are for the
 * program. */
static void take_over_environment(void)
{
	static const char *const names[] = { "LISTEN_PID", "WATCHDOG_PID" };
	char number[32];

	snprintf(number, sizeof number, "%d", (int)getpid());
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		const char *is = getenv(names[i]);

		if (is && strcmp(is, "1") == 0)
			setenv(names[i], number, 1);
	}
}

/* Signals are blocked before the program exists, so that none is lost between fork and
 * sigwaitinfo. */
void process_one_begin(void)
{
	sigset_t all, before;
	pid_t pid;

	if (getpid() != 1)
		return;
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &before);
	pid = fork();
	if (pid > 0)
		watch(pid, &all);
	if (pid == 0)
		take_over_environment();
	sigprocmask(SIG_SETMASK, &before, NULL);
}
