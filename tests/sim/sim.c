/* SPDX-License-Identifier: ISC */
#include "tests/sim/sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/sim/scenario.h"
#include "tests/sim/states.h"

/* sim [--trace] [--states] [--faults N] SEED... | --seeds N [--from SEED] [--until-failure]: run clusters from
 * seeds. --states counts rare states (states.def) and names those that were never reached. --faults leaves out
 * all faults but the first N, to shorten a seed that fails. --chain FOLDER makes the runs such that the model of
 * the chain can follow them, and writes their traces (tests/model/README). A failure prints its seed, and the exit
 * code is then 1. --breaks also breaks connections between living processes, and demands that each request of a
 * checkpoint is answered. It still finds faults (tests/RECORD.md), so make check runs without it. */

struct totals {
	uint64_t seeds, failed, acknowledged, faults, deliveries;
	int64_t virtual_ns;
};

static void run_one(uint64_t seed, const struct scenario_limits *limits, bool talk,
    struct totals *t)
{
	struct verdict v;

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
	fflush(stdout);
}

int main(int argc, char **argv)
{
	struct scenario_limits limits = { .faults = 1000000 };
	struct totals t = { 0 };
	uint64_t from = 1, n = 0;
	bool until_failure = false, states = false;
	clock_t began = clock();
	double took;

	calls_begin();
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--trace") == 0)
			sim_tracing = true;
		else if (strcmp(argv[i], "--seeds") == 0 && i + 1 < argc)
			n = strtoull(argv[++i], NULL, 10);
		else if (strcmp(argv[i], "--from") == 0 && i + 1 < argc)
			from = strtoull(argv[++i], NULL, 10);
		else if (strcmp(argv[i], "--states") == 0)
			states = true;
		else if (strcmp(argv[i], "--breaks") == 0)
			limits.breaks = true;
		else if (strcmp(argv[i], "--until-failure") == 0)
			until_failure = true;
		else if (strcmp(argv[i], "--faults") == 0 && i + 1 < argc)
			limits.faults = (unsigned)strtoul(argv[++i], NULL, 10);
		else if (strcmp(argv[i], "--chain") == 0 && i + 1 < argc)
			limits.chain = argv[++i];
		else
			run_one(strtoull(argv[i], NULL, 10), &limits, true, &t);
	}
	for (uint64_t i = 0; i < n && !(until_failure && t.failed); i++)
		run_one(from + i, &limits, false, &t);
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
