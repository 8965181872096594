/* SPDX-License-Identifier: ISC */
#ifndef SIM_SCENARIO_H
#define SIM_SCENARIO_H

#include <stdbool.h>
#include <stdint.h>

/* One cluster from one seed: what it consists of, what is done to it, and the verdict. */

struct verdict {
	bool failed;
	char why[400];
	int64_t virtual_ns;
	uint64_t deliveries, hash;
	uint64_t acknowledged; /* pushes, by the ledger */
	unsigned faults, kills, cuts, pauses, checks;
};

/* How much is left out, to shorten a failing seed. */
struct scenario_limits {
	/* A long war with up to 50 faults; otherwise it is short: a few faults, and mostly 3 servers and 2 workers. */
	bool is_long;
	unsigned faults; /* at most */
	/* Connections between living processes break, too, and each request of a checkpoint must be answered. */
	bool breaks;
	/* Bytes are changed on their way between processes. */
	bool damages;
	/* Servers are also cut off from the coordinator, or stand still, for so long that they are lost, and come back. */
	bool isolates;
	/* Jobs go back to checkpoints, relays, backup workers, strikes, clocks that jump, writes that are short, and what
	 * processes leave. */
	bool more;
	/* The workers are those of the product, and train on leased examples. */
	bool examples;
	/* A second coordinator stands by (owners.c). */
	bool standby;
	/* A folder, or NULL: a run of asp whose chain is traced for the model (chain_trace.h), into a file
	 * that has the seed as its name. */
	const char *chain;
};

void scenario_run(uint64_t seed, const struct scenario_limits *limits, struct verdict *out);

#endif
