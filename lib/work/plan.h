#ifndef WORK_PLAN_H
#define WORK_PLAN_H

#include "conf/conf.h"
#include "sim/sim.h"
#include "work/gauge.h"

/* From a cluster file to a simulation: what its job moves, what that costs, on which
 * hosts and lines. */

/* What the data and the model tell. */
struct plan_facts {
	double values;                  /* of all dense tables */
	unsigned parts;                 /* partitions of them */
	double row_values, ids;         /* sparse: values of all tables a feature; features a batch */
	double examples, example_bytes; /* 0: not known */
	bool tried;                     /* the gradient can be timed: job is there */
	struct job job;
};
/* Loads the data and makes the model.  ERR_CONFIG, ERR_FORMAT, ERR_IO. */
enum err_code plan_facts_load(const struct conf *c, struct plan_facts *out, struct err *e);
void plan_facts_release(struct plan_facts *f);

/* Seconds, by plan_cost.def. */
enum plan_cost {
#define COST(name, per, help) PLAN_##name,
#include "work/plan_cost.def"
#undef COST
	PLAN_COSTS
};
struct plan_costs {
	double v[PLAN_COSTS];
	double push_value, pull_value;  /* bytes of a dense value as encoded */
};
struct plan_cost_info { const char *name, *per, *help; };
/* NULL past the last. */
const struct plan_cost_info *plan_cost_at(size_t i);

/* Where it runs. */
struct plan_place {
	struct sim_line worker, server;
	unsigned cores;                 /* of the one host; 0: each process has its own */
	double carried;                 /* as of struct sim_spec */
	struct sim_compute compute;     /* seconds: below 0, what PLAN_batch says */
	bool remote;                    /* records are sealed as between hosts */
	uint64_t seed;
	unsigned steps;
};

struct plan {
	struct plan_facts facts;
	struct plan_place place;
	double fixed[PLAN_COSTS];       /* not measured: this; NAN: measured */
	struct plan_seen *seen;         /* measurements, by what they are of */
};
void plan_init(struct plan *p);
void plan_release(struct plan *p);

/* What this configuration costs, measured now unless it was before.  ERR_IO, ERR_CONFIG:
 * no compute time, as there is no data to try. */
enum err_code plan_measure(struct plan *p, const struct conf *c, struct plan_costs *out, struct err *e);
void plan_spec(const struct plan *p, const struct conf *c, const struct plan_costs *k, struct sim_spec *out);

/* What a server may come to use, as it says when it starts (P6); tables: of that,
 * its tables. */
double plan_memory(const struct plan *p, const struct conf *c, double *tables);
/* Examples of the whole job. */
double plan_samples(const struct plan *p, const struct conf *c);

#endif
