/* SPDX-License-Identifier: ISC */
#ifndef LAB_CAPACITY_PLAN_H
#define LAB_CAPACITY_PLAN_H

#include "conf/conf.h"
#include "lab/gauge.h"
#include "lab/sim.h"

/* Turns a cluster file into a simulation: what the job transfers, what that costs on this machine,
 * and on which hosts and links it runs.
 *
 * capacity_plan_init, set `place` and `fixed`, capacity_plan_facts_load, then for each configuration
 * capacity_plan_measure and capacity_plan_spec, then sim_run (sim.h). Measurements are remembered in
 * the plan, so that configurations that share a cost share its measurement. One thread. */

/* Sizes that the data and the model determine. */
struct capacity_plan_facts {
	double values;                  /* values of all dense tables */
	unsigned parts;                 /* partitions of the dense tables */
	double row_values, ids;         /* sparse tables: values per feature; features per batch */
	double examples, example_bytes; /* 0: unknown */
	bool tried;                     /* job is loaded, so its gradient can be timed */
	struct job job;
};
/* Loads the data and makes the model. ERR_CONFIG, ERR_FORMAT, ERR_IO. */
enum err_code capacity_plan_facts_load(const struct conf *c, struct capacity_plan_facts *out,
    struct err *e);
void capacity_plan_facts_release(struct capacity_plan_facts *f);

/* Costs in seconds, by plan_cost.def. */
enum plan_cost {
#define COST(name, per, help) PLAN_##name,
#include "lab/plan_cost.def"
#undef COST
	PLAN_COSTS
};
struct capacity_plan_costs {
	double v[PLAN_COSTS];
	double push_value, pull_value; /* bytes of a dense value when encoded */
};
struct capacity_plan_cost_info {
	const char *name, *per, *help;
};
/* Describes cost i; NULL past the last. */
const struct capacity_plan_cost_info *capacity_plan_cost_at(size_t i);

/* The hosts and links. */
struct capacity_plan_place {
	struct sim_link worker, server;
	/* cores of the one host; 0: each process has its own host */
	unsigned cores;
	double carried;              /* as in struct sim_spec */
	struct compute_time compute; /* seconds below 0: use PLAN_batch */
	struct sim_slow slow;
	bool remote; /* seal records as between hosts */
	uint64_t seed;
	unsigned steps;
};

struct plan {
	struct capacity_plan_facts facts;
	struct capacity_plan_place place;
	double fixed[PLAN_COSTS]; /* costs that the user gives; NAN: measure */
	struct plan_seen *seen;   /* measurements so far */
};
void capacity_plan_init(struct plan *p);
void capacity_plan_release(struct plan *p);

/* Measures what this configuration costs, except what was measured before. ERR_IO; ERR_CONFIG: no
 * time of a batch is given and there is no data to measure it. */
enum err_code capacity_plan_measure(struct plan *p, const struct conf *c,
    struct capacity_plan_costs *out, struct err *e);
/* Combines facts, costs and place into a specification for sim_run. */
void capacity_plan_spec(const struct plan *p, const struct conf *c,
    const struct capacity_plan_costs *k, struct sim_spec *out);

/* Most bytes of memory that a server may need, as it reports at its start (P6); *tables: the part
 * for tables. */
double capacity_plan_memory(const struct plan *p, const struct conf *c, double *tables);
/* Number of examples that the whole job trains on. */
double capacity_plan_samples(const struct plan *p, const struct conf *c);

#endif
