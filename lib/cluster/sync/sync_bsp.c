/* SPDX-License-Identifier: ISC */
#include <stdio.h>

#include "sync/sync.h"

/* Bulk synchronous (L. G. Valiant, A bridging model for parallel computation, CACM 1990). A step is
 * closed when all ranks have completed it, except as many as there are backup ranks; a worker at
 * step N sees the updates of exactly the steps before N. */

static bool parse_bsp(const char *argument, struct sync_mode *m)
{
	(void)m;
	return !argument;
}

static void format_bsp(const struct sync_mode *m, char out[static 32])
{
	(void)m;
	snprintf(out, 32, "bsp");
}

static uint64_t needed_by_bsp(const struct sync_mode *m, uint64_t step)
{
	(void)m;
	return step;
}

static bool may_pull_bsp(const struct sync *s, uint64_t step)
{
	return step <= s->closed;
}

/* One step ahead of `closed` at most: an answer that no worker waits for must not fix the
 * members of a step. */
static bool may_prefetch_bsp(const struct sync *s, uint64_t step)
{
	return step <= s->closed + 1;
}

/* Steps must be closed, not only completed. With no active rank left, nobody can push the steps
 * between the last pushed one and `end`. */
static bool steps_done_bsp(const struct sync *s, uint64_t end)
{
	if (sync_least_clock(s) == SYNC_NEVER && sync_completed(s) < end)
		end = sync_completed(s);
	return s->closed >= end;
}

static uint64_t clock_max_bsp(const struct sync *s)
{
	return s->closed + SYNC_LEAD_MAX;
}

const struct sync_ops sync_bsp = {
	.name = "bsp",
	.accepts = "bsp",
	.help = "bulk synchronous: one update per step, by the gradients of all workers",
	.sums_steps = true,
	.lockstep = true,
	.parse = parse_bsp,
	.format = format_bsp,
	.needed = needed_by_bsp,
	.may_pull = may_pull_bsp,
	.may_prefetch = may_prefetch_bsp,
	.steps_done = steps_done_bsp,
	.clock_max = clock_max_bsp,
};
