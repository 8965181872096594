/* SPDX-License-Identifier: ISC */
#include <stdio.h>
#include <string.h>

#include "sync/sync.h"

/* Asynchronous (B. Recht et al., Hogwild!, NIPS 2011; J. Dean et al., Large scale distributed deep
 * networks, NIPS 2012). A push is applied on arrival, and a pull is always answered. asp:scaled divides
 * the learning rate of a push by its staleness (W. Zhang et al., Staleness-aware async-SGD for
 * distributed deep learning, IJCAI 2016). */

static bool parse_asp(const char *argument, struct sync_mode *m)
{
	m->scaled = argument && strcmp(argument, "scaled") == 0;
	return !argument || m->scaled;
}

static void format_asp(const struct sync_mode *m, char out[static 32])
{
	snprintf(out, 32, "asp%s", m->scaled ? ":scaled" : "");
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

static uint64_t rate_divisor_asp(const struct sync_mode *m, uint64_t staleness)
{
	return m->scaled && staleness > 1 ? staleness : 1;
}

const struct sync_ops sync_asp = {
	.name = "asp",
	.accepts = "asp or asp:scaled",
	.help =
	    "asynchronous: applied on arrival, no worker waits; asp:scaled: stale pushes by a smaller learning rate",
	.parse = parse_asp,
	.format = format_asp,
	.needed = needed_by_asp,
	.may_pull = may_pull_asp,
	.may_prefetch = may_pull_asp,
	.steps_done = steps_done_asp,
	.rate_divisor = rate_divisor_asp,
	.clock_max = clock_max_asp,
};
