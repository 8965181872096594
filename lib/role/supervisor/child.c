/* SPDX-License-Identifier: ISC */
#include "supervisor/child.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "core/file.h"
#include "core/mem.h"
#include "core/signals.h"
#include "supervisor/daemon.h"

int child_open_signals(void)
{
	static const int watched[] = { SIGTERM, SIGINT, SIGHUP, SIGUSR1 },
	                 ignored[] = { SIGUSR2, 0 };
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < sizeof watched / sizeof *watched; i++)
		sigaddset(&set, watched[i]);
	signals_ignore_stray(ignored);
	sigprocmask(SIG_BLOCK, &set, NULL);
	return signalfd(-1, &set, SFD_CLOEXEC);
}

int child_read_signal(int signals)
{
	struct signalfd_siginfo si;

	return read(signals, &si, sizeof si) == (ssize_t)sizeof si ? (int)si.ssi_signo : 0;
}

/* Make an argv for execv: a program in our own directory is called by its path (*path, to be
 * freed), any other name without "/" through env(1), which searches PATH. */
static const char **resolve_program(const char *bin, char *const *words, char **path)
{
	bool plain = !strchr(words[0], '/'), beside;
	const char **argv;
	size_t n = 0, m = 0;

	while (words[n])
		n++;
	argv = mem_array(n + 2, sizeof *argv);
	*path = path_join(bin, words[0]);
	beside = plain && access(*path, X_OK) == 0;
	if (plain && !beside)
		argv[m++] = "/usr/bin/env";
	argv[m++] = beside ? *path : words[0];
	memcpy(argv + m, words + 1, (n - 1) * sizeof *words);
	return argv;
}

enum err_code child_start_program(const char *id, const char *dir, char *const *words,
    bool ignores_term, struct launch_set **set, size_t *child, struct err *e)
{
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	const int pipes[2] = { null, STDOUT_FILENO };
	struct launch_spec spec = { .id = id,
		.die_with_parent = true,
		.dir = dir,
		.pipes = pipes,
		.ignores_term = ignores_term };
	char *bin = path_self_dir(e), *path = NULL;
	const char **argv = NULL;
	enum err_code rc = null < 0 ? err_sys(e, ERR_IO, "cannot open /dev/null")
	    : bin                   ? ERR_OK
	                            : e->code;

	if (rc == ERR_OK && dir && access(dir, X_OK) != 0)
		rc = err_sys(e, ERR_NOTFOUND,
		    "%s cannot run in %s, because this host does not have that directory", id, dir);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	if (rc == ERR_OK)
		rc = launch_new(NULL, set, e);
	if (rc == ERR_OK) {
		argv = resolve_program(bin, words, &path);
		spec.argv = (char *const *)argv;
		rc = launch_start(*set, &spec, child, e);
	}
	if (null >= 0)
		close(null);
	free(argv);
	free(path);
	free(bin);
	return rc;
}

int child_exit_code(const struct launch_set *set, size_t child)
{
	struct launch_event how = launch_status(set, child);

	return how.signalled ? 128 + how.status : how.status;
}
