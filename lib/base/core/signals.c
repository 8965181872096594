/* SPDX-License-Identifier: ISC */
#include "core/signals.h"

const int signals_stray[] = { SIGALRM, SIGXCPU, SIGPOLL, SIGPWR };
const size_t signals_nstray = sizeof signals_stray / sizeof *signals_stray;

void signals_ignore_stray(const int *more)
{
	for (size_t i = 0; i < signals_nstray; i++)
		signal(signals_stray[i], SIG_IGN);
	while (more && *more)
		signal(*more++, SIG_IGN);
}

bool signals_end_is_pending(void)
{
	sigset_t pending;

	return sigpending(&pending) == 0 &&
	    (sigismember(&pending, SIGTERM) || sigismember(&pending, SIGINT));
}
