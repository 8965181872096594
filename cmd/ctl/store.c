/* SPDX-License-Identifier: ISC */
#include "store.h"

#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static atomic_bool stop;

static void request_store_stop(int sig)
{
	(void)sig;
	atomic_store(&stop, true);
}

static void warn_of_retry(const char *why)
{
	fprintf(stderr, "ps-ctl: warning: %s\n", why);
}

enum err_code store_open(int64_t timeout, struct object_client **out, struct err *e)
{
	struct object_wishes w = { .timeout = timeout,
		.stop = &stop,
		.reader = STDOUT_FILENO,
		.again = warn_of_retry };
	struct sigaction action = { .sa_handler = request_store_stop };

	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGHUP, &action, NULL);
	return object_client_new(&w, out, e);
}

enum err_code store_put_file(struct object_client *c, const char *path, const char *name,
    struct err *e)
{
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : STDIN_FILENO;
	enum err_code rc;

	if (fd < 0)
		return err_sys(e, ERR_IO, "cannot open \"%s\"", path);
	rc = object_put(c, name, fd, e);
	if (path)
		close(fd);
	return rc;
}
