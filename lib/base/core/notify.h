/* SPDX-License-Identifier: ISC */
#ifndef CORE_NOTIFY_H
#define CORE_NOTIFY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "core/err.h"

/* The protocol between a service manager and its service: sd_notify(3), sd_watchdog_enabled(3) and
 * sd_listen_fds(3), without libsystemd. One thread owns a struct notify. */
struct notify {
	int fd; /* -1: no manager listens */
	struct sockaddr_un to;
	socklen_t to_len;
	/* the manager wants a sign of life within this many ns; 0: never */
	int64_t watchdog;
};

/* Reads NOTIFY_SOCKET (a path, or "@" and an abstract name), WATCHDOG_USEC and WATCHDOG_PID.
 * Without them, or when they are unusable, all other calls do nothing. */
void notify_open(struct notify *n);
/* Sends one message, lines of NAME=VALUE, without blocking. False when it was not sent. */
bool notify_say(struct notify *n, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void notify_close(struct notify *n);

/* Takes listening TCP sockets from LISTEN_FDS: fd[i] is the one that LISTEN_FDNAMES calls name[i],
 * else the next one without a known name; -1: none. They become non-blocking and close-on-exec, and
 * the variables are removed. ERR_CONFIG when there are more sockets than names, or sockets of other
 * kinds. */
enum err_code notify_sockets(const char *const *name, size_t n, int *fd, struct err *e);

#endif
