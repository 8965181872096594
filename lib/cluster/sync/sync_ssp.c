/* SPDX-License-Identifier: ISC */
#include <stdio.h>
#include <string.h>

#include "core/num.h"
#include "sync/sync.h"

/* Stale synchronous (Q. Ho et al., More effective distributed ML via a stale synchronous parallel
 * parameter server, NIPS 2013). A push is applied on arrival; a worker at step N waits until all
 * others have completed the steps before N - S, and then sees all updates of those steps.
 * ssp:S:scaled divides the learning rate of a push by its staleness, as asp:scaled does
 * (sync_asp.c). */

static bool parse_ssp(const char *argument, struct sync_mode *m)
{
	size_t n = argument ? strcspn(argument, ":") : 0;
	char number[16];

	if (!n || n >= sizeof number)
		return false;
	snprintf(number, sizeof number, "%.*s", (int)n, argument);
	m->scaled = strcmp(argument + n, ":scaled") == 0;
	return (m->scaled || !argument[n]) && num_uint(number, SYNC_STALENESS_MAX, &m->staleness);
}

static void format_ssp(const struct sync_mode *m, char out[static 32])
{
	snprintf(out, 32, "ssp:%llu%s", (unsigned long long)m->staleness,
	    m->scaled ? ":scaled" : "");
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

static uint64_t rate_divisor_ssp(const struct sync_mode *m, uint64_t staleness)
{
	return m->scaled && staleness > 1 ? staleness : 1;
}

const struct sync_ops sync_ssp = {
	.name = "ssp",
	.accepts = "ssp:S or ssp:S:scaled with S from 0 to 1000000",
	.help = "stale synchronous: applied on arrival, no worker more than S steps ahead; "
	        "ssp:S:scaled: stale pushes by a smaller learning rate",
	.bounds_staleness = true,
	.parse = parse_ssp,
	.format = format_ssp,
	.needed = needed_by_ssp,
	.may_pull = may_pull_ssp,
	.may_prefetch = may_pull_ssp,
	.steps_done = steps_done_ssp,
	.rate_divisor = rate_divisor_ssp,
	.clock_max = clock_max_ssp,
};
