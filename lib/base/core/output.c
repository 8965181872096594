/* SPDX-License-Identifier: ISC */
#include "core/output.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void output_begin(void)
{
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
	/* Opened for reading only: writes to it fail, as to a closed one. */
	for (int fd = 0; fd <= 2; fd++)
		if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDONLY) < 0)
			_exit(1);
}

bool output_abandoned(void)
{
	struct pollfd out = { .fd = STDOUT_FILENO };

	return poll(&out, 1, 0) > 0 && (out.revents & POLLERR);
}

int output_end(const char *prog, int code)
{
	int failed = fflush(stdout) != 0 ? errno : 0;

	if ((!failed && !ferror(stdout)) || output_abandoned())
		return code;
	fprintf(stderr, "%s: cannot write to standard output%s%s\n", prog, failed ? ": " : "",
	    failed ? strerrordesc_np(failed) : "");
	return code ? code : 1;
}
