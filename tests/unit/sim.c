/* SPDX-License-Identifier: ISC */
/* The simulation against what can be worked out by hand. */
#include <math.h>
#include <string.h>

#include "lab/sim.h"
#include "tap.h"

/* One worker, one server, nothing that costs anything. */
static struct sim_spec plain(void)
{
	return (struct sim_spec){ .workers = 1,
		.servers = 1,
		.replicas = 1,
		.sync = { .ops = &sync_bsp },
		.lanes = 1,
		.crowded = 1,
		.compute = { .seconds = 0.05, .times = 1 },
		.slow = { .times = 1 },
		.seed = 1 };
}

static struct sim_result run(const struct sim_spec *p)
{
	struct sim_result r = { 0 };
	struct err e = { 0 };

	if (sim_run(p, &r, &e))
		printf("# %s\n", e.msg);
	return r;
}

static bool near(double a, double b, double by)
{
	if (fabs(a - b) <= by * fabs(b) + 1e-12)
		return true;
	printf("# %.6g is not %.6g\n", a, b);
	return false;
}

static void links(void)
{
	struct sim_spec p = plain();
	struct sim_result r;

	r = run(&p);
	ok(near(r.step_seconds, 0.05, 1e-9), "with nothing in the way a step is its computation");
	p.worker = (struct sim_link){ 1e6, 2e6, 0.01 };
	p.push_bytes = 100e3;
	p.pull_bytes = 400e3;
	r = run(&p);
	ok(near(r.step_seconds, 0.05 + 0.1 + 0.2 + 0.02, 0.001),
	    "one worker on a slow link: compute + up + down + a round trip");
	ok(near(r.compute_seconds, 0.05, 0.001) && near(r.push_seconds, 0.11, 0.001) &&
	        near(r.pull_seconds + r.wait_seconds, 0.21, 0.001),
	    "and its parts are those");
	ok(near(r.worker_up, 0.1 / 0.37, 0.01) && near(r.worker_down, 0.2 / 0.37, 0.01),
	    "so busy are its links");
	p.server = (struct sim_link){ 0.5e6, 0.5e6, 0 };
	r = run(&p);
	ok(near(r.step_seconds, 0.05 + 0.2 + 0.8 + 0.02, 0.002),
	    "of two links the slower counts, not both");
	p.workers = 4;
	r = run(&p);
	/* A little less: who has its last piece first computes while others pull. */
	ok(near(r.step_seconds, 0.05 + 0.8 + 3.2 + 0.02, 0.05),
	    "four workers share the server's link");
	p.servers = 4;
	p.worker = (struct sim_link){ 0 };
	r = run(&p);
	ok(near(r.step_seconds, 0.05 + 0.2 + 0.8, 0.05), "and four servers have four links");
	p.worker = (struct sim_link){ 1e6, 1e6, 0 };
	p.server = (struct sim_link){ 0 };
	r = run(&p);
	ok(near(r.step_seconds, 0.05 + 0.1 + 0.4, 0.02),
	    "a worker's link is shared by its servers");
}

static void prefetch(void)
{
	struct sim_spec p = plain();
	struct sim_result r;

	p.workers = 2;
	p.worker = (struct sim_link){ 1e6, 1e6, 0 };
	p.push_bytes = p.pull_bytes = 1e6;
	p.pieces = 64;
	r = run(&p);
	ok(near(r.step_seconds, 0.05 + 1 + 1, 0.01), "up, then down");
	p.prefetch = true;
	r = run(&p);
	ok(near(r.step_seconds, 0.05 + 1 + 1.0 / 64, 0.01),
	    "prefetch: both at a time, but for the last piece");
	p.servers = p.replicas = 2;
	r = run(&p);
	ok(near(r.step_seconds, 0.05 + 1 + 1.0 / 64, 0.02), "through copies, too");
}

static void cpus(void)
{
	struct sim_spec p = plain();
	struct sim_result r;

	p.workers = 4;
	p.cores = 2;
	r = run(&p);
	ok(near(r.step_seconds, 0.1, 1e-6) && near(r.host_cpu, 1, 1e-6),
	    "4 workers on 2 cores take twice as long as each on its own");
	p.workers = 2;
	p.crowded = 1.5;
	r = run(&p);
	ok(near(r.step_seconds, 0.075, 1e-6), "and as much longer as busy neighbours make it");
	p.workers = 3;
	p.crowded = 1;
	p.slow.workers = 1;
	p.slow.times = 2;
	/* 3 share 2 cores until the two have their 0.05; the slow one has 0.05 left. */
	r = run(&p);
	ok(near(r.step_seconds, 0.075 + 0.05, 1e-6),
	    "what is left when others have ended goes at full speed");
	p = plain();
	p.workers = 3;
	p.take_push = 0.01;
	r = run(&p);
	ok(near(r.step_seconds, 0.05 + 0.03, 1e-6),
	    "one thread of a server sums three pushes one after the other");
	p.lanes = 3;
	r = run(&p);
	ok(near(r.step_seconds, 0.05 + 0.01, 1e-6), "three at once");
	p = plain();
	p.push_bytes = p.pull_bytes = 1e6;
	p.worker = (struct sim_link){ 1e7, 1e7, 0 };
	p.send_push = 0.1;
	p.pieces = 64;
	r = run(&p);
	ok(near(r.step_seconds, 0.05 + 0.1 + 0.1, 0.01), "writing and the link overlap");
	p.make_push = 0.02;
	p.make_pull = 0.04;
	p.ahead = 5e5;
	r = run(&p);
	ok(near(r.step_seconds, 0.07 + 0.1 + 0.02 + 0.1, 0.01),
	    "what is made before does not: all of a push, the first of what is pulled");
	p.make_push = p.make_pull = 0;
	p.cores = 1;
	p.carried = 1e-7;
	p.send_push = 0;
	r = run(&p);
	ok(near(r.step_seconds, 0.05 + 0.1 + 0.1, 0.02),
	    "a proxy's work for a byte overlaps with the link");
}

static void modes(void)
{
	struct sim_spec p = plain();
	struct sim_result bsp, other;
	double before;

	p.workers = 4;
	p.steps = 50;
	p.slow.workers = 1;
	p.slow.times = 3;
	bsp = run(&p);
	ok(near(bsp.step_seconds, 0.15, 1e-6), "bsp: a step takes as long as the slowest");
	ok(near(bsp.compute_seconds + bsp.push_seconds + bsp.wait_seconds + bsp.pull_seconds, 0.15,
	       0.01),
	    "and the others wait: the parts make up the step");
	p.sync.backup = 1;
	other = run(&p);
	ok(near(other.step_seconds, 0.05, 1e-6) && near(other.gradients_per_second, 3 / 0.05, 0.01),
	    "backup 1: as long as the second slowest");
	ok(other.late_share > 0, "and what the slowest has done is late (%.2f)", other.late_share);
	p.sync = (struct sync_mode){ .ops = &sync_asp };
	other = run(&p);
	ok(near(other.gradients_per_second, 3 / 0.05 + 1 / 0.15, 0.03),
	    "asp: each at its own pace");
	p.sync = (struct sync_mode){ .ops = &sync_ssp, .staleness = 3 };
	other = run(&p);
	ok(near(other.step_seconds, 0.15, 0.05),
	    "ssp does not help against one that is always slow");

	p.compute = (struct compute_time){ .seconds = 0.05, .chance = 0.1, .times = 5 };
	p.slow = (struct sim_slow){ 0 };
	p.sync = (struct sync_mode){ .ops = &sync_bsp };
	p.steps = 2000;
	bsp = run(&p);
	/* The slowest of four is slow with probability 1 - 0.9^4. */
	ok(near(bsp.step_seconds, 0.05 + 0.2 * (1 - pow(0.9, 4)), 0.06),
	    "bsp pays for whoever is slow now");
	before = bsp.step_seconds;
	for (unsigned k = 0; k < 3; k++) {
		p.sync = (struct sync_mode){ .ops = &sync_ssp, .staleness = 1 + 3 * k };
		other = run(&p);
		ok(other.step_seconds < before, "ssp:%u evens that out (%.4f after %.4f)",
		    1 + 3 * k, other.step_seconds, before);
		before = other.step_seconds;
	}
	p.sync = (struct sync_mode){ .ops = &sync_asp };
	other = run(&p);
	ok(near(other.step_seconds, 0.05 * 0.9 + 0.25 * 0.1, 0.05), "asp pays the mean");
	p.sync = (struct sync_mode){ .ops = &sync_ssp, .staleness = 0 };
	other = run(&p);
	ok(near(other.step_seconds, bsp.step_seconds, 0.02), "ssp:0 waits as bsp does");
}

static void copies(void)
{
	struct sim_spec p = plain();
	struct sim_result r;

	p.servers = p.replicas = 3;
	p.lanes = 3;
	p.compute.seconds = 0.3;
	p.update = 0.03;
	p.take_copy = 0.3;
	p.pieces = 10;
	r = run(&p);
	/* Of each server's third: an update of 0.01, and 0.1 at each of two copies, which
	 * send on when they have taken what has come. */
	ok(near(r.step_seconds, 0.3 + 0.01 + 0.2, 0.01),
	    "parameters are shown when the last copy has them (%.3f)", r.step_seconds);
	p.replicas = 1;
	r = run(&p);
	ok(near(r.step_seconds, 0.3 + 0.01, 0.001), "without copies at once");
	p.replicas = 3;
	p.sync.ops = &sync_asp;
	p.update = 0;
	r = run(&p);
	ok(near(r.step_seconds, 0.3 + 0.2, 0.01), "asp waits for copies, too");
}

static void alike(void)
{
	struct sim_spec p = plain();
	struct sim_result a, b;

	p.workers = 8;
	p.servers = 2;
	p.push_bytes = p.pull_bytes = 1e6;
	p.worker = (struct sim_link){ 1e8, 1e8, 0.001 };
	p.compute = (struct compute_time){ .seconds = 0.05, .chance = 0.05, .times = 7 };
	a = run(&p);
	b = run(&p);
	ok(memcmp(&a, &b, sizeof a) == 0, "equal seeds give equal results");
	p.seed = 2;
	b = run(&p);
	ok(a.step_seconds != b.step_seconds, "others do not");
}

static bool compute_is(const char *text, double seconds, double chance, double times)
{
	struct compute_time c = { 0 };

	return !compute_time_parse(text, &c, NULL) && near(c.seconds, seconds, 1e-12) &&
	    near(c.chance, chance, 1e-12) && near(c.times, times, 1e-12);
}

static bool refused(const char *text)
{
	struct compute_time c = { 0 };
	struct err e = { 0 };

	return compute_time_parse(text, &c, &e) == ERR_CONFIG && strstr(e.msg, text);
}

static void words(void)
{
	struct sim_slow c = { 0 };
	struct sim_spec p = plain();
	struct sim_result r;
	struct err e;

	ok(compute_is("50ms", 0.05, 0, 1) && compute_is("2s,5%x7", 2, 0.05, 7),
	    "times of computing are read");
	ok(refused("50") == false && refused("x") && refused("50ms,") && refused("50ms,5x7") &&
	        refused("50ms,5%") && refused("50ms,101%x2") && refused("50ms,5%x-1") &&
	        refused("-1s"),
	    "and refused");
	ok(!sim_parse_slow("2x3", &c, NULL) && c.workers == 2 && c.times == 3,
	    "so are slow workers");
	ok(sim_parse_slow("x3", &c, &e) && sim_parse_slow("2", &c, &e) &&
	        sim_parse_slow("0x2", &c, &e) && sim_parse_slow("1x0", &c, &e),
	    "what is none is refused");
	p.workers = 2000000;
	ok(sim_run(&p, &r, &e) == ERR_CONFIG, "too many workers are refused");
	p = plain();
	p.compute.seconds = 0;
	ok(sim_run(&p, &r, &e) == ERR_CONFIG && strstr(e.msg, "no time"),
	    "and steps that take no time");
	ok(sim_parse_slow("1x1e7", &c, &e) == ERR_CONFIG && refused("50ms,5%x1e7") &&
	        refused("1000000h"),
	    "and what is out of all bounds");
}

/* A figure that is no number, or could add up to none, is named. */
static void nonsense(void)
{
	static const double wrong[] = { -1, NAN, INFINITY, -INFINITY, 1e300 };
	struct sim_spec p = plain();
	double *const field[] = { &p.push_bytes, &p.pull_bytes, &p.ask_bytes, &p.copy_bytes, &p.ask,
		&p.make_push, &p.send_push, &p.take_push, &p.make_pull, &p.send_pull, &p.take_pull,
		&p.ahead, &p.update, &p.send_copy, &p.take_copy, &p.carried, &p.crowded,
		&p.compute.seconds, &p.compute.chance, &p.compute.times, &p.slow.times,
		&p.worker.up, &p.worker.down, &p.worker.delay, &p.server.up, &p.server.down,
		&p.server.delay };
	unsigned taken = 0, n = sizeof field / sizeof *field;
	struct sim_result r;
	struct err e;

	p.compute = (struct compute_time){ .seconds = 0.1, .chance = 0.5, .times = 2 };
	p.slow = (struct sim_slow){ 1, 2 };
	for (unsigned i = 0; i < n; i++)
		for (unsigned k = 0; k < sizeof wrong / sizeof *wrong; k++) {
			double was = *field[i];

			*field[i] = wrong[k];
			taken += sim_run(&p, &r, &e) != ERR_CONFIG ||
			    !strstr(e.msg, "must be from");
			*field[i] = was;
		}
	ok(!taken,
	    "%u figures are refused when they are negative, no numbers or beyond all bounds (%u are not)",
	    n, taken);
	ok(sim_run(&p, &r, &e) == ERR_OK, "which they are not: %s", e.msg);
}

int main(void)
{
	links();
	prefetch();
	cpus();
	modes();
	copies();
	alike();
	words();
	nonsense();
	return tap_done();
}
