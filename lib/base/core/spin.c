/* SPDX-License-Identifier: ISC */
#include "core/spin.h"

#include <sched.h>
#include <sys/resource.h>

#include "core/clock.h"

/* A yield that takes longer than this means that another thread ran, or that the machine stood
 * still. */
#define GAP     (NSEC_PER_MSEC / 10)
#define NAP_MIN (NSEC_PER_MSEC / 2)
#define NAP_MAX NSEC_PER_SEC

/* How often another thread has displaced this one. */
static long count_displaced(void)
{
	struct rusage u;

	return getrusage(RUSAGE_THREAD, &u) ? 0 : u.ru_nivcsw;
}

void spin_begin(struct spin *s)
{
	if (!s->span)
		return;
	s->now = clock_now();
	s->end = s->now + s->span;
}

/* sched_yield() that takes longer than GAP means that another thread had this processor. If the
 * kernel also counts that we were displaced, the processor is short: spinning stops for a nap,
 * which doubles while that goes on. */
bool spin_again(struct spin *s)
{
	int64_t before = s->now;
	long now_displaced;

	if (!s->span || before >= s->end || before < s->rest)
		return false;
	sched_yield();
	s->now = clock_now();
	if (s->now - before <= GAP)
		return true;
	now_displaced = count_displaced();
	if (now_displaced != s->displaced) {
		s->nap = s->now - s->rest > 2 * s->nap ? NAP_MIN
		    : s->nap < NAP_MAX / 2             ? 2 * s->nap
		                                       : NAP_MAX;
		s->rest = s->now + s->nap;
	}
	s->displaced = now_displaced;
	return true;
}
