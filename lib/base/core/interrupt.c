/* SPDX-License-Identifier: ISC */
#include "core/interrupt.h"

#include <poll.h>

#include "core/clock.h"

bool interrupt_await(const struct interrupt *i, int64_t ns)
{
	struct pollfd p = { interrupt_fd(i), POLLIN, 0 };

	if (i && i->ask)
		i->ask(i->ctx);
	return poll(&p, 1, (int)(ns / NSEC_PER_MSEC)) > 0;
}

bool interrupt_came(const struct interrupt *i)
{
	return interrupt_await(i, 0);
}
