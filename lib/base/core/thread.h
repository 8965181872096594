/* SPDX-License-Identifier: ISC */
#ifndef CORE_THREAD_H
#define CORE_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"

/* Starts a thread that runs run(ctx), with the signal mask of the caller. The caller joins it.
 * ERR_IO: the system has no memory for its stack, or too many threads; *out is then undefined. Any
 * thread. */
enum err_code thread_start(pthread_t *out, void *(*run)(void *ctx), void *ctx, struct err *e);

/* Makes a waiting thread give up: the interrupting thread makes fd readable, and every wait polls
 * fd, too. It stays readable, so all later waits end at once. */
struct interrupt {
	int fd; /* readable: give up */
	/* Called in the waiting thread before and now and then during a wait; it may make fd
	 * readable. NULL: not called. */
	void (*ask)(void *ctx);
	void *ctx;
};

/* Shall the thread give up? NULL: never. */
bool interrupt_came(const struct interrupt *i);
/* Waits for at most `ns`. True: the thread shall give up. */
bool interrupt_await(const struct interrupt *i, int64_t ns);
/* The descriptor to poll; -1 for NULL, which poll ignores. */
static inline int interrupt_fd(const struct interrupt *i)
{
	return i ? i->fd : -1;
}

#endif
