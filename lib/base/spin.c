#include "base/spin.h"

#include <sched.h>
#include <sys/resource.h>

#include "base/clock.h"

/* Who gives way for longer has had to wait for its turn, or the machine itself stood still. */
#define GAP (NSEC_PER_MSEC / 10)
#define NAP_MIN (NSEC_PER_MSEC / 2)
#define NAP_MAX NSEC_PER_SEC

/* How often another thread has run in this one's place. */
static long displaced(void)
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
	now_displaced = displaced();
	if (now_displaced != s->displaced) {
		s->nap = s->now - s->rest > 2 * s->nap ? NAP_MIN : s->nap < NAP_MAX / 2 ? 2 * s->nap : NAP_MAX;
		s->rest = s->now + s->nap;
	}
	s->displaced = now_displaced;
	return true;
}
