#ifndef CTL_PLAN_H
#define CTL_PLAN_H

/* Inside of ps-ctl plan: shared by plan*.c. */
#include "conf/conf.h"
#include "work/plan.h"

/* One configuration and what becomes of it. */
struct planned {
	char *set;                      /* "--set a=b --set c=d"; "" for the file's own */
	struct conf conf;
	struct plan_costs costs;
	struct sim_spec spec;
	struct sim_result result;
	double seconds;                 /* to as many examples as the file's own takes in all; 0: not known */
	double memory, tables;          /* bytes a server, and of that for tables */
};
void planned_release(struct planned *x);

/* Simulate x->conf.  samples: of the whole job, 0: not known. */
enum err_code planned_run(struct plan *p, struct planned *x, double samples, struct err *e);

/* More than mem_limit, so that servers would not start. */
bool planned_is_too_much(const struct planned *x);

/* A cluster that runs, as it was for some seconds (plan_measure.c): per worker and step. */
struct plan_sample {
	double step, data, compute, push, pull, wait;   /* seconds */
	double cpu;                     /* seconds of the worker's process */
	double pushed, pulled;          /* bytes */
	double steps;                   /* of all workers together */
	double parameters;              /* on all servers, copies included */
	unsigned workers;
	bool spread;                    /* somebody runs on another host */
};
/* Looks twice, `seconds` apart.  ERR_NOTREADY: it does not train. */
enum err_code plan_sample(const char *dir, double seconds, struct plan_sample *out, struct conf *conf, struct err *e);

/* The time of a batch, and where no line is told, its rate, as the sample has them;
 * k: what the rest of a step costs. */
void plan_take_sample(struct plan *p, const struct conf *c, const struct plan_sample *s, const struct plan_costs *k);

/* What a step would take if one thing were better, those that give most first; what
 * is NULL: there are no more that save 2 %. */
#define PLAN_LIMITS 2
#define PLAN_THINGS 8
struct plan_limit {
	const char *what;
	double step_seconds;
};
enum err_code plan_limit(const struct sim_spec *spec, double step_seconds, struct plan_limit out[static PLAN_LIMITS], struct err *e);

/* Other configurations that the cluster file could have, sorted by the time to the same
 * number of examples; the file's own among them.  Free with planned_release and free. */
enum err_code plan_table(struct plan *p, const struct planned *own, double samples, struct planned **out, size_t *n, struct err *e);

struct plan_words {
	bool json;
	const struct plan *plan;
	const struct plan_limit *limit;         /* PLAN_LIMITS of them */
	const struct plan_sample *sample;       /* NULL: none */
	double samples;
};
void plan_show(const struct plan_words *w, const struct planned *own, const struct planned *table, size_t n);

#endif
