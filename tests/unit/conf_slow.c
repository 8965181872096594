/* SPDX-License-Identifier: ISC */
/* job.slow: its text, and the delays that it makes. */
#include "conf/conf_slow.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "worker/delay.h"
#include "tap.h"

static bool is(const char *text, uint32_t rank, double seconds, double chance, double times,
    double always)
{
	struct conf_slow s;
	struct err e = { 0 };

	if (conf_slow_parse(text, rank, &s, &e)) {
		printf("# %s\n", e.msg);
		return false;
	}
	return fabs(s.seconds - seconds) < 1e-9 && fabs(s.chance - chance) < 1e-9 &&
	    fabs(s.times - times) < 1e-9 && fabs(s.always - always) < 1e-9;
}

static bool refused(const char *text)
{
	struct conf_slow s;
	bool good = conf_slow_parse(text, 0, &s, NULL) == ERR_CONFIG &&
	    conf_slow_last_rank(text) == -1;

	if (!good)
		printf("# \"%s\" is not refused\n", text);
	return good;
}

static void texts(void)
{
	static const char *const bad[] = { "", "slow", "20ms,", "-1s", "0s", "20ms,30ms", "5%",
		"5%x", "5%x0.5", "101%x2", "-1%x2", "5%x2,6%x2", "worker-1", "worker-x3",
		"worker-1x0.5", "worker-1x", "worker--1x2", "none,20ms" };

	ok(is("none", 0, 0, 0, 1, 1), "none");
	ok(is("20ms,5%x7,worker-1x3,worker-4x1.5", 1, 0.02, 0.05, 7, 3),
	    "all parts, for one worker");
	ok(is("20ms,5%x7,worker-1x3,worker-4x1.5", 0, 0.02, 0.05, 7, 1), "and for another one");
	ok(is("worker-0x2", 0, 0, 0, 1, 2) && is("100%x2", 3, 0, 1, 2, 1), "single parts");
	ok(conf_slow_last_rank("worker-4x2,worker-1x2") == 4 && conf_slow_last_rank("20ms") == -1,
	    "the highest rank");
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		ok(refused(bad[i]), "\"%s\" is refused", bad[i]);
}

static double drawn(const char *text, uint32_t rank, const char *own, double took)
{
	struct compute_time t = { 0 };
	struct delay d;

	if (own)
		compute_time_parse(own, &t, NULL);
	delay_init(&d, text, &t, 1, rank);
	return delay_draw(&d, took);
}

static bool near(double a, double b)
{
	return fabs(a - b) < 1e-9;
}

static void delays(void)
{
	const struct compute_time none = { 0 };
	struct delay a, b;
	int slow = 0;
	bool same = true;

	ok(near(drawn("none", 0, NULL, 0.5), 0.5),
	    "without delays a step takes as long as it takes");
	ok(near(drawn("worker-1x3", 1, NULL, 0.5), 1.5) &&
	        near(drawn("worker-1x3", 0, NULL, 0.5), 0.5),
	    "one worker is slower");
	ok(near(drawn("20ms,100%x7,worker-1x3", 1, NULL, 0.001), 0.42), "parts are multiplied");
	ok(near(drawn("20ms,100%x7,worker-1x3", 1, "10ms", 0.001), 0.03),
	    "--compute replaces the time and the chance");
	delay_init(&a, "1s,10%x5", &none, 7, 2);
	delay_init(&b, "1s,10%x5", &none, 7, 2);
	for (int i = 0; i < 1000; i++) {
		double v = delay_draw(&a, 0);

		slow += v > 1;
		same &= near(v, delay_draw(&b, 0));
	}
	ok(slow > 60 && slow < 140 && same,
	    "a chance of 10 %%: %d of 1000, the same ones for a seed", slow);
}

int main(void)
{
	texts();
	delays();
	return tap_done();
}
