/* SPDX-License-Identifier: ISC */
#include <stdio.h>

#include "sync/sync.h"

/* Asynchronous (B. Recht et al., Hogwild!, NIPS 2011; J. Dean et al., Large scale distributed deep
 * networks, NIPS 2012). A push is applied on arrival, and a pull is always answered. asp:NAME
 * compensates the staleness of pushes (optim/stale.h). */

static bool parse_asp(const char *argument, struct sync_mode *m)
{
	return !argument || stale_parse(argument, &m->stale);
}

static void format_asp(const struct sync_mode *m, char out[static 32])
{
	char stale[STALE_TEXT];

	stale_format(&m->stale, stale);
	snprintf(out, 32, "asp%s", stale);
}

static uint64_t needed_by_asp(const struct sync_mode *m, uint64_t step)
{
	(void)m;
	(void)step;
	return 0;
}

static bool may_pull_asp(const struct sync *s, uint64_t step)
{
	(void)s;
	(void)step;
	return true;
}

static bool steps_done_asp(const struct sync *s, uint64_t end)
{
	return sync_least_clock(s) >= end;
}

static uint64_t clock_max_asp(const struct sync *s)
{
	(void)s;
	return SYNC_NEVER;
}

const struct sync_ops sync_asp = {
	.name = "asp",
	.accepts = "asp or asp:C, where C is " STALE_FORMS,
	.help =
	    "asynchronous: applied on arrival, no worker waits; asp:scaled, asp:dc, asp:dca: made up for staleness",
	.parse = parse_asp,
	.format = format_asp,
	.needed = needed_by_asp,
	.may_pull = may_pull_asp,
	.may_prefetch = may_pull_asp,
	.steps_done = steps_done_asp,
	.clock_max = clock_max_asp,
};
