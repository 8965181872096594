/* SPDX-License-Identifier: ISC */
#ifndef CONF_CONF_RULE_H
#define CONF_CONF_RULE_H

#include "conf/conf.h"
#include "optim/optim.h"
#include "optim/schedule.h"

/* Update rules as a cluster file configures them, and other values derived from several keys. Pure:
 * no state, no threads. */
struct conf_rule {
	const struct optim_rule *rule;
	struct optim_hyper hyper;  /* lr: before the schedule */
	struct schedule schedule;  /* the same for all tables */
	struct table_rules tables; /* job.rules: tables that have another rule or other constants */
};

/* The rule of one table. */
static inline struct table_rules_choice conf_rule_of_table(const struct conf_rule *r,
    const char *table)
{
	return table_rules_choose(&r->tables, table, r->rule, &r->hyper);
}

/* The rule of job.optimizer. Servers update with it, or with local_steps the workers do.
 * ERR_CONFIG. */
enum err_code conf_job_rule(const struct conf *c, struct conf_rule *out, struct err *e);
/* The rule with which servers update: job.optimizer, or with local_steps the outer rule. The outer
 * rule takes the way back from a worker's parameters to those it began with as the gradient:
 * average (sgd, lr 1), nesterov (lr 0.7, momentum 0.9) or adam (lr 0.3, eps 0.1), as in Douillard
 * et al., "DiLoCo", 2023. ERR_CONFIG. */
enum err_code conf_server_rule(const struct conf *c, struct conf_rule *out, struct err *e);

/* Parses the value of job.rules, with the job's rule for what it leaves open. ERR_CONFIG. */
enum err_code conf_table_rules(const char *text, const struct conf_rule *job,
    struct table_rules *out, struct err *e);

/* A key with a constant of update rules. uses: 0, or the bit of enum optim_uses without which a
 * rule does not read it. */
struct conf_rule_key {
	const char *path; /* "job.lr" */
	size_t offset;    /* of the float in struct optim_hyper */
	unsigned uses;
};
#define CONF_RULE_KEYS_MAX 10
/* Finds such a key by its name without "job."; false: there is none. */
bool conf_rule_key_find(const char *name, struct conf_rule_key *out);
/* Lists these names; returns how many there are. */
size_t conf_rule_keys(const char *names[static CONF_RULE_KEYS_MAX]);

/* The keys that a rule reads and their defaults, "lr=0.001 beta1=0.9 ...", in a fresh string. */
char *conf_rule_defaults(const struct optim_rule *rule);

/* Passes over data of this many examples (0: not known). job.epochs, unless it is the model's
 * default: then small data are passed more often, until as many examples have been used as are
 * enough for the model (model_info.enough); less than CONF_EXAMPLES_LEAST are passed as often as
 * these. A model with vectors of features (model_info.vectors) passes them more often only with
 * CONF_EXAMPLES_OF_ROW examples for each row of its largest table. 0: no limit. */
#define CONF_EXAMPLES_OF_ROW UINT64_C(10)
#define CONF_EXAMPLES_LEAST  UINT64_C(2000)
uint64_t conf_epochs(const struct conf *c, uint64_t examples, uint64_t rows);

/* The l2 of a job whose data have this many examples (0: not known): job.l2, unless it is the
 * default of a model whose weights have a prior (MODEL_PRIOR): then 1 by the number of examples. */
double conf_l2(const struct conf *c, uint64_t examples);

/* job.batch and local_steps of a job whose data have this number of examples (0: not known). They are
 * the ones of c, unless c leaves them, and everything that counts steps, to a model that learns in
 * place (MODEL_LEARNS_BY_USER), and the data are large. Then one worker takes local steps of one
 * example, and a push is a part of an epoch; several workers have larger batches. */
#define CONF_EXAMPLES_LARGE (UINT64_C(1) << 18)
struct conf_batches {
	int64_t batch, local_steps;
};
struct conf_batches conf_batches_of_data(const struct conf *c, uint64_t examples);

/* Examples of one worker's step: all its batches from one push to the next. */
uint64_t conf_step_examples(const struct conf *c);

/* The time between two heartbeats of a worker, in ns: `heartbeat`, but longer if the job has many
 * workers, because a heartbeat takes 0.3 ms of processor time, here and in the coordinator. At most
 * 600 ms, so that the figures of workers are never a second old, and an eighth of `lease`. */
int64_t conf_worker_heartbeat(const struct conf *c);
/* Do sessions on one host use shared memory? With transport auto they do not if mem_limit is
 * set. */
bool conf_shares_memory(const struct conf *c);

#endif
