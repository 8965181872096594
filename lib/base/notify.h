#ifndef BASE_NOTIFY_H
#define BASE_NOTIFY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/err.h"

/* What a service manager and its service tell each other: the protocol of
 * sd_notify(3), sd_watchdog_enabled(3) and sd_listen_fds(3), without libsystemd.
 * One thread owns a struct notify. */
struct notify {
	int fd;                         /* -1: nobody wants to hear */
	struct sockaddr_un to;
	socklen_t to_len;
	int64_t watchdog;               /* ns within which a sign of life is wanted; 0: none is */
};

/* By NOTIFY_SOCKET (a path, or "@" and an abstract name), WATCHDOG_USEC and WATCHDOG_PID.
 * Without them, or when they are of no use, nothing is said and all calls are harmless. */
void notify_open(struct notify *n);
/* One message, lines of NAME=VALUE.  It never blocks: a manager that does not listen is not
 * waited for.  False when it is not through. */
bool notify_say(struct notify *n, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void notify_close(struct notify *n);

/* TCP sockets that listen, handed over by LISTEN_FDS: fd[i] is the one that LISTEN_FDNAMES
 * calls name[i], else the next of those that have none of the names; -1: there is none.  They
 * are non-blocking and close-on-exec then, and the variables are gone.  ERR_CONFIG when there
 * are more than names, or others. */
enum err_code notify_sockets(const char *const *name, size_t n, int *fd, struct err *e);

#endif
