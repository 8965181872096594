/* SPDX-License-Identifier: ISC */
#include <stdio.h>
#include <string.h>

#include "core/num.h"
#include "sync/sync.h"

/* Stale synchronous (Q. Ho et al., More effective distributed ML via a stale synchronous parallel
 * parameter server, NIPS 2013). A push is applied on arrival; a worker at step N waits until all
 * others have completed the steps before N - S, and then sees all updates of those steps.
 * ssp:S:NAME compensates the staleness of pushes (optim/stale.h). */

static bool parse_ssp(const char *argument, struct sync_mode *m)
{
	size_t n = argument ? strcspn(argument, ":") : 0;
	char number[16];

	if (!n || n >= sizeof number)
		return false;
	snprintf(number, sizeof number, "%.*s", (int)n, argument);
	return (!argument[n] || stale_parse(argument + n + 1, &m->stale)) &&
	    num_uint(number, SYNC_STALENESS_MAX, &m->staleness);
}

static void format_ssp(const struct sync_mode *m, char out[static 32])
{
	char stale[STALE_TEXT];

	stale_format(&m->stale, stale);
	snprintf(out, 32, "ssp:%u%s", (unsigned)m->staleness, stale);
}

static uint64_t needed_by_ssp(const struct sync_mode *m, uint64_t step)
{
	return step > m->staleness ? step - m->staleness : 0;
}

static bool may_pull_ssp(const struct sync *s, uint64_t step)
{
	uint64_t needed = needed_by_ssp(&s->mode, step);

	return !needed || needed <= sync_least_clock(s);
}

static bool steps_done_ssp(const struct sync *s, uint64_t end)
{
	return sync_least_clock(s) >= end;
}

static uint64_t clock_max_ssp(const struct sync *s)
{
	(void)s;
	return SYNC_NEVER;
}

const struct sync_ops sync_ssp = {
	.name = "ssp",
	.accepts = "ssp:S or ssp:S:C with S from 0 to 1000000, where C is " STALE_FORMS,
	.help = "stale synchronous: applied on arrival, no worker more than S steps ahead; "
	        "ssp:S:scaled, :dc or :dca: made up for staleness",
	.bounds_staleness = true,
	.parse = parse_ssp,
	.format = format_ssp,
	.needed = needed_by_ssp,
	.may_pull = may_pull_ssp,
	.may_prefetch = may_pull_ssp,
	.steps_done = steps_done_ssp,
	.clock_max = clock_max_ssp,
};
