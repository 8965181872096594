/* SPDX-License-Identifier: ISC */
/* The failpoints' own counting, in every build: their source is taken in here,
 * and each case is a child that has its own environment. */
#define PS_FAULT 1
#include "lib/base/core/fail.c"

#include <sys/wait.h>

#include "tap.h"

struct outcome {
	int status; /* of waitpid */
	int passed; /* points passed before the end */
};

/* A child with PS_FAIL that passes `name` up to 20 times. */
static struct outcome pass(const char *env, const char *name)
{
	struct outcome o = { 0 };
	unsigned char n = 0;
	int fd[2];
	pid_t pid;

	if (pipe(fd))
		abort();
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		setenv("PS_FAIL", env, 1);
		if (!freopen("/dev/null", "w", stderr))
			_exit(9);
		for (int i = 0; i < 20; i++) {
			struct err e = { 0 };

			if (fail_pass(name, &e))
				_exit(e.code == ERR_FAILED ? 42 : 43);
			if (write(fd[1], "x", 1) != 1)
				_exit(9);
		}
		_exit(0);
	}
	close(fd[1]);
	waitpid(pid, &o.status, WUNTRACED);
	if (WIFSTOPPED(o.status)) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
	while (read(fd[0], &n, 1) == 1)
		o.passed++;
	close(fd[0]);
	return o;
}

static bool killed(const struct outcome *o)
{
	return WIFSIGNALED(o->status) && WTERMSIG(o->status) == SIGKILL;
}

static bool exited(const struct outcome *o, int code)
{
	return WIFEXITED(o->status) && WEXITSTATUS(o->status) == code;
}

static void counting(void)
{
	struct outcome o = pass("push_taken:3", "push_taken");

	ok(killed(&o) && o.passed == 2, "the third pass is death, unless another is given (%d)",
	    o.passed);
	o = pass("push_taken:3", "clock_after");
	ok(exited(&o, 0) && o.passed == 20, "other points count for themselves");
	o = pass("clock_after:1:kill,push_taken:5:exit", "push_taken");
	ok(exited(&o, 1) && o.passed == 4, "several, and exit (%d)", o.passed);
	o = pass("push_taken:2:stop", "push_taken");
	ok(WIFSTOPPED(o.status), "stop");
	o = pass("view_take:4:error", "view_take");
	ok(exited(&o, 42) && o.passed == 3, "error comes back to the caller");
}

static void chances(void)
{
	struct outcome a = pass("random:0.2:7", "push_taken"),
	               b = pass("random:0.2:7", "clock_after");

	ok(killed(&a) && a.passed == b.passed && a.passed < 20,
	    "random: equal seeds, equal deaths (%d)", a.passed);
	a = pass("random:0:7", "push_taken");
	ok(exited(&a, 0), "random: never, at probability 0");
	a = pass("random:1:7", "push_taken");
	ok(killed(&a) && a.passed == 0, "random: at once, at probability 1");
}

static void mistakes(void)
{
	static const char *const bad[] = { "push_taken", "push_taken:0", "push_taken:x",
		"push_taken:1:burn", "nowhere:1", "push_taken:1:error", "random:2:1", "random:0.1",
		"push_taken:1:kill:2" };

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		struct outcome o = pass(bad[i], "push_taken");

		ok(exited(&o, 2) && o.passed == 0, "PS_FAIL=%s is refused", bad[i]);
	}
}

int main(void)
{
	counting();
	chances();
	mistakes();
	return tap_done();
}
