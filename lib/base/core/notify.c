/* SPDX-License-Identifier: ISC */
#include "core/notify.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/num.h"

#define FIRST_FD    3
#define MESSAGE_MAX 1024

static bool manager_address(struct notify *n)
{
	const char *path = getenv("NOTIFY_SOCKET");
	size_t len = path ? strlen(path) : 0;

	if (len < 2 || len > sizeof n->to.sun_path - 1 || (path[0] != '/' && path[0] != '@'))
		return false;
	n->to = (struct sockaddr_un){ .sun_family = AF_UNIX };
	memcpy(n->to.sun_path, path, len);
	n->to_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len + 1);
	/* An abstract name begins with a zero byte; its length counts, not a NUL. */
	if (path[0] == '@') {
		n->to.sun_path[0] = 0;
		n->to_len--;
	}
	return true;
}

/* A number from the environment; the default when it is not one. */
static int64_t env_number(const char *name, int64_t deflt)
{
	const char *text = getenv(name);
	int64_t v = deflt;

	if (text)
		num_int(text, 1, INT64_MAX / 1000, &v);
	return v;
}

void notify_open(struct notify *n)
{
	*n = (struct notify){ .fd = -1 };
	if (!manager_address(n))
		return;
	n->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (env_number("WATCHDOG_PID", getpid()) == getpid())
		n->watchdog = 1000 * env_number("WATCHDOG_USEC", 0);
}

bool notify_say(struct notify *n, const char *fmt, ...)
{
	char text[MESSAGE_MAX];
	va_list ap;
	int len;

	if (n->fd < 0)
		return false;
	va_start(ap, fmt);
	len = vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	if (len <= 0 || len >= (int)sizeof text)
		return false;
	return sendto(n->fd, text, (size_t)len, MSG_NOSIGNAL, (const struct sockaddr *)&n->to,
	           n->to_len) == len;
}

void notify_close(struct notify *n)
{
	if (n->fd >= 0)
		close(n->fd);
	n->fd = -1;
}

/* ---- sockets that are there already ---- */

static bool is_tcp_listener(int fd)
{
	int listens = 0, family = 0;
	socklen_t len = sizeof listens;

	return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &len) == 0 && listens &&
	    getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &len) == 0 &&
	    (family == AF_INET || family == AF_INET6);
}

/* The index in `name` of the k-th word of "a:b:c"; n when it is not there. */
static size_t name_index(const char *words, size_t k, const char *const *name, size_t n)
{
	size_t len;

	for (; words && k > 0; k--) {
		words = strchr(words, ':');
		words += words != NULL;
	}
	len = words ? strcspn(words, ":") : 0;
	for (size_t i = 0; i < n; i++)
		if (words && strlen(name[i]) == len && strncmp(words, name[i], len) == 0)
			return i;
	return n;
}

/* systemd's protocol (sd_listen_fds(3)): descriptors from 3 on, with their names in LISTEN_FDNAMES,
 * joined by colons. Sockets with a name that we know go to its place first; the others then fill
 * the free places in order. The variables are removed, so that no child takes the sockets for its
 * own. */
enum err_code notify_sockets(const char *const *name, size_t n, int *fd, struct err *e)
{
	int64_t given = env_number("LISTEN_PID", 0) == getpid() ? env_number("LISTEN_FDS", 0) : 0;
	const char *words = getenv("LISTEN_FDNAMES");
	enum err_code rc = ERR_OK;
	size_t next = 0;

	for (size_t i = 0; i < n; i++)
		fd[i] = -1;
	if (given > (int64_t)n)
		rc = err_set(e, ERR_CONFIG,
		    "LISTEN_FDS: received %lld sockets, but can use only %zu", (long long)given, n);
	for (int64_t k = 0; rc == ERR_OK && k < given; k++) {
		size_t at = name_index(words, (size_t)k, name, n);
		int given_fd = FIRST_FD + (int)k;

		if (!is_tcp_listener(given_fd))
			rc = err_set(e, ERR_CONFIG,
			    "LISTEN_FDS: descriptor %d is not a listening TCP socket: the socket "
			    "unit must have ListenStream=PORT and Accept=no",
			    given_fd);
		else
			fcntl(given_fd, F_SETFL, fcntl(given_fd, F_GETFL) | O_NONBLOCK);
		fcntl(given_fd, F_SETFD, FD_CLOEXEC);
		if (at < n)
			fd[at] = given_fd;
	}
	for (int64_t k = 0; rc == ERR_OK && k < given; k++) {
		if (name_index(words, (size_t)k, name, n) < n)
			continue;
		while (next < n && fd[next] >= 0)
			next++;
		if (next < n)
			fd[next] = FIRST_FD + (int)k;
	}
	unsetenv("LISTEN_PID");
	unsetenv("LISTEN_FDS");
	unsetenv("LISTEN_FDNAMES");
	return rc;
}
