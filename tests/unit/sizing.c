/* SPDX-License-Identifier: ISC */
/* The numbers of workers and servers that a search by trials chooses. */
#include "conf/sizing.h"
#include "tap.h"

/* The speed of a simulated machine with a cluster of this size. */
typedef double machine(struct sizing size);

static double one_is_enough(struct sizing size)
{
	return size.workers > 1 ? 1040 : 1000;
}

static double each_worker_counts(struct sizing size)
{
	return 1000.0 * (double)size.workers;
}

static double two_servers_help(struct sizing size)
{
	double servers = (double)(size.servers < 2 ? 1 : 2);

	return 500.0 * (double)size.workers * servers;
}

static double four_workers_are_best(struct sizing size)
{
	return size.workers == 4 ? 2000 : 1000;
}

/* Each number alone is slower by less than the margin, all of them together by more. */
static double slowly_slower(struct sizing size)
{
	return 1000 + 30 * (double)size.workers;
}

static double always_fails(struct sizing size)
{
	return size.workers > 0 ? 0 : 1;
}

static struct sizing_trial search(machine *speed, struct sizing first, bool workers, bool servers,
    size_t *trials)
{
	struct sizing_search s;
	struct sizing size;

	sizing_begin(&s, first, workers, servers);
	while (sizing_next(&s, &size))
		sizing_take(&s, size, speed(size));
	*trials = s.n;
	return s.tried[s.best];
}

static void chooses(const char *name, machine *speed, struct sizing first, struct sizing want)
{
	size_t n;
	struct sizing_trial best = search(speed, first, true, true, &n);

	ok(best.size.workers == want.workers && best.size.servers == want.servers,
	    "%s: %lld workers and %lld servers after %zu trials", name,
	    (long long)best.size.workers, (long long)best.size.servers, n);
}

#define SIZE(workers, servers) \
	(struct sizing) \
	{ \
		workers, servers \
	}

static void searches(void)
{
	size_t n;
	struct sizing_trial best;

	chooses("a gain below the margin", one_is_enough, SIZE(2, 1), SIZE(1, 1));
	chooses("a gain for each worker", each_worker_counts, SIZE(8, 1), SIZE(8, 1));
	chooses("a gain for two servers", two_servers_help, SIZE(4, 1), SIZE(4, 2));
	chooses("half the workers", four_workers_are_best, SIZE(8, 1), SIZE(4, 1));
	chooses("small losses that add up", slowly_slower, SIZE(8, 1), SIZE(8, 1));
	best = search(each_worker_counts, SIZE(1, 1), true, true, &n);
	ok(n == 1 && best.size.workers == 1, "one worker and one server have no alternative");
	best = search(one_is_enough, SIZE(4, 1), false, true, &n);
	ok(best.size.workers == 4, "a number that was given stays");
	best = search(two_servers_help, SIZE(4, 1), true, false, &n);
	ok(best.size.servers == 1, "also that of the servers");
	search(always_fails, SIZE(8, 1), true, true, &n);
	ok(n == 1, "the search ends when the first trial fails");
	search(each_worker_counts, SIZE(64, 1), true, true, &n);
	ok(n <= SIZING_TRIALS, "a search has an end");
}

static void rules(void)
{
	struct sizing one = sizing_rule(1), two = sizing_rule(2), many = sizing_rule(1000);

	ok(one.workers == 1 && one.servers == 1, "one processor: 1 worker and 1 server");
	ok(two.workers == 2 && two.servers == 1, "two processors: 2 workers and 1 server");
	ok(many.workers == 64 && many.servers == 8, "1000 processors: 64 workers and 8 servers");
	ok(sizing_rule(0).workers == 1, "an unknown number of processors is one");
}

int main(void)
{
	searches();
	rules();
	return tap_done();
}
