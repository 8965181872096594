/* SPDX-License-Identifier: ISC */
#include "core/interrupt.h"

#include <poll.h>

bool interrupt_came(const struct interrupt *i)
{
	struct pollfd p = { interrupt_fd(i), POLLIN, 0 };

	if (i && i->ask)
		i->ask(i->ctx);
	return p.fd >= 0 && poll(&p, 1, 0) > 0;
}
