/* SPDX-License-Identifier: ISC */
#include "core/thread.h"

#include <errno.h>
#include <poll.h>

#include "core/clock.h"

enum err_code thread_start(pthread_t *out, void *(*run)(void *ctx), void *ctx, struct err *e)
{
	/* pthread_create does not set errno. */
	int why = pthread_create(out, NULL, run, ctx);

	if (!why)
		return ERR_OK;
	errno = why;
	return err_sys(e, ERR_IO, "cannot start a thread");
}

bool interrupt_await(const struct interrupt *i, int64_t ns)
{
	struct pollfd p = { interrupt_fd(i), POLLIN, 0 };

	if (i && i->ask)
		i->ask(i->ctx);
	return poll(&p, 1, clock_poll_timeout(ns)) > 0;
}

bool interrupt_came(const struct interrupt *i)
{
	return interrupt_await(i, 0);
}
