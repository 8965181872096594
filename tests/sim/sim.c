/* SPDX-License-Identifier: ISC */
#include "tests/sim/sim.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/num.h"
#include "tests/sim/scenario.h"
#include "tests/sim/states.h"

/* sim [--long] [--examples] [--trace] [--states] [--faults N] SEED... | --seeds N [--from SEED] [--until-failure]
 * [--seconds N] [--hashes] | --soak | --shorten SEED: run clusters from seeds.
 *
 * A seed is short (a few faults, and mostly 3 servers and 2 workers) or, after --long, long (scenario.c).
 * --states counts rare states (states.def) and names those that were never reached. --faults leaves out
 * all faults but the first N, and --shorten looks for the least N with which a seed still fails. --seconds
 * begins no other seed after so many seconds. --hashes prints a line for each seed. --soak runs fresh
 * seeds, one of ten of which is long, until it is interrupted, and then prints the rare states. --chain FOLDER makes the
 * runs such that the model of the chain can follow them, and writes their traces (tests/model/README). A failure prints its
 * seed and the command that replays it, and the exit code is then 1. --breaks also breaks connections between living
 * processes, and demands that each request of a checkpoint is answered. --damage changes bytes on their way between processes: a
 * session must end, and nothing else may happen. --isolate keeps servers away for so long that
 * they are lost, and lets them come back. --more adds jobs that go back to checkpoints (resume.c), relays, backup
 * workers, strikes (strikes.c), clocks that jump, short writes, and a look at what processes leave when they end.
 * With --examples, and in one of nine seeds without it, the workers are those of the product (examples.h); with --more
 * some of them train on a stream.
 * With --standby, and in one of 49 seeds without it, two coordinators share the cluster (owners.c); their
 * state is in the shared run directory or, of odd seeds, in etcd (etcd.c).
 * --plain drops these options for the seeds that follow it.
 * --breaks and --more still find faults (tests/RECORD.md), so make check runs without them. */

struct totals {
	uint64_t seeds, failed, acknowledged, faults, deliveries;
	int64_t virtual_ns;
};

/* A program that crashes takes the simulator with it. */
static uint64_t running_seed;

static void note_crash(int sig)
{
	printf("not ok seed %llu: a program crashed with signal %d\n",
	    (unsigned long long)running_seed, sig);
	fflush(stdout);
	_exit(1);
}

static void run_one(uint64_t seed, const struct scenario_limits *limits, bool talk,
    struct totals *t)
{
	struct verdict v;

	running_seed = seed;
	scenario_run(seed, limits, &v);
	t->seeds++;
	t->failed += v.failed;
	t->acknowledged += v.acknowledged;
	t->faults += v.faults;
	t->deliveries += v.deliveries;
	t->virtual_ns += v.virtual_ns;
	if (talk || v.failed)
		printf("%s seed %llu: %s; %.3f s, %u faults, %llu acknowledged, trace %016llx\n",
		    v.failed ? "not ok" : "ok", (unsigned long long)seed,
		    v.failed ? v.why : "nothing is lost", (double)v.virtual_ns / 1e9, v.faults,
		    (unsigned long long)v.acknowledged, (unsigned long long)v.hash);
	if (v.failed)
		printf("    build/sim%s%s%s%s%s%s%s --trace %llu\n",
		    limits->examples ? " --examples" : "", limits->damages ? " --damage" : "",
		    limits->is_long ? " --long" : "", limits->isolates ? " --isolate" : "",
		    limits->breaks ? " --breaks" : "", limits->more ? " --more" : "",
		    limits->standby ? " --standby" : "", (unsigned long long)seed);
	fflush(stdout);
}

static void shorten_seed(uint64_t seed, struct scenario_limits limits, struct totals *t)
{
	unsigned most;
	struct verdict v;

	scenario_run(seed, &limits, &v);
	most = v.failed ? v.faults : 0;
	for (limits.faults = 0; limits.faults < most; limits.faults++) {
		scenario_run(seed, &limits, &v);
		if (v.failed)
			break;
	}
	run_one(seed, &limits, true, t);
	if (t->failed)
		printf("    with --faults %u\n", limits.faults);
}

static volatile sig_atomic_t interrupted;

static void note_signal(int sig)
{
	(void)sig;
	interrupted = 1;
}

static double read_clock(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void soak(struct scenario_limits limits, struct totals *t)
{
	uint64_t from = (uint64_t)time(NULL) * 100000;

	signal(SIGINT, note_signal);
	signal(SIGTERM, note_signal);
	printf("# seeds from %llu on\n", (unsigned long long)from);
	fflush(stdout);
	for (uint64_t i = 0; !interrupted; i++) {
		limits.is_long = i % 10 == 9;
		limits.isolates = i % 3 == 2;
		limits.standby = i % 4 == 3;
		run_one(from + i, &limits, false, t);
	}
}

static int refuse_argument(const char *text)
{
	bool asks = strcmp(text, "-h") == 0 || strcmp(text, "--help") == 0;

	if (!asks)
		fprintf(stderr, "sim: %s is neither a seed nor an option\n", text);
	fprintf(asks ? stdout : stderr,
	    "usage: sim [--plain] [--long] [--examples] [--trace] [--states] [--breaks] [--damage] [--isolate] [--more]\n"
	    "           [--standby] [--faults N] SEED...\n"
	    "       sim [...] --seeds N [--from SEED] [--until-failure] [--seconds N] [--hashes]\n"
	    "       sim [...] --soak | --shorten SEED | --chain FOLDER SEED...\n"
	    "The comment at the head of tests/sim/sim.c says what they do.\n");
	return asks ? 0 : 2;
}

int main(int argc, char **argv)
{
	struct scenario_limits limits = { .faults = 1000000 };
	struct totals t = { 0 };
	uint64_t from = 1, n = 0, seed;
	bool until_failure = false, states = false, hashes = false, soaks = false;
	double end = 0;
	clock_t began = clock();
	double took;

	calls_begin();
	signal(SIGFPE, note_crash);
	signal(SIGSEGV, note_crash);
	signal(SIGBUS, note_crash);
	signal(SIGABRT, note_crash);
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--trace") == 0)
			sim_tracing = true;
		else if (strcmp(argv[i], "--seeds") == 0 && i + 1 < argc)
			n = strtoull(argv[++i], NULL, 10);
		else if (strcmp(argv[i], "--from") == 0 && i + 1 < argc)
			from = strtoull(argv[++i], NULL, 10);
		else if (strcmp(argv[i], "--states") == 0)
			states = true;
		else if (strcmp(argv[i], "--hashes") == 0)
			hashes = true;
		else if (strcmp(argv[i], "--more") == 0)
			limits.more = true;
		else if (strcmp(argv[i], "--plain") == 0)
			limits = (struct scenario_limits){ .faults = 1000000 };
		else if (strcmp(argv[i], "--examples") == 0)
			limits.examples = true;
		else if (strcmp(argv[i], "--standby") == 0)
			limits.standby = true;
		else if (strcmp(argv[i], "--breaks") == 0)
			limits.breaks = true;
		else if (strcmp(argv[i], "--damage") == 0)
			limits.damages = true;
		else if (strcmp(argv[i], "--isolate") == 0)
			limits.isolates = true;
		else if (strcmp(argv[i], "--long") == 0)
			limits.is_long = true;
		else if (strcmp(argv[i], "--seconds") == 0 && i + 1 < argc)
			end = read_clock() + strtod(argv[++i], NULL);
		else if (strcmp(argv[i], "--soak") == 0)
			soaks = states = true;
		else if (strcmp(argv[i], "--shorten") == 0 && i + 1 < argc)
			shorten_seed(strtoull(argv[++i], NULL, 10), limits, &t);
		else if (strcmp(argv[i], "--until-failure") == 0)
			until_failure = true;
		else if (strcmp(argv[i], "--faults") == 0 && i + 1 < argc)
			limits.faults = (unsigned)strtoul(argv[++i], NULL, 10);
		else if (strcmp(argv[i], "--chain") == 0 && i + 1 < argc)
			limits.chain = argv[++i];
		else if (!num_uint(argv[i], UINT64_MAX, &seed))
			return refuse_argument(argv[i]);
		else
			run_one(seed, &limits, true, &t);
	}
	if (soaks)
		soak(limits, &t);
	for (uint64_t i = 0; i < n && !(until_failure && t.failed) && !(end && read_clock() > end);
	     i++)
		run_one(from + i, &limits, hashes, &t);
	took = (double)(clock() - began) / CLOCKS_PER_SEC;
	printf(
	    "%llu seeds, %llu failed: %llu pushes acknowledged, %llu faults, %llu deliveries, %.1f "
	    "virtual seconds in %.1f s\n",
	    (unsigned long long)t.seeds, (unsigned long long)t.failed,
	    (unsigned long long)t.acknowledged, (unsigned long long)t.faults,
	    (unsigned long long)t.deliveries, (double)t.virtual_ns / 1e9, took);
	if (states)
		states_print();
	return t.failed ? 1 : 0;
}
