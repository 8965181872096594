/* SPDX-License-Identifier: ISC */
/* Spinning ends when it should, and gives way: where another thread wants the core it stops.
 * Alone: beside others it would have to. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "core/clock.h"
#include "core/spin.h"
#include "tap.h"

static _Atomic bool over;

static void *hog(void *ctx)
{
	while (!atomic_load(&over))
		;
	return ctx;
}

static void span(void)
{
	struct spin never = { 0 }, s = { .span = 5 * NSEC_PER_MSEC };
	int64_t begin;

	spin_begin(&never);
	ok(!spin_again(&never), "a span of 0: it does not spin");
	begin = clock_now();
	spin_begin(&s);
	while (spin_again(&s))
		;
	ok(clock_now() - begin >= s.span || s.rest > 0,
	    "it ends after its span, or as it had to give way");
}

/* One core for two: the other runs, and this one soon sleeps instead. */
static void gives_way(void)
{
	struct spin s = { .span = NSEC_PER_SEC };
	int64_t begin = clock_now();
	cpu_set_t all, one;
	pthread_t t;
	int cpu = 0;

	sched_getaffinity(0, sizeof all, &all);
	while (!CPU_ISSET(cpu, &all))
		cpu++;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	if (sched_setaffinity(0, sizeof one, &one)) {
		ok(true, "# SKIP no say in which core runs this");
		return;
	}
	pthread_create(&t, NULL, hog, NULL);
	do
		for (spin_begin(&s); spin_again(&s);)
			;
	while (!s.rest && clock_now() - begin < 20 * NSEC_PER_SEC);
	ok(s.rest > 0 && s.nap > 0, "it rests for a while where another wants the core");
	spin_begin(&s);
	ok(!spin_again(&s), "and does not even look meanwhile");
	atomic_store(&over, true);
	pthread_join(t, NULL);
	sched_setaffinity(0, sizeof all, &all);
}

int main(void)
{
	span();
	gives_way();
	return tap_done();
}
