/* SPDX-License-Identifier: ISC */
#ifndef LAB_PLAN_H
#define LAB_PLAN_H

/* ps-ctl plan: predicts the step time, the bytes and the memory of a cluster by simulation
 * (lab/capacity_plan.h), and compares other configurations with it. cmd/ctl/plan.c parses options
 * and runs the plan, plan_measure.c samples a running cluster, plan_table.c simulates
 * configurations and finds bottlenecks and alternatives, plan_show.c prints. One thread. */
#include "conf/conf.h"
#include "lab/capacity_plan.h"

/* One configuration and the result of its simulation. */
struct planned {
	char *set; /* its changes, as "--set a=b --set c=d"; "" if none */
	struct conf conf;
	struct capacity_plan_costs costs;
	struct sim_spec spec;
	struct sim_result result;
	double seconds;        /* until the whole job's examples are processed; 0 if unknown */
	double memory, tables; /* bytes a server; tables is the part of it for tables */
};
/* Releases what x owns, but not x itself. */
void plan_candidate_release(struct planned *x);

/* Simulates x->conf and fills in the results. samples is the number of examples that the whole job
 * processes, 0 if unknown. */
enum err_code plan_candidate_run(struct plan *p, struct planned *x, double samples, struct err *e);

/* True when the configuration needs more than mem_limit: its servers would refuse to start. */
bool plan_candidate_exceeds_memory(const struct planned *x);

/* Figures of a running cluster, measured for some seconds (plan_measure.c): averages of one
 * worker's step, unless a comment says otherwise. */
struct plan_sample {
	double step, data, compute, push, pull, wait; /* seconds */
	double cpu;            /* processor seconds of the worker's process */
	double pushed, pulled; /* bytes */
	double steps;          /* of all workers together */
	double parameters;     /* on all servers, including replicas */
	unsigned workers;
	bool spread; /* some process runs on another host */
};
/* Samples the cluster of run directory dir twice, `seconds` apart, and reads its configuration.
 * ERR_NOTREADY: its workers took too few steps. */
enum err_code plan_sample(const char *dir, double seconds, struct plan_sample *out,
    struct conf *conf, struct err *e);

/* Takes the time of a batch from a sample, and the rate of the workers' links unless the user gave
 * one. k has the measured costs of the rest of a step, which are subtracted. */
void plan_use_sample(struct plan *p, const struct conf *c, const struct plan_sample *s,
    const struct capacity_plan_costs *k);

/* Bottlenecks: the time that a step would take if one thing were better, the largest gain first.
 * An entry whose `what` is NULL ends the list: nothing else alone saves 2 %. */
#define PLAN_LIMITS          2
#define PLAN_BOTTLENECKS_MAX 8
struct plan_limit {
	const char *what;
	double step_seconds;
};
enum err_code plan_limit(const struct sim_spec *spec, double step_seconds,
    struct plan_limit out[static PLAN_LIMITS], struct err *e);

/* Simulates alternatives to the configuration `own`. *out lists them and `own` itself, the fastest
 * to the same number of examples first. Release each with plan_candidate_release(), then free the
 * array. */
enum err_code plan_table(struct plan *p, const struct planned *own, double samples,
    struct planned **out, size_t *n, struct err *e);

/* Input of plan_show(), besides the configurations. */
struct plan_output {
	bool json;
	const struct plan *plan;
	const struct plan_limit *limit;   /* an array of PLAN_LIMITS */
	const struct plan_sample *sample; /* NULL unless --measure */
	double samples;
};
/* Prints the plan: the configuration `own`, and n alternatives. */
void plan_show(const struct plan_output *w, const struct planned *own, const struct planned *table,
    size_t n);

#endif
